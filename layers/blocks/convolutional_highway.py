import keras
from keras import ops

from fabir_tf.layers.core.exact_bias import Conv2D
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import ExplicitMask, zero_padding


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ConvolutionalHighway(ExplicitMask, keras.layers.Layer):
    """Highway layers that treat a text as an image of one channel, tokens by features.

        y = relu(Conv(x, H) + b) * t + x * (1 - t),   t = mean( sigmoid(Conv(x, T) + c) )

    The mean runs over the text's tokens and all features, so one number gates the whole text. (The report shares the
    gate "among all the elements of the same batch"; here each text has its own, so no answer depends on the batch.)

    Masking: explicit, `mask`. Padding enters the convolutions as 0 and has no share in the mean.

    Args:
        depth: number of layers, one after the other.
        kernel_size: tokens, and features, seen at once, SAME.

    Call arguments:
        x: float tensor `(batch, length, features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        Float tensor of the same shape.

    Example:
        >>> ConvolutionalHighway(depth=2)(words, mask).shape
        (8, 140, 100)

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 2.3.
    """

    def __init__(self, depth: int = 2, kernel_size: int = 5, **kwargs):
        super().__init__(**kwargs)
        self.depth = depth
        self.kernel_size = kernel_size
        self.transforms, self.gates = (
            [self._convolution(f"{name}_{number}", activation) for number in range(depth)]
            for name, activation in (("transform", "relu"), ("gate", "sigmoid"))
        )

    def _convolution(self, name, activation):
        return Conv2D(
            1,
            self.kernel_size,
            padding="same",
            activation=activation,
            kernel_initializer=GlorotUniform(),
            data_format="channels_last",
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, x_shape):
        for convolution in (*self.transforms, *self.gates):
            convolution.build((*x_shape, 1))
        stay_frozen(self)

    def call(self, x, mask):
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            image = zero_padding(x, mask)[..., None]
            opened = ops.cast(self._mean(gate(image)[..., 0], mask), x.dtype)
            x = transform(image)[..., 0] * opened + x * (1 - opened)
        return x

    def _mean(self, values, mask):
        """Mean over a text's tokens and all features, `(batch, 1, 1)`, in float32."""
        of_tokens = ops.mean(ops.cast(values, "float32"), axis=-1)
        real = ops.cast(mask, "float32")
        mean = ops.sum(of_tokens * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
        return mean[:, None, None]

    def compute_output_shape(self, x_shape):
        return x_shape

    def get_config(self):
        return super().get_config() | {"depth": self.depth, "kernel_size": self.kernel_size}
