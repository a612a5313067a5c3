"""Files of safetensors: the format, and what is said about a damaged one."""

import json
import struct

import numpy as np
import pytest
from hugging_face_folders import bfloat16, safetensors

from fabir_tf.models.safetensors import read_safetensors
from fabir_tf.pipelines.errors import UserError


def written(tmp_path, header, content=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_the_bytes_of_a_file_by_hand(tmp_path):
    """1.5 is 0x3FC00000 in float32, 0x3E00 in float16 and 0x3FC0 in bfloat16; -2 is 0xC000 in both halves."""
    content = bytes.fromhex("0000C03F003E00C0C03F00C0FFFFFFFFFFFFFFFF01")
    header = {
        "single": entry("F32", [1], 0, 4),
        "half": entry("F16", [2, 1], 4, 8),
        "brain": entry("BF16", [1, 2], 8, 12),
        "whole": entry("I64", [], 12, 20),
        "truth": entry("BOOL", [1], 20, 21),
        "empty": entry("F32", [0, 3], 21, 21),
        "__metadata__": {"format": "pt"},
    }
    found = read_safetensors(written(tmp_path, header, content))
    assert list(found) == ["single", "half", "brain", "whole", "truth", "empty"]
    assert [found[name].tolist() for name in found] == [[1.5], [[1.5], [-2.0]], [[1.5, -2.0]], -1, [True], []]
    assert found["brain"].dtype == np.float32 and found["half"].dtype == np.float16
    assert found["empty"].shape == (0, 3)


def test_special_numbers_of_bfloat16(tmp_path):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1 / 3], "float32")
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors({"x": values}, "BF16"))
    expected = (bfloat16(values).astype("<u4") << 16).view("<f4")
    found = read_safetensors(path)["x"]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found[6:], values[6:], rtol=2**-7)
    assert np.signbit(found[1]) and np.isnan(found[4])


def test_a_file_of_the_package(tmp_path):
    """What the package safetensors writes, where it is installed."""
    numpy = pytest.importorskip("safetensors.numpy", reason="needs the package safetensors")
    rng = np.random.default_rng(1)
    sizes = {"f4": 2, "f2": 5, "f8": 7}
    arrays = {dtype: rng.standard_normal((size, 3)).astype(dtype) for dtype, size in sizes.items()}
    numpy.save_file(arrays, tmp_path / "x.safetensors")
    found = read_safetensors(tmp_path / "x.safetensors")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("header", "content", "message"),
    [
        ({"x": entry("F32", [2], 0, 8)}, b"1234", "cut short: found x at bytes 0 to 8 of 4, expected 8 bytes"),
        ({"x": entry("F32", [2], 0, 4)}, b"1234", "found x at bytes 0 to 4 of 4, expected 8 bytes"),
        ({"x": entry("F32", [1], 4, 0)}, b"1234", "found x at bytes 4 to 0"),
        ({"x": entry("F8_E4M3", [4], 0, 4)}, b"1234", "found x of type F8_E4M3, expected one of F64, F32"),
        ({"x": entry("F32", [-1], 0, 4)}, b"1234", "the header's entry x is damaged"),
        ({"x": entry("F32", [1.0], 0, 4)}, b"1234", "the header's entry x is damaged"),
        ({"x": entry(["F32"], [1], 0, 4)}, b"1234", "the header's entry x is damaged"),
        ({"x": {"dtype": "F32"}}, b"", "the header's entry x is damaged"),
        ({"x": 3}, b"", "the header's entry x is damaged"),
        ([1], b"", "the header is no JSON object"),
        (b"{", b"", "no valid JSON"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, header, content, message):
    path = written(tmp_path, header, content)
    with pytest.raises(UserError) as caught:
        read_safetensors(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


@pytest.mark.parametrize("size", [0, 5, 8, 100])
def test_a_file_that_is_cut_short_is_refused(tmp_path, size):
    path = tmp_path / "model.safetensors"
    whole = safetensors({"x": np.ones((4, 5), "float32")})
    path.write_bytes(whole[:size])
    with pytest.raises(UserError, match=r"cut short|is empty"):
        read_safetensors(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"model\.safetensors: found no such file, expected a \.safetensors file"):
        read_safetensors(tmp_path / "model.safetensors")
