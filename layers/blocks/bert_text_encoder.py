import keras
from keras import ops

from fabir_tf.layers.blocks.bert_layer import BertLayer
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.take import take
from fabir_tf.layers.embeddings.bert_embeddings import BertEmbeddings


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class BertTextEncoder(keras.layers.Layer):
    """The vectors that BERT gives to the word pieces of one text, which it reads by itself.

        [CLS] x_1 ... x_n [SEP]  ->  y_1 ... y_n

    The borders are set here and their vectors left out. All pieces are of segment 0.

    Masking: padding has the id 0. No piece reads padding, whose vectors have no meaning.

    Args:
        vocabulary: rows of the table of word pieces.
        dim: features of a piece.
        num_layers: layers of `BertLayer`.
        num_heads, hidden_dim, activation: those of `BertLayer`.
        max_positions: most pieces that are read of a text, borders included; a text must not have more.
        segments: rows of the table of segments; 0 for none.
        dropout: share of the values of embeddings and of each sublayer's output dropped in training.
        attention_dropout: share of the attention's weights dropped in training.
        epsilon: added to the variances of the norms.
        first, last: the ids of `[CLS]` and `[SEP]`.

    Call arguments:
        ids: int tensor `(batch, length)`.

    Returns:
        Float tensor `(batch, length, dim)`.

    Example:
        >>> layer = BertTextEncoder(30522, dim=384, num_layers=6, num_heads=12, hidden_dim=1536)
        >>> layer(np.array([[2054, 2001, 2328]])).shape
        (1, 3, 384)

    Reference: Cheung, section 3.2.1; Devlin et al. 2019, arXiv 1810.04805, section 3.
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        activation: str = "gelu",
        max_positions: int = 512,
        segments: int = 2,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        epsilon: float = 1e-12,
        first: int = 101,
        last: int = 102,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary = vocabulary
        self.dim = dim
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.activation = activation
        self.max_positions = max_positions
        self.segments = segments
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.epsilon = epsilon
        self.first = first
        self.last = last
        self.embeddings = BertEmbeddings(
            vocabulary, dim, max_positions, segments, dropout, epsilon, name="embeddings", dtype=self.dtype_policy
        )
        self.encoder = [
            BertLayer(
                num_heads,
                hidden_dim,
                activation,
                dropout,
                attention_dropout,
                epsilon,
                name=f"layer_{number}",
                dtype=self.dtype_policy,
            )
            for number in range(num_layers)
        ]

    def build(self, ids_shape):
        self.embeddings.build(ids_shape)
        for layer in self.encoder:
            layer.build((*ids_shape, self.dim))
        stay_frozen(self)

    def call(self, ids, training=None):
        framed = self._framed(ids)
        mask = ops.not_equal(framed, 0)
        x = self.embeddings(framed, ops.zeros_like(framed), training=training)
        for layer in self.encoder:
            x = layer(x, mask, training=training)
        places = ops.arange(1, ops.shape(ids)[1] + 1, dtype="int32")
        # Where padding was left out, it takes the last vector.
        return take(x, ops.minimum(places, ops.shape(x)[1] - 1), axis=1)

    def _framed(self, ids):
        """The text between its borders; padding is left out that has no positions."""
        lengths = ops.sum(ops.cast(ops.not_equal(ids, 0), "int32"), axis=1, keepdims=True)
        framed = ops.pad(ids, ((0, 0), (1, 1)))[:, : self.max_positions]
        places = ops.arange(ops.shape(framed)[1], dtype="int32")[None]
        framed = ops.where(ops.equal(places, lengths + 1), self.last, framed)
        return ops.where(ops.equal(places, 0), self.first, framed)

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.dim)

    def get_config(self):
        return super().get_config() | {
            "vocabulary": self.vocabulary,
            "dim": self.dim,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "activation": self.activation,
            "max_positions": self.max_positions,
            "segments": self.segments,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "epsilon": self.epsilon,
            "first": self.first,
            "last": self.last,
        }
