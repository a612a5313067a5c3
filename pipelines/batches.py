"""Encoded data as tf.data batches, padded to the longest text of each batch."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.encoding import EncodedData


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
    batches: Callable[[], Iterable[np.ndarray]],
    targets: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], dict[str, tf.Tensor]] | None = None,
    max_question: int | None = None,
) -> tf.data.Dataset:
    """A dataset of batches, in the given order.

    All lengths are left open in the dataset's shapes, so that a model is traced once and not per pair of lengths.

    Args:
        encoded: the tokens and their ids.
        rows: what can be read.
        batches: called for each pass over the dataset; gives int64 arrays of row numbers, one per batch.
        targets: called with row numbers `(batch,)`, passage lengths `(batch,)` and the batch's width; gives the
            training targets.
        max_question: tokens of a question that are read; None reads all.

    Returns:
        A dataset of inputs for `fabir_tf.build_model`, or of (inputs, targets).
    """
    tokenised = encoded.tokenised
    texts = tokenised.texts
    passages = tokenised.question_passages[rows.questions]
    passage_starts = tf.constant(texts.splits[passages] + rows.offsets)
    passage_lengths = tf.constant(rows.lengths)
    question_texts = len(tokenised.data.passages) + rows.questions
    question_starts = tf.constant(texts.splits[question_texts])
    question_lengths = tf.constant(np.minimum(texts.lengths[question_texts], max_question or texts.lengths.max()))
    tokens = tf.constant(texts.tokens)
    type_words, type_characters = tf.constant(encoded.type_words), tf.constant(encoded.type_characters)

    def look_up(batch):
        inputs = {}
        parts = {"passage": (passage_starts, passage_lengths), "question": (question_starts, question_lengths)}
        for name, (starts, lengths) in parts.items():
            types = _padded(tokens, tf.gather(starts, batch), tf.gather(lengths, batch))
            inputs[f"{name}_words"] = tf.gather(type_words, types)
            inputs[f"{name}_characters"] = tf.gather(type_characters, types)
        if targets is None:
            return inputs
        width = tf.shape(inputs["passage_words"], out_type=tf.int64)[1]
        return inputs, targets(batch, tf.gather(passage_lengths, batch), width)

    indices = tf.data.Dataset.from_generator(lambda: iter(batches()), output_signature=tf.TensorSpec((None,), tf.int64))
    return indices.map(look_up, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(4)


def _padded(tokens: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Token types `(batch, longest)` of stretches of `tokens`, 0 after each stretch."""
    # One column at least: an empty text still has a padding token, which convolutions need.
    columns = tf.range(tf.maximum(tf.reduce_max(lengths), 1))[None]
    places = tf.minimum(starts[:, None] + columns, tf.maximum(tf.size(tokens, out_type=tf.int64) - 1, 0))
    return tf.where(columns < lengths[:, None], tf.gather(tokens, places), 0)
