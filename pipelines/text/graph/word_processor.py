"""`WordProcessor` in core TensorFlow operations."""

from typing import TYPE_CHECKING

import tensorflow as tf

from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens, graph_tokenize
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION

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
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        questions = examples.questions + tf.cast(passages, tf.int64)
        tables = self._ids(tokens) | {
            "passage_starts": tf.gather(begins, examples.passages) + examples.offsets,
            "passage_lengths": examples.lengths,
            "question_starts": tf.gather(begins, questions),
            "question_lengths": tf.minimum(tf.gather(lengths, questions), LONGEST_QUESTION),
        }
        return GraphFeatures(tables, tf.zeros_like(examples.offsets))

    def _ids(self, tokens: GraphTokens) -> dict[str, tf.Tensor]:
        """Unique tokens are those that are equal in all their ids; index 0 is padding."""
        ids = tf.concat([self.vocabulary.word_ids(tokens)[:, None], self.vocabulary.character_ids(tokens)], 1)
        ids = tf.pad(ids, [[1, 0], [0, 0]], constant_values=PADDING)
        unique, index = tf.raw_ops.UniqueV2(x=ids, axis=[0])
        # The layers need to know the width.
        unique = tf.reshape(unique, [-1, 1 + self.vocabulary.width])
        # Padding stays at the end, so that there is a token to look up where no text has one.
        tokens = tf.concat([index[1:], [0]], 0)
        return {"tokens": tokens, "unique_words": unique[:, 0], "unique_characters": unique[:, 1:]}
