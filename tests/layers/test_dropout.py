"""Dropout: each value independently, at its rate, and the mean is preserved."""

import keras
import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import Dropout

INPUTS = {"inputs": layer_testing.normal(2, 3, 5, seed=1)}


def dropped(rate, shape, dtype="float32", seed=7, calls=1):
    ones, layer = keras.ops.ones(shape, dtype), Dropout(rate, seed=seed, dtype=dtype)
    outs = [keras.ops.cast(layer(ones, training=True), "float32") for _ in range(calls)]
    return np.asarray(keras.ops.concatenate(outs))


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(Dropout, {"rate": 0.3, "seed": 5}, INPUTS, policy)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.19, 0.5, 0.99])
def test_the_share_that_is_dropped_is_the_rate(rate, dtype):
    calls = 400
    values = dropped(rate, (20, 7, 31), dtype, calls=calls)
    deviation = np.sqrt(rate * (1 - rate) / values.size)
    # The rate of one call is one of two multiples of 1/256.
    assert abs((values == 0).mean() - rate) < 5 * (deviation + 1 / 512 / np.sqrt(calls))
    kept = values[values != 0]
    # bfloat16 has 8 significant bits.
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=1e-3 if dtype == "float32" else 2**-7)


def test_a_call_drops_at_a_rate_next_to_its_own():
    """0.1 lies between 25/256 and 26/256."""
    layer = Dropout(0.1, seed=5)
    ones = keras.ops.ones((1000, 1000))
    shares = [float(keras.ops.mean(layer(ones, training=True) == 0)) * 256 for _ in range(12)]
    assert all(min(abs(share - 25), abs(share - 26)) < 0.4 for share in shares), shares
    assert {round(share) for share in shares} == {25, 26}


def test_neighbors_are_dropped_independently():
    """Four values share the bits of one number, but must be independent."""
    kept = dropped(0.5, (1000, 1000)).ravel() > 0
    for distance in (1, 2, 3, 4, 5, 1000, 1001):
        equal = (kept[distance:] == kept[:-distance]).mean()
        assert abs(equal - 0.5) < 0.003, distance


@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 1, 3), (2, 2)])
def test_any_number_of_values(shape):
    assert dropped(0.4, shape).shape == shape


def test_calls_differ_and_seeds_repeat():
    layer, again = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    ones = np.ones((9, 9), "float32")
    first, second = (np.asarray(layer(ones, training=True)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(first, np.asarray(again(ones, training=True)))


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_nothing_is_dropped_outside_training(rate):
    (out,) = layer_testing.run(Dropout(rate), INPUTS)
    np.testing.assert_array_equal(out, INPUTS["inputs"])
    np.testing.assert_array_equal(np.asarray(Dropout(0.0)(INPUTS["inputs"], training=True)), INPUTS["inputs"])


def test_a_rate_of_one_drops_all():
    assert not dropped(1.0, (3, 5)).any()


@pytest.mark.parametrize("rate", [0.9999, 1e-9])
def test_rates_next_to_one_and_to_zero(rate):
    """Nothing overflows 8 bits."""
    share = (dropped(rate, (500, 500)) == 0).mean()
    assert abs(share - min(rate, 255 / 256)) < 1e-3


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ValueError, match=rf"rate must be from 0 to 1. Received: rate={rate}"):
        Dropout(rate)


@pytest.mark.parametrize("shape", [(None, None), (None, None, None), (None, None, None, None)])
def test_axes_of_unknown_length(shape):
    """As attention weights have them, `(batch, passage, question)`."""
    inputs = keras.Input(shape[1:])
    model = keras.Model(inputs, Dropout(0.5)(inputs))
    values = np.ones([3, 4, 5, 6][: len(shape)], "float32")
    model.compile("sgd", "mse")
    assert np.isfinite(model.evaluate(values, values, verbose=0))
    model.fit(values, values, verbose=0)
    found = np.asarray(model(values, training=True))
    assert found.shape == values.shape and set(np.unique(found)) <= {0.0, 2.0}
