"""Features as batches of tensors, padded to the longest text of each batch."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.features.batch_planning import TRAINING_STEP, reading_step
from fabir_tf.pipelines.features.features import PASSAGE_INDEX, SHARED_TEXT, Features, text_names
from fabir_tf.pipelines.features.rows_on_disk import RowsOnDisk


def make_batches(
    features: Features, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray]
) -> tf.data.Dataset:
    """A dataset of training batches in the given order; each passage window appears once for all of its questions.

    The dataset leaves all lengths unknown, so that a model is traced once instead of once per pair of lengths. Lengths
    are multiples of `TRAINING_STEP`.

    Args:
        features: the examples.
        batches: int64 arrays of example numbers, one per batch.
        targets: arrays `(examples, ...)` by name.

    Returns:
        A dataset of (inputs, targets); the inputs suit `fabir_tf.models.deduplicated.DeduplicatedModel`.
    """
    tables = _tensors(features)
    labels = {name: tf.constant(array) for name, array in targets.items()}

    def look_up(batch):
        found = {name: tf.gather(values, batch) for name, values in labels.items()}
        return batch_inputs(tables, batch, TRAINING_STEP), found

    return _mapped(batches, look_up)


def batches_to_read(features: Features, batches: Iterable[np.ndarray]) -> Iterator[dict[str, tf.Tensor]]:
    """Batches to be answered, made when they are asked for.

    Args:
        features: the examples.
        batches: int64 arrays of example numbers, one per batch.

    Yields:
        Inputs for `fabir_tf.models.deduplicated.DeduplicatedModel`.
    """
    tables = _tensors(features)
    inputs = _traced_inputs(tuple((name, values.dtype, values.shape.rank) for name, values in tables.items()))
    for batch in batches:
        yield inputs(tables, tf.constant(batch), tf.constant(reading_step(len(batch)), tf.int64))


def batch_inputs(
    tables: Mapping[str, tf.Tensor | RowsOnDisk], batch: tf.Tensor, step: int | tf.Tensor
) -> dict[str, tf.Tensor]:
    """Looks up the inputs of one batch.

    Args:
        tables: `Features.tables` as tensors, or rows on disk.
        batch: int64 `(batch,)`, example numbers.
        step: lengths, and the number of unique tokens, are multiples of it.

    Returns:
        Inputs for `fabir_tf.models.deduplicated.DeduplicatedModel`: each passage window once for all of its questions,
        each unique token once for all of its occurrences.
    """
    inputs, padded = {}, {}
    for text in text_names(tables):
        starts, lengths = (tf.gather(tables[f"{text}_{part}"], batch) for part in ("starts", "lengths"))
        if text == SHARED_TEXT:
            (starts, lengths), inputs[PASSAGE_INDEX] = unique_segments(starts, lengths)
        padded[text] = _padded(tables["tokens"], starts, lengths, step)
    unique, index = tf.unique(tf.concat([tf.reshape(tokens, [-1]) for tokens in padded.values()], 0))
    parts = tf.split(index, [tf.size(tokens) for tokens in padded.values()], num=len(padded))
    for (text, tokens), part in zip(padded.items(), parts, strict=True):
        inputs[f"{text}_token_index"] = tf.reshape(part, tf.shape(tokens))
    unique = tf.pad(unique, [[0, -tf.size(unique) % tf.cast(step, tf.int32)]])
    names = [name for name in tables if name.startswith("unique_")]
    return inputs | {name: _rows(tables[name], unique) for name in names}


def _rows(table: tf.Tensor | RowsOnDisk, indices: tf.Tensor) -> tf.Tensor:
    if not isinstance(table, RowsOnDisk):
        return tf.gather(table, indices)
    rows = tf.numpy_function(table.__getitem__, [indices], table.dtype, stateful=False)
    return tf.ensure_shape(rows, (None, *table.shape[1:]))


def unique_segments(starts: tf.Tensor, lengths: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Finds the distinct segments among many.

    Args:
        starts, lengths: int64 `(examples,)`.

    Returns:
        Starts and lengths of the distinct segments, in the order of their first occurrence, and int32 `(examples,)`,
        the index of each example's segment among them.
    """
    base = tf.reduce_max(lengths) + 1
    distinct, index = tf.unique(starts * base + lengths)
    return [distinct // base, distinct % base], index


@functools.cache
def _traced_inputs(kinds: tuple[tuple[str, tf.DType, int], ...]) -> Callable:
    """`batch_inputs` as one graph for all tables of these names, dtypes and ranks, whatever their sizes.

    Building a dataset's pipeline, or looking for the graph of each size, takes longer than making a batch.
    """
    tables = {name: tf.TensorSpec([None] * rank, dtype, name) for name, dtype, rank in kinds}
    signature = [tables, tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)]
    return tf.function(batch_inputs, input_signature=signature, autograph=False)


def _mapped(batches: Iterable[np.ndarray], look_up: Callable) -> tf.data.Dataset:
    # All batches as one array. A Python generator would compete with the training loop for the interpreter, and makes
    # TensorFlow return the memory of every freed tensor to the system and ask for it again in the next step.
    arrays = [np.zeros(0, np.int64), *batches]
    examples, ends = tf.constant(np.concatenate(arrays)), np.cumsum([len(array) for array in arrays])
    ranges = tf.data.Dataset.from_tensor_slices((ends[:-1], ends[1:]))
    options = tf.data.Options()
    # The autotuner's thread sleeps 10 ms, then 20, 40, ... and at times delays the end of the data by 5 or 10 seconds.
    options.autotune.enabled = False

    # AutoGraph would take a second to rewrite code that has no Python branches on tensors.
    @tf.autograph.experimental.do_not_convert
    def of_range(begin, end):
        return look_up(examples[begin:end])

    return ranges.map(of_range, num_parallel_calls=2, deterministic=True).prefetch(4).with_options(options)


def _tensors(features: Features) -> dict[str, Any]:
    """The tables in memory; what is on the disk stays there."""
    return {
        name: array if isinstance(array, RowsOnDisk) else tf.constant(array) for name, array in features.tables.items()
    }


def _padded(tokens: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor, step: int | tf.Tensor) -> tf.Tensor:
    """Unique tokens of segments of `tokens`, 0 after each; as long as the longest, rounded up to a multiple of step.

    There is always one column, because convolutions need one: an empty text is one padding token.
    """
    step = tf.cast(step, tf.int64)
    longest = tf.maximum(tf.reduce_max(lengths), 1)
    columns = tf.range(-(-longest // step) * step)[None]
    indices = tf.minimum(starts[:, None] + columns, tf.size(tokens, out_type=tf.int64) - 1)
    return tf.where(columns < lengths[:, None], tf.gather(tokens, indices), 0)
