"""NullHead: pooling over the real tokens of both texts, and a network with one hidden layer."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import NullHead

FEATURES, QUESTION_FEATURES, PASSAGE, QUESTION = 5, 3, 7, 4
AXES = {"passage": "passage", "passage_mask": "passage", "question": "question", "question_mask": "question"}


def make_inputs(passage_lengths=(7, 4, 1), question_lengths=(2, 4, 1)):
    return {
        "passage": layer_testing.normal(len(passage_lengths), PASSAGE, FEATURES, seed=1),
        "question": layer_testing.normal(len(passage_lengths), QUESTION, QUESTION_FEATURES, seed=2),
        "passage_mask": layer_testing.mask_of(passage_lengths, PASSAGE),
        "question_mask": layer_testing.mask_of(question_lengths, QUESTION),
    }


def make(inputs, **config):
    return layer_testing.built(NullHead(**{"hidden_dim": 11} | config), inputs)


def oracle(weights, **arrays):
    return oracles.null_head(**arrays, weights=weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    inputs = make_inputs((7, 4, 0, 7, 0), (2, 4, 1, 0, 0))
    layer_testing.run_layer_test(NullHead, {"hidden_dim": 11, "dropout": 0.3}, inputs, policy, float32_outputs=True)


def test_forward():
    inputs = make_inputs((7, 4, 1, 0, 7), (2, 4, 1, 3, 0))
    layer_testing.check_forward(make(inputs), inputs, oracle)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle, samples=10)


def test_padding():
    lengths = {"passage": [7, 2], "question": [1, 4]}
    inputs = make_inputs(*lengths.values())
    layer_testing.check_padding(make(inputs), inputs, lengths, AXES, [None])


@pytest.mark.parametrize("garbage", [np.inf, np.nan])
def test_padding_may_hold_anything(garbage):
    inputs = make_inputs((7, 4, 0), (2, 0, 1))
    layer = make(inputs)
    (expected,) = layer_testing.run(layer, inputs)
    for text in ("passage", "question"):
        inputs[text][~inputs[f"{text}_mask"]] = garbage
    (found,) = layer_testing.run(layer, inputs)
    np.testing.assert_array_equal(found, expected)


def test_everything_dropped():
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    (out,) = layer_testing.run(layer, inputs, training=True)
    bias = layer_testing.weights_of(layer)["logits/bias"]
    np.testing.assert_allclose(out, np.broadcast_to(bias, (3, 2)), rtol=1e-6)
    layer_testing.check_forward(layer, inputs, oracle)


def test_parameters():
    """Two queries of 100, a hidden layer of 200 x 32 and an output of 32 x 2, both with bias."""
    layer = NullHead()
    layer.build((None, None, 100), (None, None, 100))
    assert layer_testing.parameters(layer) == 2 * 100 + 200 * 32 + 32 + 32 * 2 + 2 == 6_698
