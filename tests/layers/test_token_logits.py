"""TokenLogits: one weight vector, padding masked."""

import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import TokenLogits

FEATURES, PASSAGE = 5, 7


def make_inputs(lengths=(7, 4)):
    return {
        "x": layer_testing.normal(len(lengths), PASSAGE, FEATURES, seed=1),
        "passage_mask": layer_testing.mask_of(lengths, PASSAGE),
    }


def make(inputs, **config):
    return layer_testing.built(TokenLogits(**config), inputs)


def oracle(weights, x, passage_mask):
    return (x * weights["kernel"][:, 0]).sum(axis=-1) + weights.get("bias", 0.0)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"dropout": 0.3, "use_bias": True, "keras_initializers": True}
    layer_testing.run_layer_test(TokenLogits, config, make_inputs((7, 4, 0)), policy, float32_outputs=True)


@pytest.mark.parametrize("use_bias", [False, True])
def test_forward_and_gradients(use_bias):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, use_bias=use_bias), inputs, oracle, [inputs["passage_mask"]])
    layer_testing.check_gradients(make(inputs, use_bias=use_bias), inputs, oracle, [inputs["passage_mask"]], samples=10)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_padding_gets_the_lowest_logit(policy):
    inputs = make_inputs((7, 4, 0))
    (logits,) = layer_testing.run(make(inputs, dtype=policy), inputs)
    assert (logits[~inputs["passage_mask"]] == np.float32(-1e9)).all()
    assert (np.abs(logits[inputs["passage_mask"]]) < 1e3).all()


def test_padding():
    lengths = {"passage": [7, 2]}
    inputs = make_inputs(lengths["passage"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "passage"), ["passage"])


def test_everything_dropped():
    inputs = make_inputs()
    (logits,) = layer_testing.run(make(inputs, dropout=1.0), inputs, training=True)
    assert (logits[inputs["passage_mask"]] == 0.0).all()


def test_published_parameters():
    """Porwal's start, with 3,200 and 800 features, has no bias."""
    layer = TokenLogits()
    layer.build((None, None, 4000))
    assert layer_testing.parameters(layer) == 4000
