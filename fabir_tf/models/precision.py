"""The precision that layers are made with."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Inside, layers are made with this policy.

    Args:
        name: "float32", "mixed_bfloat16" or "mixed_float16".
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
