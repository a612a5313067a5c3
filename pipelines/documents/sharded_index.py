"""An index of documents in several SQLite files, which are made at the same time and searched as one."""

import contextlib
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fabir_tf.pipelines.documents import search_words
from fabir_tf.pipelines.documents.bm25 import BM25Settings, Postings, best, score
from fabir_tf.pipelines.documents.documents import Document, digest_of_documents
from fabir_tf.pipelines.documents.index import Changes, DocumentIndex, Found, Snapshot
from fabir_tf.pipelines.documents.paragraphs import Paragraph
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import user_path

MOST_SHARDS = 256
_FILE = re.compile(r"([0-9]+)-of-([0-9]+)\.index")


@dataclass(frozen=True)
class Shards:
    """The files of a sharded index.

    Attributes:
        folder: where they are.
        count: how many.
    """

    folder: Path
    count: int

    @property
    def paths(self) -> list[Path]:
        """All files, in their order."""
        return [self.folder / f"{number}-of-{self.count}.index" for number in range(1, self.count + 1)]

    def holds(self, number: int) -> Callable[[str], bool]:
        """Whether a shard, counted from 0, has the document with a source: one shard has it, always the same."""
        return lambda source: zlib.crc32(source.encode("utf-8", "surrogatepass")) % self.count == number


def find_shards(folder: Path) -> Shards | None:
    """The shards of a folder, of which some may be missing; None where there is none.

    Raises:
        UserError: there are those of two indexes.
    """
    names = [_FILE.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    counts = sorted({int(name[2]) for name in names if name})
    if len(counts) > 1:
        raise UserError(f"{folder}: found shards of {counts[0]} and of {counts[1]}, expected those of one index.")
    return Shards(folder, counts[0]) if counts and 0 < counts[0] <= MOST_SHARDS else None


class ShardedIndex:
    """Several indexes, each with some of the documents, searched as one: all scores are those of a single index.

    Words are counted in all shards together, and scores are computed from these counts by the same function as for one
    file. It can be used from several threads, and searched while other processes update its shards.

    Args:
        folder: a folder of shards.
        settings: BM25's constants.
        create: how many shards are made where there are none; None for an error.

    Raises:
        UserError: there is no index or another number of shards, a shard is missing, or one is something else or
            damaged.

    Example:
        >>> with ShardedIndex("docs.index", create=4) as index:
        ...     index.update(read_documents("docs"))
        ...     index.search("Which flag resumes a run?", k=5)
    """

    def __init__(self, folder: str | os.PathLike, settings: BM25Settings | None = None, create: int | None = None):
        self.path = user_path(folder)
        self._settings = settings or BM25Settings()
        self.shards = self._found(create)
        missing = [path for path in self.shards.paths if not path.is_file()]
        if missing and not create:
            raise UserError(f"{missing[0]}: no such file, expected a shard of the index: index again.")
        self.path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            self._indexes = [
                opened.enter_context(DocumentIndex(path, self._settings, create=bool(create)))
                for path in self.shards.paths
            ]
            self._opened = opened.pop_all()
        self._threads = ThreadPoolExecutor(len(self._indexes))
        self._order: _Order | None = None

    def _found(self, create: int | None) -> Shards:
        found = find_shards(self.path)
        if found and create not in (None, found.count):
            raise UserError(
                f"{self.path}: found an index of {found.count} shards, expected {create}: name another folder, or "
                "leave the number out."
            )
        if found:
            return found
        if create is None:
            what = "a folder without an index" if self.path.is_dir() else "no folder"
            raise UserError(f"{self.path}: found {what}, expected the shards of an index of documents.")
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            what = "a folder with other files" if self.path.is_dir() else "a file"
            raise UserError(f"{self.path}: found {what}, expected a new or empty folder for the shards of an index.")
        return Shards(self.path, create)

    def close(self) -> None:
        """Closes the files."""
        self._threads.shutdown()
        self._opened.close()

    def __enter__(self) -> "ShardedIndex":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of paragraphs."""
        return sum(map(len, self._indexes))

    def update(
        self,
        documents: Iterable[Document],
        progress: Callable[[int, str], None] | None = None,
        skipped: Callable[[str], None] | None = None,
        unread: Collection[str] = (),
    ) -> Changes:
        """Makes the index hold exactly these documents, one shard after the other; `fabir-index` does it at once.

        Args:
            documents, progress, skipped, unread: as for `DocumentIndex.update`; the documents are held in memory.

        Returns, raises: as `DocumentIndex.update`.
        """
        all_of_them = list(enumerate(documents))
        done = []
        for number, index in enumerate(self._indexes):
            holds = self.shards.holds(number)
            part = (pair for pair in all_of_them if holds(pair[1].source))
            done.append(index.update_part(part, progress, skipped, unread))
        return total(done)

    def search(self, question: str, k: int = 20) -> list[Found]:
        """The paragraphs that share a word with a question.

        Args:
            question: any string.
            k: the most paragraphs.

        Returns:
            The best first; of equal ones, the earlier one first: those that one index of all documents finds.
        """
        words = search_words.question_words(question)
        with self._snapshot() as state:
            ranked = best(score(state.postings(words, self._threads), state.lengths, self._settings), k)
            return [Found(state.paragraph(place), value) for place, value in ranked]

    def first(self, k: int) -> list[Paragraph]:
        """The first paragraphs of the first documents.

        Args:
            k: the most paragraphs.
        """
        with self._snapshot() as state:
            return [state.paragraph(place) for place in range(min(k, len(state.lengths)))]

    def sources(self) -> list[str]:
        """The sources of all documents, in their order."""
        return [source for _, source, _ in self._listed()]

    def digest(self) -> str:
        """A hash that changes with the documents and their order; that of one file with the same documents."""
        return digest_of_documents((source, digest) for _, source, digest in self._listed())

    def _listed(self) -> list[tuple[int, str, str]]:
        rows = [row for index in self._indexes for row in index.listed()]
        return sorted(rows, key=lambda row: row[0])

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator["_Joined"]:
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(index.snapshot()) for index in self._indexes]
            # The locks of all shards are held here, so threads take turns. An index that has changed has new arrays.
            if self._order is None or any(
                part.positions is not before for part, before in zip(parts, self._order.positions, strict=True)
            ):
                self._order = _ordered(parts)
            yield _Joined(parts, self._order)


class _Order(NamedTuple):
    """Where the paragraphs of all shards stand, one behind the other, in the order of their documents.

    Attributes:
        positions: int64, those of the documents, by shard.
        joined: int64, the number of each paragraph in all shards, one behind the other, by its place in the order.
        lengths: int64, the words of each paragraph, by its place.
        places: int64, the places of the paragraphs of each shard.
        ends: int64, the number behind the last paragraph of each shard.
    """

    positions: list[np.ndarray]
    joined: np.ndarray
    lengths: np.ndarray
    places: list[np.ndarray]
    ends: np.ndarray


def _ordered(parts: list[Snapshot]) -> _Order:
    # A document's paragraphs are in one shard, in their order, which a stable sort keeps.
    joined = np.argsort(np.concatenate([part.positions for part in parts]), kind="stable")
    places = np.empty_like(joined)
    places[joined] = np.arange(len(places))
    ends = np.cumsum([len(part.lengths) for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])[joined]
    return _Order([part.positions for part in parts], joined, lengths, np.split(places, ends[:-1]), ends)


class _Joined:
    """The snapshots of all shards as one; a place counts the paragraphs of all of them in their documents' order."""

    def __init__(self, parts: list[Snapshot], order: _Order):
        self._parts, self._order = parts, order
        self.lengths = order.lengths

    def postings(self, words: list[str], threads: ThreadPoolExecutor) -> dict[str, Postings]:
        """Where each of some words occurs, by place."""
        found = list(threads.map(lambda part: part.postings(words), self._parts))
        return {word: self._join([of_part[word] for of_part in found]) for word in words}

    def _join(self, postings: list[Postings]) -> Postings:
        texts = np.concatenate([places[one.texts] for places, one in zip(self._order.places, postings, strict=True)])
        counts = np.concatenate([one.counts for one in postings])
        order = np.argsort(texts)
        return Postings(texts[order], counts[order])

    def paragraph(self, place: int) -> Paragraph:
        """The paragraph at a place."""
        joined, ends = int(self._order.joined[place]), self._order.ends
        number = int(np.searchsorted(ends, joined, side="right"))
        return self._parts[number].paragraph(joined - (int(ends[number - 1]) if number else 0))


def total(changes: Iterable[Changes]) -> Changes:
    """What several updates did together."""
    names = Changes.__dataclass_fields__
    parts = list(changes)
    return Changes(**{name: sum(getattr(part, name) for part in parts) for name in names})


def open_index(path: str | os.PathLike, settings: BM25Settings | None = None) -> DocumentIndex | ShardedIndex:
    """Opens an index to search it: a file, or a folder of shards.

    Args:
        path: what `fabir-index` wrote.
        settings: BM25's constants.

    Raises:
        UserError: there is no index, or it is damaged.
    """
    return ShardedIndex(path, settings) if user_path(path).is_dir() else DocumentIndex(path, settings)
