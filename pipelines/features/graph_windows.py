"""`windows` with TensorFlow operations only: overlapping windows over many passages, and their logits merged again."""

from typing import NamedTuple

import tensorflow as tf


class GraphWindows(NamedTuple):
    """The windows over a batch of passages, one passage after the other; one where the passage fits.

    Attributes:
        passages: int64 `(windows,)`, the passage's number in the batch.
        offsets: int64 `(windows,)`, the passage's token at which the window begins.
        lengths: int64 `(windows,)`, tokens of the window.
    """

    passages: tf.Tensor
    offsets: tf.Tensor
    lengths: tf.Tensor


def graph_windows(lengths: tf.Tensor, size: int, overlap: int) -> GraphWindows:
    """The windows of `windows.window_offsets` over each passage.

    Args:
        lengths: int64 `(batch,)`, tokens of each passage; one without tokens has one window of length 0.
        size: most tokens of a window.
        overlap: tokens that neighbouring windows share, less than `size`.

    Returns:
        The windows.
    """
    beyond = tf.maximum(lengths - size, 0)
    counts = 1 + (beyond + size - overlap - 1) // (size - overlap)
    passages = tf.repeat(tf.range(tf.size(lengths, tf.int64)), counts)
    numbers = tf.ragged.range(counts).flat_values
    offsets = tf.minimum(numbers * (size - overlap), tf.gather(beyond, passages))
    return GraphWindows(passages, offsets, tf.minimum(tf.gather(lengths, passages), size))


def graph_merge(windows: GraphWindows, passage_starts: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """For each token the place, among those of all windows, that `windows.merge_windows` takes its logit from.

    Args:
        windows: from `graph_windows`.
        passage_starts: int64 `(batch,)`, where each passage's tokens begin among those of all passages.
        tokens: int64 scalar, tokens of all passages.

    Returns:
        int64 `(tokens,)`, indices into the windows' tokens, one window after the other.
    """
    places = tf.ragged.range(windows.lengths)
    begins = tf.gather(passage_starts, windows.passages) + windows.offsets
    token = (places + begins[:, None]).flat_values
    surroundings = tf.minimum(places, windows.lengths[:, None] - 1 - places).flat_values
    most = tf.math.unsorted_segment_max(surroundings, token, tokens)
    entries = tf.range(tf.size(token, tf.int64))
    # Of windows that show as much, the first.
    is_best = tf.equal(surroundings, tf.gather(most, token))
    return tf.math.unsorted_segment_min(tf.where(is_best, entries, tf.int64.max), token, tokens)
