"""ConvolutionalSelector: two convolutions that treat padding as the zeros outside the text."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ConvolutionalSelector

FILTERS, FEATURES, PASSAGE = 5, 3, 11


def make_inputs(lengths=(11, 7, 2), seed=1):
    return {
        "passage": layer_testing.normal(len(lengths), PASSAGE, FEATURES, seed=seed),
        "passage_mask": layer_testing.mask_of(lengths, PASSAGE),
    }


def make(inputs, kernel_size=9, **config):
    return layer_testing.built(ConvolutionalSelector(FILTERS, kernel_size, **config), inputs)


def oracle(weights, passage, passage_mask):
    return oracles.convolutional_selector(passage, passage_mask, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"filters": FILTERS, "kernel_size": 7, "num_outputs": 1, "dropout": 0.3}
    layer_testing.run_layer_test(ConvolutionalSelector, config, make_inputs((11, 7, 0)), policy, float32_outputs=True)


@pytest.mark.parametrize("kernel_size", [1, 3, 9, 23])
def test_forward(kernel_size):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, kernel_size), inputs, oracle, [inputs["passage_mask"]] * 2)


@pytest.mark.parametrize("kernel_size", [1, 9])
def test_gradients(kernel_size):
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs, kernel_size), inputs, oracle, [inputs["passage_mask"]] * 2, samples=9)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_padding_gets_the_lowest_logit(policy):
    inputs = make_inputs((11, 7, 0))
    for logits in layer_testing.run(make(inputs, dtype=policy), inputs):
        assert (logits[~inputs["passage_mask"]] == np.float32(-1e9)).all()
        assert (np.abs(logits[inputs["passage_mask"]]) < 1e3).all()


def test_padding():
    """Two convolutions: without the mask between them, the bias and relu of padding would leak into the second."""
    lengths = {"passage": [11, 7, 2]}
    inputs = make_inputs(lengths["passage"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "passage"), ["passage"] * 2)


def test_dropout_falls_in_front_of_each_convolution():
    """If everything is dropped, only the bias of the second convolution is left."""
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    bias = layer_testing.weights_of(layer)["logits/bias"]
    for logits, expected in zip(layer_testing.run(layer, inputs, training=True), bias, strict=True):
        np.testing.assert_allclose(logits[inputs["passage_mask"]], expected, rtol=1e-6)
    layer_testing.check_forward(layer, inputs, oracle, [inputs["passage_mask"]] * 2)


def test_published_parameters():
    layer = ConvolutionalSelector()
    layer.build((None, None, 100))
    assert layer_testing.parameters(layer) == 29_410
