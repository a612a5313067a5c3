"""TrainedNullLogits: the same two numbers for all questions."""

import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import TrainedNullLogits

INPUTS = {"passage": layer_testing.normal(3, 7, 5, seed=1)}


def oracle(weights, passage):
    return np.repeat(weights["null_logits"][None], len(passage), axis=0)


def make(**config):
    return layer_testing.built(TrainedNullLogits(**config), INPUTS)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(TrainedNullLogits, {}, INPUTS, policy, float32_outputs=True)


def test_forward():
    layer_testing.check_forward(make(), INPUTS, oracle)


def test_gradients():
    layer_testing.check_gradients(make(), INPUTS, oracle)


def test_padding():
    layer_testing.check_padding(make(), INPUTS, {"passage": [7, 2, 1]}, {"passage": "passage"}, [None])


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_half_precision_does_not_round_the_thresholds(policy):
    layer = make(dtype=policy)
    layer.null_logits.assign([1.0009765, -2.0019531])
    (out,) = layer_testing.run(layer, INPUTS)
    np.testing.assert_array_equal(out, np.broadcast_to(np.array([1.0009765, -2.0019531], "float32"), (3, 2)))


def test_parameters():
    layer = TrainedNullLogits()
    layer.build((None, None, 200))
    assert layer_testing.parameters(layer) == 2
    assert not np.any(layer_testing.weights_of(layer)["null_logits"])
