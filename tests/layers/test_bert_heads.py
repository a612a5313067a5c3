"""The heads on BERT: what a layer per token makes of its states."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BERT_HEADS, DenseHead, GatedHead, HighwayHead, ResidualHead, TwoDenseHead

INPUTS = {"x": layer_testing.normal(2, 7, 5, seed=1)}

# NumPy's version of each.
ORACLES = {
    "dense": oracles.dense_head,
    "dense-2": lambda x, weights: oracles.two_dense_head(x, weights, lambda values: values),
    "dense-2-relu": lambda x, weights: oracles.two_dense_head(x, weights, oracles.relu),
    "highway": oracles.highway_head,
    "residual": lambda x, weights: oracles.residual_head(x, weights, 1),
    "residual-5": lambda x, weights: oracles.residual_head(x, weights, 5),
    "gated": oracles.gated_head,
}
# On BERT-Base, as published.
PARAMETERS = {
    "dense": 1538,
    "dense-2": 768 * 768 + 768 + 1538,
    "dense-2-relu": 768 * 768 + 768 + 1538,
    "highway": 2 * (768 * 768 + 768) + 1538,
    "residual": 2 * (768 * 768 + 768) + 1538,
    "residual-5": 5 * 2 * (768 * 768 + 768) + 1538,
    "gated": 2 * 1538,
}
every_head = pytest.mark.parametrize("name", ORACLES)


def make(name, **config):
    return layer_testing.built(BERT_HEADS[name](**config), INPUTS)


def test_every_head_is_here():
    assert ORACLES.keys() == PARAMETERS.keys() == BERT_HEADS.keys()


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
@pytest.mark.parametrize(
    ("head", "config"),
    [
        (DenseHead, {}),
        (TwoDenseHead, {"activation": "relu"}),
        (HighwayHead, {}),
        (ResidualHead, {"blocks": 3}),
        (GatedHead, {}),
    ],
)
def test_conformance(head, config, policy):
    layer_testing.run_layer_test(head, config | {"dropout": 0.3}, INPUTS, policy, float32_outputs=True)


@every_head
def test_forward_and_gradients(name):
    def oracle(weights, x):
        return ORACLES[name](x, weights)

    layer_testing.check_forward(make(name), INPUTS, oracle)
    layer_testing.check_gradients(make(name), INPUTS, oracle, samples=10)


@every_head
def test_tokens_do_not_meet(name):
    layer_testing.check_padding(make(name), INPUTS, {"text": [7, 3]}, {"x": "text"}, ["text"])


@every_head
def test_everything_dropped(name):
    (logits,) = layer_testing.run(make(name, dropout=1.0), INPUTS, training=True)
    (expected,) = layer_testing.run(make(name), {"x": 0 * INPUTS["x"]})
    np.testing.assert_allclose(logits, expected, atol=1e-6)


@every_head
def test_published_parameters(name):
    layer = BERT_HEADS[name]()
    layer.build((None, None, 768))
    assert layer_testing.parameters(layer) == PARAMETERS[name]


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"activation must be .relu. or None. Received: activation=.tanh."):
        TwoDenseHead("tanh")


def test_no_block_is_refused():
    with pytest.raises(ValueError, match=r"blocks must be at least 1. Received: blocks=0"):
        ResidualHead(0)
