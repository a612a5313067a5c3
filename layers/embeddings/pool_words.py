import keras
from keras import ops

from fabir_tf.layers.core.masking import zero_padding
from fabir_tf.layers.core.word_pieces import word_numbers


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class PoolWords(keras.layers.Layer):
    """The vectors of words, each the mean of those of its pieces.

        y_w = mean of x_i over the pieces i of word w

    Masking: explicit, `piece_mask`. A vector that is no word's is exactly 0.

    Call arguments:
        x: float tensor `(batch, pieces, features)`.
        begins: int tensor `(batch, pieces)`, 1 where a piece begins a word.
        piece_mask: boolean tensor `(batch, pieces)`, true on real pieces.

    Returns:
        Float tensor `(batch, pieces, features)` with as many vectors as there are words, the others behind them, and a
        boolean tensor `(batch, pieces)`, true on words.

    Example:
        >>> words, word_mask = PoolWords()(vectors, begins, piece_mask)
    """

    def call(self, x, begins, piece_mask):
        places = ops.arange(ops.shape(x)[1], dtype="int32")[None, :, None]
        belongs = ops.logical_and(ops.equal(word_numbers(begins, piece_mask)[:, None], places), piece_mask[:, None])
        belongs = ops.cast(belongs, x.dtype)
        pieces = ops.sum(belongs, axis=-1)
        return ops.matmul(belongs, zero_padding(x, piece_mask)) / ops.maximum(pieces, 1)[..., None], pieces > 0

    def compute_output_shape(self, x_shape):
        return x_shape, x_shape[:2]

    def compute_output_spec(self, x, begins, piece_mask):
        return keras.KerasTensor(x.shape, self.compute_dtype), keras.KerasTensor(x.shape[:2], "bool")
