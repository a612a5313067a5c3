"""`pipelines.text.bert_cleaning` with TensorFlow operations only: the same tables, for a batch of texts."""

from typing import NamedTuple

import tensorflow as tf

from fabir_tf.pipelines.text.bert_cleaning import (
    ALONE_AFTER,
    ALONE_BEFORE,
    BREAK,
    BertCleaning,
    cleaning_tables,
)
from fabir_tf.pipelines.text.graph.code_points import CodePoints, PagedTable, flags_at, positions

_CLASSES = 256
"""Combining classes are less than this."""


class GraphWords(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        values: int32 `(n,)`, the cleaned code points of all texts.
        sources: int64 `(n,)`, the character of all texts that each of them comes from, rising.
        starts, ends: int64 `(words,)`, where each word begins and ends in `values`.
    """

    values: tf.Tensor
    sources: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class GraphCleaning:
    """Cleans texts and finds their words.

    Args:
        cleaning: the settings.
    """

    def __init__(self, cleaning: BertCleaning):
        tables = cleaning_tables(cleaning)
        self._rows, self._roles, self._combining = map(PagedTable, (tables.rows, tables.roles, tables.combining))
        self._starts, self._lengths, self._values = tables.starts, tables.lengths, tables.values
        self._strips = cleaning.strips

    def __call__(self, text: CodePoints) -> GraphWords:
        """See `bert_cleaning.clean`.

        Args:
            text: the texts; none changes the words of another.
        """
        roles = self._roles(text.values)
        values, sources = self._characters(text)
        starts_text = flags_at(text.splits[:-1], tf.size(text.values, tf.int64))
        if self._strips:
            breaks = tf.not_equal(tf.bitwise.bitwise_and(roles, BREAK), 0) | starts_text
            values = self._in_canonical_order(values, tf.gather(tf.cumsum(tf.cast(breaks, tf.int64)), sources))
        space = tf.equal(values, ord(" "))
        before = tf.bitwise.bitwise_and(tf.gather(roles, sources), ALONE_BEFORE)
        alone = before + tf.bitwise.bitwise_and(self._roles(values), ALONE_AFTER) > 0
        # A character may be gone, so the text of its neighbor tells whether a text begins.
        texts = tf.gather(tf.cumsum(tf.cast(starts_text, tf.int64)), sources)
        begins = tf.concat([[True], tf.not_equal(texts[1:], texts[:-1]), [True]], 0)
        apart = tf.concat([[True], space | alone, [True]], 0)
        starts = ~space & (alone | apart[:-2] | begins[: tf.size(values)])
        ends = ~space & (alone | apart[2:] | begins[1 : tf.size(values) + 1])
        return GraphWords(values, sources, positions(starts), positions(ends) + 1)

    def _characters(self, text: CodePoints) -> tuple[tf.Tensor, tf.Tensor]:
        """What the characters become, and which one each comes from."""
        rows = self._rows(text.values)
        lengths = tf.gather(self._lengths, rows)
        sources = tf.repeat(tf.range(tf.size(rows, tf.int64)), lengths)
        within = tf.ragged.range(lengths).flat_values
        row = tf.gather(rows, sources)
        changed = tf.gather(self._values, tf.gather(self._starts, row) + within)
        return tf.where(tf.equal(row, 0), tf.gather(text.values, sources), changed), sources

    def _in_canonical_order(self, values: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
        """Sorts the combining marks of each group by their class."""
        classes = self._combining(values)
        marks = positions(classes > 0)
        keys = tf.gather(groups, marks) * _CLASSES + tf.cast(tf.gather(classes, marks), tf.int64)
        # Of equal keys the first one comes first.
        order = tf.math.top_k(-keys, tf.size(keys)).indices
        return tf.tensor_scatter_nd_update(values, marks[:, None], tf.gather(values, tf.gather(marks, order)))
