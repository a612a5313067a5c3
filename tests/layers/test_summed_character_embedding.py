"""SummedCharacterEmbedding: a word's characters without their order."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import SummedCharacterEmbedding

ROWS, DIM, FILTERS = 11, 6, 4
CONFIG = {"rows": ROWS, "dim": DIM, "kernel_size": 3, "filters": FILTERS}


def make_inputs():
    characters = np.random.default_rng(1).integers(1, ROWS + 1, (2, 3, 7)).astype("int32")
    for word, length in enumerate((7, 2, 0)):
        characters[1, word, length:] = 0
    return {"characters": characters}


def oracle(weights, characters):
    return oracles.summed_character_embedding(characters, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(SummedCharacterEmbedding, CONFIG | {"dropout": 0.3}, make_inputs(), policy)


def test_forward_and_gradients():
    layer, inputs = layer_testing.built(SummedCharacterEmbedding(**CONFIG), make_inputs()), make_inputs()
    layer_testing.check_forward(layer, inputs, oracle)
    layer_testing.check_gradients(layer, inputs, oracle, samples=8)


def test_order_and_padding_do_not_matter():
    layer = layer_testing.built(SummedCharacterEmbedding(**CONFIG), make_inputs())
    word, turned = np.array([[[1, 2, 3, 0, 0]]], "int32"), np.array([[[0, 3, 2, 1]]], "int32")
    one, two = (layer_testing.run(layer, {"characters": characters})[0] for characters in (word, turned))
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_everything_dropped():
    layer = layer_testing.built(SummedCharacterEmbedding(**CONFIG, dropout=1.0), make_inputs())
    (out,) = layer_testing.run(layer, make_inputs(), training=True)
    bias = layer_testing.weights_of(layer)["convolution/bias"]
    np.testing.assert_allclose(out, np.broadcast_to((DIM - 2) * bias, out.shape), rtol=1e-5)


def test_parameters():
    layer = SummedCharacterEmbedding(rows=101)
    layer.build((None, None, 20))
    assert layer_testing.parameters(layer) == 101 * 8 + 5 * 100 + 100


def test_an_id_that_the_table_lacks_is_an_unknown_character():
    layer = layer_testing.built(SummedCharacterEmbedding(**CONFIG), make_inputs())
    characters = np.array([[[ROWS + 1, 2, -3], [9 * ROWS, 0, 0]]], "int32")
    expected = np.array([[[1, 2, 1], [1, 0, 0]]], "int32")
    found, truth = (layer_testing.run(layer, {"characters": ids})[0] for ids in (characters, expected))
    np.testing.assert_array_equal(found, truth)
