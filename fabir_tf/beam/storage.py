"""Files where Beam's workers reach them: on a disk, or in a store that Beam knows by the beginning of its paths."""

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError


@contextlib.contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """Opens a file for reading bytes.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be opened.
    """
    try:
        file = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be opened ({_reason(error)}), expected a file.") from None
    with file:
        yield file


def write_file(path: str, content: bytes) -> None:
    """Writes a file that gets its name only when it is complete.

    Args:
        path: the file; its folder is made where the store has folders. It replaces an older one.
        content: all of it.

    Raises:
        WriteError: it cannot be written.
    """
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            file.write(content)
        FileSystems.rename([temporary], [path])
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            FileSystems.delete([temporary])
        raise WriteError(getattr(error, "errno", None) or 0, _reason(error), path) from None


def is_folder(path: str) -> bool:
    """Whether a path is a folder of this machine, or ends in a slash."""
    return path.endswith("/") or os.path.isdir(path)


def is_file(path: str) -> bool:
    """Whether there is a file of exactly this path.

    Raises:
        UserError: the store cannot be asked.
    """
    try:
        return FileSystems.exists(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be looked for ({_reason(error)}), expected a file.") from None


def files_below(folder: str, pattern: str) -> list[str]:
    """The files below a folder whose paths fit a pattern, sorted.

    Args:
        folder: stands for nothing but itself, whatever letters it has.
        pattern: of the rest of the path.

    Raises:
        UserError: the store cannot be asked.
    """
    begin = folder.rstrip("/") + "/"
    return [path for path in files_like(re.sub(r"[*?[]", "?", begin) + pattern) if path.startswith(begin)]


def files_like(pattern: str) -> list[str]:
    """The files whose paths fit a pattern, sorted.

    Args:
        pattern: a path, in which `*` stands for a part of a name and `**` for any folders.

    Raises:
        UserError: the store cannot be asked.
    """
    # Beam finds nothing where a relative path begins with a folder that is not named in full.
    is_relative = "://" not in pattern and not os.path.isabs(pattern)
    try:
        (found,) = FileSystems.match([f"./{pattern}" if is_relative else pattern])
    except (OSError, ValueError) as error:
        raise UserError(f"{pattern}: cannot be listed ({_reason(error)}), expected files.") from None
    return sorted(one.path.removeprefix("./" if is_relative else "") for one in found.metadata_list)


def _reason(error: Exception) -> str:
    if isinstance(error, BeamIOError) and error.exception_details:
        inner = next(iter(error.exception_details.values()))
        return _reason(inner) if isinstance(inner, Exception) else str(inner)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
