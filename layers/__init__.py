"""The layers of the readers, in Keras alone: no TensorFlow import, so that they run on every Keras backend."""

from fabir_tf.layers.attention_flow import AttentionFlow
from fabir_tf.layers.border_logits import BorderLogits
from fabir_tf.layers.character_embedding import CharacterEmbedding
from fabir_tf.layers.convolutional_attention import ConvolutionalAttention
from fabir_tf.layers.convolutional_highway import ConvolutionalHighway
from fabir_tf.layers.convolutional_selector import ConvolutionalSelector
from fabir_tf.layers.decoupled_attention import DecoupledAttention
from fabir_tf.layers.decoupled_encoder import DecoupledEncoder
from fabir_tf.layers.dropout import Dropout
from fabir_tf.layers.feed_forward import FeedForward
from fabir_tf.layers.highway import Highway
from fabir_tf.layers.independent_decoder import IndependentDecoder
from fabir_tf.layers.interaction_layer import InteractionLayer
from fabir_tf.layers.linear_selector import LinearSelector
from fabir_tf.layers.one_hot_character_embedding import OneHotCharacterEmbedding
from fabir_tf.layers.position_encoding import PositionEncoding
from fabir_tf.layers.processing_layer import ProcessingLayer
from fabir_tf.layers.recurrent_encoder import RecurrentEncoder
from fabir_tf.layers.reduction_layer import ReductionLayer
from fabir_tf.layers.residual_norm import ResidualNorm
from fabir_tf.layers.span_decoder import SpanDecoder
from fabir_tf.layers.start_conditioned_selector import StartConditionedSelector
from fabir_tf.layers.summed_character_embedding import SummedCharacterEmbedding
from fabir_tf.layers.word_dropout import WordDropout
from fabir_tf.layers.word_embedding import WordEmbedding
from fabir_tf.layers.word_match import WordMatch
from fabir_tf.layers.word_table import WordTable

# Heads that turn the processed passage into start and end logits, by their name in a configuration.
SELECTORS = {"convolution": ConvolutionalSelector, "linear": LinearSelector}

__all__ = [
    "SELECTORS",
    "AttentionFlow",
    "BorderLogits",
    "CharacterEmbedding",
    "ConvolutionalAttention",
    "ConvolutionalHighway",
    "ConvolutionalSelector",
    "DecoupledAttention",
    "DecoupledEncoder",
    "Dropout",
    "FeedForward",
    "Highway",
    "IndependentDecoder",
    "InteractionLayer",
    "LinearSelector",
    "OneHotCharacterEmbedding",
    "PositionEncoding",
    "ProcessingLayer",
    "RecurrentEncoder",
    "ReductionLayer",
    "ResidualNorm",
    "SpanDecoder",
    "StartConditionedSelector",
    "SummedCharacterEmbedding",
    "WordDropout",
    "WordEmbedding",
    "WordMatch",
    "WordTable",
]
