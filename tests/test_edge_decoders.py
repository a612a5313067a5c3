"""The decoders in NumPy find what those of the layers find."""

import dataclasses

import numpy as np
import pytest

from fabir_tf import layers
from fabir_tf.edge.decoders import DECODERS, IndependentDecoder, SpanDecoder, settings_of

PADDING = np.float32(-1e9)


def random_logits(batch, length, seed, scale=3.0):
    return (scale * np.random.default_rng(seed).standard_normal((batch, length))).astype(np.float32)


def assert_same(found, expected):
    """Spans are equal where their probabilities are not too small to be ordered."""
    for one, other in zip(found[:2], expected[:2], strict=True):
        is_probable = np.asarray(expected[2]) > 1e-12
        np.testing.assert_array_equal(np.where(is_probable, one, 0), np.where(is_probable, np.asarray(other), 0))
    for one, other in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("max_answer", [1, 3, 15, None])
@pytest.mark.parametrize("n_best", [1, 4, 30])
@pytest.mark.parametrize("length", [1, 2, 7, 31])
def test_spans(length, n_best, max_answer):
    start, end = random_logits(13, length, seed=length), random_logits(13, length, seed=89)
    start[5, length // 2 + 1 :] = end[5, length // 2 + 1 :] = PADDING
    start[6] = end[6] = PADDING
    expected = layers.SpanDecoder(max_answer, n_best)(start, end)
    assert_same(SpanDecoder(max_answer, n_best)(start, end), expected)


@pytest.mark.parametrize("null_pairs", [False, True])
def test_scores_against_no_answer(null_pairs):
    start, end = random_logits(29, 11, seed=1), random_logits(29, 11, seed=2)
    start[:, 9:] = end[:, 9:] = PADDING
    null = random_logits(29, 2, seed=3, scale=8.0)
    expected = layers.SpanDecoder(4, 3, null_pairs)(start, end, null)
    found = SpanDecoder(4, 3, null_pairs)(start, end, null)
    assert_same(found, expected)
    assert len({score > 0 for score in found[3].tolist()}) == 2


def test_ties_go_to_the_earlier_start_then_to_the_shorter_span():
    levels = -np.random.default_rng(6).integers(0, 2, (41, 9)).astype(np.float32)
    assert_same(SpanDecoder(4, 7)(levels, levels), layers.SpanDecoder(4, 7)(levels, levels))
    first, last, *_ = SpanDecoder(3, 5)(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))
    assert list(zip(first[0], last[0], strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("n_best", [1, 5])
@pytest.mark.parametrize("length", [1, 3, 19])
def test_independent_starts_and_ends(length, n_best):
    start, end = random_logits(17, length, seed=4), random_logits(17, length, seed=5)
    assert_same(IndependentDecoder(n_best)(start, end), layers.IndependentDecoder(n_best)(start, end))


@pytest.mark.parametrize(
    ("decoder", "settings"),
    [
        (layers.SpanDecoder(7, 3), {"kind": "SpanDecoder", "max_answer": 7, "null_pairs": False}),
        (layers.SpanDecoder(None, 1, True), {"kind": "SpanDecoder", "max_answer": None, "null_pairs": True}),
        (layers.IndependentDecoder(2), {"kind": "IndependentDecoder"}),
    ],
)
def test_settings_of_a_layer(decoder, settings):
    assert settings_of(decoder) == settings
    arguments = {name: value for name, value in settings.items() if name != "kind"}
    made = DECODERS[settings["kind"]](**arguments, n_best=6)
    assert dataclasses.asdict(made) == arguments | {"n_best": 6}
