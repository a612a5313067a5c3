import keras

from fabir_tf.layers.decoupled_attention import DecoupledAttention
from fabir_tf.layers.position_encoding import PositionEncoding
from fabir_tf.layers.processing_layer import ProcessingLayer
from fabir_tf.layers.residual_norm import ResidualNorm


@keras.saving.register_keras_serializable(package="fabir_tf")
class ReductionLayer(ProcessingLayer):
    """A processing layer on wide embeddings that narrows them to d_model without dissolving the positions.

        x', e' = decoupled(x, e);   x' = N(x + x'),   e' = N(e + e')
        Q'' = N(Q' + ff(Q')),   P''' as in `ProcessingLayer`, on the embeddings x' alone
        out = x W_R + b_R + e'

    Position encodings are made here, at d_input for queries and keys and at d_model for the second value.

    Masking: explicit, `passage_mask` and `question_mask`.

    Args:
        output_dim: d_model.
        min_frequency, first_position: of `PositionEncoding`.
        encoding_dropout: share of the position encodings' values dropped before the layer.
        **kwargs: those of `ProcessingLayer`.

    Call arguments:
        passage: float tensor `(batch, passage, d_input)`, word embeddings without positions.
        question: float tensor `(batch, question, d_input)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        Passage and question, `(batch, passage, output_dim)` and `(batch, question, output_dim)`.

    Example:
        >>> passage, question = ReductionLayer(100, hidden_dim=400)(passage, question, passage_mask, question_mask)

    Reference: FABIR section III-F, eq. 17; thesis figure 16.
    """

    def __init__(
        self,
        output_dim: int = 100,
        min_frequency: float = 1e-4,
        first_position: int = 500,
        encoding_dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.output_dim = output_dim
        self.min_frequency = min_frequency
        self.first_position = first_position
        self.encoding_dropout = encoding_dropout
        self.encode = self._position_encoding(output_dim, "encode")
        self.encoding_drop = keras.layers.Dropout(encoding_dropout, name="encoding_drop", dtype=self.dtype_policy)
        self.passage_encoding_norm = self._norm("passage_encoding_norm")
        self.question_encoding_norm = self._norm("question_encoding_norm")
        self.reduction = keras.layers.Dense(output_dim, name="reduction", dtype=self.dtype_policy)

    def _make_self_attention(self):
        self.self_attention = DecoupledAttention(**self._attention_arguments(), name="decoupled_attention")

    def _position_encoding(self, dim, name):
        return PositionEncoding(dim, self.min_frequency, self.first_position, name=name, dtype=self.dtype_policy)

    def build(self, passage_shape, question_shape):
        encoding_shape = (*passage_shape[:-1], self.output_dim)
        self.encode_wide = self._position_encoding(passage_shape[-1], "encode_wide")
        self.self_attention.build(passage_shape, passage_shape, encoding_shape)
        self._build_after_self_attention(passage_shape, question_shape)
        self.passage_encoding_norm.build(encoding_shape, encoding_shape)
        self.question_encoding_norm.build(encoding_shape, encoding_shape)
        self.reduction.build(passage_shape)

    def call(self, passage, question, passage_mask, question_mask, training=None):
        passage, passage_encodings = self._decouple(
            passage, passage_mask, self.passage_self_norm, self.passage_encoding_norm, training
        )
        question, question_encodings = self._decouple(
            question, question_mask, self.question_self_norm, self.question_encoding_norm, training
        )
        passage, question = self.after_self_attention(passage, question, passage_mask, question_mask, training)
        return self.reduction(passage) + passage_encodings, self.reduction(question) + question_encodings

    def _decouple(self, x, mask, embedding_norm: ResidualNorm, encoding_norm: ResidualNorm, training):
        wide = self.encoding_drop(self.encode_wide(x), training=training)
        narrow = self.encoding_drop(self.encode(x), training=training)
        embeddings, encodings = self.self_attention(x, wide, narrow, mask, training=training)
        embeddings = embedding_norm(x, embeddings, training=training)
        return embeddings, encoding_norm(narrow, encodings, training=training)

    def compute_output_shape(self, passage_shape, question_shape):
        return (*passage_shape[:-1], self.output_dim), (*question_shape[:-1], self.output_dim)

    def get_config(self):
        return super().get_config() | {
            "output_dim": self.output_dim,
            "min_frequency": self.min_frequency,
            "first_position": self.first_position,
            "encoding_dropout": self.encoding_dropout,
        }
