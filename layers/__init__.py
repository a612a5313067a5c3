"""The layers of the readers, written in Keras without TensorFlow, so that they run on every Keras backend."""

from fabir_tf.layers.attention.attention_flow import AttentionFlow
from fabir_tf.layers.attention.convolutional_attention import ConvolutionalAttention
from fabir_tf.layers.attention.decoupled_attention import DecoupledAttention
from fabir_tf.layers.attention.registry import ATTENTIONS
from fabir_tf.layers.blocks.bert_layer import BertLayer
from fabir_tf.layers.blocks.bert_text_encoder import BertTextEncoder
from fabir_tf.layers.blocks.bidirectional_language_model import BidirectionalLanguageModel
from fabir_tf.layers.blocks.convolutional_highway import ConvolutionalHighway
from fabir_tf.layers.blocks.decoupled_encoder import DecoupledEncoder
from fabir_tf.layers.blocks.feed_forward import FeedForward
from fabir_tf.layers.blocks.highway import Highway
from fabir_tf.layers.blocks.interaction_layer import InteractionLayer
from fabir_tf.layers.blocks.processing_layer import ProcessingLayer
from fabir_tf.layers.blocks.projected_lstm import ProjectedLstm
from fabir_tf.layers.blocks.recurrent_encoder import RecurrentEncoder
from fabir_tf.layers.blocks.reduction_layer import ReductionLayer
from fabir_tf.layers.blocks.residual_norm import ResidualNorm
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.embeddings.bert_embeddings import BertEmbeddings
from fabir_tf.layers.embeddings.character_cnn import CharacterCnn
from fabir_tf.layers.embeddings.character_embedding import CharacterEmbedding
from fabir_tf.layers.embeddings.layer_mix import LayerMix
from fabir_tf.layers.embeddings.one_hot_character_embedding import OneHotCharacterEmbedding
from fabir_tf.layers.embeddings.pool_words import PoolWords
from fabir_tf.layers.embeddings.position_encoding import PositionEncoding
from fabir_tf.layers.embeddings.summed_character_embedding import SummedCharacterEmbedding
from fabir_tf.layers.embeddings.word_dropout import WordDropout
from fabir_tf.layers.embeddings.word_embedding import WordEmbedding
from fabir_tf.layers.embeddings.word_match import WordMatch
from fabir_tf.layers.embeddings.word_table import WordTable
from fabir_tf.layers.heads.convolutional_selector import ConvolutionalSelector
from fabir_tf.layers.heads.dense_head import DenseHead
from fabir_tf.layers.heads.gated_head import GatedHead
from fabir_tf.layers.heads.highway_head import HighwayHead
from fabir_tf.layers.heads.independent_decoder import IndependentDecoder
from fabir_tf.layers.heads.linear_selector import LinearSelector
from fabir_tf.layers.heads.null_head import NullHead
from fabir_tf.layers.heads.piece_logits import PieceLogits
from fabir_tf.layers.heads.registry import BERT_HEADS
from fabir_tf.layers.heads.residual_head import ResidualHead
from fabir_tf.layers.heads.sequence_logits import SequenceLogits
from fabir_tf.layers.heads.span_decoder import SpanDecoder
from fabir_tf.layers.heads.start_conditioned_selector import StartConditionedSelector
from fabir_tf.layers.heads.token_logits import TokenLogits
from fabir_tf.layers.heads.trained_null_logits import TrainedNullLogits
from fabir_tf.layers.heads.two_dense_head import TwoDenseHead

# Heads that compute start and end logits from the processed passage, by their name in a configuration.
SELECTORS = {"convolution": ConvolutionalSelector, "linear": LinearSelector}

__all__ = [
    "ATTENTIONS",
    "BERT_HEADS",
    "SELECTORS",
    "AttentionFlow",
    "BertEmbeddings",
    "BertLayer",
    "BertTextEncoder",
    "BidirectionalLanguageModel",
    "CharacterCnn",
    "CharacterEmbedding",
    "ConvolutionalAttention",
    "ConvolutionalHighway",
    "ConvolutionalSelector",
    "DecoupledAttention",
    "DecoupledEncoder",
    "DenseHead",
    "Dropout",
    "FeedForward",
    "GatedHead",
    "Highway",
    "HighwayHead",
    "IndependentDecoder",
    "InteractionLayer",
    "LayerMix",
    "LinearSelector",
    "NullHead",
    "OneHotCharacterEmbedding",
    "PieceLogits",
    "PoolWords",
    "PositionEncoding",
    "ProcessingLayer",
    "ProjectedLstm",
    "RecurrentEncoder",
    "ReductionLayer",
    "ResidualHead",
    "ResidualNorm",
    "SequenceLogits",
    "SpanDecoder",
    "StartConditionedSelector",
    "SummedCharacterEmbedding",
    "TokenLogits",
    "TrainedNullLogits",
    "TwoDenseHead",
    "WordDropout",
    "WordEmbedding",
    "WordMatch",
    "WordTable",
]
