"""Layer normalisation, by a kernel of the backend's where one is offered."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from keras import ops

_KERNEL = contextvars.ContextVar("layer_norm_kernel", default=None)


@contextlib.contextmanager
def standardising_with(kernel: Callable | None) -> Iterator[None]:
    """Has `layer_norm` use a kernel while a graph is being traced.

    Args:
        kernel: takes `x` and `epsilon` of `layer_norm` and returns `(x - mean) / sqrt(var + epsilon)` in the dtype of
            `x`; None for the operations of Keras.
    """
    token = _KERNEL.set(kernel)
    try:
        yield
    finally:
        _KERNEL.reset(token)


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
    standardise = _KERNEL.get() or _standardise
    return standardise(x, epsilon) * gain + bias


def _standardise(x, epsilon):
    dtype = x.dtype
    # The squares of half precision are too coarse.
    x = ops.cast(x, "float32")
    x = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
    # Not Keras' own: it runs over the whole text nearly twice as often.
    return ops.cast(x * ops.rsqrt(variance + epsilon), dtype)
