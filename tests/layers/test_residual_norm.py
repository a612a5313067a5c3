"""ResidualNorm: the sum of a sublayer's input and output, normalized over the features."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ResidualNorm

INPUTS = {"x": layer_testing.normal(2, 3, 5, seed=1), "update": layer_testing.normal(2, 3, 5, seed=2)}


def oracle(weights, x, update):
    return oracles.residual_norm(x, update, weights)


def make(**arguments):
    return layer_testing.built(ResidualNorm(**arguments), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(ResidualNorm, {"dropout": 0.3, "epsilon": 1e-5}, INPUTS, policy)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_a_token_of_equal_values_has_finite_gradients(policy):
    """Its variance is 0, so epsilon alone is under the root."""
    inputs = {"x": np.ones((2, 3, 5), "float32"), "update": np.zeros((2, 3, 5), "float32")}
    layer = layer_testing.built(ResidualNorm(dtype=policy), inputs)
    _, value, gradients = layer_testing.value_and_gradients(layer, inputs, [layer_testing.normal(2, 3, 5, seed=3)])
    assert np.isfinite(value)
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())


def test_forward():
    layer_testing.check_forward(make(), INPUTS, oracle)


def test_gradients():
    layer_testing.check_gradients(make(), INPUTS, oracle, samples=10)


def test_by_hand():
    """[1, 2] + [0, 3] = [1, 5]: mean 3, biased variance 4."""
    inputs = {"x": np.array([[[1.0, 2.0]]], "float32"), "update": np.array([[[0.0, 3.0]]], "float32")}
    (out,) = layer_testing.run(ResidualNorm(), inputs)
    np.testing.assert_allclose(out, [[[-1.0, 1.0]]], atol=1e-6)


def test_small_values_are_normalized_too():
    """Epsilon is 1e-8: a variance of 1e-4 is far above it (Keras' default of 1e-3 is not)."""
    inputs = {name: value * np.float32(0.01) for name, value in INPUTS.items()}
    layer_testing.check_forward(make(), inputs, oracle, tolerance=1e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.7])
def test_epsilon_is_added_to_the_variance(epsilon):
    layer_testing.check_forward(
        make(epsilon=epsilon), INPUTS, lambda weights, x, update: oracles.residual_norm(x, update, weights, epsilon)
    )


def test_dropout_falls_on_the_update_alone():
    layer = make(dropout=1.0)
    (out,) = layer_testing.run(layer, INPUTS, training=True)
    expected = oracles.residual_norm(INPUTS["x"].astype("float64"), 0.0, layer_testing.weights_of(layer))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    layer_testing.check_forward(layer, INPUTS, oracle)


def test_tokens_are_independent():
    inputs = {"x": layer_testing.normal(2, 7, 5, seed=1), "update": layer_testing.normal(2, 7, 5, seed=2)}
    axes = {"x": "text", "update": "text"}
    layer_testing.check_padding(make(), inputs, {"text": [7, 3]}, axes, ["text"])


def test_published_parameters():
    layer = ResidualNorm()
    layer.build((None, None, 100), (None, None, 100))
    assert layer_testing.parameters(layer) == 200
