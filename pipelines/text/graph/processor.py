"""The contract of a text processor inside a graph."""

import abc
from typing import NamedTuple

import tensorflow as tf

from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION


class GraphExamples(NamedTuple):
    """Examples of a batch of questions, int64 `(examples,)` each.

    Attributes:
        questions: the question's number among the questions.
        passages: the passage's number among the distinct passages.
        offsets: the first passage token that is read.
        lengths: the number of passage tokens that are read.
    """

    questions: tf.Tensor
    passages: tf.Tensor
    offsets: tf.Tensor
    lengths: tf.Tensor


class GraphFeatures(NamedTuple):
    """`Features` as tensors.

    Attributes:
        tables: by name as in `Features.tables`.
        logit_offsets: int64 `(examples,)`, the column of the model's logits where the passage begins.
    """

    tables: dict[str, tf.Tensor]
    logit_offsets: tf.Tensor


class GraphProcessor(tf.Module, abc.ABC):
    """What a `TextProcessor` does, in core TensorFlow operations."""

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """The tokens of `TextProcessor.tokenize_text` for a batch of texts, string `(batch,)`."""

    def window_sizes(self, question_lengths: tf.Tensor, max_passage: int) -> tf.Tensor:
        """See `TextProcessor.window_sizes`; int64 `(questions,)` to int64 `(questions,)`."""
        return tf.fill(tf.shape(question_lengths), tf.constant(max_passage, tf.int64))

    def questions_cut(self, question_lengths: tf.Tensor) -> tf.Tensor:
        """Which questions are longer than what is read of them; int64 `(questions,)` to boolean `(questions,)`."""
        return question_lengths > LONGEST_QUESTION

    @abc.abstractmethod
    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `TextProcessor.features`.

        Args:
            tokens: those of the distinct passages, followed by those of the questions.
            passages: int32 scalar, the number of distinct passages.
            examples: what is read.
        """
