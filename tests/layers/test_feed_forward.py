"""FeedForward: one hidden layer, token by token."""

import layer_testing
import oracles
import pytest

from fabir_tf.layers import FeedForward

INPUTS = {"x": layer_testing.normal(2, 3, 5, seed=1)}


def oracle(weights, x):
    return oracles.feed_forward(x, weights)


@pytest.fixture
def layer():
    return layer_testing.built(FeedForward(hidden_dim=7), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(FeedForward, {"hidden_dim": 7, "residual_init_scale": 0.5}, INPUTS, policy)


def test_forward(layer):
    layer_testing.check_forward(layer, INPUTS, oracle)


def test_gradients(layer):
    layer_testing.check_gradients(layer, INPUTS, oracle, samples=10)


def test_tokens_do_not_meet(layer):
    inputs = {"x": layer_testing.normal(2, 7, 5, seed=1)}
    layer_testing.check_padding(layer, inputs, {"text": [7, 3]}, {"x": "text"}, ["text"])


def test_published_parameters():
    layer = FeedForward(hidden_dim=200)
    layer.build((None, None, 100))
    assert layer_testing.parameters(layer) == 100 * 200 + 200 + 200 * 100 + 100


def test_kernels_are_initialized_by_xavier():
    layer = FeedForward(hidden_dim=83)
    layer.build((None, None, 61))
    weights = layer_testing.weights_of(layer)
    for name in ("hidden/kernel", "output/kernel"):
        assert abs(weights[name].var() * (61 + 83) / 2 - 1.0) < 0.1, name
    assert not weights["hidden/bias"].any()


def test_only_the_output_map_is_initialized_smaller():
    layer = FeedForward(hidden_dim=83, residual_init_scale=0.1)
    layer.build((None, None, 61))
    weights = layer_testing.weights_of(layer)
    for name, start in (("hidden/kernel", 1.0), ("output/kernel", 0.1)):
        assert abs(weights[name].std() * ((61 + 83) / 2) ** 0.5 - start) < 0.05 * start, name
