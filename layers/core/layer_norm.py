"""Layer normalisation, by a kernel of the backend's where one is offered."""

from keras import ops

from fabir_tf.layers.core.backend_kernels import backend_kernel


def layer_norm(x, gain, bias, epsilon: float):
    """Normalises each token's features.

        y = gain * (x - mean(x)) / sqrt(var(x) + epsilon) + bias

    The variance is the biased one; mean and variance are computed in float32 under every policy.

    Args:
        x: float tensor `(batch, length, features)`.
        gain, bias: `(features,)`, in the dtype of `x`.
        epsilon: added to the variance.

    Returns:
        A tensor like `x`.
    """
    standardise = backend_kernel("standardise") or _standardise
    return standardise(x, epsilon) * gain + bias


def _standardise(x, epsilon):
    dtype = x.dtype
    # The squares of half precision are too coarse.
    x = ops.cast(x, "float32")
    x = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
    # Not Keras' own: it runs over the whole text nearly twice as often.
    return ops.cast(x * ops.rsqrt(variance + epsilon), dtype)
