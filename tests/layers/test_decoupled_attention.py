"""DecoupledAttention: one set of weights for the embeddings and for the encodings."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import DecoupledAttention

HEADS, INPUT_DIM, MODEL_DIM, LENGTH = 2, 10, 6, 7


def make_inputs(lengths=(7, 4), seed=1):
    batch = len(lengths)
    return {
        "embeddings": layer_testing.normal(batch, LENGTH, INPUT_DIM, seed=seed),
        "wide_encodings": layer_testing.normal(batch, LENGTH, INPUT_DIM, seed=seed + 1),
        "encodings": layer_testing.normal(batch, LENGTH, MODEL_DIM, seed=seed + 2),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def make(inputs, **config):
    return layer_testing.built(DecoupledAttention(HEADS, **config), inputs)


def oracle(weights, embeddings, wide_encodings, encodings, mask):
    return oracles.decoupled_attention(embeddings, wide_encodings, encodings, mask, weights, HEADS)


VARIANTS = [{"kernel_size": None}, {"kernel_size": (1, 5)}, {"kernel_size": (3, 7), "depthwise": True}]
variants = pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda variant: "-".join(str(value) for value in variant.values())
)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"num_heads": HEADS, "kernel_size": (3, 5), "depthwise": True, "dropout": 0.3, "softmax_axis": "query"}
    config |= {"shared_query_key_init": True, "residual_init_scale": 0.5}
    layer_testing.run_layer_test(DecoupledAttention, config, make_inputs((7, 4, 0)), policy)


@variants
def test_forward(variant):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, **variant), inputs, oracle, [inputs["mask"]] * 2)


@variants
def test_gradients(variant):
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs, **variant), inputs, oracle, [inputs["mask"]] * 2)


@variants
def test_padding(variant):
    lengths = {"text": [7, 2]}
    inputs = make_inputs(lengths["text"])
    axes = dict.fromkeys(inputs, "text")
    layer_testing.check_padding(make(inputs, **variant), inputs, lengths, axes, ["text", "text"])


def test_both_sides_share_the_weights():
    """Equal values and equal maps on both sides give equal results."""
    inputs = make_inputs()
    inputs["encodings"] = inputs["embeddings"]
    layer = make(inputs)
    weights = {layer_testing.name_of(weight, layer.name): weight for weight in layer.weights}
    for name in ("value/kernel", "value/bias", "output/kernel", "output/bias"):
        weights[f"encoding_{name}"].assign(weights[name].value)
    embeddings, encodings = layer_testing.run(layer, inputs)
    np.testing.assert_allclose(encodings, embeddings, rtol=1e-5, atol=1e-6)


def test_dropped_weights_are_the_same_on_both_sides():
    """Figure 2 has one set of weights: the same ones are dropped for embeddings and encodings."""
    inputs = make_inputs()
    inputs["encodings"] = inputs["embeddings"]
    layer = make(inputs, dropout=0.5)
    weights = {layer_testing.name_of(weight, layer.name): weight for weight in layer.weights}
    for name in ("value/kernel", "value/bias", "output/kernel", "output/bias"):
        weights[f"encoding_{name}"].assign(weights[name].value)
    embeddings, encodings = layer_testing.run(layer, inputs, training=True)
    np.testing.assert_allclose(encodings, embeddings, rtol=1e-5, atol=1e-6)
    assert np.abs(embeddings - layer_testing.run(layer, inputs)[0]).max() > 1e-3


def test_published_parameters():
    """200 x 200 for queries, keys, values and output; 100 x 100 for the encodings' values and output."""
    layer = DecoupledAttention(num_heads=4)
    layer.build((None, None, 200), (None, None, 200), (None, None, 100))
    assert layer_testing.parameters(layer) == 4 * (200 * 200 + 200) + 2 * (100 * 100 + 100) + 5 * 4 * 4
