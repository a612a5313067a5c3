"""Biases under bfloat16: their gradient is the exact sum over any number of tokens."""

import keras
import numpy as np
import pytest
from layer_testing import check_forward, value_and_gradients

from fabir_tf.layers.core.exact_bias import Conv1D, Conv2D, Dense

# The tests switch off most optimizations of XLA, whose sums in bfloat16 are then coarser.
TOLERANCE = {"tensorflow": 2**-8, "jax": 0.02}
LAYERS = {
    "dense": (lambda **settings: Dense(5, "relu", name="it", **settings), (40, 300, 3)),
    "along a text": (lambda **settings: Conv1D(5, 1, activation="relu", name="it", **settings), (40, 300, 3)),
    "two dimensions": (lambda **settings: Conv2D(5, 1, activation="relu", name="it", **settings), (10, 40, 30, 3)),
}


def built(name, **settings):
    keras.utils.set_random_seed(7)
    make, shape = LAYERS[name]
    layer = make(**settings)
    layer.build(shape)
    layer.bias.assign(np.linspace(-1, 1, 5))
    return layer, np.random.default_rng(3).normal(size=shape).astype("float32")


@pytest.mark.parametrize("name", LAYERS)
def test_the_equation(name):
    layer, inputs = built(name)
    kernel = np.asarray(layer.kernel).astype("float64").reshape(3, 5)
    bias = np.asarray(layer.bias).astype("float64")
    check_forward(layer, {"inputs": inputs}, lambda _, inputs: np.maximum(inputs @ kernel + bias, 0))


@pytest.mark.parametrize("name", LAYERS)
def test_a_gradient_of_12_000_tokens_in_bfloat16(name):
    layer, inputs = built(name, dtype="mixed_bfloat16")
    # Relu passes all tokens, and each contributes a number of few bits.
    layer.bias.assign(np.full(5, 100.0))
    contributions = np.random.default_rng(5).integers(-7, 9, (*inputs.shape[:-1], 5)) / 8
    _, _, gradients = value_and_gradients(layer, {"inputs": inputs}, [contributions.astype("float32")])
    np.testing.assert_allclose(
        gradients["bias"], contributions.reshape(-1, 5).sum(axis=0), rtol=TOLERANCE[keras.backend.backend()]
    )


@pytest.mark.parametrize("name", LAYERS)
def test_without_a_bias(name):
    layer = LAYERS[name][0](use_bias=False)
    inputs = np.random.default_rng(3).normal(size=LAYERS[name][1]).astype("float32")
    layer.build(inputs.shape)
    kernel = np.asarray(layer.kernel).astype("float64").reshape(3, 5)
    check_forward(layer, {"inputs": inputs}, lambda _, inputs: np.maximum(inputs @ kernel, 0))


VARIANTS = {
    "dense": (Dense, {}, (2, 7, 6)),
    "causal": (Conv1D, {"kernel_size": 3, "padding": "causal", "dilation_rate": 2}, (2, 7, 6)),
    "strided": (Conv1D, {"kernel_size": 3, "padding": "same", "strides": 2, "groups": 3}, (2, 7, 6)),
    "image": (Conv2D, {"kernel_size": (3, 2), "padding": "same", "activation": "softmax"}, (2, 7, 5, 6)),
}


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("name", VARIANTS)
def test_all_arguments_are_those_of_keras(name, use_bias):
    kind, arguments, shape = VARIANTS[name]
    exact = kind(9, use_bias=use_bias, **arguments)
    plain = getattr(keras.layers, kind.__name__)(9, use_bias=use_bias, **arguments)
    inputs = np.random.default_rng(3).normal(size=shape).astype("float32")
    for layer in (exact, plain):
        layer.build(shape)
    exact.set_weights([np.random.default_rng(4).normal(size=weight.shape) for weight in exact.weights])
    plain.set_weights(exact.get_weights())
    np.testing.assert_allclose(np.asarray(exact(inputs)), np.asarray(plain(inputs)), rtol=1e-5, atol=1e-5)
    assert kind.from_config(exact.get_config()).get_config() == exact.get_config()


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow's CPU has no channels-first kernel")
@pytest.mark.parametrize("padding", ["valid", "causal"])
def test_channels_first(padding):
    exact, plain = (kind(5, 3, padding=padding, data_format="channels_first") for kind in (Conv1D, keras.layers.Conv1D))
    inputs = np.random.default_rng(3).normal(size=(2, 6, 7)).astype("float32")
    for layer in (exact, plain):
        layer.build(inputs.shape)
    exact.bias.assign(np.arange(5.0))
    plain.set_weights(exact.get_weights())
    np.testing.assert_allclose(np.asarray(exact(inputs)), np.asarray(plain(inputs)), rtol=1e-5, atol=1e-5)
