"""LayerMix: a trained mean of the layers of a word model."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import LayerMix


def make_inputs():
    return {"x": layer_testing.normal(2, 5, 3, 7, seed=1)}


def oracle(weights, x):
    return oracles.layer_mix(x, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(LayerMix, {}, make_inputs(), policy)


def test_forward_and_gradients():
    inputs = make_inputs()
    layer = layer_testing.built(LayerMix(), inputs)
    layer_testing.check_forward(layer, inputs, oracle)
    layer_testing.check_gradients(layer, inputs, oracle, samples=9)


def test_a_new_mix_is_the_mean_of_all_layers():
    inputs, layer = make_inputs(), LayerMix()
    np.testing.assert_allclose(layer(**inputs), inputs["x"].mean(axis=2), rtol=1e-5, atol=1e-6)
    # Three layers: four trained numbers.
    assert layer_testing.parameters(layer) == 4
