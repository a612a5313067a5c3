"""BERT's activation and its gradient as one pass over the values each, for training on a CPU."""

import functools
import math
from collections.abc import Callable

import tensorflow as tf


def _with_density(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The values, and the normal distribution's cumulative and own density at each, in float32."""
    x = tf.cast(x, tf.float32)
    below = 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5)))
    return x, below, tf.exp(-0.5 * tf.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))


def _value(x: tf.Tensor) -> tf.Tensor:
    values, below, _ = _with_density(x)
    return tf.cast(values * below, x.dtype)


def _derivative(x: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    values, below, density = _with_density(x)
    return tf.cast(tf.cast(gradient, tf.float32) * (below + values * density), x.dtype)


@functools.cache
def fused_gelu() -> Callable[[tf.Tensor], tf.Tensor] | None:
    """The function `x / 2 * (1 + erf(x / sqrt(2)))`, computed in float32; None where TensorFlow comes without XLA.

    TensorFlow's operations pass over the values eight times forward and more often backward, and keep three copies of
    them; XLA makes one loop of each. Each shape is compiled once, in a few hundredths of a second.
    """
    value, derivative = (tf.function(part, jit_compile=True, autograph=False) for part in (_value, _derivative))

    @tf.custom_gradient
    def gelu(x):
        return value(x), lambda gradient: derivative(x, gradient)

    try:
        # Eagerly, even if a graph is being traced.
        with tf.init_scope():
            gelu(tf.zeros(1))
    except (tf.errors.OpError, NotImplementedError):
        return None
    return gelu
