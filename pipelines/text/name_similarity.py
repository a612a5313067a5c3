"""How similar two names are, by the word vectors that come with the package."""

import re
from functools import cache

import numpy as np

from fabir_tf.pipelines.text.word_vectors import load_vectors

_WORD = re.compile(r"[^\W\d_]+")
_WITHOUT_MEANING = ("of", "the")
_SCALE = 64


class NameSimilarity:
    """Compares names by the cosine of their words' vectors; those of several words are added up."""

    def __init__(self):
        self._row, self._table = _bundled()
        self._vectors: dict[str, np.ndarray] = {}

    def percent(self, name: str, other: str) -> int:
        """The squared cosine of two names in percent; 0 if it is negative or one of them has no known word.

        Args:
            name, other: the names, of one or more words each.
        """
        vector, other_vector = self._vector(name), self._vector(other)
        product = int(vector @ other_vector)
        if product <= 0:
            return 0
        return 100 * product * product // (int(vector @ vector) * int(other_vector @ other_vector))

    def _vector(self, name: str) -> np.ndarray:
        if name not in self._vectors:
            rows = [self._row[word] for word in _WORD.findall(name.lower()) if word in self._row]
            self._vectors[name] = self._table[rows].sum(axis=0)
        return self._vectors[name]


@cache
def _bundled() -> tuple[dict[str, int], np.ndarray]:
    """The row of each word, and the vectors in whole numbers, whose sums and products are the same on every machine."""
    vectors = load_vectors("bundled")
    rows = {word: row for row, word in enumerate(vectors.words) if word not in _WITHOUT_MEANING}
    return rows, np.rint(vectors.table.astype(np.float32) * _SCALE).astype(np.int64)
