import keras
from keras import ops

from fabir_tf.layers.core.masking import mask_logits
from fabir_tf.layers.core.word_pieces import first_pieces, last_pieces, word_numbers


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class PieceLogits(keras.layers.Layer):
    """The start logits of words on their first pieces, and the end logits on their last, so that answers are words.

    Masking: explicit, `piece_mask`. All other pieces, and padding, get the logit -1e9.

    Call arguments:
        start, end: float tensors `(batch, pieces)`, of words, in the order of `PoolWords`.
        begins: int tensor `(batch, pieces)`, 1 where a piece begins a word.
        piece_mask: boolean tensor `(batch, pieces)`, true on real pieces.

    Returns:
        Two float32 tensors `(batch, pieces)`: start and end logits.

    Example:
        >>> start, end = PieceLogits()(start, end, begins, piece_mask)
    """

    def call(self, start, end, begins, piece_mask):
        words = ops.maximum(word_numbers(begins, piece_mask), 0)
        return (
            mask_logits(ops.take_along_axis(start, words, axis=1), first_pieces(begins, piece_mask)),
            mask_logits(ops.take_along_axis(end, words, axis=1), last_pieces(begins, piece_mask)),
        )

    def compute_output_shape(self, start_shape, end_shape):
        return start_shape, end_shape

    def compute_output_spec(self, start, end, begins, piece_mask):
        # Keras cannot infer from the shape that the logits are float32 under every policy.
        return keras.KerasTensor(start.shape, "float32"), keras.KerasTensor(end.shape, "float32")
