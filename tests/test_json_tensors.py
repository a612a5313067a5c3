"""TensorFlow Serving's JSON: what is read, what is refused, and that nothing makes the parser fail."""

import base64
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.serving.errors import HTTP_STATUS, RequestError
from fabir_tf.serving.json_tensors import DEEPEST, format_predict, parse_json, parse_predict
from fabir_tf.serving.signature import Signature, Tensor

TYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "string")
ONE = {name: Signature({"x": Tensor(name, None)}, {}) for name in TYPES}
TWO = Signature({"a": Tensor("string", (-1,)), "b": Tensor("int32", (-1, -1))}, {})


def parse(document, signature, **more):
    return parse_predict(json.dumps(document | more).encode(), lambda name: signature)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float32", [[0.5, -2.0], [1e-3, 3.0]]),
        ("float64", [[0.1, 1e300]]),
        ("int32", [[2**31 - 1, -(2**31)]]),
        ("int64", [[2**63 - 1, -(2**63)]]),
        ("uint8", [[0, 255]]),
        ("bool", [[True, False]]),
        ("string", [["a", "\u00e9\U0001f600"]]),
    ],
)
def test_values_of_each_type(dtype, values):
    for key in ("instances", "inputs"):
        name, inputs, is_row = parse({key: values}, ONE[dtype])
        assert (name, is_row) == ("", key == "instances")
        expected = [[text.encode() for text in row] for row in values] if dtype == "string" else values
        assert inputs["x"].dtype == (object if dtype == "string" else dtype)
        np.testing.assert_array_equal(inputs["x"], np.array(expected, inputs["x"].dtype))


def test_numbers_that_json_lacks():
    _, inputs, _ = parse_predict(b'{"inputs": [NaN, Infinity, -Infinity]}', lambda name: ONE["float32"])
    assert math.isnan(inputs["x"][0])
    assert inputs["x"][1:].tolist() == [math.inf, -math.inf]
    found = json.loads(format_predict({"y": inputs["x"]}, False))["outputs"]
    assert [str(value) for value in found] == ["nan", "inf", "-inf"]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 2**24 + 1),
        ("float32", 1e39),
        ("float64", 2**53 + 1),
        ("float32", 10**400),
        ("int32", 2**31),
        ("int64", 2**63),
        ("uint8", -1),
        ("int32", 1.0),
        ("int32", True),
        ("bool", 1),
        ("float32", "1"),
        ("string", 1),
    ],
)
def test_values_that_do_not_fit(dtype, value):
    messages = r"is not of expected type|without loss of precision|too big to be stored in double"
    with pytest.raises(RequestError, match=messages) as error:
        parse({"inputs": [value]}, ONE[dtype])
    assert error.value.http_status == 400


def test_the_shapes_of_rows():
    _, inputs, _ = parse({"instances": [{"a": "x", "b": [1, 2]}, {"a": "y", "b": [3, 4]}]}, TWO)
    assert inputs["a"].tolist() == [b"x", b"y"]
    assert inputs["b"].tolist() == [[1, 2], [3, 4]]
    _, inputs, _ = parse({"instances": [5, 6]}, ONE["int32"])
    assert inputs["x"].tolist() == [5, 6]
    _, inputs, _ = parse({"inputs": 5}, ONE["int32"])
    assert inputs["x"].shape == ()
    _, inputs, _ = parse({"inputs": []}, ONE["int32"])
    assert inputs["x"].shape == (0,)


def test_outputs():
    outputs = {
        "text": np.array([b"a", "\u00e9".encode(), b"\xff"], object),
        "some_bytes": np.array([b"\xff", b"b", b""], object),
        "share": np.array([0.1, 1.0, 3e-5], np.float32),
        "wide": np.array([[1, 2], [3, 4], [5, 6]], np.int64),
    }
    rows = json.loads(format_predict(outputs, True))["predictions"]
    assert [row["text"] for row in rows] == ["a", "\u00e9", "\ufffd"]
    assert base64.b64decode(rows[0]["some_bytes"]["b64"]) == b"\xff"
    # The shortest decimals that give the float32 again.
    assert [row["share"] for row in rows] == [0.1, 1.0, 3e-5]
    assert rows[2]["wide"] == [5, 6]
    columns = json.loads(format_predict(outputs, False))["outputs"]
    assert columns["wide"] == [[1, 2], [3, 4], [5, 6]]
    assert json.loads(format_predict({"y": np.array([1, 2])}, True)) == {"predictions": [1, 2]}
    assert json.loads(format_predict({"y": np.array([1, 2])}, False)) == {"outputs": [1, 2]}


def test_outputs_that_are_no_rows():
    with pytest.raises(RequestError, match="Tensor name: b has inconsistent batch size: 1 expecting: 2"):
        format_predict({"a": np.zeros(2), "b": np.zeros(1)}, True)
    with pytest.raises(RequestError, match="Tensor name: a has no shape information"):
        format_predict({"a": np.float32(1.0)}, True)


@pytest.mark.parametrize("levels", [DEEPEST + 1, 5_000, 200_000])
def test_deep_nesting(levels):
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        with pytest.raises(RequestError, match=f"more than {DEEPEST} levels"):
            parse_json((opening * levels + "1" + closing * levels).encode())


def test_messages_are_short():
    with pytest.raises(RequestError) as error:
        parse({"instances": [{"a": "x" * 100_000, "b": 5.5}]}, TWO)
    assert len(error.value.message) < 1_000


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "b64", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(["instances", "inputs", "both"]), JSON_VALUES, st.sampled_from([TWO, *ONE.values()]))
def test_any_json_is_read_or_refused(key, value, signature):
    document = {"instances": value, "inputs": value} if key == "both" else {key: value}
    try:
        _, inputs, _ = parse(document, signature)
    except RequestError as error:
        assert error.code in HTTP_STATUS
        assert error.message
        json.dumps(error.message).encode()
    else:
        for name, array in inputs.items():
            assert array.dtype == signature.inputs[name].numpy_dtype


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(body):
    try:
        parse_predict(body, lambda name: TWO)
    except RequestError as error:
        assert error.http_status == 400
