"""BM25: how well paragraphs fit a question by the words that both have.

    score = sum over the words of the question of  idf * count / (count + k1 * (1 - b + b * length / mean))
            / sum over the words of the question of  idf
    idf   = ln(1 + (texts - texts with the word + 1/2) / (texts with the word + 1/2))

The usual sum has no upper bound, and is larger among more texts. Divided by what no text can reach, it compares between
questions and collections, and a word of the question that occurs nowhere counts against every text.

`BM25` ranks texts in memory and `DocumentIndex` those of a file. Both sum the same numbers in the same order.

Reference:
    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the idf is Lucene's, which
    is never negative.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabir_tf.pipelines.documents.search_words import question_words, text_words


@dataclass(frozen=True)
class BM25Settings:
    """The two constants of BM25; the defaults were chosen on training questions (`benchmarks/RESULTS.md`).

    Attributes:
        k1: how much a second occurrence of a word adds; 0 counts each word once.
        b: how much long texts are held back: 0 not at all, 1 in full.
    """

    k1: float = 0.6
    b: float = 0.75

    def __post_init__(self):
        if not 0 <= self.k1 < float("inf"):
            raise ValueError(f"k1 is a number from 0. Received: {self.k1!r}")
        if not 0 <= self.b <= 1:
            raise ValueError(f"b is a number from 0 to 1. Received: {self.b!r}")


class Ranked(NamedTuple):
    """A text that was found.

    Attributes:
        number: its place among the texts, from 0.
        score: above 0 and below 1; higher is better.
    """

    number: int
    score: float


class Postings(NamedTuple):
    """Where a word occurs.

    Attributes:
        texts: int32 or int64, the texts that have it, ascending.
        counts: int32 or int64, how often.
    """

    texts: np.ndarray
    counts: np.ndarray


NOWHERE = Postings(np.array([], np.int64), np.array([], np.int64))
"""Of a word that does not occur."""


class BM25:
    """Ranks texts in memory.

    Args:
        texts: any iterable of texts.
        settings: the constants.

    Example:
        >>> BM25(["The mill was built in 1846.", "It grinds wheat."]).rank("When was the mill built?")
        [Ranked(number=0, score=...)]
    """

    def __init__(self, texts: Iterable[str], settings: BM25Settings | None = None):
        self._settings = settings or BM25Settings()
        found: dict[str, list[tuple[int, int]]] = {}
        lengths = []
        for index, text in enumerate(texts):
            counts = Counter(text_words(text))
            lengths.append(sum(counts.values()))
            for word, count in counts.items():
                found.setdefault(word, []).append((index, count))
        self._lengths = np.array(lengths, np.int64)
        self._postings = {word: _as_postings(pairs) for word, pairs in found.items()}

    def __len__(self) -> int:
        return len(self._lengths)

    def rank(self, question: str, k: int = 20) -> list[Ranked]:
        """The texts that share a word with a question.

        Args:
            question: any string.
            k: the most texts.

        Returns:
            The best first; of equal ones, the earlier text first.
        """
        words = question_words(question)
        postings = {word: self._postings.get(word, NOWHERE) for word in words}
        return best(score(postings, self._lengths, self._settings), k)


def score(postings: Mapping[str, Postings], lengths: np.ndarray, settings: BM25Settings) -> np.ndarray:
    """The score of every text.

    Args:
        postings: of the question's words, in the question's order.
        lengths: int64, the number of words of each text.
        settings: the constants.

    Returns:
        float64, as many as lengths; 0 where no word occurs.
    """
    scores = np.zeros(len(lengths))
    highest = 0.0
    mean = lengths.sum() / max(1, len(lengths))
    for texts, counts in postings.values():
        idf = np.log1p((len(lengths) - len(texts) + 0.5) / (len(texts) + 0.5))
        norms = settings.k1 * (1 - settings.b + settings.b * lengths[texts] / mean)
        scores[texts] += idf * counts / (counts + norms)
        highest += idf
    return scores / highest if highest else scores


def best(scores: np.ndarray, k: int) -> list[Ranked]:
    """The highest scores above 0, the earlier one first where two are equal.

    Args:
        scores: of all texts.
        k: how many.
    """
    if k < 1:
        raise ValueError(f"k is a number from 1. Received: {k!r}")
    found = np.flatnonzero(scores > 0)
    if len(found) > k:
        # All that equal the k-th best one stay, so that the order alone decides among them.
        least = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= least]
    order = found[np.argsort(-scores[found], kind="stable")][:k]
    return [Ranked(int(number), float(scores[number])) for number in order]


def _as_postings(pairs: list[tuple[int, int]]) -> Postings:
    texts, counts = np.array(pairs, np.int64).T
    return Postings(texts, counts)
