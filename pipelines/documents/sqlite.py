"""Python's `sqlite3` with the SQLite that belongs to it.

TensorFlow contains an SQLite without full-text search. On Linux its functions hide those of the system's SQLite from
every module that is loaded after it, `sqlite3` included, so `sqlite3` is loaded here in a way that it finds its own.
"""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def _own_libraries_first() -> Iterator[None]:
    """Modules that are loaded here take functions from their own libraries before those of other modules."""
    if not hasattr(os, "RTLD_DEEPBIND"):
        # macOS and Windows always do so.
        yield
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        yield
    finally:
        sys.setdlopenflags(flags)


with _own_libraries_first():
    import sqlite3

__all__ = ["sqlite3"]
