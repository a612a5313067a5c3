"""PositionEncoding: sines and cosines at any position, in any precision."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import PositionEncoding


def encode(layer, length, batch=1):
    return layer_testing.run(layer, {"x": np.zeros((batch, length), "float32")})[0]


def float32_rounding(length, dim, min_frequency, position_offset):
    """Largest error of each sine from rounding the frequency and its product with the position."""
    positions = position_offset + np.arange(length)[:, None]
    frequencies = np.geomspace(1.0, min_frequency, dim // 2)[None]
    angles = np.concatenate([positions * frequencies] * 2, axis=1)
    return 4 * angles * 2.0**-24 + 1e-6


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"dim": 6, "min_frequency": 0.01, "position_offset": 3}
    layer_testing.run_layer_test(PositionEncoding, config, {"x": layer_testing.normal(2, 5, 7, seed=1)}, policy)


@pytest.mark.parametrize(
    ("length", "dim", "min_frequency", "position_offset"),
    [(7, 10, 1e-4, 0), (11, 100, 1e-4, 500), (7, 200, 1e-3, 500), (3001, 6, 1e-4, 500), (5, 4, 0.5, 1), (1, 4, 1.0, 2)],
)
def test_forward(length, dim, min_frequency, position_offset):
    layer = PositionEncoding(dim, min_frequency, position_offset)
    expected = oracles.position_encoding(length, dim, min_frequency, position_offset)
    error = np.abs(encode(layer, length)[0] - expected)
    assert (error < float32_rounding(length, dim, min_frequency, position_offset)).all()


def test_by_hand():
    """Frequencies 1 and 0.01, positions 2 and 3."""
    expected = np.array([[2.0, 0.02], [3.0, 0.03]])
    out = encode(PositionEncoding(4, min_frequency=0.01, position_offset=2), 2)[0]
    np.testing.assert_allclose(out, np.concatenate([np.sin(expected), np.cos(expected)], axis=1), atol=1e-6)


# === Properties 5.1 to 5.4 of the thesis ===


@pytest.fixture(scope="module", params=[(100, 1e-4, 500), (200, 1e-3, 0), (6, 0.03, 7)], ids=str)
def encodings(request):
    """Encodings of 300 positions, float64, with their frequencies."""
    dim, min_frequency, position_offset = request.param
    out = encode(PositionEncoding(dim, min_frequency, position_offset), 300)[0]
    return out.astype("float64"), np.geomspace(1.0, min_frequency, dim // 2)


def test_attention_between_two_positions_is_commutative(encodings):
    attention = encodings[0] @ encodings[0].T
    np.testing.assert_allclose(attention, attention.T, atol=1e-12)


def test_each_encoding_is_the_same_linear_map_of_the_one_before(encodings):
    encoded, frequencies = encodings
    cos, sin = np.diag(np.cos(frequencies)), np.diag(np.sin(frequencies))
    rotation = np.block([[cos, sin], [-sin, cos]])
    np.testing.assert_allclose(encoded[1:], encoded[:-1] @ rotation.T, atol=2e-4)


def test_attention_depends_on_the_distance_in_both_directions_alike(encodings):
    attention = encodings[0] @ encodings[0].T
    for distance in (1, 7, 140):
        forward = np.diagonal(attention, distance)
        np.testing.assert_allclose(forward, forward[0], atol=2e-4 * len(encodings[1]))
        middle = np.arange(distance, 300 - distance)
        np.testing.assert_allclose(
            attention[middle, middle + distance],
            attention[middle, middle - distance],
            atol=2e-4 * len(encodings[1]),
        )


def test_a_position_attends_most_to_itself(encodings):
    encoded, frequencies = encodings
    attention = encoded @ encoded.T
    np.testing.assert_allclose(np.diagonal(attention), len(frequencies), rtol=1e-5)
    assert (attention <= len(frequencies) * (1 + 1e-5)).all()
    others = attention[~np.eye(300, dtype=bool)]
    assert others.max() < len(frequencies)


def test_published_defaults():
    np.testing.assert_allclose(
        encode(PositionEncoding(100), 3)[0], oracles.position_encoding(3, 100, 1e-4, 500), atol=1e-4
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_distinguishes_neighbors(policy):
    """bfloat16 cannot represent 501, so the angles need float32; only the result is rounded."""
    out = encode(PositionEncoding(100, dtype=policy), 409)[0]
    np.testing.assert_allclose(out, oracles.position_encoding(409, 100, 1e-4, 500), atol=2**-8)


@pytest.mark.parametrize("inputs", [np.zeros((3, 7), "int32"), np.full((3, 7, 2, 5), 9.0, "float32")])
def test_only_the_first_two_dimensions_matter(inputs):
    out = layer_testing.run(PositionEncoding(6), {"x": inputs})[0]
    assert out.shape == (3, 7, 6)
    np.testing.assert_array_equal(out, np.repeat(out[:1], 3, axis=0))


def test_a_longer_text_starts_like_a_shorter_one():
    layer = PositionEncoding(10)
    np.testing.assert_allclose(encode(layer, 700)[:, :7], encode(layer, 7), atol=1e-6)


def test_it_has_no_weights():
    layer = PositionEncoding(10)
    encode(layer, 3)
    assert not layer.weights


@pytest.mark.parametrize("dim", [5, 2, 0])
def test_an_odd_or_tiny_dimension_is_refused(dim):
    with pytest.raises(ValueError, match=f"dim must be even and at least 4. Received: dim={dim}$"):
        PositionEncoding(dim)
