"""ResidualHead: residual blocks before the linear map."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ResidualHead

INPUTS = {"x": layer_testing.normal(2, 7, 5, seed=1)}


def make(**config):
    return layer_testing.built(ResidualHead(**config), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(ResidualHead, {"blocks": 3, "dropout": 0.3}, INPUTS, policy, float32_outputs=True)


@pytest.mark.parametrize("blocks", [1, 5])
def test_forward_and_gradients(blocks):
    def oracle(weights, x):
        return oracles.residual_head(x, weights, blocks)

    layer_testing.check_forward(make(blocks=blocks), INPUTS, oracle)
    layer_testing.check_gradients(make(blocks=blocks), INPUTS, oracle)


def test_no_block_is_refused():
    with pytest.raises(ValueError, match=r"blocks must be at least 1. Received: blocks=0"):
        ResidualHead(0)


def test_tokens_do_not_meet():
    layer_testing.check_padding(make(), INPUTS, {"text": [7, 3]}, {"x": "text"}, ["text"])


def test_everything_dropped():
    layer = make(dropout=1.0)
    (logits,) = layer_testing.run(layer, INPUTS, training=True)
    (expected,) = layer_testing.run(layer, {"x": 0 * INPUTS["x"]})
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_published_parameters():
    """On BERT-Base."""
    layer = ResidualHead(blocks=5)
    layer.build((None, None, 768))
    assert layer_testing.parameters(layer) == 5 * 2 * (768 * 768 + 768) + 1538
