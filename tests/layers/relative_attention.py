"""An attention of one's own: one subclass, one overridden step, one line that registers it."""

import keras
from keras import ops

from fabir_tf.layers import ATTENTIONS, ConvolutionalAttention
from fabir_tf.layers.core.dense_gradient import dense_gradient


@keras.saving.register_keras_serializable(package="tests")
class RelativePositionAttention(ConvolutionalAttention):
    """Convolutional attention whose logits also depend on how far a key is from its query.

        logits_ij = ConvolutionalAttention's + b[head, clip(j - i, -max_distance, max_distance)]

    Masking: explicit, `query_mask` and `key_mask`, as in `ConvolutionalAttention`.

    Args:
        max_distance: longest distance with its own bias, in tokens.
        **kwargs: arguments of `ConvolutionalAttention`.

    Reference: Shaw, Uszkoreit and Vaswani 2018, for clipped distances; Raffel et al. 2020, for one number per head.
    """

    def __init__(self, max_distance: int = 2, **kwargs):
        super().__init__(**kwargs)
        self.max_distance = max_distance

    def build(self, queries_shape, keys_shape, values_shape):
        super().build(queries_shape, keys_shape, values_shape)
        shape = (self.num_heads, 2 * self.max_distance + 1)
        self.distance_bias = self.add_weight(name="distance_bias", shape=shape, initializer="zeros")

    def score(self, queries, keys, query_mask, key_mask, training=None):
        logits = super().score(queries, keys, query_mask, key_mask, training)
        rows, columns = (ops.arange(ops.shape(x)[1], dtype="int32") for x in (queries, keys))
        distance = ops.clip(columns[None] - rows[:, None], -self.max_distance, self.max_distance)
        bias = ops.take(dense_gradient(self.distance_bias), distance + self.max_distance, axis=1)
        return logits + (bias if self.softmax_axis == "key" else ops.transpose(bias, (0, 2, 1)))

    def get_config(self):
        return super().get_config() | {"max_distance": self.max_distance}


ATTENTIONS["relative"] = RelativePositionAttention
