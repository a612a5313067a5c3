"""LinearSelector: one weight vector for the start, one for the end."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import LinearSelector

FEATURES, PASSAGE = 5, 7


def make_inputs(lengths=(7, 4), seed=1):
    return {
        "passage": layer_testing.normal(len(lengths), PASSAGE, FEATURES, seed=seed),
        "passage_mask": layer_testing.mask_of(lengths, PASSAGE),
    }


def make(inputs, **config):
    return layer_testing.built(LinearSelector(**config), inputs)


def oracle(weights, passage, passage_mask):
    return oracles.linear_selector(passage, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(
        LinearSelector, {"dropout": 0.3, "num_outputs": 1}, make_inputs((7, 4, 0)), policy, float32_outputs=True
    )


def test_forward():
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs), inputs, oracle, [inputs["passage_mask"]] * 2)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle, [inputs["passage_mask"]] * 2, samples=10)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_padding_gets_the_lowest_logit(policy):
    inputs = make_inputs((7, 4, 0))
    for logits in layer_testing.run(make(inputs, dtype=policy), inputs):
        assert (logits[~inputs["passage_mask"]] == np.float32(-1e9)).all()
        assert (np.abs(logits[inputs["passage_mask"]]) < 1e3).all()


def test_padding():
    lengths = {"passage": [7, 2]}
    inputs = make_inputs(lengths["passage"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "passage"), ["passage"] * 2)


def test_everything_dropped():
    inputs = make_inputs()
    for logits in layer_testing.run(make(inputs, dropout=1.0), inputs, training=True):
        assert (logits[inputs["passage_mask"]] == 0.0).all()


def test_parameters():
    """Thesis eq. 5.19 has no bias."""
    layer = LinearSelector()
    layer.build((None, None, 100))
    assert layer_testing.parameters(layer) == 200
