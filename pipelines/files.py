"""Files that are whole or not there: written beside their place, then moved into it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes the place of `path` only once it is complete.

    Args:
        path: the file to write; its folder is made if it is missing.

    Yields:
        A binary file.

    Raises:
        OSError: the folder or file cannot be written; what stood at `path` still stands.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all.

    Raises:
        OSError: see `replacing`.
    """
    with replacing(path) as file:
        # Python strings from JSON may hold lone surrogates, which plain UTF-8 refuses.
        file.write(text.encode("utf-8", "surrogatepass"))
