"""RecurrentEncoder: a text read from both ends, independent of its neighbors' lengths."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import RecurrentEncoder

FEATURES, LENGTH = 5, 7


def make_inputs(lengths=(7, 4, 1)):
    return {
        "x": layer_testing.normal(len(lengths), LENGTH, FEATURES, seed=1),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def make(inputs, **config):
    return layer_testing.built(RecurrentEncoder(**{"units": 3} | config), inputs)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(RecurrentEncoder, {"units": 3, "cell": "gru"}, make_inputs((7, 4, 0)), policy)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_forward(cell):
    """The oracle reads only real tokens, so this also tests both ends of a padded text."""
    inputs = make_inputs()
    layer_testing.check_forward(
        make(inputs, cell=cell),
        inputs,
        lambda weights, x, mask: oracles.recurrent_encoder(x, mask, weights, cell),
        tolerance=2e-5,
    )


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(
        make(inputs), inputs, lambda weights, x, mask: oracles.recurrent_encoder(x, mask, weights), samples=6
    )


def test_padding():
    lengths = {"text": [7, 2]}
    inputs = make_inputs(lengths["text"])
    layer_testing.check_padding(make(inputs), inputs, lengths, dict.fromkeys(inputs, "text"), ["text"])


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_padding_becomes_zero(policy):
    inputs = make_inputs((7, 4, 0))
    (out,) = layer_testing.run(make(inputs, dtype=policy), inputs)
    assert (out[~inputs["mask"]] == 0).all()
    assert (out[inputs["mask"]] != 0).any()


def test_published_parameters():
    """Porwal's encoder with 400 features has 2,563,200 parameters."""
    layer = RecurrentEncoder(400)
    layer.build((None, None, 400))
    assert layer_testing.parameters(layer) == 2_563_200


def test_a_gru_has_the_weights_of_cudnn_on_every_backend():
    """Three gates in each direction, and two biases for each gate."""
    layer = RecurrentEncoder(3, "gru")
    layer.build((None, None, FEATURES))
    own = {"kernel": (FEATURES, 9), "recurrent_kernel": (3, 9), "bias": (2, 9)}
    expected = {f"{text}/gru_cell/{name}": own[name] for text in ("forward", "backward") for name in own}
    assert {name: values.shape for name, values in layer_testing.weights_of(layer).items()} == expected
    assert layer_testing.parameters(layer) == 2 * 3 * ((FEATURES + 3) * 3 + 2 * 3)


def test_an_unknown_cell_is_refused():
    with pytest.raises(ValueError, match=r"cell must be one of lstm, gru\. Received: cell='rnn'"):
        RecurrentEncoder(cell="rnn")


def test_initial_weights_differ_between_the_directions():
    layer = RecurrentEncoder(3)
    layer.build((None, None, FEATURES))
    weights = layer_testing.weights_of(layer)
    forward, backward = (weights[f"{name}/lstm_cell/kernel"] for name in ("forward", "backward"))
    assert not np.allclose(forward, backward)
