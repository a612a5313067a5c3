"""CharacterEmbedding: a convolution over the characters of a word, and their maximum."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import CharacterEmbedding

ROWS, DIM, KERNEL, FILTERS = 13, 3, 5, 7


def words_of(lengths, width, seed=4):
    """Character ids `(1, words, width)` of words with these lengths, padded with 0."""
    ids = np.random.default_rng(seed).integers(1, ROWS + 1, (len(lengths), width))
    return (ids * layer_testing.mask_of(lengths, width))[None].astype("int32")


def oracle(weights, characters):
    return oracles.character_embedding(characters, weights)


def make(kernel_size=KERNEL, **arguments):
    layer = CharacterEmbedding(ROWS, DIM, kernel_size, FILTERS, **arguments)
    return layer_testing.built(layer, {"characters": words_of([11], 11)})


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"rows": ROWS, "dim": DIM, "kernel_size": 3, "filters": FILTERS, "dropout": 0.3, "activation": "relu"}
    characters = np.concatenate([words_of([1, 2, 3, 7, 11], 11), words_of([0] * 5, 11)])
    layer_testing.run_layer_test(CharacterEmbedding, config, {"characters": characters}, policy)


@pytest.mark.parametrize("kernel_size", [1, 2, 5])
def test_forward(kernel_size):
    layer = make(kernel_size)
    layer_testing.check_forward(layer, {"characters": words_of(range(12), 11)}, oracle)


@pytest.mark.parametrize("width", [1, 4, 5, 6])
def test_forward_when_words_are_about_as_long_as_the_kernel(width):
    characters = words_of(range(width + 1), width)
    layer = layer_testing.built(CharacterEmbedding(ROWS, DIM, KERNEL, FILTERS), {"characters": characters})
    layer_testing.check_forward(layer, {"characters": characters}, oracle)


def test_gradients():
    characters = words_of([0, 1, 3, 4, 5, 6, 9, 11], 11)
    layer_testing.check_gradients(make(), {"characters": characters}, oracle, samples=39)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_padding_never_is_the_maximum(sign):
    """Real positions are far below, or far above, a position over padding."""
    layer = make()
    for weight in layer.trainable_weights:
        weight.assign(np.full(weight.shape, {"table": sign, "kernel": 0.3, "bias": 0.1}[weight.name], "float32"))
    layer_testing.check_forward(layer, {"characters": words_of([5, 6, 11], 11)}, oracle)
    layer_testing.check_forward(layer, {"characters": words_of([1, 4], 11)}, oracle)


@pytest.mark.parametrize("longest", [1, 3, 5, 6])
def test_columns_of_padding_change_nothing(longest):
    layer, words = make(), words_of(range(longest + 1), longest)
    (narrow,) = layer_testing.run(layer, {"characters": words})
    for extra in (1, 23 - longest):
        padded = np.pad(words, ((0, 0), (0, 0), (0, extra)))
        (wide,) = layer_testing.run(layer, {"characters": padded})
        np.testing.assert_allclose(wide, narrow, rtol=1e-5, atol=1e-5)


def test_padding():
    lengths = {"text": [5, 2, 1]}
    characters = np.concatenate([words_of([3, 11, 1, 4, 6], 11, seed=seed) for seed in range(3)])
    characters *= layer_testing.mask_of(lengths["text"], 5)[..., None]
    layer_testing.check_padding(make(), {"characters": characters}, lengths, {"characters": "text"}, ["text"])


def test_dropout_falls_on_the_character_vectors():
    """If all vectors are dropped, the bias is left: nothing is dropped after the convolution."""
    layer = make(dropout=1.0)
    (out,) = layer_testing.run(layer, {"characters": words_of([3, 11], 11)}, training=True)
    bias = layer_testing.weights_of(layer)["convolution/bias"]
    np.testing.assert_allclose(out, np.broadcast_to(np.tanh(bias), (1, 2, FILTERS)), rtol=1e-5, atol=1e-6)


def test_published_parameters():
    layer = CharacterEmbedding(rows=306)
    layer.build((None, None, 20))
    assert layer_testing.parameters(layer) == 4_100 + 8 * 306


def test_character_vectors_are_initialized_with_variance_one():
    layer = CharacterEmbedding(rows=1009, dim=11)
    layer.build((None, None, 20))
    table = layer_testing.weights_of(layer)["table"]
    assert abs(table.std() - 1.0) < 0.05
    assert abs(table.mean()) < 0.05


def test_an_id_that_the_table_lacks_is_an_unknown_character():
    layer = make(3)
    characters = np.array([[[2, ROWS + 1, 5, 0], [-1, 7, 3, 0], [2**31 - 1, -ROWS, 1, 4]]], "int32")
    expected = np.array([[[2, 1, 5, 0], [1, 7, 3, 0], [1, 1, 1, 4]]], "int32")
    found, truth = (layer_testing.run(layer, {"characters": ids})[0] for ids in (characters, expected))
    np.testing.assert_array_equal(found, truth)
