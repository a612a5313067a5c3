"""Files: `~` in their names, gzip on the way in, and atomic writes (a temporary name first, then the right one)."""

import contextlib
import csv
import errno
import gzip
import hashlib
import io
import itertools
import os
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fabir_tf.pipelines.errors import UserError

GZIP = b"\x1f\x8b"
# The last four are the wide forms of the first four, which some spreadsheets read alike.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass
class Position:
    """How far a file has been read, in bytes.

    Attributes:
        done: those that have been read.
        total: those of the file; 0 where the file is read at once, or its size is unknown.
    """

    done: int = 0
    total: int = 0


class WriteError(OSError):
    """A file cannot be written: `filename` names it and `strerror` gives the reason."""


def user_path(path: str | os.PathLike) -> Path:
    """A path as a user writes it, with `~` for the home folder.

    Args:
        path: the path; an unknown user after `~` stays as it is.
    """
    return Path(os.path.expanduser(path))


def open_input(path: str | os.PathLike, expected: str) -> BinaryIO:
    """Opens a file for reading bytes; gzip is recognized by its content and unpacked.

    Args:
        path: the file.
        expected: what it should hold, for messages.

    Returns:
        The open binary file; reading it may raise what `reading_errors` turns into a sentence.

    Raises:
        UserError: the file does not exist or cannot be opened.
    """
    place = user_path(path)
    if place.is_dir():
        raise UserError(f"{path}: found a folder, expected {expected}.")
    try:
        # It stays open behind the function.
        file = open(place, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise UserError(f"{path}: found no such file, expected {expected}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be opened ({reason}), expected {expected}.") from None
    # A pipe has no position to return to, so the bytes stay in the buffer.
    with reading_errors(path, expected):
        is_packed = file.peek(len(GZIP)).startswith(GZIP)
    if not is_packed:
        return file
    unpacked: Any = gzip.GzipFile(fileobj=file)
    # So that closing one closes the other.
    unpacked.myfileobj = file
    return unpacked


def read_input(path: str | os.PathLike, expected: str) -> bytes:
    """Reads a whole file; see `open_input`.

    Raises:
        UserError: the file cannot be read, or its gzip is damaged.
    """
    with open_input(path, expected) as file, reading_errors(path, expected):
        return file.read()


def file_lines(path: str | os.PathLike[str], expected: str, position: Position) -> Iterator[bytes]:
    """The lines of a file, each with its end.

    Args:
        path: the file, perhaps packed with gzip.
        expected: what it should hold, for messages.
        position: is kept up to date.

    Raises:
        UserError: the file cannot be opened, at once, or cannot be read.
    """
    return _lines(open_input(path, expected), str(path), expected, position)


def _lines(file: BinaryIO, name: str, expected: str, position: Position) -> Iterator[bytes]:
    # Of a packed file, the place among its packed bytes.
    raw = getattr(file, "myfileobj", file)
    with file:
        position.total = os.fstat(raw.fileno()).st_size
        for number in itertools.count(1):
            with reading_errors(f"{name}: line {number}", expected):
                line = file.readline()
            if not line:
                return
            position.done = raw.tell() if position.total else 0
            yield line


@contextlib.contextmanager
def reading_errors(name: str | os.PathLike, expected: str) -> Iterator[None]:
    """Turns errors of reading an open file into one sentence.

    Args:
        name: the file's name.
        expected: what it should hold, for messages.

    Raises:
        UserError: replaces an error of the disk or of gzip.
    """
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name}: cannot be read ({reason}), expected {expected}.") from None


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file for writing that replaces `path` only when it is complete.

    Args:
        path: the file to write; a missing folder is created. A device or a pipe is written to directly. For a symbolic
            link, the target is replaced.

    Yields:
        The open binary file.

    Raises:
        WriteError: the folder or file cannot be written; an existing file at `path` is unchanged.
    """
    path = user_path(path)
    if _is_special(path):
        with named_errors(path), open(path, "wb") as file:
            yield file
        return
    with _beside(path) as (temporary, target):
        with open(temporary, "wb") as file:
            keep_mode(temporary, target)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)


def keep_mode(new: str | os.PathLike, former: str | os.PathLike) -> None:
    """Gives a file the permissions of the one that it is about to replace, if there is one.

    Args:
        new: the file.
        former: the place of the other one.
    """
    # Some file systems have no permissions, and some files are another user's.
    with contextlib.suppress(OSError):
        shutil.copymode(former, new)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a UTF-8 text file atomically.

    Raises:
        WriteError: see `atomic_write`.
    """
    with atomic_write(path) as file:
        # Python strings from JSON may hold lone surrogates, which strict UTF-8 rejects.
        file.write(text.encode("utf-8", "surrogatepass"))


def create_text(path: str | os.PathLike, text: str) -> bool:
    """Writes a UTF-8 text file, unless the file exists.

    Args:
        path: the file; a missing folder is created.
        text: its content.

    Returns:
        Whether the file is new.

    Raises:
        WriteError: the folder or file cannot be written.
    """
    path = Path(path)
    with removed_on_failure(path), named_errors(path):
        make_room(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    return True


@contextlib.contextmanager
def removed_on_failure(*paths: str | os.PathLike) -> Iterator[None]:
    """Removes what a failure leaves half made.

    Args:
        *paths: files and folders that are about to be written; those that exist stay. Their new parents are removed,
            too, if nothing else is in them.
    """
    new = [path for path in map(Path, paths) if not path.exists()]
    parents = [folder for path in new for folder in path.parents if not folder.exists()]
    try:
        yield
    except BaseException:
        for path in new:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        with contextlib.suppress(OSError):
            for folder in parents:
                folder.rmdir()
        raise


def disk_error(error: BaseException) -> int:
    """The number of the system's error if a disk is full, a quota is used up or a file may not grow; 0 otherwise.

    Args:
        error: an exception of any library: most tell it in their text only.
    """
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return error.errno
    text = str(error)
    if isinstance(error, OSError) and error.errno is None and re.search(r"\d+ requested and \d+ written", text):
        # NumPy does not say why it could write a part of an array only.
        return errno.ENOSPC
    return next((number for number in _DISK_ERRORS if os.strerror(number) in text), 0)


def named_files(names: str | os.PathLike) -> list[str]:
    """Splits a list of names at its commas, except where it is the path of one file that exists.

    Args:
        names: paths or other names, separated by commas.
    """
    names = os.fspath(names)
    return [names] if os.path.exists(user_path(names)) else names.split(",")


def csv_text(columns: Sequence[str], rows: Iterable[Mapping], line_end: str = "\n") -> str:
    """Formats rows as CSV with a header line; None becomes an empty cell.

    Args:
        columns: names of the columns.
        rows: one mapping from column names to values per line.
        line_end: what ends a line.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator=line_end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def file_digest(paths: Iterable[str | os.PathLike]) -> str:
    """The SHA-256 of what several files hold.

    Args:
        paths: the files, in their order.
    """
    digest = hashlib.sha256()
    for path in paths:
        with open(user_path(path), "rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    return digest.hexdigest()


def sheet_text(columns: Sequence[str], rows: Iterable[Mapping]) -> str:
    """Formats rows as CSV that people open in a spreadsheet, which would compute a text that looks like a formula.

    Such a text gets an apostrophe in front, so that files which a program reads back are made by `csv_text`.

    Args:
        columns: names of the columns.
        rows: one mapping from column names to values per line; numbers stay as they are.

    Reference: OWASP, CSV Injection, https://owasp.org/www-community/attacks/CSV_Injection.
    """
    safe = ({name: _without_formula(value) for name, value in row.items()} for row in rows)
    # A text with a sign of the line's end is quoted, and texts of the web may hold either.
    return csv_text(columns, safe, "\r\n")


def validate_writable(path: str | os.PathLike) -> None:
    """Checks that a file can be written, for use before a long computation.

    Args:
        path: the file; neither it nor its folder is changed.

    Raises:
        WriteError: the folder or file cannot be written.
    """
    path = user_path(path)
    if _is_special(path):
        return
    with _beside(path) as (temporary, _):
        temporary.touch()


def make_room(path: Path) -> None:
    """Makes the folder of a file.

    Args:
        path: the file.

    Raises:
        WriteError: the folder cannot be made, or a folder stands in the place of the file.
    """
    if path.is_dir():
        raise WriteError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # Python reports "File exists" where a parent folder is in fact a file.
        number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
        raise WriteError(number, os.strerror(number), str(path)) from error


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads all arrays of an `.npz` file.

    Args:
        path: the file.

    Returns:
        The arrays by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, truncated or not an `.npz` file.
    """
    try:
        with open(user_path(path), "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is not a whole zip archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
    except OSError as error:
        # Errors of the file system have an errno. NumPy raises an OSError without one for a damaged file.
        if error.errno is not None and error.errno != errno.EINVAL:
            raise
        raise ValueError(str(error)) from error
    # The exception depends on the damaged byte, which may give an absurd size or an unknown compression.
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextlib.contextmanager
def named_errors(path: str | os.PathLike, alias: str | os.PathLike = "") -> Iterator[None]:
    """Adds the file's name to errors of writing it, most of which do not contain it.

    Args:
        path: the file's name.
        alias: a name that the error may contain and a user does not know, for example of a temporary file.

    Raises:
        WriteError: replaces an OSError, and any library's error that tells of a full disk. A BrokenPipeError is passed
            on unchanged.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename not in (None, os.fspath(alias)):
            raise
        number = error.errno or disk_error(error) or None
        reason = os.strerror(number) if number else str(error)
        raise WriteError(number, reason, str(path)) from error
    except Exception as error:
        number = disk_error(error)
        if not number:
            raise
        raise WriteError(number, os.strerror(number), str(path)) from error


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_SIGNS) else value


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the path of a temporary file, which is removed afterwards, and of the file that it may replace.

    Folders that are made for it go, too, if nothing is in them then.
    """
    target = Path(os.path.realpath(path))
    # A run finds what a killed training left by the process's number, which is not enough: a process has threads, and
    # machines that share a folder number their processes alike.
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.{os.getpid()}.tmp")
    made = [folder for folder in path.parents if not folder.exists()]
    make_room(path)
    try:
        with named_errors(path, temporary):
            yield temporary, target
    finally:
        temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()


def _is_special(path: Path) -> bool:
    """Whether the path is a device or a pipe, which must not be replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
