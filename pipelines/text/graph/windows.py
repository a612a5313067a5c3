"""`features.windows` in TensorFlow operations: overlapping windows over many passages, and their logits merged."""

from typing import NamedTuple

import tensorflow as tf


class GraphWindows(NamedTuple):
    """The windows over a batch of passages, one passage after the other; one window where the passage fits.

    Attributes:
        passages: int64 `(windows,)`, the passage's number in the batch.
        offsets: int64 `(windows,)`, the passage token at which the window begins.
        lengths: int64 `(windows,)`, tokens of the window.
    """

    passages: tf.Tensor
    offsets: tf.Tensor
    lengths: tf.Tensor


def graph_windows(lengths: tf.Tensor, sizes: tf.Tensor, overlap: int) -> GraphWindows:
    """The windows of `windows.window_offsets` over each passage.

    Args:
        lengths: int64 `(batch,)`, tokens of each passage; one without tokens has one window of length 0.
        sizes: int64 `(batch,)`, most tokens of a window over each passage.
        overlap: tokens that neighboring windows share; at most half a window.

    Returns:
        The windows.
    """
    beyond = tf.maximum(lengths - sizes, 0)
    steps = sizes - tf.minimum(tf.constant(overlap, tf.int64), sizes // 2)
    counts = 1 + (beyond + steps - 1) // steps
    passages = tf.repeat(tf.range(tf.size(lengths, tf.int64)), counts)
    numbers = tf.ragged.range(counts).flat_values
    offsets = tf.minimum(numbers * tf.gather(steps, passages), tf.gather(beyond, passages))
    return GraphWindows(passages, offsets, tf.minimum(tf.gather(lengths, passages), tf.gather(sizes, passages)))


def graph_merge(windows: GraphWindows, passage_starts: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Finds, for each token, which window's logit `windows.merge_windows` takes.

    Args:
        windows: from `graph_windows`.
        passage_starts: int64 `(batch,)`, where each passage's tokens begin among those of all passages.
        tokens: int64 scalar, tokens of all passages.

    Returns:
        int64 `(tokens,)`, indices into the windows' tokens, one window after the other.
    """
    columns = tf.ragged.range(windows.lengths)
    begins = tf.gather(passage_starts, windows.passages) + windows.offsets
    token = (columns + begins[:, None]).flat_values
    context = tf.minimum(columns, windows.lengths[:, None] - 1 - columns).flat_values
    most = tf.math.unsorted_segment_max(context, token, tokens)
    entries = tf.range(tf.size(token, tf.int64))
    # Several windows may show as much context; the first one counts.
    is_best = tf.equal(context, tf.gather(most, token))
    return tf.math.unsorted_segment_min(tf.where(is_best, entries, tf.int64.max), token, tokens)


def smallest_null(windows: GraphWindows, null_logits: tf.Tensor, passages: tf.Tensor) -> tf.Tensor:
    """The null logits of each passage: those of the window where their sum is smallest.

    Args:
        windows: from `graph_windows`.
        null_logits: float `(windows, 2)`.
        passages: int64 scalar, the number of passages.

    Returns:
        Float `(passages, 2)`.
    """
    total = tf.reduce_sum(null_logits, axis=1)
    least = tf.gather(tf.math.unsorted_segment_min(total, windows.passages, passages), windows.passages)
    entries = tf.range(tf.size(total, tf.int64))
    chosen = tf.where(tf.equal(total, least), entries, tf.int64.max)
    return tf.gather(null_logits, tf.math.unsorted_segment_min(chosen, windows.passages, passages))
