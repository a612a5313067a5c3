"""Dense and convolution whose bias learns under bfloat16 as it does under float32."""

import keras
from keras import ops


def add_bias(x, bias):
    """Adds a bias so that its gradient is a sum that no token's share is lost from, in whatever type `x` is.

    Keras adds one by TensorFlow's BiasAdd, whose gradient under bfloat16 is a sum in bfloat16: once it is 256 times as
    large as the next token's share, that share is lost. Of 10,000 tokens such a sum is wrong by a third; this one is
    summed in float32 by TensorFlow, and by XLA in parts.

    Args:
        x: float tensor `(..., features)`.
        bias: weight `(features,)`.

    Returns:
        A tensor like `x`.
    """
    # Examples, because XLA sums over several axes in bfloat16, too. Not `ops.add`, which is BiasAdd.
    rows = x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))
    rows = rows + ops.convert_to_tensor(bias)
    return rows if len(x.shape) == 2 else ops.reshape(rows, ops.shape(x))


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Dense(keras.layers.Dense):
    """Keras' dense layer, its bias added by `add_bias`; all arguments are Keras'."""

    def call(self, inputs, training=None):
        return self.activation(add_bias(ops.matmul(inputs, self.kernel), self.bias))


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Conv1D(keras.layers.Conv1D):
    """Keras' convolution along a text, its bias added by `add_bias`; all arguments are Keras'."""

    def call(self, inputs):
        return self.activation(add_bias(self.convolution_op(inputs, self.kernel), self.bias))


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Conv2D(keras.layers.Conv2D):
    """Keras' convolution of two dimensions, its bias added by `add_bias`; all arguments are Keras'."""

    def call(self, inputs):
        return self.activation(add_bias(self.convolution_op(inputs, self.kernel), self.bias))
