"""WordEmbedding: two tables, one linear map."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import WordEmbedding

TRAINABLE, FROZEN, DIM = 3, 7, 5
EVERY_ID = np.arange(1 + TRAINABLE + FROZEN, dtype="int32").reshape(1, -1)


def random_words(*shape):
    return np.random.default_rng(4).integers(0, 1 + TRAINABLE + FROZEN, shape).astype("int32")


def oracle(weights, words):
    return oracles.word_embedding(words, weights)


@pytest.fixture
def layer():
    return layer_testing.built(WordEmbedding(TRAINABLE, FROZEN, DIM), {"words": EVERY_ID})


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"trainable_rows": TRAINABLE, "frozen_rows": FROZEN, "dim": DIM}
    words = random_words(2, 11)
    words[1], words[0, 0] = 0, 1  # a row of padding; every weight is used
    layer_testing.run_layer_test(WordEmbedding, config, {"words": words}, policy)


def test_forward(layer):
    layer_testing.check_forward(layer, {"words": random_words(2, 13)}, oracle)
    layer_testing.check_forward(layer, {"words": EVERY_ID}, oracle)


def test_forward_without_frozen_words():
    words = np.array([[0, 1, 2, 3, 2]], "int32")
    layer = layer_testing.built(WordEmbedding(TRAINABLE, 0, DIM), {"words": words})
    layer_testing.check_forward(layer, {"words": words}, oracle)


def test_gradients(layer):
    layer_testing.check_gradients(layer, {"words": EVERY_ID}, oracle, samples=15)


def test_padding_is_a_zero_vector_before_the_map(layer):
    (out,) = layer_testing.run(layer, {"words": np.zeros((2, 3), "int32")})
    bias = layer_testing.weights_of(layer)["projection/bias"]
    np.testing.assert_array_equal(out, np.broadcast_to(bias.astype("float32"), (2, 3, DIM)))


def test_frozen_words_never_learn(layer):
    names = [layer_testing.name_of(weight, layer.name) for weight in layer.trainable_weights]
    assert sorted(names) == ["projection/bias", "projection/kernel", "trainable_table"]
    (frozen,) = layer.non_trainable_weights
    assert frozen.shape == (FROZEN, DIM)


def test_published_parameters():
    layer = WordEmbedding(trainable_rows=50, frozen_rows=11, dim=100)
    layer.build((None, None))
    assert layer_testing.parameters(layer) == 10_100 + 100 * 50


def test_trainable_rows_are_initialized_with_variance_one():
    layer = WordEmbedding(trainable_rows=101, frozen_rows=1, dim=97)
    layer.build((None, None))
    table = layer_testing.weights_of(layer)["trainable_table"]
    assert abs(table.std() - 1.0) < 0.05
    assert abs(table.mean()) < 0.05


@pytest.mark.parametrize("frozen", [0, FROZEN])
def test_an_id_that_the_tables_lack_is_an_unknown_word(frozen):
    last = TRAINABLE + frozen
    words = np.array([[last, last + 1, 3 * last, 2**31 - 1, -1, -last, 0]], "int32")
    layer = layer_testing.built(WordEmbedding(TRAINABLE, frozen, DIM), {"words": words})
    (out,) = layer_testing.run(layer, {"words": words})
    expected = np.array([[last, 1, 1, 1, 1, 1, 0]], "int32")
    np.testing.assert_array_equal(out, layer_testing.run(layer, {"words": expected})[0])
    assert not np.array_equal(out[0, 0], out[0, 1])
