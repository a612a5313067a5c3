"""Smoothed targets and the loss against the formulas in float64, summed term by term."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.training.losses import SMOOTHINGS, StartEndLoss, smoothed_targets

POSITIONS = [0, 4, 2, 6, 0, 10, 1]
LENGTHS = [11, 5, 3, 7, 1, 11, 2]
WIDTH = 13


def expected_targets(position, length, smoothing, amount, deviation):
    target = np.zeros(WIDTH)
    target[position] = 1.0
    others = [place for place in range(length) if place != position]
    if smoothing == "none" or not others:
        return target
    weights = [1.0 if smoothing == "uniform" else np.exp(-((p - position) ** 2) / (2 * deviation**2)) for p in others]
    for place, weight in zip(others, weights, strict=True):
        target[place] = amount * weight / sum(weights)
    target[position] = 1 - amount
    return target


def call(*settings, compiled=False, dtype="int64"):
    arguments = (np.array(POSITIONS, dtype), np.array(LENGTHS, dtype), WIDTH, *settings)
    run = tf.function(smoothed_targets) if compiled else smoothed_targets
    return run(*arguments).numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(("amount", "deviation"), [(0.1, 1.0), (0.35, 2.5), (0.99, 0.7), (0.0, 1.0)])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_targets_follow_the_formula(smoothing, amount, deviation, compiled):
    targets = call(smoothing, amount, deviation, compiled=compiled)
    assert targets.dtype == np.float32
    rows = zip(POSITIONS, LENGTHS, strict=True)
    expected = np.array([expected_targets(*row, smoothing, amount, deviation) for row in rows])
    np.testing.assert_allclose(targets, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(targets.sum(axis=1, dtype=np.float64), 1, rtol=1e-6)


def test_the_gaussian_by_hand():
    # y = 1 of 3 tokens: both neighbours are at distance 1 and share the amount equally.
    targets = smoothed_targets(tf.constant([1]), tf.constant([3]), 4, "gaussian", 0.1, 1.0).numpy()
    np.testing.assert_allclose(targets, [[0.05, 0.9, 0.05, 0.0]], atol=1e-7)
    # y = 0: distances 1 and 2, exp(-1/2) and exp(-2).
    targets = smoothed_targets(tf.constant([0]), tf.constant([3]), 3, "gaussian", 0.1, 1.0).numpy()
    np.testing.assert_allclose(targets, [[0.9, 0.08175745, 0.01824255]], atol=1e-6)


def test_the_default_is_the_papers():
    np.testing.assert_array_equal(call(), call("gaussian", 0.1, 1.0))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_padding_is_exactly_zero(smoothing):
    padding = np.arange(WIDTH)[None] >= np.array(LENGTHS)[:, None]
    assert padding.any(axis=1).all()
    assert not call(smoothing, 0.5, 100.0)[padding].any()


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_passage_of_one_token_keeps_all_of_it(smoothing):
    assert call(smoothing)[4].tolist() == [1.0] + [0.0] * (WIDTH - 1)


def test_a_deviation_too_small_for_any_neighbour_moves_nothing():
    np.testing.assert_array_equal(call("gaussian", 0.1, 1e-3), call("none"))


def test_far_tokens_of_a_long_passage_are_zero_and_not_nan():
    targets = smoothed_targets(tf.constant([0]), tf.constant([5000]), 5000).numpy()
    assert np.isfinite(targets).all()
    np.testing.assert_allclose(targets.sum(), 1, rtol=1e-6)
    assert targets[0, -1] == 0


def test_integers_of_either_width():
    np.testing.assert_array_equal(call("gaussian", dtype="int32"), call("gaussian", dtype="int64"))


def test_an_unknown_smoothing_is_refused():
    with pytest.raises(ValueError, match=r"smoothing must be one of .*gaussian.*Received: smoothing='cosine'"):
        call("cosine")


def expected_loss(borders, logits, smoothing):
    total = 0.0
    for (position, length), row in zip(borders, logits.astype(np.float64), strict=True):
        log_probabilities = row - row.max() - np.log(np.exp(row - row.max()).sum())
        total -= (expected_targets(position, length, smoothing, 0.1, 1.0) * log_probabilities).sum()
    return total / len(borders)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_loss_is_the_mean_cross_entropy(smoothing):
    logits = np.random.default_rng(0).normal(size=(7, WIDTH)).astype("float32")
    logits[np.arange(WIDTH)[None] >= np.array(LENGTHS)[:, None]] = -1e9
    borders = np.stack([POSITIONS, LENGTHS], axis=1)
    found = float(StartEndLoss(smoothing)(borders, logits))
    assert found == pytest.approx(expected_loss(borders, logits, smoothing), rel=1e-6)
    # Examples that only fill a batch up, whatever their logits are.
    filled = np.concatenate([borders, np.zeros((4, 2), int)]), np.concatenate([logits, logits[:4] * 3 + 1])
    assert float(StartEndLoss(smoothing)(*filled)) == pytest.approx(found, rel=1e-6)


def test_rows_that_fill_up_have_no_gradient():
    logits = tf.Variable(np.random.default_rng(1).normal(size=(3, 5)).astype("float32"))
    with tf.GradientTape() as tape:
        loss = StartEndLoss()(np.array([[1, 5], [0, 0], [4, 5]]), logits)
    gradient = tape.gradient(loss, logits).numpy()
    assert not gradient[1].any()
    assert gradient[[0, 2]].all()


def test_the_loss_goes_through_its_configuration():
    loss = keras.losses.deserialize(keras.losses.serialize(StartEndLoss("uniform", 0.2, 2.0)))
    assert (loss.smoothing, loss.amount, loss.deviation) == ("uniform", 0.2, 2.0)
