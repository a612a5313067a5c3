"""Layer normalization, computed by a kernel of the backend if there is one."""

from keras import ops

from fabir_tf.layers.core.backend_kernels import backend_kernel


def layer_norm(x, gain, bias, epsilon: float):
    """Normalises each token's features.

        y = gain * (x - mean(x)) / sqrt(var(x) + epsilon) + bias

    The variance is the biased one; mean and variance are computed in float32 under every policy.

    Args:
        x: float tensor `(tokens, features)`.
        gain, bias: `(features,)`, in the dtype of `x`.
        epsilon: added to the variance.

    Returns:
        A tensor like `x`.
    """
    standardise = backend_kernel("standardise") or _standardise
    return standardise(x, epsilon) * gain + bias


def _standardise(x, epsilon):
    dtype = x.dtype
    # Half precision is too coarse for the squares.
    x = ops.cast(x, "float32")
    x = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
    # Keras' own normalization passes over the whole text nearly twice as often.
    return ops.cast(x * ops.rsqrt(variance + epsilon), dtype)
