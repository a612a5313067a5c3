"""Encoded data as tf.data batches, padded to the longest text of each batch."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.rows import PASSAGE_ROWS, EncodedRows

# Tokens by which lengths differ in training, where kernels compiled for one batch serve others of the same lengths.
LENGTH_STEP = 4


def make_batches(
    rows: EncodedRows, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray] | None = None
) -> tf.data.Dataset:
    """A dataset of batches, in the given order, each stretch of a passage once for all of its questions.

    All lengths are left open in the dataset's shapes, so that a model is traced once and not per pair of lengths. With
    targets they are multiples of `LENGTH_STEP`.

    Args:
        rows: what can be read.
        batches: int64 arrays of row numbers, one per batch.
        targets: arrays `(rows, ...)` of what training is towards.

    Returns:
        A dataset of inputs for `fabir_tf.passage_sharing.PassageSharing`, or of (inputs, targets).
    """
    passages = tf.constant(rows.passage_starts), tf.constant(rows.passage_lengths)
    questions = tf.constant(rows.question_starts), tf.constant(rows.question_lengths)
    tokens = tf.constant(rows.tokens)
    words, characters = tf.constant(rows.type_words), tf.constant(rows.type_characters)
    labels = None if targets is None else {name: tf.constant(array) for name, array in targets.items()}
    step = 1 if labels is None else LENGTH_STEP

    def ids(name, starts, lengths):
        types = _padded(tokens, starts, lengths, step)
        return {f"{name}_words": tf.gather(words, types), f"{name}_characters": tf.gather(characters, types)}

    def look_up(batch):
        stretches, passage_rows = unique_rows(*(tf.gather(part, batch) for part in passages))
        asked = (tf.gather(part, batch) for part in questions)
        inputs = ids("passage", *stretches) | ids("question", *asked) | {PASSAGE_ROWS: passage_rows}
        if labels is None:
            return inputs
        return inputs, {name: tf.gather(values, batch) for name, values in labels.items()}

    return _mapped(batches, look_up)


def unique_rows(begins: tf.Tensor, lengths: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Finds the distinct stretches among many.

    Args:
        begins, lengths: int64 `(rows,)`.

    Returns:
        Begins and lengths of the distinct ones, in the order in which they come first, and int32 `(rows,)`, the place
        of each row's stretch among them.
    """
    base = tf.reduce_max(lengths) + 1
    distinct, places = tf.unique(begins * base + lengths)
    return (distinct // base, distinct % base), places


def _mapped(batches: Iterable[np.ndarray], look_up: Callable) -> tf.data.Dataset:
    # The rows of all batches as one array: a Python generator would take turns with the training for the interpreter,
    # and with it TensorFlow has the memory of every freed tensor given back, to be asked for again in the next step.
    arrays = [np.zeros(0, np.int64), *batches]
    rows, ends = tf.constant(np.concatenate(arrays)), np.cumsum([len(array) for array in arrays])
    places = tf.data.Dataset.from_tensor_slices((ends[:-1], ends[1:]))
    options = tf.data.Options()
    # Its thread sleeps 10 ms, then 20, 40 ... and at times the end of the data waits until it wakes: 5 or 10 seconds.
    options.autotune.enabled = False
    looked_up = places.map(lambda begin, end: look_up(rows[begin:end]), num_parallel_calls=2, deterministic=True)
    return looked_up.prefetch(4).with_options(options)


def _padded(tokens: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor, step: int) -> tf.Tensor:
    """Token types of stretches of `tokens`, 0 after each; as long as the longest, rounded up to whole steps."""
    # One column at least: an empty text still has a padding token, which convolutions need.
    longest = tf.maximum(tf.reduce_max(lengths), 1)
    columns = tf.range(-(-longest // step) * step)[None]
    places = tf.minimum(starts[:, None] + columns, tf.maximum(tf.size(tokens, out_type=tf.int64) - 1, 0))
    return tf.where(columns < lengths[:, None], tf.gather(tokens, places), 0)
