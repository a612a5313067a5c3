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
        self.begins_word = processor.begins_word() if processor.whole_words else None

    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """See `SeparateWordPieceProcessor.tokenize_text`."""
        tokens = super().tokenize(texts)
        if self.begins_word is None:
            return tokens
        # A text never begins with a piece that continues a word.
        begins = tf.gather(self.begins_word, tokens.ids)
        words, is_first = tf.cumsum(begins) - 1, begins > 0
        is_last = tf.concat([is_first, [True]], 0)[1:]
        return tokens._replace(
            starts=tf.gather(tf.boolean_mask(tokens.starts, is_first), words),
            ends=tf.gather(tf.boolean_mask(tokens.ends, is_last), words),
        )

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
        if self.begins_word is not None:
            tables["unique_begins"] = tf.constant(self.begins_word)
        segments = two_text_segments(tokens, passages, examples, self.max_question)
        return GraphFeatures(segments | tables, tf.zeros_like(examples.offsets))
