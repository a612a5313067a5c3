"""TwoDenseHead: two linear maps, and a ReLU between them if told so."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import TwoDenseHead

INPUTS = {"x": layer_testing.normal(2, 7, 5, seed=1)}

ACTIVATIONS = {None: lambda values: values, "relu": oracles.relu}


def make(**config):
    return layer_testing.built(TwoDenseHead(**config), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(
        TwoDenseHead, {"activation": "relu", "dropout": 0.3}, INPUTS, policy, float32_outputs=True
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_and_gradients(activation):
    def oracle(weights, x):
        return oracles.two_dense_head(x, weights, ACTIVATIONS[activation])

    layer_testing.check_forward(make(activation=activation), INPUTS, oracle)
    layer_testing.check_gradients(make(activation=activation), INPUTS, oracle, samples=10)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"activation must be .relu. or None. Received: activation=.tanh."):
        TwoDenseHead("tanh")


def test_tokens_do_not_meet():
    layer_testing.check_padding(make(), INPUTS, {"text": [7, 3]}, {"x": "text"}, ["text"])


def test_everything_dropped():
    layer = make(dropout=1.0)
    (logits,) = layer_testing.run(layer, INPUTS, training=True)
    (expected,) = layer_testing.run(layer, {"x": 0 * INPUTS["x"]})
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_published_parameters():
    """On BERT-Base."""
    layer = TwoDenseHead()
    layer.build((None, None, 768))
    assert layer_testing.parameters(layer) == 768 * 768 + 768 + 1538
