"""Checks of arguments that people give in Python."""

import operator
import types
from typing import Any

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted

LARGEST_INT64 = 2**63 - 1


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Checks a number.

    Args:
        name: of the argument, for the message.
        value: a whole number, also one of NumPy.
        low, high: the least and the largest that it may be; without `high` there is no largest.

    Returns:
        The number.

    Raises:
        UserError: it is none, or out of its range.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        limits = f"from {low} on" if high is None else f"from {low} to {high}"
        raise UserError(f"{name} must be a whole number {limits}, found {quoted(value)}")
    return number


def validate_type(name: str, value: Any, kinds: type | types.UnionType, expected: str) -> None:
    """Checks the type of an object.

    Args:
        name: of the argument, for the message.
        value: what was given.
        kinds: the types that it may have.
        expected: the same in words, with the function that makes one.

    Raises:
        UserError: it has another type.
    """
    if not isinstance(value, kinds):
        raise UserError(f"{name}: found {quoted(value)}, expected {expected}")
