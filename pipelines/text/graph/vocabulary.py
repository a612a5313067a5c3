"""`Vocabulary` with TensorFlow operations only: the same ids, computed in a graph."""

import functools

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.text.graph.code_points import CODE_POINTS, PagedTable, first_from, last_before, positions
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.ids import PADDING, UNKNOWN
from fabir_tf.pipelines.text.readable import is_unicode
from fabir_tf.pipelines.text.vocabulary import Vocabulary

CAPITAL_SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"
CAPITAL_DOTTED_I = "\u0130"
_CASED, _IGNORED = 1, 2


class GraphVocabulary(tf.Module):
    """Looks up the ids of the tokens of a batch of texts.

    The words are part of the graph, because a file beside it would be lost if a loaded SavedModel is saved again.

    Args:
        vocabulary: the vocabulary with the ids.
        width: characters per word; longer words are truncated, shorter ones padded with 0.
    """

    def __init__(self, vocabulary: Vocabulary, width: int):
        super().__init__()
        self.width = width
        # No token holds half of a surrogate pair, which UTF-8 lacks.
        words = {word: number for word, number in vocabulary.word_index.items() if is_unicode(word)}
        # TensorFlow makes no empty table; no token is empty.
        words = words or {"": UNKNOWN}
        self.words = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(list(words), list(words.values()), tf.string, tf.int32), UNKNOWN
        )
        self._characters = PagedTable(vocabulary.character_table)
        # Not tf.strings.lower, in which the lower case of I depends on the server's locale.
        self._to_lower_case = _to_lower_case()
        self._case_classes = _case_classes()

    def word_ids(self, tokens: GraphTokens) -> tf.Tensor:
        """Looks up words in lower case.

        Args:
            tokens: n tokens.

        Returns:
            int32 `(n,)`; never the padding id.
        """
        words = token_code_points(tokens)
        lower = words.flat_values + self._to_lower_case(words.flat_values)
        lower = tf.where(self._is_final_sigma(words), ord(FINAL_SIGMA), lower)
        texts = tf.strings.unicode_encode(words.with_flat_values(lower), "UTF-8")
        # The only letter whose lower case is two characters.
        texts = tf.strings.regex_replace(texts, CAPITAL_DOTTED_I, CAPITAL_DOTTED_I.lower())
        return self.words.lookup(texts)

    def character_ids(self, tokens: GraphTokens) -> tf.Tensor:
        """Looks up the characters of words; their case matters.

        Args:
            tokens: n tokens.

        Returns:
            int32 `(n, width)`.
        """
        words = token_code_points(tokens, self.width)
        ids = self._characters(words.flat_values)
        return words.with_flat_values(ids).to_tensor(PADDING, shape=(None, self.width))

    def _is_final_sigma(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Where `str.lower` writes the final sigma: after a letter and not before one, ignoring dots and marks."""
        classes = self._case_classes(words.flat_values)
        counted = positions(tf.not_equal(classes, _IGNORED))
        cased = tf.concat([tf.equal(classes, _CASED), [False]], 0)
        count = tf.size(classes, tf.int64)
        indices = tf.range(count)
        begins, ends = (tf.repeat(limit, words.row_lengths()) for limit in (words.row_starts(), words.row_limits()))
        before, after = last_before(counted, indices), first_from(counted, indices + 1, count)
        follows = (before >= begins) & tf.gather(cased, tf.maximum(before, 0))
        leads = (after < ends) & tf.gather(cased, after)
        return tf.equal(words.flat_values, ord(CAPITAL_SIGMA)) & follows & ~leads


def token_code_points(tokens: GraphTokens, limit: int | None = None) -> tf.RaggedTensor:
    """The characters of each token, at most `limit`, int32 `(n, characters)`."""
    counts = tokens.row_splits[1:] - tokens.row_splits[:-1]
    offsets = tf.repeat(tokens.text_splits[:-1], counts)
    starts, ends = tokens.starts + offsets, tokens.ends + offsets
    if limit is not None:
        ends = tf.minimum(ends, starts + limit)
    indices = tf.ragged.range(starts, ends)
    return indices.with_flat_values(tf.gather(tokens.code_points, indices.flat_values))


@functools.cache
def _to_lower_case() -> PagedTable:
    """The distance of every code point to its lower case; 0 if that is the same or more than one character."""
    return PagedTable(_lower_among("", " ")[:, 0] - np.arange(CODE_POINTS))


@functools.cache
def _case_classes() -> PagedTable:
    """The context of a capital sigma in `str.lower`: letters with a case, and characters that it ignores."""
    cased, ignored = (_lower_among(before, f"{CAPITAL_SIGMA} ")[:, 2] == ord(FINAL_SIGMA) for before in (".", "A"))
    return PagedTable(np.where(cased, _CASED, np.where(ignored, _IGNORED, 0)))


def _lower_among(before: str, after: str) -> np.ndarray:
    """Lower cases of every code point between two texts, all at once; `after` ends in a space, which keeps them apart.

    Returns:
        uint32 `(CODE_POINTS, characters)`; a letter whose lower case is two characters is left as it is.
    """
    table = np.tile(np.array([*map(ord, f"{before} {after}")], "<u4"), (CODE_POINTS, 1))
    table[:, len(before)] = np.arange(CODE_POINTS)
    texts = table.tobytes().decode("utf-32-le", "surrogatepass").lower()
    lower = texts.replace(CAPITAL_DOTTED_I.lower(), CAPITAL_DOTTED_I).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(lower, "<u4").reshape(CODE_POINTS, -1)
