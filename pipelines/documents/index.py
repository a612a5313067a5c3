"""An index of documents in one SQLite file: made once, kept up to date, searched without reading the documents.

SQLite's full-text module FTS5 keeps where each of our words occurs; scores are computed here, as `bm25.BM25` does for
texts in memory, because FTS5's own ranking has fixed constants and another idf.
"""

import contextlib
import errno
import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fabir_tf.pipelines.documents import search_words
from fabir_tf.pipelines.documents.bm25 import BM25Settings, Postings, best, score
from fabir_tf.pipelines.documents.documents import Document, digest_of_documents
from fabir_tf.pipelines.documents.mapped_text import MappedText, Run
from fabir_tf.pipelines.documents.paragraphs import Paragraph
from fabir_tf.pipelines.documents.sqlite import sqlite3
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError, user_path
from fabir_tf.pipelines.json_files import quoted

APPLICATION_ID = int.from_bytes(b"fabi", "big")
"""Marks an SQLite file as an index of documents."""

FORMAT = 1
"""Version of the tables below."""

LONGEST_WAIT = 30.0
"""Seconds that a process waits for another one that is writing."""

LONGEST_MERGE = 2.0
"""Seconds that an update waits at its end for other processes that search at the moment."""

MOST_REMEMBERED = 30_000_000
"""Paragraphs of words that are kept in memory between two questions, 8 bytes each: the words that were asked for last.
Reading those of a word that most of a million paragraphs have takes a second."""

LARGEST_ID = 2**28
"""No index has numbered so many paragraphs; a damaged one could ask for any amount of memory."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, title TEXT NOT NULL, digest TEXT NOT NULL,
    position INTEGER NOT NULL
);
CREATE TABLE paragraphs (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL, length INTEGER NOT NULL,
    kind TEXT NOT NULL, page INTEGER NOT NULL, text TEXT NOT NULL, runs TEXT NOT NULL, headings TEXT NOT NULL
);
CREATE UNIQUE INDEX places ON paragraphs (document, number, length);
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='ascii');
CREATE VIRTUAL TABLE occurrences USING fts5vocab(words, instance);
"""


class Found(NamedTuple):
    """A paragraph that was found.

    Attributes:
        paragraph: the paragraph, as `Document.paragraphs` made it.
        score: its BM25 score, above 0 and below 1; higher is better.
    """

    paragraph: Paragraph
    score: float


@dataclass(frozen=True)
class Changes:
    """What an update did: numbers of documents.

    Attributes:
        added, changed, unchanged, removed: compared with the index before.
        skipped: those that could not be read.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0


class _Statistics(NamedTuple):
    """What scores need of all paragraphs, in the order of the documents.

    Attributes:
        ids: int64, of each paragraph.
        lengths: int64, the words of each.
        positions: int64, the position of its document.
        places: int64, the place in that order by id; -1 where there is none.
    """

    ids: np.ndarray
    lengths: np.ndarray
    positions: np.ndarray
    places: np.ndarray


class DocumentIndex:
    """An index in a file. It can be used from several threads, and searched while another process updates it.

    Args:
        path: the file.
        settings: BM25's constants.
        create: whether a missing file is made; otherwise that is an error.

    Raises:
        UserError: there is no index, or the file is something else or damaged.

    Example:
        >>> with DocumentIndex("docs.index", create=True) as index:
        ...     index.update(read_documents("docs"))
        ...     index.search("Which flag resumes a run?", k=5)
    """

    def __init__(self, path: str | os.PathLike, settings: BM25Settings | None = None, create: bool = False):
        self.path = user_path(path)
        self._settings = settings or BM25Settings()
        self._lock = threading.RLock()
        self._users, self._is_closed = 0, False
        self._state: Any = None
        self._statistics = _Statistics(*np.zeros((4, 0), np.int64))
        self._postings: dict[str, Postings] = {}
        self._remembered = 0
        self._open(create)
        self._let_go()

    def _open(self, create: bool) -> None:
        if self.path.is_dir() or (not create and not self.path.is_file()):
            found = "a folder" if self.path.is_dir() else "no such file"
            raise UserError(f"{self.path}: found {found}, expected an index of documents.")
        _remove_log_of_another(self.path)
        with self._messages():
            self._connection = _connected(self.path, create)
        try:
            with self._messages():
                self._validate(create)
        except BaseException:
            self._disconnect()
            raise
        self._file, self._seen = _identity(self.path), None

    def _follow(self) -> None:
        """Opens the file that has the name now, if another one has taken its place or none is open."""
        if self._is_closed:
            raise UserError(f"{self.path}: the index was closed, expected one that is open.")
        # While there is none, the old one is searched: it may be on its way.
        if self._file is None or _identity(self.path) not in (None, self._file):
            self._disconnect()
            self._open(create=False)

    def _let_go(self) -> None:
        """Closes a file with a write-ahead log, until the next use.

        Only the last process that has it open can make it one file again, and a log that stayed would be taken for that
        of another file which takes the place of this one.
        """
        if self._file is not None and self._journal() == "wal" and not self._merge_log():
            self._disconnect()

    def _journal(self) -> Any:
        with self._messages():
            return self._fact("PRAGMA journal_mode")

    def _merge_log(self) -> bool:
        """Makes it one file, which can be searched where nothing can be written; not while others have it open."""
        try:
            self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.OperationalError:
            return False
        return True

    def _disconnect(self) -> None:
        self._connection.close()
        self._file = None

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        """The open file; other threads wait. It can be used within another use."""
        with self._lock:
            if not self._users:
                self._follow()
            self._users += 1
            try:
                with self._messages():
                    yield
            finally:
                self._users -= 1
                if not self._users:
                    self._let_go()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._disconnect()
            self._is_closed = True

    def __enter__(self) -> "DocumentIndex":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of paragraphs."""
        with self._used():
            return self._connection.execute("SELECT count(*) FROM paragraphs").fetchone()[0]

    def update(
        self,
        documents: Iterable[Document],
        progress: Callable[[int, str], None] | None = None,
        skipped: Callable[[str], None] | None = None,
        unread: Collection[str] = (),
    ) -> Changes:
        """Makes the index hold exactly these documents, and those that cannot be read now as they were.

        Documents whose content has not changed are left as they are. Each one is written as a whole, so an update that
        was interrupted or killed goes on where it stopped when it is started again. If another process begins to update
        the same index, that one goes on and this one ends.

        Args:
            documents: all documents, each source once.
            progress: called after each with the number of documents so far and its source.
            skipped: takes the sentence about a document whose text cannot be read, which is then left out; None raises
                it.
            unread: sources that cannot be read now, of documents or of folders; looked at when the documents are done.

        Returns:
            What was done.

        Raises:
            UserError: two documents have the same source, one cannot be read, or another process took over.
            WriteError: the file cannot be written.
        """
        return self.update_part(enumerate(documents), progress, skipped, unread)

    def update_part(
        self,
        documents: Iterable[tuple[int, Document]],
        progress: Callable[[int, str], None] | None = None,
        skipped: Callable[[str], None] | None = None,
        unread: Collection[str] = (),
    ) -> Changes:
        """Makes the index hold exactly these documents, a part of some more.

        Args:
            documents: each with its position among all of them.
            progress, skipped, unread: as for `update`.

        Returns, raises: as `update`.
        """
        with self._used():
            writer = self._begin_update()
            seen: set[str] = set()
            counts: Counter[str] = Counter()
            for position, document in documents:
                if document.source in seen:
                    raise UserError(f"found two documents with the source {quoted(document.source)}, expected one.")
                try:
                    done = self._put(document, position, writer)
                except UserError as error:
                    if skipped is None or isinstance(error, _TakenOverError):
                        raise
                    skipped(str(error))
                    counts["skipped"] += 1
                    continue
                counts[done] += 1
                seen.add(document.source)
                if progress:
                    progress(len(seen), document.source)
            counts["removed"] = self._remove_others(seen, unread, writer)
            self._end_update()
            return Changes(**counts)

    def search(self, question: str, k: int = 20) -> list[Found]:
        """The paragraphs that share a word with a question.

        Args:
            question: any string.
            k: the most paragraphs.

        Returns:
            The best first; of equal ones, the earlier one first: those that `BM25` finds among the same paragraphs.
        """
        words = search_words.question_words(question)
        with self.snapshot() as state:
            ranked = best(score(state.postings(words), state.lengths, self._settings), k)
            return [Found(state.paragraph(place), value) for place, value in ranked]

    def first(self, k: int) -> list[Paragraph]:
        """The first paragraphs of the first documents.

        Args:
            k: the most paragraphs.
        """
        with self.snapshot() as state:
            return [state.paragraph(place) for place in range(min(k, len(state.lengths)))]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator["Snapshot"]:
        """One state of the index, which stays while another process writes; other threads wait."""
        with self._used(), self._transaction("DEFERRED"):
            with self._decoding():
                self._refresh()
            yield Snapshot(self)

    def digest(self) -> str:
        """A hash that changes with the documents and their order."""
        with self._used():
            return digest_of_documents(
                self._connection.execute("SELECT source, digest FROM documents ORDER BY position")
            )

    def sources(self) -> list[str]:
        """The sources of all documents, in their order."""
        return [source for _, source, _ in self.listed()]

    def listed(self) -> list[tuple[int, str, str]]:
        """The position, the source and the digest of all documents, in their order."""
        with self._used():
            return self._connection.execute(
                "SELECT position, source, digest FROM documents ORDER BY position"
            ).fetchall()

    def _validate(self, create: bool) -> None:
        """Checks that the file is an index; makes the tables of a new one."""
        found = self._fact("PRAGMA application_id")
        is_new = not self._fact("SELECT count(*) FROM sqlite_master")
        if is_new and create:
            with self._transaction("IMMEDIATE"):
                # Another process may have been faster.
                if not self._fact("SELECT count(*) FROM sqlite_master"):
                    self._make_tables()
            return
        if found != APPLICATION_ID:
            what = "an empty file" if is_new else "an SQLite file of another program"
            raise UserError(f"{self.path}: found {what}, expected an index of documents.")
        version = self._fact("PRAGMA user_version")
        if version != FORMAT:
            raise UserError(
                f"{self.path}: found an index of format {version}, expected {FORMAT}: delete it, index again."
            )
        words = self._fact("SELECT value FROM facts WHERE name = 'words'")
        if words != str(search_words.VERSION):
            raise UserError(
                f"{self.path}: found an index with version {words} of the rules for words, expected "
                f"{search_words.VERSION}: delete it, index again."
            )

    def _make_tables(self) -> None:
        for statement in _TABLES.split(";"):
            if statement.strip():
                self._connection.execute(statement)
        self._connection.execute("INSERT INTO facts VALUES ('words', ?)", (str(search_words.VERSION),))
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _fact(self, statement: str) -> Any:
        row = self._connection.execute(statement).fetchone()
        return row[0] if row else None

    def _begin_update(self) -> str:
        """Takes the index over from any other process that updates it; returns the mark of this update."""
        # Searches of other processes go on while a write-ahead log is written.
        self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        writer = uuid.uuid4().hex
        with self._transaction("IMMEDIATE"):
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES ('writer', ?)", (writer,))
        return writer

    def _end_update(self) -> None:
        """Moves all that was written from the log into the file, and removes the log."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        end = time.monotonic() + LONGEST_MERGE
        while not self._merge_log() and time.monotonic() < end:
            time.sleep(0.05)

    @contextlib.contextmanager
    def _writing(self, writer: str) -> Iterator[None]:
        with self._transaction("IMMEDIATE"):
            if self._fact("SELECT value FROM facts WHERE name = 'writer'") != writer:
                raise _TakenOverError(f"{self.path}: another process has begun to update the index, so this one ends.")
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES ('state', ?)", (uuid.uuid4().hex,))
            yield
        self._seen = None

    def _put(self, document: Document, position: int, writer: str) -> str:
        """Writes a document; returns the count of `Changes` that grows."""
        digest = document.digest
        row = self._connection.execute(
            "SELECT id, digest, position FROM documents WHERE source = CAST(? AS TEXT)", (_stored(document.source),)
        ).fetchone()
        if row and row[1:] == (digest, position):
            return "unchanged"
        if row and row[1] == digest:
            with self._writing(writer):
                self._connection.execute("UPDATE documents SET position = ? WHERE id = ?", (position, row[0]))
            return "unchanged"
        paragraphs = document.paragraphs()
        with self._writing(writer):
            if row:
                self._remove(row[0])
            values = (_stored(document.source), _stored(document.title), digest, position)
            cursor = self._connection.execute(
                "INSERT INTO documents (source, title, digest, position)"
                " VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)",
                values,
            )
            for paragraph in paragraphs:
                self._insert(paragraph, cursor.lastrowid)
        return "changed" if row else "added"

    def _insert(self, paragraph: Paragraph, document: int | None) -> None:
        words = search_words.text_words(paragraph.searched_text)
        headings = [[heading.text, heading.runs] for heading in paragraph.headings]
        cursor = self._connection.execute(
            "INSERT INTO paragraphs (document, number, length, kind, page, text, runs, headings)"
            " VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)",
            (
                *(document, paragraph.number, len(words), paragraph.kind, paragraph.page),
                *(_stored(paragraph.text), _json(paragraph.content.runs), _json(headings)),
            ),
        )
        self._connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (cursor.lastrowid, " ".join(words)))

    def _remove(self, document: int) -> None:
        ids = self._connection.execute("SELECT id FROM paragraphs WHERE document = ?", (document,)).fetchall()
        for (number,) in ids:
            # FTS5 keeps no texts, so it is told which words go.
            with self._decoding():
                words = " ".join(search_words.text_words(self._paragraph(number).searched_text))
            self._connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (number, words))
        self._connection.execute("DELETE FROM paragraphs WHERE document = ?", (document,))
        self._connection.execute("DELETE FROM documents WHERE id = ?", (document,))

    def _remove_others(self, sources: set[str], unread: Collection[str], writer: str) -> int:
        rows = self._connection.execute("SELECT id, source FROM documents").fetchall()
        if "." in unread:
            # The whole folder.
            return 0
        kept = sources.union(unread)
        folders = tuple(f"{place}/" for place in unread)
        others = [number for number, source in rows if source not in kept and not source.startswith(folders)]
        for number in others:
            with self._writing(writer):
                self._remove(number)
        return len(others)

    def _refresh(self) -> None:
        """Reads the statistics again if the index has changed since."""
        # The first statement of a transaction decides which state of the file it sees.
        state = self._connection.execute("SELECT * FROM facts WHERE name IN ('state', 'writer')").fetchall()
        version = self._fact("PRAGMA data_version")
        # A file with a log is opened anew for each use. One that was never updated has no state.
        is_known = len(state) == 2 and state == self._state and self._journal() == "wal"
        if version == self._seen or (self._seen is None and is_known):
            self._seen = version
            return
        rows = self._connection.execute(
            "SELECT paragraphs.id, paragraphs.length, documents.position FROM documents CROSS JOIN paragraphs"
            " ON paragraphs.document = documents.id ORDER BY documents.position, paragraphs.number"
        ).fetchall()
        ids, lengths, positions = np.array(rows, np.int64).reshape(-1, 3).T
        if not 0 <= ids.min(initial=0) <= ids.max(initial=0) <= LARGEST_ID:
            raise ValueError(f"a paragraph has the id {ids.max()}")
        places = np.full(ids.max(initial=0) + 1, -1)
        places[ids] = np.arange(len(ids))
        self._statistics = _Statistics(ids, lengths, positions, places)
        self._postings, self._remembered, self._seen, self._state = {}, 0, version, state

    def _occurrences(self, word: str) -> Postings:
        found = self._postings.pop(word, None)
        if found is None:
            found = self._read_occurrences(word)
            self._remembered += len(found.texts)
        # The last ones are those that were asked for last.
        self._postings[word] = found
        while self._remembered > MOST_REMEMBERED and len(self._postings) > 1:
            self._remembered -= len(self._postings.pop(next(iter(self._postings))).texts)
        return found

    def _read_occurrences(self, word: str) -> Postings:
        pairs = self._connection.execute(
            "SELECT doc, count(*) FROM occurrences WHERE term = ? GROUP BY doc", (word,)
        ).fetchall()
        ids, counts = np.array(pairs, np.int64).reshape(-1, 2).T
        texts = self._statistics.places[ids]
        order = np.argsort(texts)
        return Postings(texts[order].astype(np.int32), counts[order].astype(np.int32))

    def _paragraph(self, number: int) -> Paragraph:
        row = self._connection.execute(
            "SELECT documents.source, documents.title, paragraphs.number, kind, page, text, runs, headings"
            " FROM paragraphs JOIN documents ON documents.id = paragraphs.document WHERE paragraphs.id = ?",
            (number,),
        ).fetchone()
        source, title, place, kind, page, text, runs, headings = row
        if [type(value) for value in row] != [str, str, int, str, int, str, str, str]:
            raise TypeError("a paragraph has bytes where its text was written, or the reverse")
        return Paragraph(
            source,
            place,
            _mapped(text, json.loads(runs)),
            tuple(_mapped(*heading) for heading in json.loads(headings)),
            kind,
            page,
            title,
        )

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._connection.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        """Turns errors of rows that SQLite could read, and that hold something else than was written, into a sentence.

        It stands around nothing but their decoding.
        """
        try:
            yield
        except (ValueError, TypeError, IndexError, OverflowError, RecursionError) as error:
            raise _damaged(self.path, error) from error

    @contextlib.contextmanager
    def _messages(self) -> Iterator[None]:
        """Turns SQLite's errors into sentences."""
        try:
            yield
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error
        except UnicodeDecodeError as error:
            # The name of a damaged table, of which SQLite's error would tell.
            raise _damaged(self.path, error) from error


class Snapshot:
    """One state of an index, as `DocumentIndex.snapshot` gives it. A place counts the paragraphs in their order.

    Attributes:
        lengths: int64, the words of each paragraph.
        positions: int64, the position of its document.
    """

    def __init__(self, index: DocumentIndex):
        self._index, self._statistics = index, index._statistics
        self.lengths, self.positions = self._statistics.lengths, self._statistics.positions

    def postings(self, words: Iterable[str]) -> dict[str, Postings]:
        """Where each of some words occurs, by place."""
        with self._index._messages(), self._index._decoding():
            return {word: self._index._occurrences(word) for word in words}

    def paragraph(self, place: int) -> Paragraph:
        """The paragraph at a place."""
        with self._index._messages(), self._index._decoding():
            return self._index._paragraph(int(self._statistics.ids[place]))


class _TakenOverError(UserError):
    """Another process has begun to update the index."""


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one with the same name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove_log_of_another(path: Path) -> None:
    """Removes the log of a file that had the name before, after an update of it was killed; SQLite would read it."""
    target = path.resolve()
    log, shared = (Path(f"{target}{ending}") for ending in ("-wal", "-shm"))
    with contextlib.suppress(OSError), open(target, "rb") as file:
        # A file without a log of its own says so in its header.
        if log.stat().st_size and file.read(20)[18:] == b"\1\1":
            log.unlink()
            shared.unlink()


def _connected(path: Any, create: bool) -> sqlite3.Connection:
    # A URI, so that no file is made where none is meant to be.
    uri = f"{path.resolve().as_uri()}?mode={'rwc' if create else 'rw'}"
    connection = sqlite3.connect(uri, LONGEST_WAIT, isolation_level=None, check_same_thread=False, uri=True)
    # What a file of another origin defines, such as a view, may call no function that reaches outside.
    connection.execute("PRAGMA trusted_schema = OFF")
    # JSON may hold lone surrogates, which UTF-8 does not.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogatepass")
    return connection


def _explained(error: sqlite3.Error, path: Any) -> Exception:
    text = str(error)
    if "locked" in text or "busy" in text:
        return UserError(f"{path}: another process is writing the index ({text}); try again when it has ended.")
    if "fts5" in text:
        remedy = "if TensorFlow was imported before sqlite3, import sqlite3 first"
        return UserError(f"{path}: Python's SQLite has no full-text search ({text}); {remedy}.")
    if "full" in text:
        return WriteError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    if "readonly" in text or "unable to open" in text:
        return WriteError(errno.EACCES, text, str(path))
    if "not a database" in text:
        return UserError(f"{path}: found another file, expected an index of documents.")
    return _damaged(path, error)


def _damaged(path: Any, error: Exception) -> UserError:
    return UserError(f"{path}: the index is damaged ({error}): delete it, index again.")


def _stored(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _mapped(text: str, runs: list[list[int]]) -> MappedText:
    if not isinstance(text, str) or any(type(value) is not int for run in runs for value in run):
        raise TypeError("a paragraph has other places than whole numbers")
    return MappedText(text, tuple(Run(*run) for run in runs))
