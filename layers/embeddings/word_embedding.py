import keras

from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.embeddings.word_table import WordTable


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class WordEmbedding(WordTable):
    """Word vectors from a frozen and a trainable table, then one linear map.

        w_i = table[id_i] W + b

    Masking: none is needed, each word is looked up alone. Padding becomes the bias `b`.

    Args:
        trainable_rows, frozen_rows, dim: as in `WordTable`; `dim` is also the length after the map.

    Call arguments:
        words: int tensor `(batch, length)`.

    Returns:
        Float tensor `(batch, length, dim)`.

    Example:
        >>> layer = WordEmbedding(trainable_rows=2, frozen_rows=3, dim=100)
        >>> layer(np.array([[1, 4, 0]])).shape
        (1, 3, 100)

    Reference: FABIR section III-A; thesis section 5.1.2.
    """

    def __init__(self, trainable_rows: int, frozen_rows: int, dim: int = 100, **kwargs):
        super().__init__(trainable_rows, frozen_rows, dim, **kwargs)
        self.projection = Dense(
            self.dim, kernel_initializer=GlorotUniform(), name="projection", dtype=self.dtype_policy
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.projection.build((*input_shape, self.dim))
        stay_frozen(self)

    def call(self, words):
        return self.projection(super().call(words))
