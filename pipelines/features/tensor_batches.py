"""Encoded data as batches of tensors, padded to the longest text of each."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.features.features import PASSAGE_INDEX, Features

# Tokens by which lengths differ in training, where kernels compiled for one batch serve others of the same lengths.
LENGTH_STEP = 4
# A kernel is compiled for each operation and length, which takes longer than to read a passage: where no more questions
# than these are read at once, lengths differ by whole steps, so that the next question's kernels are there already.
FEW_QUESTIONS, FEW_QUESTIONS_STEP = 8, 16


def make_batches(rows: Features, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray]) -> tf.data.Dataset:
    """A dataset of batches to train on, in the given order, each stretch of a passage once for all of its questions.

    All lengths are left open in the dataset's shapes, so that a model is traced once and not per pair of lengths; they
    are multiples of `LENGTH_STEP`.

    Args:
        rows: what can be read.
        batches: int64 arrays of row numbers, one per batch.
        targets: arrays `(rows, ...)` of what training is towards.

    Returns:
        A dataset of (inputs, targets), the inputs for `fabir_tf.models.deduplicated.DeduplicatedModel`.
    """
    tables = _tensors(rows)
    labels = {name: tf.constant(array) for name, array in targets.items()}

    def look_up(batch):
        found = {name: tf.gather(values, batch) for name, values in labels.items()}
        return batch_inputs(tables, batch, LENGTH_STEP), found

    return _mapped(batches, look_up)


def batches_to_read(rows: Features, batches: Iterable[np.ndarray]) -> Iterator[dict[str, tf.Tensor]]:
    """Batches to be answered, as they are asked for, each stretch of a passage once for all of its questions.

    Args:
        rows: what can be read.
        batches: int64 arrays of row numbers, one per batch.

    Yields:
        Inputs for `fabir_tf.models.deduplicated.DeduplicatedModel`.
    """
    tables = _tensors(rows)
    for batch in batches:
        yield _traced_inputs(tables, tf.constant(batch), reading_step(len(batch)))


def reading_step(questions: int | tf.Tensor) -> tf.Tensor:
    """What lengths are multiples of in a batch to be answered.

    Args:
        questions: their number.

    Returns:
        Int64, a scalar.
    """
    return tf.where(questions <= FEW_QUESTIONS, tf.constant(FEW_QUESTIONS_STEP, tf.int64), 1)


def batch_columns(lengths: tf.Tensor, step: int | tf.Tensor) -> tf.Tensor:
    """The columns of a batch.

    Args:
        lengths: int64 `(rows,)`, tokens of each text.
        step: what their number is a multiple of.

    Returns:
        Int64 `(1, columns)`, counted from 0; one at least: an empty text still has a padding token, which convolutions
        need.
    """
    longest = tf.maximum(tf.reduce_max(lengths), 1)
    return tf.range(-(-longest // step) * step)[None]


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


def _tensors(rows: Features) -> dict[str, tf.Tensor]:
    return {field.name: tf.constant(getattr(rows, field.name)) for field in dataclasses.fields(rows)}


def batch_inputs(tables: Mapping[str, tf.Tensor], batch: tf.Tensor, step: int | tf.Tensor) -> dict[str, tf.Tensor]:
    """Looks a batch up.

    Args:
        tables: the parts of an `Features` by their names.
        batch: int64 `(batch,)`, row numbers.
        step: what lengths, and the number of types, are multiples of.

    Returns:
        Inputs for `fabir_tf.models.deduplicated.DeduplicatedModel`: each stretch of a passage once for all of its questions,
        each type of token once for all of its places.
    """

    def of(text):
        return (tf.gather(tables[f"{text}_{part}"], batch) for part in ("starts", "lengths"))

    stretches, passage_rows = unique_rows(*of("passage"))
    texts = [_padded(tables["tokens"], *rows, step) for rows in (stretches, of("question"))]
    types, places = tf.unique(tf.concat([tf.reshape(text, [-1]) for text in texts], 0))
    passage, question = tf.split(places, [tf.size(text) for text in texts])
    types = tf.pad(types, [[0, -tf.size(types) % tf.cast(step, tf.int32)]])
    return {
        PASSAGE_INDEX: passage_rows,
        "passage_token_index": tf.reshape(passage, tf.shape(texts[0])),
        "question_token_index": tf.reshape(question, tf.shape(texts[1])),
        "unique_words": tf.gather(tables["unique_words"], types),
        "unique_characters": tf.gather(tables["unique_characters"], types),
    }


# One graph for all data: a dataset's pipeline is built anew for each, which takes longer than to answer a question.
_traced_inputs = tf.function(batch_inputs, reduce_retracing=True, autograph=False)


def _padded(tokens: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor, step: int | tf.Tensor) -> tf.Tensor:
    """Token types of stretches of `tokens`, 0 after each; as long as the longest, rounded up to whole steps."""
    columns = batch_columns(lengths, step)
    places = tf.minimum(starts[:, None] + columns, tf.maximum(tf.size(tokens, out_type=tf.int64) - 1, 0))
    return tf.where(columns < lengths[:, None], tf.gather(tokens, places), 0)
