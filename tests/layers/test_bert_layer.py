"""BertLayer: attention, norm, feedforward with the exact GELU, norm."""

import functools
import math

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BertLayer

LENGTH, FEATURES, HEADS, HIDDEN = 7, 6, 2, 11


def make_inputs(lengths=(7, 4)):
    x = layer_testing.normal(len(lengths), LENGTH, FEATURES, seed=1)
    return {"x": x, "mask": layer_testing.mask_of(lengths, LENGTH)}


def make(inputs, **config):
    return layer_testing.built(BertLayer(HEADS, HIDDEN, **config), inputs)


def oracle(weights, x, mask, **options):
    return oracles.bert_layer(x, mask, weights, HEADS, **options)


def gelu_new(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"num_heads": HEADS, "hidden_dim": HIDDEN, "activation": "relu", "dropout": 0.3}
    config |= {"attention_dropout": 0.2, "epsilon": 0.01}
    layer_testing.run_layer_test(BertLayer, config, make_inputs((7, 4, 0)), policy)


def test_forward_and_gradients():
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs), inputs, oracle, [inputs["mask"]])
    layer_testing.check_gradients(make(inputs), inputs, oracle, [inputs["mask"]])


@pytest.mark.parametrize(("activation", "function"), [("relu", oracles.relu), ("gelu_new", gelu_new)])
def test_other_activations(activation, function):
    inputs = make_inputs()
    layer = make(inputs, activation=activation)
    layer_testing.check_forward(layer, inputs, functools.partial(oracle, activation=function), [inputs["mask"]])


def test_the_gelu_is_exact():
    """The approximation by tanh is 0.0003 away at 2.2: this layer's result is not."""
    inputs = {"x": np.array([[[1.0, -1.0]]], "float32"), "mask": np.array([[True]])}
    layer = BertLayer(1, 1)
    layer(**layer_testing.symbols_of(inputs))
    values = {"hidden/bias": [2.2], "output/kernel": [[1.0, -1.0]], "output_norm/gain": [1.0, 1.0]}
    for weight in layer.trainable_weights:
        value = values.get(layer_testing.name_of(weight, layer.name), np.zeros(weight.shape))
        weight.assign(np.asarray(value, "float32"))
    (unnormalized,) = layer_testing.as_arrays(layer.output_map(layer.hidden(np.zeros((1, 2), "float32"))))
    np.testing.assert_allclose(unnormalized[0], [2.2 * 0.9860965525, -2.2 * 0.9860965525], atol=1e-6)
    assert abs(gelu_new(2.2) - 2.2 * 0.9860965525) > 1e-4


def test_padding():
    lengths = {"text": [7, 2]}
    inputs = make_inputs(lengths["text"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "text"), ["text"])


def test_everything_dropped_leaves_two_norms():
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    weights = layer_testing.weights_of(layer)
    (output,) = layer_testing.run(layer, inputs, training=True)
    expected = inputs["x"].astype("float64")
    for norm in ("attention_norm", "output_norm"):
        expected = oracles.residual_norm(expected, 0.0, oracles.part(weights, norm), 1e-12)
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_an_unknown_activation_is_refused():
    with pytest.raises(
        ValueError, match=r"activation must be one of gelu, gelu_new, relu. Received: activation='silu'"
    ):
        BertLayer(HEADS, HIDDEN, activation="silu")


def test_published_parameters():
    """A layer of BERT-Base."""
    layer = BertLayer(12, 3072)
    layer.build((None, None, 768))
    assert layer_testing.parameters(layer) == 7_087_872
