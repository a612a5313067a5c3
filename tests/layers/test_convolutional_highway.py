"""ConvolutionalHighway: a text as an image, gated by one number."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ConvolutionalHighway

FEATURES, LENGTH = 6, 7


def make_inputs(lengths=(7, 4, 1)):
    return {
        "x": layer_testing.normal(len(lengths), LENGTH, FEATURES, seed=1),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def make(inputs, **config):
    return layer_testing.built(ConvolutionalHighway(**config), inputs)


def oracle(weights, x, mask):
    return oracles.convolutional_highway(x, mask, weights, 2)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"depth": 1, "kernel_size": 3}
    layer_testing.run_layer_test(ConvolutionalHighway, config, make_inputs((7, 4, 0)), policy)


def test_forward():
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs), inputs, oracle, [inputs["mask"]])


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle, [inputs["mask"]], samples=6)


def test_padding():
    lengths = {"text": [7, 2]}
    inputs = make_inputs(lengths["text"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "text"), ["text"])


def test_an_open_gate_transforms_and_a_closed_one_carries():
    inputs = make_inputs()
    layer = make(inputs, depth=1)
    real = inputs["mask"]
    for bias, wanted in ((-100.0, inputs["x"]), (100.0, None)):
        layer.gates[0].kernel.assign(np.zeros((5, 5, 1, 1)))
        layer.gates[0].bias.assign([bias])
        (out,) = layer_testing.run(layer, inputs)
        if wanted is None:
            assert (out[real] >= 0).all() and (out[real] == 0).any()
        else:
            np.testing.assert_allclose(out[real], wanted[real], rtol=1e-6)


def test_parameters():
    layer = ConvolutionalHighway()
    layer.build((None, None, 100))
    assert layer_testing.parameters(layer) == 2 * 2 * (5 * 5 + 1)
