"""Biases under bfloat16: their gradient is the sum over all tokens, however many there are."""

import keras
import numpy as np
import pytest
from layer_testing import check_forward, value_and_gradients

from fabir_tf.layers.core.exact_bias import Conv1D, Conv2D, Dense

# On JAX these tests have XLA optimise little; what it sums in bfloat16 is then coarser.
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
    # The same product for a convolution that sees one token.
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
    # All of them have a share, and a number of few bits.
    layer.bias.assign(np.full(5, 100.0))
    shares = np.random.default_rng(5).integers(-7, 9, (*inputs.shape[:-1], 5)) / 8
    _, _, gradients = value_and_gradients(layer, {"inputs": inputs}, [shares.astype("float32")])
    np.testing.assert_allclose(
        gradients["bias"], shares.reshape(-1, 5).sum(axis=0), rtol=TOLERANCE[keras.backend.backend()]
    )
