"""`two_text_features` in core TensorFlow operations."""

import tensorflow as tf

from fabir_tf.pipelines.text.graph.processor import GraphExamples
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION


def two_text_segments(
    tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples, longest_question: int = LONGEST_QUESTION
) -> dict[str, tf.Tensor]:
    """Where each example's texts lie among all tokens: `{text}_starts` and `{text}_lengths` of `Features.tables`.

    Args:
        tokens: those of the distinct passages, followed by those of the questions.
        passages: int32 scalar, the number of distinct passages.
        examples: what is read.
        longest_question: most tokens that are read of a question.
    """
    begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
    questions = examples.questions + tf.cast(passages, tf.int64)
    return {
        "passage_starts": tf.gather(begins, examples.passages) + examples.offsets,
        "passage_lengths": examples.lengths,
        "question_starts": tf.gather(begins, questions),
        "question_lengths": tf.minimum(tf.gather(lengths, questions), longest_question),
    }


def unique_rows(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes tokens that are equal in all their ids as one.

    Args:
        ids: int32 `(tokens, width)`.

    Returns:
        `tokens` of `Features.tables`, int32 `(tokens + 1,)`, the last of which is padding, and the ids of the unique
        tokens, int32 `(unique, width)`, the first of which is padding.
    """
    # The layers need to know the width.
    width = ids.shape[-1]
    ids = tf.pad(ids, [[1, 0], [0, 0]], constant_values=PADDING)
    unique, index = tf.raw_ops.UniqueV2(x=ids, axis=[0])
    # Padding stays at the end, so that there is a token to look up where no text has one.
    return tf.concat([index[1:], [0]], 0), tf.reshape(unique, [-1, width])
