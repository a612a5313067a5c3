"""Encoded data as tf.data batches, padded to the longest text of each batch."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.encoding import EncodedData

PASSAGE_ROWS = "passage_rows"
"""Input of a shared batch: the place of each question's passage among its passages."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """What the model reads, row by row: a question and a stretch of its passage.

    Attributes:
        questions: int64 `(rows,)`, the question's number in the dataset.
        offsets: int64 `(rows,)`, the first token read of the passage.
        lengths: int64 `(rows,)`, the number of tokens read.
    """

    questions: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


def make_batches(
    encoded: EncodedData,
    rows: Rows,
    batches: Iterable[np.ndarray],
    targets: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], dict[str, tf.Tensor]] | None = None,
) -> tf.data.Dataset:
    """A dataset of batches, in the given order, a passage for each question.

    All lengths are left open in the dataset's shapes, so that a model is traced once and not per pair of lengths.

    Args:
        encoded: the tokens and their ids.
        rows: what can be read.
        batches: int64 arrays of row numbers, one per batch.
        targets: called with row numbers `(batch,)`, passage lengths `(batch,)` and the batch's width; gives the
            training targets.

    Returns:
        A dataset of inputs for `fabir_tf.build_model`, or of (inputs, targets).
    """
    tables = _Tables(encoded, rows, None)

    def look_up(batch):
        passages, lengths = tables.passages(batch)
        inputs = tables.ids("passage", passages, lengths) | tables.question_ids(batch)
        if targets is None:
            return inputs
        width = tf.shape(inputs["passage_words"], out_type=tf.int64)[1]
        return inputs, targets(batch, lengths, width)

    return _mapped(batches, look_up)


def make_shared_batches(
    encoded: EncodedData, rows: Rows, batches: Iterable[np.ndarray], max_question: int
) -> tf.data.Dataset:
    """A dataset of batches, in the given order, each stretch of a passage once for all of its questions.

    Args:
        encoded, rows, batches: as in `make_batches`.
        max_question: tokens of a question that are read.

    Returns:
        A dataset of inputs for `fabir_tf.passage_sharing.PassageSharing`.
    """
    tables = _Tables(encoded, rows, max_question)

    def look_up(batch):
        stretches, passage_rows = unique_rows(*tables.passages(batch))
        return tables.ids("passage", *stretches) | tables.question_ids(batch) | {PASSAGE_ROWS: passage_rows}

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


class _Tables:
    """The tokens of a dataset as constants of its graph."""

    def __init__(self, encoded: EncodedData, rows: Rows, max_question: int | None):
        tokenised = encoded.tokenised
        texts = tokenised.texts
        passages = tokenised.question_passages[rows.questions]
        question_texts = len(tokenised.data.passages) + rows.questions
        question_lengths = np.minimum(texts.lengths[question_texts], max_question or texts.lengths.max())
        self._passages = tf.constant(texts.splits[passages] + rows.offsets), tf.constant(rows.lengths)
        self._questions = tf.constant(texts.splits[question_texts]), tf.constant(question_lengths)
        self._tokens = tf.constant(texts.tokens)
        self._words, self._characters = tf.constant(encoded.type_words), tf.constant(encoded.type_characters)

    def passages(self, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """First token and length of each row's passage."""
        return tuple(tf.gather(part, batch) for part in self._passages)

    def question_ids(self, batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs of the questions."""
        return self.ids("question", *(tf.gather(part, batch) for part in self._questions))

    def ids(self, name: str, starts: tf.Tensor, lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs of stretches of the tokens."""
        types = _padded(self._tokens, starts, lengths)
        return {
            f"{name}_words": tf.gather(self._words, types),
            f"{name}_characters": tf.gather(self._characters, types),
        }


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


def _padded(tokens: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Token types `(batch, longest)` of stretches of `tokens`, 0 after each stretch."""
    # One column at least: an empty text still has a padding token, which convolutions need.
    columns = tf.range(tf.maximum(tf.reduce_max(lengths), 1))[None]
    places = tf.minimum(starts[:, None] + columns, tf.maximum(tf.size(tokens, out_type=tf.int64) - 1, 0))
    return tf.where(columns < lengths[:, None], tf.gather(tokens, places), 0)
