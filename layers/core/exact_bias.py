"""Dense and convolution layers whose bias learns under bfloat16 as it does under float32."""

import keras
from keras import ops

from fabir_tf.layers.core.shared_values import rows, same_texts, texts


def add_bias(x, bias):
    """Adds a bias whose gradient is accumulated in float32, whatever the dtype of `x`.

    Keras adds a bias by TensorFlow's BiasAdd, which sums its gradient in bfloat16 under that policy. Once the sum is
    256 times as large as the next token's contribution, that contribution is lost: over 10,000 tokens the sum is wrong
    by a third. TensorFlow computes the sum of this function in float32; XLA computes it in parts.

    Args:
        x: float tensor `(..., features)`.
        bias: weight `(features,)`.

    Returns:
        A tensor like `x`.
    """
    # Two axes, because XLA sums over several axes in bfloat16, too. Not `ops.add`, which is BiasAdd.
    features = rows(x) + ops.convert_to_tensor(bias)
    if len(x.shape) == 2:
        return features
    return texts(features, x) if len(x.shape) == 3 else ops.reshape(features, ops.shape(x))


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Dense(keras.layers.Dense):
    """Keras' dense layer with its bias added by `add_bias`; all arguments are Keras'.

    The tokens of all texts become the rows of one matrix, because TensorFlow fuses product, bias and activation on two
    axes but not on three.
    """

    def call(self, inputs, training=None):
        if len(inputs.shape) == 3:
            return texts(self._product(rows(inputs)), inputs)
        return self._product(inputs)

    def _product(self, inputs):
        return self.activation(_with_bias(self, ops.matmul(inputs, self.kernel)))


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Conv1D(keras.layers.Conv1D):
    """Keras' convolution along a text with its bias added by `add_bias`; all arguments are Keras'."""

    def call(self, inputs):
        return _convolved(self, inputs)


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Conv2D(keras.layers.Conv2D):
    """Keras' convolution in two dimensions with its bias added by `add_bias`; all arguments are Keras'."""

    def call(self, inputs):
        return _convolved(self, inputs)


def _convolved(layer, inputs):
    channels_first = layer.data_format == "channels_first"
    padding = layer.padding
    if padding == "causal":
        before = (layer.dilation_rate[0] * (layer.kernel_size[0] - 1), 0)
        inputs = ops.pad(inputs, ((0, 0), (0, 0), before) if channels_first else ((0, 0), before, (0, 0)))
        padding = "valid"
    outputs = ops.conv(
        inputs,
        layer.kernel,
        strides=list(layer.strides),
        padding=padding,
        dilation_rate=layer.dilation_rate,
        data_format=layer.data_format,
    )
    if channels_first:
        # `add_bias` expects the features on the last axis.
        outputs = ops.moveaxis(_with_bias(layer, ops.moveaxis(outputs, 1, -1)), -1, 1)
    else:
        if padding == "same" and set(layer.strides) == {1}:
            same_texts(outputs, inputs)
        outputs = _with_bias(layer, outputs)
    return layer.activation(outputs)


def _with_bias(layer, outputs):
    return outputs if layer.bias is None else add_bias(outputs, layer.bias)
