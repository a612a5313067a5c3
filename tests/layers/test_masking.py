"""Masked softmax, masked logits and zeroed padding."""

import keras
import layer_testing
import numpy as np
import oracles
import pytest
from keras import ops

from fabir_tf.layers.core import masking

LOWEST_LOGIT = -1e9


def softmax(logits, mask):
    return ops.convert_to_numpy(masking.masked_softmax(ops.convert_to_tensor(logits), ops.convert_to_tensor(mask)))


def random_mask(*shape, seed=2):
    return np.random.default_rng(seed).random(shape) < 0.6


def test_softmax_is_the_formula():
    logits, mask = layer_testing.normal(3, 5, 7, seed=1, scale=3.0), random_mask(3, 5, 7)
    assert mask.any(-1).all()
    expected = oracles.masked_softmax(logits, mask, 2)
    np.testing.assert_allclose(softmax(logits, mask), expected, rtol=1e-5, atol=1e-7)


def test_weights_sum_to_one_and_are_exactly_zero_under_the_mask():
    logits, mask = layer_testing.normal(3, 5, 7, seed=1), random_mask(3, 5, 7)
    mask[1] = False
    weights = softmax(logits, mask)
    assert (weights[[0, 2]][~mask[[0, 2]]] == 0.0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(weights[1], 1 / 7, rtol=1e-5)


def test_mask_broadcasts():
    logits, mask = layer_testing.normal(3, 2, 5, 7, seed=1), random_mask(3, 1, 1, 7)
    expected = oracles.masked_softmax(logits, np.broadcast_to(mask, logits.shape), 3)
    np.testing.assert_allclose(softmax(logits, mask), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("garbage", [1e6, -1e6, -3e38, -np.inf])
def test_masked_logits_do_not_matter(garbage):
    logits, mask = layer_testing.normal(3, 7, seed=1), layer_testing.mask_of([7, 4, 1], 7)
    clean, dirty = np.where(mask, logits, 0.0), np.where(mask, logits, np.float32(garbage)).astype("float32")
    np.testing.assert_array_equal(softmax(dirty, mask), softmax(clean.astype("float32"), mask))


@pytest.mark.parametrize("shift", [-1e4, 300.0, 1e4])
def test_large_logits_do_not_overflow(shift):
    logits, mask = np.array([[0.0, 1.0, 2.0, 5.0]], "float32"), np.array([[True, True, True, False]])
    expected = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    np.testing.assert_allclose(softmax(logits + np.float32(shift), mask)[0, :3], expected, rtol=1e-5)


def test_a_very_low_logit_still_beats_padding():
    weights = softmax(np.array([[-5e8, 0.0, 7.0]], "float32"), np.array([[True, False, False]]))
    np.testing.assert_array_equal(weights, [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_widened_before_the_exponential(dtype):
    logits = ops.cast(layer_testing.normal(3, 61, seed=1), dtype)
    weights = masking.masked_softmax(logits, ops.ones((3, 61), "bool"))
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = oracles.masked_softmax(ops.convert_to_numpy(ops.cast(logits, "float32")), np.ones((3, 61), bool), 1)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), expected, rtol=1e-5, atol=1e-7)


def test_gradient():
    class Softmax(keras.layers.Layer):
        def call(self, logits, real):
            return masking.masked_softmax(logits, real)

    inputs = {"logits": layer_testing.normal(3, 7, seed=1), "real": layer_testing.mask_of([7, 4, 1], 7)}
    layer = Softmax()
    layer(**inputs)
    layer_testing.check_gradients(
        layer, inputs, lambda _, logits, real: oracles.masked_softmax(logits, real, 1), samples=21
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_padding_has_the_lowest_logit(dtype):
    logits, mask = layer_testing.normal(3, 7, seed=1), layer_testing.mask_of([7, 4, 0], 7)
    half = ops.cast(logits, dtype)
    masked = masking.mask_logits(half, ops.convert_to_tensor(mask))
    assert keras.backend.standardize_dtype(masked.dtype) == "float32"
    masked = ops.convert_to_numpy(masked)
    assert (masked[~mask] == np.float32(LOWEST_LOGIT)).all()
    np.testing.assert_array_equal(masked[mask], ops.convert_to_numpy(ops.cast(half, "float32"))[mask])


@pytest.mark.parametrize("garbage", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("shape", [(3, 7, 5), (3, 7, 2, 5)])
def test_padding_becomes_exactly_zero(shape, garbage):
    x, mask = layer_testing.normal(*shape, seed=1), layer_testing.mask_of([7, 4, 0], 7)
    clean = x.copy()
    x[~mask], clean[~mask] = garbage, 0.0
    zeroed = masking.zero_padding(ops.convert_to_tensor(x), ops.convert_to_tensor(mask))
    np.testing.assert_array_equal(ops.convert_to_numpy(zeroed), clean)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_zeroing_keeps_the_dtype(dtype):
    zeroed = masking.zero_padding(ops.ones((2, 3, 5), dtype), ops.ones((2, 3), "bool"))
    assert keras.backend.standardize_dtype(zeroed.dtype) == dtype
