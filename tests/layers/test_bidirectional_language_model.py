"""BidirectionalLanguageModel: all layers of each word, from both ends of its text."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BidirectionalLanguageModel

LENGTH, UNITS, PROJECTION, DEPTH = 7, 4, 3, 3
CONFIG = {
    "units": UNITS,
    "projection": PROJECTION,
    "depth": DEPTH,
    "cell_clip": 0.9,
    "projection_clip": 0.8,
    "skip_connections": False,
}


def make_inputs(lengths=(7, 4, 1)):
    return {
        "x": layer_testing.normal(len(lengths), LENGTH, PROJECTION, seed=1),
        "state": layer_testing.normal(len(lengths), DEPTH, 2, PROJECTION + UNITS, seed=2),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def make(inputs, **changes):
    return layer_testing.built(BidirectionalLanguageModel(**CONFIG | changes), inputs)


def oracle_of(**changes):
    settings = {name: value for name, value in (CONFIG | changes).items() if name not in ("units", "projection")}

    def oracle(weights, x, state, mask):
        return oracles.bidirectional_language_model(x, state, mask, weights, **settings)

    return oracle


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(BidirectionalLanguageModel, CONFIG, make_inputs((7, 4, 0)), policy)


@pytest.mark.parametrize("skip_connections", [False, True])
def test_forward(skip_connections):
    """The oracle reads only real tokens, so this also tests both borders of a padded text."""
    inputs = make_inputs((7, 4, 0))
    layer = make(inputs, skip_connections=skip_connections)
    layer_testing.check_forward(layer, inputs, oracle_of(skip_connections=skip_connections), tolerance=2e-5)


def test_gradients():
    inputs, no_clips = make_inputs(), {"cell_clip": 0.0, "projection_clip": 0.0}
    infinite = dict.fromkeys(no_clips, np.inf)
    oracle = oracle_of(skip_connections=True, **infinite)
    layer_testing.check_gradients(make(inputs, skip_connections=True, **no_clips), inputs, oracle, samples=2)


def test_padding():
    lengths = {"text": [7, 2]}
    inputs = make_inputs(lengths["text"])
    state = inputs.pop("state")
    layer = layer_testing.built(BidirectionalLanguageModel(**CONFIG), inputs)
    layer_testing.check_padding(layer, inputs, lengths, dict.fromkeys(inputs, "text"), ["text", None])
    # Without a state it starts from zeros.
    zeros = layer_testing.run(layer, inputs | {"state": np.zeros_like(state)})
    for found, expected in zip(layer_testing.run(layer, inputs), zeros, strict=True):
        np.testing.assert_array_equal(found, expected)
