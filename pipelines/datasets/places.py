"""Where each id of a long file stands, kept outside of the memory."""

import contextlib
from collections.abc import Iterator

from fabir_tf.pipelines.documents.sqlite import sqlite3
from fabir_tf.pipelines.errors import UserError

CACHE_KILOBYTES = 8192
"""Memory for the ids used last."""


class PlacesOnDisk:
    """The place of each id: `setdefault` of a dictionary whose memory does not grow with the file.

    The ids are in a temporary file of SQLite, which has no name and goes with the process.
    """

    def __init__(self) -> None:
        # No transaction of Python's own: everything stays in the one that is never committed. An iterator of records
        # may be closed by another thread than the one that began it.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in (
            f"PRAGMA cache_size = -{CACHE_KILOBYTES}",
            "PRAGMA journal_mode = OFF",
            "CREATE TABLE places (id BLOB PRIMARY KEY, place TEXT NOT NULL) WITHOUT ROWID",
            "BEGIN",
        ):
            self._database.execute(statement)

    def setdefault(self, identifier: str, place: str, /) -> str:
        """The place where an id was first.

        Args:
            identifier: the id, which may hold any character.
            place: where it is now; a new id is kept with it.

        Raises:
            UserError: the folder of temporary files has no room.
        """
        # As bytes, because a zero ends a text of SQLite.
        key = identifier.encode("utf-8", "surrogatepass")
        with _messages():
            added = self._database.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (key, place)).rowcount
            if added:
                return place
            return self._database.execute("SELECT place FROM places WHERE id = ?", (key,)).fetchone()[0]


@contextlib.contextmanager
def _messages() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(
            f"the ids of the questions cannot be kept in a temporary file ({error}): set TMPDIR to a folder with room"
        ) from error
