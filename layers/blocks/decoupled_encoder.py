import keras

from fabir_tf.layers.attention.decoupled_attention import decoupled
from fabir_tf.layers.attention.registry import find_attention
from fabir_tf.layers.blocks.residual_norm import ResidualNorm
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.masking import ExplicitMask
from fabir_tf.layers.core.shared_values import same_texts
from fabir_tf.layers.embeddings.position_encoding import PositionEncoding

TEXTS = ("passage", "question")


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class DecoupledEncoder(ExplicitMask, keras.layers.Layer):
    """The reduction layer's first half: self-attention that keeps positions apart from embeddings.

        x'', e'' = decoupled(x, e);   x' = N(x + x''),   e' = N(e + e'')

    `N` is layer normalization. The layer makes the position encodings: at d_input for queries and keys, at d_model for
    the second values. Passage and question share the attention; each text has its own norms. A text is encoded without
    the other one, so a passage is encoded once for all of its questions.

    Masking: explicit, `mask`.

    Args:
        output_dim: d_model, the size of the encodings that are returned.
        min_frequency, position_offset: of `PositionEncoding`.
        encoding_dropout: share of the position encodings' values dropped before the attention.
        num_heads, kernel_size, depthwise, residual_init_scale, attention_dropout: of `DecoupledAttention`.
        dropout: share of the attention's output dropped.
        attention: name in `ATTENTIONS` of the attention that is decoupled.

    Call arguments:
        x: float tensor `(batch, length, d_input)`, word embeddings without positions.
        mask: boolean tensor `(batch, length)`, true on real tokens.
        text: "passage" or "question", which selects the norms.

    Returns:
        Embeddings and encodings, two float tensors, `(batch, length, d_input)` and `(batch, length, output_dim)`.

    Example:
        >>> embeddings, encodings = DecoupledEncoder(100)(passage, passage_mask, text="passage")

    Reference: FABIR figure 2 and section III-F; thesis figures 15 and 16.
    """

    def __init__(
        self,
        output_dim: int = 100,
        min_frequency: float = 1e-4,
        position_offset: int = 500,
        encoding_dropout: float = 0.0,
        num_heads: int = 4,
        kernel_size: tuple[int, int] | None = (1, 5),
        depthwise: bool = False,
        residual_init_scale: float = 1.0,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        attention: str = "convolutional",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.output_dim = output_dim
        self.min_frequency = min_frequency
        self.position_offset = position_offset
        self.encoding_dropout = encoding_dropout
        self.num_heads = num_heads
        self.kernel_size = None if kernel_size is None else tuple(kernel_size)
        self.depthwise = depthwise
        self.residual_init_scale = residual_init_scale
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.attention = attention
        self.self_attention = decoupled(find_attention(attention))(
            num_heads=num_heads,
            kernel_size=kernel_size,
            depthwise=depthwise,
            residual_init_scale=residual_init_scale,
            dropout=attention_dropout,
            name="attention",
            dtype=self.dtype_policy,
        )
        self.encode = self._position_encoding(output_dim, "encode")
        self.encoding_drop = Dropout(encoding_dropout, name="encoding_drop", dtype=self.dtype_policy)
        self.self_norms = {text: self._norm(f"{text}_self_norm") for text in TEXTS}
        self.encoding_norms = {text: self._norm(f"{text}_encoding_norm") for text in TEXTS}

    def _position_encoding(self, dim, name):
        return PositionEncoding(dim, self.min_frequency, self.position_offset, name=name, dtype=self.dtype_policy)

    def _norm(self, name):
        return ResidualNorm(self.dropout, name=name, dtype=self.dtype_policy)

    def build(self, x_shape):
        encoding_shape = (*x_shape[:-1], self.output_dim)
        self.encode_wide = self._position_encoding(x_shape[-1], "encode_wide")
        self.self_attention.build(x_shape, x_shape, encoding_shape)
        for text in TEXTS:
            self.self_norms[text].build(x_shape, x_shape)
            self.encoding_norms[text].build(encoding_shape, encoding_shape)
        stay_frozen(self)

    def call(self, x, mask, text, training=None):
        same_texts(x, mask)
        wide = self.encoding_drop(self.encode_wide(x), training=training)
        narrow = self.encoding_drop(self.encode(x), training=training)
        embeddings, encodings = self.self_attention(x, wide, narrow, mask, training=training)
        embeddings = self.self_norms[text](x, embeddings, training=training)
        return embeddings, self.encoding_norms[text](narrow, encodings, training=training)

    def compute_output_shape(self, x_shape):
        return x_shape, (*x_shape[:-1], self.output_dim)

    def get_config(self):
        return super().get_config() | {
            "output_dim": self.output_dim,
            "min_frequency": self.min_frequency,
            "position_offset": self.position_offset,
            "encoding_dropout": self.encoding_dropout,
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "depthwise": self.depthwise,
            "residual_init_scale": self.residual_init_scale,
            "attention_dropout": self.attention_dropout,
            "dropout": self.dropout,
            "attention": self.attention,
        }
