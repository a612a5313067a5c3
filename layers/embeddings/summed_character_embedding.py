import keras
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Conv1D
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.ids import known_ids
from fabir_tf.layers.core.initializers import GlorotUniform, StandardNormal
from fabir_tf.layers.embeddings.character_embedding import character_vectors


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class SummedCharacterEmbedding(keras.layers.Layer):
    """A word's vector from the sum of its characters' vectors, which ignores their order.

        s = sum_k c_k,   w_c = sum_p Conv(s, H)_p + b

    `c_k` are learned vectors of `dim` values; `H` is a `kernel_size x 1 x filters` kernel that slides along the values
    of `s`, VALID; the results are summed over all positions.

    Masking: character id 0 is padding and adds nothing.

    Args:
        rows: rows of the character table, for ids 1..rows; id 0 is a zero vector, and any other id is read as 1, UNK.
        dim: length of a character vector.
        kernel_size: values seen at once.
        filters: length of the result.
        dropout: share of each character vector's values dropped in training.

    Call arguments:
        characters: int tensor `(batch, length, width)`.

    Returns:
        Float tensor `(batch, length, filters)`.

    Example:
        >>> SummedCharacterEmbedding(rows=306)(np.ones((2, 7, 20), "int32")).shape
        (2, 7, 100)

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 2.1, baseline.
    """

    per_word = True

    def __init__(
        self, rows: int, dim: int = 8, kernel_size: int = 5, filters: int = 100, dropout: float = 0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.rows = rows
        self.dim = dim
        self.kernel_size = kernel_size
        self.filters = filters
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.convolution = Conv1D(
            filters,
            kernel_size,
            data_format="channels_last",
            kernel_initializer=GlorotUniform(),
            name="convolution",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        self.table = self.add_weight(name="table", shape=(self.rows, self.dim), initializer=StandardNormal())
        self.convolution.build((None, self.dim, 1))
        stay_frozen(self)

    def call(self, characters, training=None):
        batch, length = ops.shape(characters)[:2]
        characters = known_ids(characters, self.rows)
        vectors = self.drop(character_vectors(self.table, characters), training=training)
        summed = ops.sum(vectors, axis=2)
        slid = self.convolution(ops.reshape(summed, (-1, self.dim, 1)))
        return ops.reshape(ops.sum(slid, axis=1), (batch, length, self.filters))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.filters)

    def get_config(self):
        return super().get_config() | {
            "rows": self.rows,
            "dim": self.dim,
            "kernel_size": self.kernel_size,
            "filters": self.filters,
            "dropout": self.dropout,
        }
