"""`BilmProcessor` in core TensorFlow operations."""

from typing import TYPE_CHECKING

import tensorflow as tf

from fabir_tf.pipelines.text.bilm_characters import BYTES, FILL, FIRST_BYTE, WIDTH, WORD_BEGIN, WORD_END
from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens, graph_tokenize
from fabir_tf.pipelines.text.graph.two_texts import two_text_segments, unique_rows
from fabir_tf.pipelines.text.graph.vocabulary import token_code_points

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.bilm_processor import BilmProcessor


class GraphBilmProcessor(GraphProcessor):
    """Makes the character ids of the words of a batch of texts.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: "BilmProcessor"):
        super().__init__()
        self.rules = processor.rules

    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """See `graph_tokenize`."""
        return graph_tokenize(texts, self.rules)

    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `GraphProcessor.features`."""
        index, unique = unique_rows(character_ids(tokens))
        tables = two_text_segments(tokens, passages, examples) | {"tokens": index, "unique_characters": unique}
        return GraphFeatures(tables, tf.zeros_like(examples.offsets))


def character_ids(tokens: GraphTokens) -> tf.Tensor:
    """The ids of `bilm_characters.character_ids`, int32 `(tokens, 50)`."""
    # A character has at least one byte.
    words = tf.strings.unicode_encode(token_code_points(tokens, BYTES), "UTF-8")
    lengths = tf.minimum(tf.strings.length(words), BYTES)[:, None]
    values = tf.cast(tf.io.decode_raw(words, tf.uint8, fixed_length=BYTES), tf.int32) + FIRST_BYTE
    places = tf.range(WIDTH)[None]
    # The bytes of a word stand between its borders.
    ids = tf.pad(values, [[0, 0], [1, 1]])
    ids = tf.where(places > lengths, tf.where(tf.equal(places, lengths + 1), WORD_END, FILL), ids)
    return tf.where(tf.equal(places, 0), WORD_BEGIN, ids)
