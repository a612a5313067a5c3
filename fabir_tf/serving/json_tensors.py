"""TensorFlow Serving's JSON: requests to arrays, arrays to answers.

Read in its `util/json_tensor.cc`, whose messages these are. Where a text is not JSON at all, the message after
"JSON Parse error: " is Python's.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.signature import Signature, Tensor, shape_text

DEEPEST = 64
"""Levels of lists and objects that a request may have."""

_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_SHOWN = 200
_NUMBERS = {"float32": np.float32, "float64": np.float64}
_NAMES = {"float32": "float", "float64": "double"}


def parse_json(body: bytes) -> Any:
    """Reads JSON, in which NaN and Infinity are numbers, too.

    Raises:
        RequestError: it is none, or nested too deeply.
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        # A text of its own: UTF-8 is required, while Python would also guess UTF-16.
        value = json.loads(body.decode("utf-8"), parse_int=_parse_int, parse_float=_parse_float)
    except UnicodeDecodeError as error:
        raise invalid(f"JSON Parse error: invalid UTF-8 at offset: {error.start}") from None
    except RecursionError:
        raise invalid(f"JSON Parse error: more than {DEEPEST} levels of lists and objects") from None
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    _validate_depth(value)
    return value


def parse_predict(body: bytes, signature: Callable[[str], Signature]) -> tuple[str, dict[str, np.ndarray], bool]:
    """Reads the body of a predict request.

    Args:
        body: JSON with `instances` (row form) or `inputs` (column form), and `signature_name` if it is not the default.
        signature: finds the signature of a name, which is "" for the default.

    Returns:
        The signature's name, the inputs, and whether they came in row form.

    Raises:
        RequestError: it does not fit the signature.
    """
    document = parse_json(body)
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_shown(document)} Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_shown(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    inputs = signature(name).inputs
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {_shown(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    if "instances" in document:
        rows = document["instances"]
        if not isinstance(rows, list):
            raise invalid(f"JSON Value: {_shown(document)} Excepting 'instances' to be an list/array")
        if not rows:
            raise invalid(f"JSON Value: {_shown(document)} No values in 'instances' array")
        return name, _of_rows(rows, inputs), True
    if "inputs" in document:
        return name, _of_columns(document["inputs"], inputs), False
    raise invalid("Missing 'inputs' or 'instances' key")


def format_predict(outputs: dict[str, np.ndarray], is_row: bool) -> bytes:
    """Writes the outputs of a predict request in the form that it came in.

    Args:
        outputs: by name; texts are objects of bytes.
        is_row: row form, in which all outputs need the same number of rows.

    Raises:
        RequestError: they have not.
    """
    if is_row:
        _validate_rows(outputs)
    columns = {name: _as_json(name, array) for name, array in outputs.items()}
    key = "predictions" if is_row else "outputs"
    if len(columns) == 1:
        return _encoded({key: next(iter(columns.values()))})
    if not is_row:
        return _encoded({key: columns})
    return _encoded({key: [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]})


def _validate_rows(outputs: dict[str, np.ndarray]) -> None:
    size = None
    for name, array in outputs.items():
        if not array.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if size not in (None, len(array)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {size}")
        size = len(array)


def _of_rows(rows: list, inputs: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """The arrays of a list of instances: values where there is one input, else objects with its name for a key."""
    if not isinstance(rows[0], dict) and len(inputs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    are_objects = _is_named(rows[0])
    columns: dict[str, list] = {name: [] for name in inputs}
    for number, row in enumerate(rows):
        if are_objects != _is_named(row):
            kinds = "object but got list" if are_objects else "value/list but got object"
            raise invalid(f"Expecting {kinds} at item {number} of input list")
        named = row if are_objects else {next(iter(inputs)): row}
        for name, value in named.items():
            key = f" key: {name}" if are_objects else ""
            try:
                if name not in inputs:
                    raise invalid(f"JSON object: does not have named input: {name}")
                columns[name].append(_array(value, inputs[name], columns[name]))
            except RequestError as error:
                raise invalid(
                    f"Failed to process element: {number}{key} of 'instances' list. Error: INVALID_ARGUMENT: "
                    f"{error.message}"
                ) from None
        if named.keys() != inputs.keys():
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. JSON object: {_shown(row)} keys must be "
                f"equal to: {','.join(sorted(inputs))}"
            )
    return {name: np.stack(values) for name, values in columns.items()}


def _of_columns(value: Any, inputs: dict[str, Tensor]) -> dict[str, np.ndarray]:
    if not _is_named(value):
        if len(inputs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        name, tensor = next(iter(inputs.items()))
        return {name: _array(value, tensor)}
    for name in inputs:
        if name not in value:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    return {name: _array(value[name], tensor) for name, tensor in inputs.items()}


def _array(value: Any, tensor: Tensor, others: list[np.ndarray] | None = None) -> np.ndarray:
    """A value of nested lists as an array; the other rows of its input tell which shape it has to have."""
    shape = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    convert = _converter(tensor)
    values = [convert(leaf) for leaf in _leaves(value, shape, 0)]
    array = np.empty(len(values), tensor.numpy_dtype)
    # One at a time: NumPy would read bytes of objects as a text of fixed length.
    for number, leaf in enumerate(values):
        array[number] = leaf
    array = array.reshape(shape)
    if others and others[0].size != array.size:
        raise invalid(f"Expecting tensor size: {others[0].size} but got: {array.size}")
    if others and others[0].shape != array.shape:
        raise invalid(f"Expecting shape {shape_text(others[0].shape)} but got: {shape_text(array.shape)}")
    return array


def _leaves(value: Any, shape: list[int], level: int) -> Iterator[Any]:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON DOM. Expected at "
                f"level: {len(shape)}"
            )
        yield value
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for part in value:
        yield from _leaves(part, shape, level + 1)


def _converter(tensor: Tensor) -> Callable[[Any], Any]:
    """What turns a JSON value into one of the tensor's type, or refuses it."""
    dtype = tensor.dtype
    if dtype == "string":
        return _text
    if dtype == "bool":
        return lambda value: value if isinstance(value, bool) else _refuse(value, dtype)
    if dtype in _INTEGERS:
        bounds = np.iinfo(dtype)
        return lambda value: (
            value if type(value) is int and bounds.min <= value <= bounds.max else _refuse(value, dtype)
        )
    if dtype in _NUMBERS:
        return lambda value: _number(value, dtype)
    raise RequestError("UNIMPLEMENTED", f"Conversion of JSON values to type: {dtype}")


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from None
    if not isinstance(value, dict):
        _refuse(value, "string")
    if not _is_base64(value):
        raise invalid(f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise invalid("Unable to base64 decode") from None


def _number(value: Any, dtype: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value, dtype)
    limits: Any = np.finfo(_NUMBERS[dtype])
    largest = float(limits.max)
    is_lossless = abs(value) < 2 ** (limits.nmant + 1) if isinstance(value, int) else abs(value) <= largest
    if not is_lossless and (isinstance(value, int) or math.isfinite(value)):
        raise invalid(
            f"Cannot convert JSON value: {_shown(value)} to {_NAMES.get(dtype, dtype)} without loss of precision."
        )
    return value


def _refuse(value: Any, dtype: str):
    raise invalid(
        f"JSON Value: {_shown(value)} Type: {_kind(value)} is not of expected type: {_NAMES.get(dtype, dtype)}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    kinds = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
    return kinds.get(type(value), "Number")


def _is_named(value: Any) -> bool:
    """Whether a value is an object of inputs, and not one that holds bytes."""
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: dict) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _as_json(name: str, array: np.ndarray) -> Any:
    """An array as nested lists; bytes are texts, or base64 where the output's name ends in `_bytes`."""
    if array.dtype != object:
        return _numbers(array)
    return _mapped(array.tolist(), _as_base64 if name.endswith("_bytes") else _as_text)


def _numbers(array: np.ndarray) -> Any:
    if array.dtype != np.float32:
        return array.tolist()
    # The shortest decimal that gives the float32 again, not the digits of the float64 that it is made into.
    return _mapped(array.tolist(), lambda value: float(str(np.float32(value))))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    return [_mapped(part, function) for part in value] if isinstance(value, list) else function(value)


def _as_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _as_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _parse_int(digits: str) -> int | float:
    # Python refuses integers of thousands of digits with an error of its own, and no type holds them.
    return int(digits) if len(digits) <= 40 else _parse_float(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise invalid("JSON Parse error: Number too big to be stored in double.")
    return value


def _validate_depth(value: Any) -> None:
    level, parts = 0, [value]
    while parts := [
        child
        for part in parts
        if isinstance(part, dict | list)
        for child in (part.values() if isinstance(part, dict) else part)
        if isinstance(child, dict | list)
    ]:
        level += 1
        if level >= DEEPEST:
            raise invalid(f"JSON Parse error: more than {DEEPEST} levels of lists and objects")


def _shown(value: Any) -> str:
    """A value for a message; a long one is cut, so that a message is never as large as a request."""
    text = json.dumps(value, ensure_ascii=False, indent=4)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
