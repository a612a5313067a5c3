"""A backend's own kernels, which layers use in place of Keras' operations while a graph is traced."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

_KERNELS = contextvars.ContextVar("backend_kernels", default=None)


@contextlib.contextmanager
def backend_kernels(kernels: dict[str, Callable]) -> Iterator[None]:
    """Has layers use kernels while a graph is being traced.

    Args:
        kernels: by name.
            `standardise`: takes `x` and `epsilon` of `layer_norm` and returns `(x - mean) / sqrt(var + epsilon)` in the
            dtype of `x`.
            `softmax`: takes bfloat16 logits and returns their softmax over the last axis, computed in float32 and
            rounded to bfloat16.
    """
    token = _KERNELS.set(kernels)
    try:
        yield
    finally:
        _KERNELS.reset(token)


def backend_kernel(name: str) -> Callable | None:
    """The kernel that is offered under a name, or None."""
    return (_KERNELS.get() or {}).get(name)
