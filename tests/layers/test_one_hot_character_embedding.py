"""OneHotCharacterEmbedding: fixed unit vectors for the most frequent characters."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import OneHotCharacterEmbedding

KNOWN = 5
CONFIG = {"known": KNOWN, "kernel_size": 3, "filters": 4, "units": 6}


def make_inputs():
    characters = np.random.default_rng(1).integers(1, KNOWN + 6, (2, 3, 7)).astype("int32")
    for word, length in enumerate((7, 2, 0)):
        characters[1, word, length:] = 0
    return {"characters": characters}


def make():
    return layer_testing.built(OneHotCharacterEmbedding(**CONFIG), make_inputs())


def oracle(weights, characters):
    return oracles.one_hot_character_embedding(characters, weights, KNOWN)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(OneHotCharacterEmbedding, CONFIG, make_inputs(), policy)


def test_forward_and_gradients():
    layer, inputs = make(), make_inputs()
    layer_testing.check_forward(layer, inputs, oracle)
    layer_testing.check_gradients(layer, inputs, oracle, samples=8)


def test_rare_characters_are_the_unknown_one():
    layer = make()
    words = np.array([[[1, 2, 3]], [[KNOWN + 2, 2, 3]], [[300, 2, 3]], [[KNOWN + 1, 2, 3]]], "int32")
    (out,) = layer_testing.run(layer, {"characters": words})
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_array_equal(out[0], out[2])
    assert np.abs(out[0] - out[3]).max() > 1e-3


def test_padding_does_not_matter():
    layer = make()
    word = np.array([[[2, 3, 4, 2]]], "int32")
    (short,) = layer_testing.run(layer, {"characters": word})
    (long,) = layer_testing.run(layer, {"characters": np.pad(word, ((0, 0), (0, 0), (0, 9)))})
    np.testing.assert_allclose(short, long, rtol=1e-5, atol=1e-6)


def test_parameters():
    """101 positions; the report does not give its other sizes."""
    layer = OneHotCharacterEmbedding()
    layer.build((None, None, 20))
    assert layer_testing.parameters(layer) == (5 * 101 * 100 + 100) + (100 * 100 + 100) + (100 * 50 + 50)


def test_a_negative_id_is_an_unknown_character():
    negative, unknown = (np.array([[[2, one, 3, 0]]], "int32") for one in (-1, 1))
    found, truth = (layer_testing.run(make(), {"characters": ids})[0] for ids in (negative, unknown))
    np.testing.assert_array_equal(found, truth)
