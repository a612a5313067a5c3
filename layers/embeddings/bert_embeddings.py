import keras
from keras import ops

from fabir_tf.layers.core.dense_gradient import dense_gradient
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.initializers import SmallNormal
from fabir_tf.layers.core.layer_norm import layer_norm
from fabir_tf.layers.core.shared_values import rows, texts
from fabir_tf.layers.core.take import take


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class BertEmbeddings(keras.layers.Layer):
    """Trained vectors of word pieces, positions and segments, summed and normalized.

        x_i = dropout( N(W[id_i] + P[i] + S[segment_i]) )

    `N` is layer normalization over a token's features, with gain and bias. Positions count from 0 at the first token.

    Masking: none is needed, each token is embedded alone. Padding has a vector, too, that no attention reads.

    Args:
        vocabulary: rows of W; id 0 is padding and has a row.
        dim: length of a vector.
        max_positions: rows of P, the longest sequence.
        segments: rows of S; 0 for a model without segments, such as DistilBERT, which ignores the segment ids.
        dropout: share of the result's values dropped in training.
        epsilon: added to the variance.

    Call arguments:
        ids: int tensor `(batch, length)`, word pieces.
        segment_ids: int tensor `(batch, length)`, 0 for the question and 1 for the passage.

    Returns:
        Float tensor `(batch, length, dim)`.

    Raises:
        ValueError: a sequence is longer than `max_positions`.

    Example:
        >>> layer = BertEmbeddings(vocabulary=30522, dim=384)
        >>> layer(np.array([[101, 2054, 102]]), np.array([[0, 0, 0]])).shape
        (1, 3, 384)

    Reference: Devlin et al. 2019, arXiv 1810.04805, section 3.
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        max_positions: int = 512,
        segments: int = 2,
        dropout: float = 0.0,
        epsilon: float = 1e-12,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary = vocabulary
        self.dim = dim
        self.max_positions = max_positions
        self.segments = segments
        self.dropout = dropout
        self.epsilon = epsilon
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, ids_shape):
        self.word_table = self._table("word_table", self.vocabulary)
        self.position_table = self._table("position_table", self.max_positions)
        if self.segments:
            self.segment_table = self._table("segment_table", self.segments)
        self.gain = self.add_weight(name="gain", shape=(self.dim,), initializer="ones")
        self.bias = self.add_weight(name="bias", shape=(self.dim,), initializer="zeros")

    def _table(self, name, length):
        return self.add_weight(name=name, shape=(length, self.dim), initializer=SmallNormal())

    def call(self, ids, segment_ids, training=None):
        length = ops.shape(ids)[1]
        if isinstance(length, int) and length > self.max_positions:
            raise ValueError(
                f"a sequence must have at most max_positions tokens. Received: {length} tokens, "
                f"max_positions={self.max_positions}"
            )
        # In a graph, where the length is known late, the sum refuses a sequence that is longer than the table.
        total = take(dense_gradient(self.word_table), ids) + self.position_table[:length]
        if self.segments:
            total += take(dense_gradient(self.segment_table), segment_ids)
        normalized = texts(layer_norm(rows(total), self.gain, self.bias, self.epsilon), total)
        return self.drop(normalized, training=training)

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.dim)

    def get_config(self):
        return super().get_config() | {
            "vocabulary": self.vocabulary,
            "dim": self.dim,
            "max_positions": self.max_positions,
            "segments": self.segments,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
