"""`SeparateWordPieceProcessor` in core TensorFlow operations."""

from typing import TYPE_CHECKING

import tensorflow as tf

from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.graph.two_texts import two_text_segments
from fabir_tf.pipelines.text.graph.wordpiece_processor import GraphWordPieceTokenizer
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.separate_wordpiece_processor import BORDERS

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.separate_wordpiece_processor import SeparateWordPieceProcessor


class GraphSeparateWordPieceProcessor(GraphWordPieceTokenizer):
    """Cuts a batch of texts into word pieces, and leaves question and passage apart.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: "SeparateWordPieceProcessor"):
        super().__init__(processor)
        self.max_sequence, self.max_question = processor.max_sequence, processor.max_question

    def questions_cut(self, question_lengths: tf.Tensor) -> tf.Tensor:
        """See `GraphProcessor.questions_cut`; in Python such a question is an error."""
        return question_lengths > self.max_question

    def window_sizes(self, question_lengths: tf.Tensor, max_passage: int) -> tf.Tensor:
        """See `GraphProcessor.window_sizes`."""
        return super().window_sizes(question_lengths, min(max_passage, self.max_sequence - BORDERS))

    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `GraphProcessor.features`; of a question the first `max_question` pieces are read."""
        assert tokens.ids is not None, "These tokens are words."
        # Padding stands at the end, so that there is a token to look up where no text has one.
        tables = {"tokens": tf.concat([tokens.ids, [PADDING]], 0), "unique_ids": tf.range(self.pieces)}
        segments = two_text_segments(tokens, passages, examples, self.max_question)
        return GraphFeatures(segments | tables, tf.zeros_like(examples.offsets))
