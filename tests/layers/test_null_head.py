"""NullHead: each question word compared with what it aligns with near the likeliest answer."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import NullHead

FEATURES, PASSAGE, QUESTION = 5, 7, 4
AXES = dict.fromkeys(("passage", "passage_mask", "start_logits", "end_logits"), "passage")
AXES |= dict.fromkeys(("question", "question_mask"), "question")
PADDING = np.float32(-1e9)


def make_inputs(passage_lengths=(7, 4, 1), question_lengths=(2, 4, 1)):
    inputs = {
        "passage": layer_testing.normal(len(passage_lengths), PASSAGE, FEATURES, seed=1),
        "question": layer_testing.normal(len(passage_lengths), QUESTION, FEATURES, seed=2),
        "start_logits": layer_testing.normal(len(passage_lengths), PASSAGE, seed=3, scale=3.0),
        "end_logits": layer_testing.normal(len(passage_lengths), PASSAGE, seed=4, scale=3.0),
        "passage_mask": layer_testing.mask_of(passage_lengths, PASSAGE),
        "question_mask": layer_testing.mask_of(question_lengths, QUESTION),
    }
    for name in ("start_logits", "end_logits"):
        inputs[name][~inputs["passage_mask"]] = PADDING
    return inputs


def make(inputs, **config):
    return layer_testing.built(NullHead(**{"hidden_dim": 11} | config), inputs)


def oracle(weights, **arrays):
    return oracles.null_head(**arrays, weights=weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    inputs = make_inputs((7, 4, 0, 7, 0), (2, 4, 1, 0, 0))
    layer_testing.run_layer_test(NullHead, {"hidden_dim": 11, "dropout": 0.3}, inputs, policy, float32_outputs=True)


@pytest.mark.parametrize("policy", ["bfloat16", "float16", "float64"])
def test_policies_whose_variables_are_of_another_precision(policy):
    inputs = make_inputs()
    layer = layer_testing.built(NullHead(hidden_dim=11, dtype=policy), inputs)
    (found,) = layer_testing.as_arrays([layer(**inputs)])
    assert found.dtype == np.float32 and found.shape == (3, 2) and np.isfinite(found).all()


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


def test_evidence_draws_the_alignment():
    """Two tokens are like the question word; the one beside the likeliest answer is compared with it."""
    inputs = make_inputs((7,), (1,))
    inputs["passage"][0] = 0.0
    inputs["passage"][0, [1, 5], 0] = inputs["question"][0, 0, 0] = 2.0
    inputs["question"][0, 0, 1:] = 0.0
    # They differ in a feature that the question word lacks.
    inputs["passage"][0, 5, 1] = 1.0
    aligned = []
    layer = make(inputs)
    layer.near.assign(1.0)
    layer.decay.assign(0.5)
    for place in (1, 5):
        bounds = np.full((1, PASSAGE), -20.0, "float32")
        bounds[0, place] = 20.0
        evidence = np.exp(bounds) / np.exp(bounds).sum()
        arrays = [np.float32(part) for part in (inputs["passage"], inputs["question"], evidence)]
        aligned.append(np.asarray(layer._aligned(*arrays, inputs["passage_mask"]))[0, 0])
    assert aligned[1][1] > 2 * aligned[0][1] > 0


def test_parameters():
    """Fewer than 10,000: a comparison of 200 x 30, a span of 200 x 15, an output of 75 x 2, and three small parts."""
    layer = NullHead()
    layer.build((None, None, 100), (None, None, 100))
    expected = 200 * 30 + 30 + 200 * 15 + 15 + 75 * 2 + 2 + 100 + 100 + 2
    assert layer_testing.parameters(layer) == expected == 9_399
