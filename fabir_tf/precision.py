"""The precision that layers compute in."""

from collections.abc import Iterator
from contextlib import contextmanager

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
"""The dtype policies that a reader can be trained and read with."""


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Makes layers with a policy, in this thread only.

    Args:
        name: one of `POLICIES`.
    """
    # Commands name the precisions without a model.
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
