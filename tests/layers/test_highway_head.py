"""HighwayHead: one highway layer before the linear map."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import HighwayHead

INPUTS = {"x": layer_testing.normal(2, 7, 5, seed=1)}


def oracle(weights, x):
    return oracles.highway_head(x, weights)


def make(**config):
    return layer_testing.built(HighwayHead(**config), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(HighwayHead, {"dropout": 0.3}, INPUTS, policy, float32_outputs=True)


def test_forward_and_gradients():
    layer_testing.check_forward(make(), INPUTS, oracle)
    layer_testing.check_gradients(make(), INPUTS, oracle, samples=10)


def test_tokens_do_not_meet():
    layer_testing.check_padding(make(), INPUTS, {"text": [7, 3]}, {"x": "text"}, ["text"])


def test_everything_dropped():
    layer = make(dropout=1.0)
    (logits,) = layer_testing.run(layer, INPUTS, training=True)
    (expected,) = layer_testing.run(layer, {"x": 0 * INPUTS["x"]})
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_published_parameters():
    """On BERT-Base."""
    layer = HighwayHead()
    layer.build((None, None, 768))
    assert layer_testing.parameters(layer) == 2 * (768 * 768 + 768) + 1538
