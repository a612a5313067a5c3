"""`WordProcessor` in core TensorFlow operations."""

from typing import TYPE_CHECKING

import tensorflow as tf

from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens, graph_tokenize
from fabir_tf.pipelines.text.graph.two_texts import two_text_segments, unique_rows
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.word_processor import WordProcessor


class GraphWordProcessor(GraphProcessor):
    """Looks up the words and characters of a batch of texts.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: "WordProcessor"):
        super().__init__()
        self.rules = processor.rules
        self.vocabulary = GraphVocabulary(processor.vocabulary, processor.max_word_characters)

    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """See `graph_tokenize`."""
        return graph_tokenize(texts, self.rules)

    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `GraphProcessor.features`."""
        tables = two_text_segments(tokens, passages, examples) | self._ids(tokens)
        return GraphFeatures(tables, tf.zeros_like(examples.offsets))

    def _ids(self, tokens: GraphTokens) -> dict[str, tf.Tensor]:
        """Unique tokens are those that are equal in all their ids; index 0 is padding."""
        ids = [self.vocabulary.word_ids(tokens)[:, None], self.vocabulary.character_ids(tokens)]
        index, unique = unique_rows(tf.concat(ids, 1))
        return {"tokens": index, "unique_words": unique[:, 0], "unique_characters": unique[:, 1:]}
