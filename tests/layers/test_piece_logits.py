"""PieceLogits: the logits of words on their first and last pieces."""

import layer_testing
import numpy as np
import pytest
from test_pool_words import BEGINS, LENGTHS, WORDS

from fabir_tf.layers import PieceLogits


def make_inputs():
    start, end = (layer_testing.normal(4, 7, seed=seed) for seed in (1, 2))
    return {
        "start": start,
        "end": end,
        "begins": np.array(BEGINS, "int32"),
        "piece_mask": layer_testing.mask_of(LENGTHS, 7),
    }


def oracle(weights, start, end, begins, piece_mask):
    found = np.full((2, *start.shape), -1e9)
    for row, parts in enumerate(WORDS):
        for number, pieces in enumerate(parts):
            found[0, row, pieces[0]] = start[row, number]
            found[1, row, pieces[-1]] = end[row, number]
    return tuple(found)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(PieceLogits, {}, make_inputs(), policy, float32_outputs=True)


def test_forward():
    layer_testing.check_forward(PieceLogits(), make_inputs(), oracle)


def test_pieces_that_are_words_keep_their_logits():
    inputs = make_inputs() | {"begins": np.ones((4, 7), "int32")}
    for found, logits in zip(PieceLogits()(**inputs), (inputs["start"], inputs["end"]), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.where(inputs["piece_mask"], logits, np.float32(-1e9)))
