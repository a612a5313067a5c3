"""WordTable: two tables side by side."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import WordTable

TRAINABLE, FROZEN, DIM = 3, 7, 5
EVERY_ID = np.arange(1 + TRAINABLE + FROZEN, dtype="int32").reshape(1, -1)


def oracle(weights, words):
    return oracles.word_table(words, weights)


@pytest.fixture
def layer():
    return layer_testing.built(WordTable(TRAINABLE, FROZEN, DIM), {"words": EVERY_ID})


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"trainable_rows": TRAINABLE, "frozen_rows": FROZEN, "dim": DIM}
    layer_testing.run_layer_test(WordTable, config, {"words": np.array([[2, 1, 3, 9], [0, 0, 0, 0]], "int32")}, policy)


def test_forward(layer):
    layer_testing.check_forward(layer, {"words": EVERY_ID}, oracle)


def test_gradients(layer):
    layer_testing.check_gradients(layer, {"words": EVERY_ID}, oracle, samples=15)


def test_padding_is_a_zero_vector(layer):
    (out,) = layer_testing.run(layer, {"words": np.zeros((2, 3), "int32")})
    assert not out.any()


@pytest.mark.parametrize("rows", [(0, 3), (1, -1)])
def test_impossible_tables_are_refused(rows):
    with pytest.raises(ValueError, match=r"trainable_rows must be at least 1 .* Received: trainable_rows="):
        WordTable(*rows)
