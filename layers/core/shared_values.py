"""What several layers derive from the same tensor, such as its shape, computed once in a graph."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from keras import ops

_SHARED: contextvars.ContextVar[dict | None] = contextvars.ContextVar("shared_values", default=None)


@contextlib.contextmanager
def shared_values() -> Iterator[None]:
    """Lets the layers that are called inside share what they derive from the same tensors.

    A graph gets far fewer operations, and less time passes until it is traced. Without it each layer computes
    everything anew. The tensors are kept until the end.
    """
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


def derived(function: Callable, *arguments):
    """What a function returns for some tensors; computed once inside `shared_values`.

    Args:
        function: a function of a module, without side effects.
        arguments: tensors, numbers and texts.
    """
    shared = _SHARED.get()
    if shared is None:
        return function(*arguments)
    key = (function, *(_key(argument) for argument in arguments))
    if key not in shared:
        # With the tensors, because an id may come again when a tensor is gone.
        shared[key] = function(*arguments), arguments
    return shared[key][0]


def remember(value, function: Callable, *arguments) -> None:
    """Makes `derived` return a value that is known already."""
    shared = _SHARED.get()
    if shared is not None:
        shared[(function, *(_key(argument) for argument in arguments))] = value, arguments


def _key(argument):
    return argument if isinstance(argument, int | float | str) else id(argument)


def rows(x):
    """The tokens of all texts as the rows of one matrix.

    Args:
        x: tensor `(..., features)`.

    Returns:
        Tensor `(tokens, features)`.
    """
    return x if len(x.shape) == 2 else derived(_rows, x)


def texts(matrix, like, *features: int):
    """The opposite of `rows`.

    Args:
        matrix: tensor `(tokens, ...)`.
        like: tensor `(batch, length, ...)`, the texts that the tokens belong to.
        features: the dimensions of a token, by default those of `matrix`.

    Returns:
        Tensor `(batch, length, *features)`.
    """
    sizes = features or tuple(matrix.shape[1:])
    result = ops.reshape(matrix, derived(shape_of, derived(leading, like), *sizes))
    same_texts(result, like)
    if len(sizes) == 1 and len(matrix.shape) == 2:
        remember(matrix, _rows, result)
    return result


def leading(x):
    """Batch and length of a tensor `(batch, length, ...)`: two numbers, or scalars of the graph."""
    return ops.shape(x)[:2]


def shape_of(sizes, *features: int):
    """The shape `(batch, length, *features)`, in the graph one tensor.

    Args:
        sizes: what `leading` returned.
        features: the other dimensions.
    """
    shape = (*sizes, *features)
    return shape if all(isinstance(size, int) for size in shape) else ops.stack(shape)


def same_texts(x, like) -> None:
    """Notes that two tensors have the same batch and length."""
    if _SHARED.get() is not None:
        remember(derived(leading, like), leading, x)


def _rows(x):
    return ops.reshape(x, (-1, x.shape[-1]))
