"""StartConditionedSelector: the end depends on the distribution of the start."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import StartConditionedSelector

FLOW, FEATURES, PASSAGE = 5, 3, 7


def make_inputs(lengths=(7, 4, 1)):
    return {
        "flow": layer_testing.normal(len(lengths), PASSAGE, FLOW, seed=1),
        "modelled": layer_testing.normal(len(lengths), PASSAGE, FEATURES, seed=2),
        "passage_mask": layer_testing.mask_of(lengths, PASSAGE),
    }


def make(inputs, **config):
    return layer_testing.built(StartConditionedSelector(**{"units": 2} | config), inputs)


def oracle(weights, flow, modelled, passage_mask):
    return oracles.start_conditioned_selector(flow, modelled, passage_mask, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"units": 2, "cell": "gru", "dropout": 0.3, "use_bias": True}
    inputs = make_inputs((7, 4, 0))
    layer_testing.run_layer_test(StartConditionedSelector, config, inputs, policy, float32_outputs=True)


@pytest.mark.parametrize("use_bias", [False, True])
def test_forward(use_bias):
    inputs = make_inputs()
    layer_testing.check_forward(
        make(inputs, use_bias=use_bias), inputs, oracle, [inputs["passage_mask"]] * 2, tolerance=2e-5
    )


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle, [inputs["passage_mask"]] * 2, samples=4)


def test_padding():
    lengths = {"passage": [7, 2]}
    inputs = make_inputs(lengths["passage"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "passage"), ["passage"] * 2)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_padding_gets_the_lowest_logit(policy):
    inputs = make_inputs((7, 4, 0))
    for logits in layer_testing.run(make(inputs, dtype=policy), inputs):
        assert (logits[~inputs["passage_mask"]] == np.float32(-1e9)).all()


def test_the_end_depends_on_the_start():
    """Other weights of the start give other logits of the end."""
    inputs = make_inputs()
    layer = make(inputs)
    _, before = layer_testing.run(layer, inputs)
    layer.start.kernel.assign(-layer.start.kernel)
    _, after = layer_testing.run(layer, inputs)
    assert np.abs(before - after)[inputs["passage_mask"]].max() > 1e-3


def test_everything_dropped():
    inputs = make_inputs()
    for logits in layer_testing.run(make(inputs, dropout=1.0), inputs, training=True):
        assert (logits[inputs["passage_mask"]] == 0.0).all()


def test_published_parameters():
    """Two vectors of 1,000 weights, and two networks of 100 units over 1,400 features."""
    layer = StartConditionedSelector(100)
    layer.build((None, None, 800), (None, None, 200))
    assert layer_testing.parameters(layer) == 2 * 1000 + 2 * 4 * ((1400 + 100) * 100 + 100)
