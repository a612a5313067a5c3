"""Kernels of a backend that replace Keras' operations in layers while a graph is traced."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

_KERNELS = contextvars.ContextVar("backend_kernels", default=None)


@contextlib.contextmanager
def backend_kernels(kernels: dict[str, Callable]) -> Iterator[None]:
    """Makes layers use kernels while a graph is traced.

    Args:
        kernels: functions by name.
            `standardise`: takes `x` and `epsilon` of `layer_norm` and returns `(x - mean) / sqrt(var + epsilon)` in the
            dtype of `x`.
            `softmax`: takes bfloat16 logits and returns their softmax over the last axis, computed in float32 and
            perhaps rounded to bfloat16.
            `gelu`: takes values and returns `x / 2 * (1 + erf(x / sqrt(2)))` in their dtype.
            `take`: takes values, indices and `axis` like `keras.ops.take`; the indices are not negative.
    """
    token = _KERNELS.set(kernels)
    try:
        yield
    finally:
        _KERNELS.reset(token)


def backend_kernel(name: str) -> Callable | None:
    """The kernel of this name, or None."""
    return (_KERNELS.get() or {}).get(name)
