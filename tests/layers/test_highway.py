"""Highway: a gate between a vector and its transformation."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import Highway

INPUTS = {"x": layer_testing.normal(2, 3, 5, seed=1)}


def make(depth):
    return layer_testing.built(Highway(depth), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(Highway, {"depth": 3}, INPUTS, policy)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_forward(depth):
    layer_testing.check_forward(make(depth), INPUTS, lambda weights, x: oracles.highway(x, weights, depth))


def test_gradients():
    layer_testing.check_gradients(make(2), INPUTS, lambda weights, x: oracles.highway(x, weights, 2))


@pytest.mark.parametrize(("gate_bias", "expected"), [(60.0, [[1.0, -2.0]]), (-60.0, [[5.5, 0.0]])])
def test_an_open_gate_carries_and_a_closed_one_transforms(gate_bias, expected):
    x = np.array([[[1.0, -2.0]]], "float32")
    layer = Highway(depth=1)
    layer(x)
    values = {
        "gate_0/kernel": np.zeros((2, 2)),
        "gate_0/bias": np.full(2, gate_bias),
        "transform_0/kernel": [[3.0, 1.0], [-1.0, 2.0]],
        "transform_0/bias": [0.5, 0.25],
    }
    for weight in layer.weights:
        weight.assign(np.asarray(values[layer_testing.name_of(weight, layer.name)], "float32"))
    # [1, -2] W + b = [3 + 2 + 0.5, 1 - 4 + 0.25]; relu leaves [5.5, 0]
    np.testing.assert_allclose(layer_testing.run(layer, {"x": x})[0][0], expected, atol=1e-6)


def test_tokens_do_not_meet():
    layer_testing.check_padding(
        make(2), {"x": layer_testing.normal(2, 7, 5, seed=1)}, {"text": [7, 3]}, {"x": "text"}, ["text"]
    )


def test_published_parameters():
    layer = Highway(depth=2)
    layer.build((None, None, 200))
    assert layer_testing.parameters(layer) == 160_800


def test_kernels_are_initialized_by_xavier():
    layer = Highway(depth=1)
    layer.build((None, None, 61))
    weights = layer_testing.weights_of(layer)
    for name in ("transform_0/kernel", "gate_0/kernel"):
        assert abs(weights[name].var() * 61 - 1.0) < 0.1, name
