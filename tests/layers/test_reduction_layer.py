"""ReductionLayer: interaction of the embeddings, a linear map, and the encodings."""

import layer_testing
import numpy as np
import oracles
import pytest
import relative_attention  # noqa: F401  registers "relative"

from fabir_tf.layers import DecoupledEncoder, ReductionLayer

HEADS, HIDDEN, INPUT_DIM, OUTPUT_DIM = 2, 11, 10, 6
PASSAGE, QUESTION = 7, 5
AXES = {f"{text}{kind}": text for text in ("passage", "question") for kind in ("", "_encodings", "_mask")}
VARIANTS = [
    {},
    {"kernel_size": None},
    {"kernel_size": (3, 7), "depthwise": True, "cross_softmax_axis": "key"},
]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=["published", "plain", "row-wise"])


def make_inputs(passage_lengths=(7, 4), question_lengths=(3, 5), seed=1):
    batch = len(passage_lengths)
    return {
        "passage": layer_testing.normal(batch, PASSAGE, INPUT_DIM, seed=seed),
        "question": layer_testing.normal(batch, QUESTION, INPUT_DIM, seed=seed + 1),
        "passage_encodings": layer_testing.normal(batch, PASSAGE, OUTPUT_DIM, seed=seed + 2),
        "question_encodings": layer_testing.normal(batch, QUESTION, OUTPUT_DIM, seed=seed + 3),
        "passage_mask": layer_testing.mask_of(passage_lengths, PASSAGE),
        "question_mask": layer_testing.mask_of(question_lengths, QUESTION),
    }


def make(inputs, **config):
    layer = ReductionLayer(OUTPUT_DIM, num_heads=HEADS, hidden_dim=HIDDEN, **config)
    return layer_testing.built(layer, inputs)


def oracle_of(variant):
    def oracle(weights, **arrays):
        axis = variant.get("cross_softmax_axis", "query")
        return oracles.reduction_layer(**arrays, weights=weights, num_heads=HEADS, cross_axis=axis)

    return oracle


def real(inputs):
    return [inputs["passage_mask"], inputs["question_mask"]]


def assert_real_equal(outputs, expected, inputs, tolerance=2e-5):
    for output, wanted, where in zip(outputs, expected, real(inputs), strict=True):
        np.testing.assert_allclose(output[where], wanted[where], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {
        "output_dim": OUTPUT_DIM,
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
    layer_testing.run_layer_test(ReductionLayer, config, inputs, policy)


@variants
def test_forward(variant):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, **variant), inputs, oracle_of(variant), real(inputs), tolerance=2e-5)


def test_gradients():
    variant, inputs = VARIANTS[2], make_inputs()
    layer_testing.check_gradients(make(inputs, **variant), inputs, oracle_of(variant), real(inputs), samples=3)


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[2]], ids=["published", "row-wise"])
def test_padding(variant):
    lengths = {"passage": [7, 2], "question": [3, 5]}
    inputs = make_inputs(*lengths.values())
    layer = make(inputs, **variant)
    layer_testing.check_padding(layer, inputs, lengths, AXES, ["passage", "question"])


def test_the_question_does_not_see_the_passage():
    inputs = make_inputs()
    layer = make(inputs)
    other = inputs | {"passage": layer_testing.normal(2, PASSAGE, INPUT_DIM, seed=9)}
    np.testing.assert_array_equal(layer_testing.run(layer, inputs)[1], layer_testing.run(layer, other)[1])


def test_sublayer_dropout_leaves_the_residual():
    """If the output of every sublayer is dropped, norms, linear map and encodings are left."""
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    weights = layer_testing.weights_of(layer)
    expected = []
    for text, norms in (("passage", ("cross_norm", "feed_forward_norm")), ("question", ("feed_forward_norm",))):
        x = inputs[text].astype("float64")
        for norm in norms:
            x = oracles.residual_norm(x, 0.0, oracles.part(weights, f"{text}_{norm}"))
        expected.append(oracles.affine(x, oracles.part(weights, "reduction")) + inputs[f"{text}_encodings"])
    assert_real_equal(layer_testing.run(layer, inputs, training=True), expected, inputs)


def test_published_parameters():
    """Together with its encoder it has the published 685,660."""
    layer, encoder = ReductionLayer(100, num_heads=4, hidden_dim=400), DecoupledEncoder(100, num_heads=4)
    layer.build((None, None, 200), (None, None, 200), (None, None, 100), (None, None, 100))
    encoder.build((None, None, 200))
    assert layer_testing.parameters(layer) + layer_testing.parameters(encoder) == 685_660
