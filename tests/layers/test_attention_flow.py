"""AttentionFlow: context to query, query to context, and their concatenation."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import AttentionFlow

FEATURES, PASSAGE, QUESTION = 5, 7, 4


def make_inputs(passage=(7, 4, 1), question=(2, 4, 1)):
    return {
        "passage": layer_testing.normal(len(passage), PASSAGE, FEATURES, seed=1),
        "question": layer_testing.normal(len(passage), QUESTION, FEATURES, seed=2),
        "passage_mask": layer_testing.mask_of(passage, PASSAGE),
        "question_mask": layer_testing.mask_of(question, QUESTION),
    }


def make(inputs, **config):
    return layer_testing.built(AttentionFlow(**config), inputs)


def oracle(weights, passage, question, passage_mask, question_mask):
    return oracles.attention_flow(passage, question, passage_mask, question_mask, weights)


# Not float16: the bias changes no attention weight. Its gradient is a rounding error, and exactly 0 in float16.
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_conformance(policy):
    inputs = make_inputs((7, 4, 0), (2, 4, 0))
    config = {"use_bias": True, "keras_initializers": True}
    layer_testing.run_layer_test(AttentionFlow, config, inputs, policy)


@pytest.mark.parametrize("use_bias", [False, True])
def test_forward(use_bias):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, use_bias=use_bias), inputs, oracle, [inputs["passage_mask"]])


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs, use_bias=True), inputs, oracle, [inputs["passage_mask"]], samples=10)


def test_padding():
    lengths = {"passage": [7, 2], "question": [1, 4]}
    inputs = make_inputs(lengths["passage"], lengths["question"])
    axes = {name: name.removesuffix("_mask") for name in inputs}
    layer_testing.check_padding(make(inputs), inputs, lengths, axes, ["passage"])


def test_by_hand():
    """A question of one word gets all attention; the most similar passage token gets nearly all in return."""
    layer = AttentionFlow()
    inputs = {
        "passage": np.array([[[1.0, 0.0], [0.0, 1.0]]], "float32"),
        "question": np.array([[[0.0, 3.0]]], "float32"),
        "passage_mask": np.ones((1, 2), bool),
        "question_mask": np.ones((1, 1), bool),
    }
    layer_testing.built(layer, inputs)
    # S = 10 (h * u) . (1, 1): 0 and 30.
    layer.kernel.assign(np.array([[0.0], [0.0], [0.0], [0.0], [10.0], [10.0]]))
    (flow,) = layer_testing.run(layer, inputs)
    first, second = [1, 0, 0, 3, 0, 0, 0, 0], [0, 1, 0, 3, 0, 3, 0, 1]
    np.testing.assert_allclose(flow, [[first, second]], atol=1e-6)


def test_published_parameters():
    """Porwal's similarity has 2,401: three weights for each of 800 features, and a bias."""
    layer = AttentionFlow(use_bias=True)
    layer.build((None, None, 800), (None, None, 800))
    assert layer_testing.parameters(layer) == 2_401
