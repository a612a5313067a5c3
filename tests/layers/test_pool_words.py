"""PoolWords: the mean of the vectors of a word's pieces."""

import keras
import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import PoolWords

LENGTHS = (7, 4, 1, 0)
# The second text is a window that starts within a word; what stands at padding counts nowhere.
BEGINS = [[1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1, 1]]
WORDS = [[[0, 1, 2], [3], [4, 5], [6]], [[0, 1], [2, 3]], [[0]], []]


def make_inputs():
    x, begins = layer_testing.normal(4, 7, 3, seed=1), np.array(BEGINS, "int32")
    return {"x": x, "begins": begins, "piece_mask": layer_testing.mask_of(LENGTHS, 7)}


def oracle(weights, x, begins, piece_mask):
    vectors, words = np.zeros_like(x), np.zeros(piece_mask.shape, bool)
    for row, parts in enumerate(WORDS):
        for number, pieces in enumerate(parts):
            vectors[row, number] = x[row, pieces].mean(axis=0)
            words[row, number] = True
    return vectors, words


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    dtypes = [keras.DTypePolicy(policy).compute_dtype, "bool"]
    layer_testing.run_layer_test(PoolWords, {}, make_inputs(), policy, output_dtypes=dtypes)


def test_forward():
    layer_testing.check_forward(PoolWords(), make_inputs(), oracle)


def test_padding_that_is_not_a_number_changes_nothing():
    inputs = make_inputs()
    expected, _ = PoolWords()(**inputs)
    inputs["x"][~inputs["piece_mask"]] = np.nan
    found, _ = PoolWords()(**inputs)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_pieces_that_are_words_stay_as_they_are():
    inputs = make_inputs() | {"begins": np.ones((4, 7), "int32")}
    found, words = PoolWords()(**inputs)
    np.testing.assert_array_equal(np.asarray(words), inputs["piece_mask"])
    np.testing.assert_array_equal(np.asarray(found), np.where(inputs["piece_mask"][..., None], inputs["x"], 0))
