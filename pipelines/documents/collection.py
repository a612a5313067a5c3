"""Documents in memory, searched as `DocumentIndex` searches those of a file."""

from collections.abc import Callable, Iterable
from typing import Protocol

from fabir_tf.pipelines.documents.bm25 import BM25, BM25Settings
from fabir_tf.pipelines.documents.documents import Document, digest_of_documents
from fabir_tf.pipelines.documents.index import Found
from fabir_tf.pipelines.documents.paragraphs import Paragraph
from fabir_tf.pipelines.errors import UserError


class Searched(Protocol):
    """What can be searched: a `Collection`, a `DocumentIndex`, a `ShardedIndex`."""

    def __len__(self) -> int:
        """The number of paragraphs."""
        ...

    def digest(self) -> str:
        """A hash that changes with the documents and their order."""
        ...

    def first(self, k: int) -> list[Paragraph]:
        """The first paragraphs of the first documents."""
        ...

    def search(self, question: str, k: int = 20) -> list[Found]:
        """The paragraphs that share a word with a question, the best first."""
        ...


class Collection:
    """The paragraphs of documents, ranked in memory.

    Args:
        documents: any iterable of documents.
        settings: BM25's constants.
        skipped: takes the sentence about a document whose text cannot be read, which is then left out; None raises it.

    Raises:
        UserError: a document cannot be read, and `skipped` is None.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        settings: BM25Settings | None = None,
        skipped: Callable[[str], None] | None = None,
    ):
        self._paragraphs: list[Paragraph] = []
        self._documents: list[tuple[str, str]] = []
        for document in documents:
            try:
                self._paragraphs += document.paragraphs()
                self._documents.append((document.source, document.digest))
            except UserError as error:
                if skipped is None:
                    raise
                skipped(str(error))
        self._ranking = BM25((paragraph.searched_text for paragraph in self._paragraphs), settings)

    def __len__(self) -> int:
        return len(self._paragraphs)

    def digest(self) -> str:
        """A hash that changes with the documents and their order."""
        return digest_of_documents(self._documents)

    def first(self, k: int) -> list[Paragraph]:
        """The first paragraphs of the first documents.

        Args:
            k: the most paragraphs.
        """
        return self._paragraphs[:k]

    def search(self, question: str, k: int = 20) -> list[Found]:
        """The paragraphs that share a word with a question.

        Args:
            question: any string.
            k: the most paragraphs.

        Returns:
            The best first; of equal ones, the earlier one first.
        """
        return [Found(self._paragraphs[number], score) for number, score in self._ranking.rank(question, k)]
