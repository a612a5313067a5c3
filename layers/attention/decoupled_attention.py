import functools

import keras

from fabir_tf.layers.attention.convolutional_attention import ConvolutionalAttention
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import ExplicitMask
from fabir_tf.layers.core.shared_values import same_texts


class Decoupled(ExplicitMask):
    """Turns any attention of `registry` into a decoupled self-attention; see `DecoupledAttention`."""

    def build(self, embeddings_shape, wide_encodings_shape, encodings_shape):
        super().build(embeddings_shape, embeddings_shape, embeddings_shape)
        self.encoding_value_map = self._encoding_map("encoding_value", encodings_shape, 1.0)
        self.encoding_output_map = self._encoding_map("encoding_output", encodings_shape, self.residual_init_scale)
        stay_frozen(self)

    def _encoding_map(self, name, encodings_shape, gain):
        initializer = GlorotUniform(gain=gain)
        dense = Dense(encodings_shape[-1], kernel_initializer=initializer, name=name, dtype=self.dtype_policy)
        dense.build(encodings_shape)
        return dense

    def call(self, embeddings, wide_encodings, encodings, mask, training=None):
        x = embeddings + wide_encodings
        for text in (embeddings, encodings, x):
            same_texts(text, mask)
        weights = self.drop(self.weigh(x, x, mask, mask, training), training=training)
        embeddings, encodings = (
            output_map(self.apply_weights(weights, value_map(values), mask, mask))
            for value_map, values, output_map in (
                (self.value_map, embeddings, self.output_map),
                (self.encoding_value_map, encodings, self.encoding_output_map),
            )
        )
        return embeddings, encodings

    def compute_output_shape(self, embeddings_shape, wide_encodings_shape, encodings_shape):
        return embeddings_shape, encodings_shape


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class DecoupledAttention(Decoupled, ConvolutionalAttention):
    """Self-attention whose weights are applied twice: to the embeddings and to the position encodings.

        A  = softmax( Conv((x + e) W_U ((x + e) W_K)^T, H) / sqrt(d_head) )
        x' = [A_i x W_V,i] W_O,    e' = [A_i e_m W_V2,i] W_O2

    `x` are the `embeddings`, `e` the `wide_encodings` of the same size, `e_m` the `encodings` of size d_model. Because
    the two are kept apart, the embeddings can be reduced later while the encodings keep their form.

    Masking: explicit, `mask`; see `ConvolutionalAttention`.

    Args:
        num_heads, kernel_size, depthwise, residual_init_scale, dropout: as in `ConvolutionalAttention`. The softmax
            runs over the keys.

    Call arguments:
        embeddings: float tensor `(batch, length, d_input)`.
        wide_encodings: float tensor `(batch, length, d_input)`.
        encodings: float tensor `(batch, length, d_model)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        Two float tensors, `(batch, length, d_input)` and `(batch, length, d_model)`.

    Example:
        >>> embeddings, encodings = DecoupledAttention(num_heads=4)(x, wide, narrow, mask)

    Reference: FABIR figure 2 and section III-F; thesis figure 15.
    """


@functools.cache
def decoupled(attention: type) -> type:
    """The decoupled form of an attention's class, such as `DecoupledAttention` for `ConvolutionalAttention`."""
    if attention is ConvolutionalAttention:
        return DecoupledAttention
    return type(f"Decoupled{attention.__name__}", (Decoupled, attention), {})
