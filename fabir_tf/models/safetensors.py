"""Reads the safetensors format: the length of a JSON header, the header, and the bytes of the arrays.

    8 bytes     n, the header's length, little-endian
    n bytes     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {...}}
    the rest    the arrays' bytes, little-endian, each at its offsets

Nothing in such a file is run. The values of bfloat16, which NumPy lacks, are widened to float32.
"""

import math
import os
from typing import Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import read_input
from fabir_tf.pipelines.json_files import parse_json

_EXPECTED = "a .safetensors file"
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_BFLOAT16 = "BF16"
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    _BFLOAT16: "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads all arrays of a file.

    Args:
        path: a `.safetensors` file.

    Returns:
        The arrays by name, read-only; bfloat16 as float32.

    Raises:
        UserError: the file cannot be read, is damaged or cut short, or holds a type that is not known.
    """
    raw = read_input(path, _EXPECTED)
    size = int.from_bytes(raw[:_LENGTH_BYTES], "little")
    if len(raw) < _LENGTH_BYTES + size:
        raise UserError(f"{path}: the file is damaged or cut short: found {len(raw)} bytes, expected {_EXPECTED}.")
    header = parse_json(raw[_LENGTH_BYTES : _LENGTH_BYTES + size], f"{path} (header)")
    if not isinstance(header, dict):
        raise UserError(f"{path}: the header is no JSON object, expected {_EXPECTED}.")
    content = memoryview(raw)[_LENGTH_BYTES + size :]
    return {name: _array(path, name, entry, content) for name, entry in header.items() if name != _METADATA}


def _array(path: str | os.PathLike, name: str, entry: Any, content: memoryview) -> np.ndarray:
    dtype, shape, begin, end = _parsed(path, name, entry)
    size = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if not 0 <= begin <= end <= len(content) or end - begin != size:
        raise UserError(
            f"{path}: the file is damaged or cut short: found {name} at bytes {begin} to {end} of {len(content)}, "
            f"expected {size} bytes."
        )
    try:
        values = np.frombuffer(content[begin:end], _DTYPES[dtype]).reshape(shape)
    except ValueError as error:
        # Of no values, a shape may have more dimensions, or larger ones, than NumPy knows.
        raise UserError(f"{path}: found {name} of a shape that no array has ({error}).") from None
    return _widened(values) if dtype == _BFLOAT16 else values


def _parsed(path: str | os.PathLike, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape, and first and last byte of an entry of the header."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        fits = isinstance(dtype, str) and all(type(value) is int and value >= 0 for value in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        fits = False
    if not fits:
        raise UserError(f"{path}: the header's entry {name} is damaged, expected dtype, shape and data_offsets.")
    if dtype not in _DTYPES:
        raise UserError(f"{path}: found {name} of type {dtype}, expected one of {', '.join(_DTYPES)}.")
    return dtype, shape, begin, end


def _widened(values: np.ndarray) -> np.ndarray:
    """The float32 numbers whose upper halves are the bits of bfloat16 numbers."""
    return (values.astype("<u4") << 16).view("<f4")
