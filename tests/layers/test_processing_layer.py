"""ProcessingLayer: self-attention, cross-attention, feedforwards and norms in the paper's order."""

import layer_testing
import numpy as np
import oracles
import pytest
import relative_attention  # noqa: F401  registers "relative"

from fabir_tf.layers import ProcessingLayer

HEADS, HIDDEN, FEATURES = 2, 11, 6
PASSAGE, QUESTION = 7, 5
AXES = {"passage": "passage", "passage_mask": "passage", "question": "question", "question_mask": "question"}
VARIANTS = [
    {},
    {"kernel_size": None},
    {"kernel_size": (3, 7), "depthwise": True, "cross_softmax_axis": "key"},
]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=["published", "plain", "row-wise"])


def make_inputs(passage_lengths=(7, 4), question_lengths=(3, 5), seed=1):
    batch = len(passage_lengths)
    return {
        "passage": layer_testing.normal(batch, PASSAGE, FEATURES, seed=seed),
        "question": layer_testing.normal(batch, QUESTION, FEATURES, seed=seed + 1),
        "passage_mask": layer_testing.mask_of(passage_lengths, PASSAGE),
        "question_mask": layer_testing.mask_of(question_lengths, QUESTION),
    }


def make(inputs, **config):
    return layer_testing.built(ProcessingLayer(num_heads=HEADS, hidden_dim=HIDDEN, **config), inputs)


def oracle_of(variant):
    def oracle(weights, passage, question, passage_mask, question_mask):
        axis = variant.get("cross_softmax_axis", "query")
        return oracles.processing_layer(passage, question, passage_mask, question_mask, weights, HEADS, axis)

    return oracle


def real(inputs):
    return [inputs["passage_mask"], inputs["question_mask"]]


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {
        "num_heads": HEADS,
        "hidden_dim": HIDDEN,
        "kernel_size": (3, 5),
        "depthwise": True,
        "cross_softmax_axis": "key",
        "shared_query_key_init": True,
        "residual_init_scale": 0.5,
        "attention_dropout": 0.2,
        "dropout": 0.3,
        "attention": "relative",
    }
    inputs = make_inputs((7, 4, 0, 7, 0), (3, 5, 5, 0, 0))
    layer_testing.run_layer_test(ProcessingLayer, config, inputs, policy)


@variants
def test_with_a_residual_scale_of_0_every_sublayer_starts_as_the_identity(variant):
    inputs = make_inputs()
    layer = ProcessingLayer(num_heads=HEADS, hidden_dim=HIDDEN, residual_init_scale=0.0, **variant)
    layer(**layer_testing.symbols_of(inputs))
    norm = {"gain": np.ones(FEATURES), "bias": np.zeros(FEATURES)}
    outputs = layer_testing.run(layer, inputs)
    for output, name, where in zip(outputs, ("passage", "question"), real(inputs), strict=True):
        expected = oracles.residual_norm(inputs[name].astype("float64"), 0.0, norm)
        np.testing.assert_allclose(output[where], expected[where], rtol=1e-5, atol=1e-5)


@variants
def test_forward(variant):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, **variant), inputs, oracle_of(variant), real(inputs), tolerance=2e-5)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle_of({}), real(inputs), samples=3)


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[2]], ids=["published", "row-wise"])
def test_padding(variant):
    lengths = {"passage": [7, 2], "question": [3, 5]}
    inputs = make_inputs(*lengths.values())
    layer = make(inputs, **variant)
    layer_testing.check_padding(layer, inputs, lengths, AXES, ["passage", "question"])


def test_the_question_does_not_depend_on_the_passage():
    inputs = make_inputs()
    layer = make(inputs)
    other = inputs | {"passage": layer_testing.normal(2, PASSAGE, FEATURES, seed=9)}
    np.testing.assert_array_equal(layer_testing.run(layer, inputs)[1], layer_testing.run(layer, other)[1])


def test_both_texts_share_the_self_attention():
    layer = make(make_inputs())
    attentions = {name.split("/")[0] for name in layer_testing.weights_of(layer) if "query/kernel" in name}
    assert attentions == {"self_attention", "cross_attention"}


def test_sublayer_dropout_leaves_the_residual():
    """If the output of every sublayer is dropped, only the norms are left."""
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    weights = layer_testing.weights_of(layer)
    passage, question = inputs["passage"].astype("float64"), inputs["question"].astype("float64")
    for name in ("passage_self_norm", "passage_cross_norm", "passage_feed_forward_norm"):
        passage = oracles.residual_norm(passage, 0.0, oracles.part(weights, name))
    for name in ("question_self_norm", "question_feed_forward_norm"):
        question = oracles.residual_norm(question, 0.0, oracles.part(weights, name))
    out = layer_testing.run(layer, inputs, training=True)
    np.testing.assert_allclose(out[0], passage, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(out[1], question, rtol=1e-5, atol=2e-5)


def test_attention_dropout_leaves_the_biases():
    """If all weights are dropped, an attention returns the bias of its output map."""
    inputs = make_inputs()
    layer = make(inputs, attention_dropout=1.0)
    weights = layer_testing.weights_of(layer)
    for name in weights:
        if name.endswith("attention/output/kernel"):
            weights[name] = np.zeros_like(weights[name])
    arrays = {name: value.astype("float64") if value.dtype.kind == "f" else value for name, value in inputs.items()}
    expected = oracles.processing_layer(**arrays, weights=weights, num_heads=HEADS)
    for output, wanted, where in zip(
        layer_testing.run(layer, inputs, training=True), expected, real(inputs), strict=True
    ):
        np.testing.assert_allclose(output[where], wanted[where], rtol=1e-5, atol=2e-5)


def test_published_parameters():
    layer = ProcessingLayer(num_heads=4, hidden_dim=200)
    layer.build((None, None, 100), (None, None, 100))
    assert layer_testing.parameters(layer) == 162_560
