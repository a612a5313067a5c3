"""ProjectedLstm: clips, projection, and a state that padding leaves alone."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ProjectedLstm

FEATURES, LENGTH, UNITS, PROJECTION = 5, 7, 4, 3
CONFIG = {"units": UNITS, "projection": PROJECTION, "cell_clip": 0.5, "projection_clip": 0.3}


def make_inputs(lengths=(7, 4, 1), scale=1.0):
    return {
        "x": layer_testing.normal(len(lengths), LENGTH, FEATURES, seed=1, scale=scale),
        "state": layer_testing.normal(len(lengths), PROJECTION + UNITS, seed=2),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def oracle_of(cell_clip, projection_clip):
    def oracle(weights, x, state, mask):
        outputs, states = np.zeros((*x.shape[:2], PROJECTION)), np.zeros_like(state)
        for row, words in enumerate(x):
            found, states[row] = oracles.projected_lstm(
                words[mask[row]], state[row], weights, cell_clip, projection_clip
            )
            outputs[row, : len(found)] = found
        return outputs, states

    return oracle


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(ProjectedLstm, CONFIG, make_inputs((7, 4, 0)), policy)


@pytest.mark.parametrize(("cell_clip", "projection_clip"), [(0.5, 0.3), (0.5, 0), (0, 0.3), (0, 0)])
def test_forward(cell_clip, projection_clip):
    """Both clips are reached, each alone and together; 0 is no limit."""
    inputs = make_inputs((7, 4, 0), scale=2.0)
    layer = layer_testing.built(ProjectedLstm(UNITS, PROJECTION, cell_clip, projection_clip), inputs)
    oracle = oracle_of(cell_clip or np.inf, projection_clip or np.inf)
    layer_testing.check_forward(layer, inputs, oracle, tolerance=2e-5)
    outputs, states = layer_testing.run(layer, inputs)
    assert (np.abs(outputs).max() <= 0.3 + 1e-6) == bool(projection_clip)
    # The row without a token keeps its state.
    assert (np.abs(states[:2, PROJECTION:]).max() <= 0.5 + 1e-6) == bool(cell_clip)


def test_gradients():
    inputs = make_inputs()
    layer = layer_testing.built(ProjectedLstm(UNITS, PROJECTION, 0, 0), inputs)
    layer_testing.check_gradients(layer, inputs, oracle_of(np.inf, np.inf))


def test_a_text_in_two_parts_is_the_text_in_one():
    inputs = make_inputs((7, 7, 7))
    layer = layer_testing.built(ProjectedLstm(**CONFIG), inputs)
    whole, last = layer_testing.run(layer, inputs)
    mask = inputs["mask"]
    first, state = layer_testing.run(layer, inputs | {"x": inputs["x"][:, :4], "mask": mask[:, :4]})
    second, end = layer_testing.run(layer, {"x": inputs["x"][:, 4:], "mask": mask[:, 4:], "state": state})
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(end, last, rtol=1e-5, atol=1e-6)
