"""WordDropout: each word independently, at its rate, and never padding."""

import keras
import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import WordDropout

INPUTS = {"words": np.array([[5, 9, 1, 3, 0], [4, 1, 2, 0, 0]], "int32")}


def dropped(rate, shape, seed=7):
    words = np.full(shape, 6, "int32")
    return np.asarray(WordDropout(rate, seed=seed)(words, training=True)) != words


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_types_and_configuration(policy):
    layer = WordDropout(0.3, seed=5, dtype=policy)
    symbol = layer(**layer_testing.symbols_of(INPUTS))
    out = layer(**INPUTS, training=True)
    assert out.shape == symbol.shape == INPUTS["words"].shape
    assert keras.backend.standardize_dtype(out.dtype) == symbol.dtype == "int32"
    config = layer.get_config()
    assert (config["rate"], config["seed"]) == (0.3, 5)
    assert WordDropout.from_config(config).get_config() == config
    assert not layer.trainable_weights


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_the_share_that_is_dropped_is_the_rate(rate):
    shape = (400, 500)
    deviation = np.sqrt(rate * (1 - rate) / (shape[0] * shape[1]))
    assert abs(dropped(rate, shape).mean() - rate) < 5 * deviation


def test_a_word_becomes_unknown_or_stays_and_padding_stays():
    words = np.random.default_rng(3).integers(0, 9, (300, 40)).astype("int32")
    out = np.asarray(WordDropout(0.4, seed=2)(words, training=True))
    changed = out != words
    assert changed.any()
    assert (out[changed] == 1).all()
    np.testing.assert_array_equal(out == 0, words == 0)
    # All words are dropped at the same rate, except for padding and unknown words, which stay the same.
    for word in range(2, 9):
        assert abs(changed[words == word].mean() - 0.4) < 0.06, word
    assert not changed[words <= 1].any()


def test_positions_are_drawn_independently():
    kept = ~dropped(0.5, (1000, 300)).ravel()
    for distance in (1, 2, 4, 300):
        assert abs((kept[distance:] == kept[:-distance]).mean() - 0.5) < 0.006, distance


def test_calls_differ_and_seeds_repeat():
    layer, again = WordDropout(0.5, seed=3), WordDropout(0.5, seed=3)
    words = np.full((9, 9), 4, "int32")
    first, second = (np.asarray(layer(words, training=True)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(first, np.asarray(again(words, training=True)))


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_nothing_is_dropped_outside_training(rate):
    (out,) = layer_testing.run(WordDropout(rate), INPUTS)
    np.testing.assert_array_equal(out, INPUTS["words"])


def test_rates_of_zero_and_of_one():
    assert not dropped(0.0, (30, 50)).any()
    assert dropped(1.0, (30, 50)).all()


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ValueError, match=rf"rate must be from 0 to 1. Received: rate={rate}"):
        WordDropout(rate)


def test_its_generator_is_part_of_its_state():
    """Training can then be resumed exactly."""
    layer = WordDropout(0.5, seed=3)
    before = np.array(keras.ops.convert_to_numpy(layer.non_trainable_variables[0]))
    layer(INPUTS["words"], training=True)
    assert (keras.ops.convert_to_numpy(layer.non_trainable_variables[0]) != before).any()
