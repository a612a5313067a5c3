"""Files that are whole or not there: written beside their place, then moved into it."""

import contextlib
import csv
import errno
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np


class WriteError(OSError):
    """A file that cannot be written: `filename` names it, `strerror` is the reason."""


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes the place of `path` only once it is complete.

    Args:
        path: the file to write; its folder is made if it is missing. A device or a pipe is written to as it is, and of
            a symbolic link the file that it leads to is replaced.

    Yields:
        A binary file.

    Raises:
        WriteError: the folder or file cannot be written; what stood at `path` still stands.
    """
    path = Path(path)
    if _is_special(path):
        with named_errors(path), open(path, "wb") as file:
            yield file
        return
    with _beside(path) as (temporary, target):
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all.

    Raises:
        WriteError: see `atomic_write`.
    """
    with atomic_write(path) as file:
        # Python strings from JSON may hold lone surrogates, which plain UTF-8 refuses.
        file.write(text.encode("utf-8", "surrogatepass"))


def named_files(names: str) -> list[str]:
    """What a text names that may hold several files, separated by commas; a file's own name may hold one, too.

    Args:
        names: paths, or other names.
    """
    return [names] if os.path.exists(os.path.expanduser(names)) else names.split(",")


def csv_text(columns: Sequence[str], rows: Iterable[Mapping]) -> str:
    """Examples as CSV, after a line of names; None is an empty cell.

    Args:
        columns: names of the columns.
        rows: values by column.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def validate_writable(path: str | os.PathLike) -> None:
    """Finds out before a long work, and not after it, whether a file can be written.

    Args:
        path: the file; it and its folder are left as they are.

    Raises:
        WriteError: the folder or file cannot be written.
    """
    path = Path(path)
    if _is_special(path):
        return
    made = [folder for folder in path.parents if not folder.exists()]
    with _beside(path) as (temporary, _):
        temporary.touch()
    # What is refused before anything is written leaves no empty folders; another process may be using them by now.
    with contextlib.suppress(OSError):
        for folder in made:
            folder.rmdir()


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads all arrays of an `.npz` file.

    Args:
        path: the file.

    Returns:
        The arrays by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, cut short or no such file.
    """
    try:
        with open(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is not a whole zip archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
    except OSError as error:
        # A real file system's mistakes have a number; the others are NumPy's word for a damaged file.
        if error.errno is not None and error.errno != errno.EINVAL:
            raise
        raise ValueError(str(error)) from error
    # What a damaged archive raises depends on the byte that is wrong, down to absurd sizes and unknown compressions.
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextlib.contextmanager
def named_errors(path: str | os.PathLike, alias: str | os.PathLike = "") -> Iterator[None]:
    """Names a file in the errors of writing it, which mostly do not say what could not be written.

    Args:
        path: the file's name.
        alias: a name that the error may give and that tells a person nothing.

    Raises:
        WriteError: in place of an OSError; a pipe that is closed at its other end is left as it is.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename not in (None, os.fspath(alias)):
            raise
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[Path, Path]]:
    """A temporary file's name, not there afterwards, and that of the file whose place it may take."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    _make_room(path)
    try:
        with named_errors(path, temporary):
            yield temporary, target
    finally:
        temporary.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """Whether a device or a pipe stands there, which nothing may take the place of."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _make_room(path: Path) -> None:
    if path.is_dir():
        raise WriteError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # "File exists" is what Python says where a file stands in the folder's place.
        number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
        raise WriteError(number, os.strerror(number), str(path)) from error
