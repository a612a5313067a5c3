"""CharacterCnn: the words of ELMo's biLM, from their characters."""

import keras
import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BidirectionalLanguageModel, CharacterCnn

ROWS, WIDTH = 13, 7
CONFIG = {
    "rows": ROWS,
    "dim": 3,
    "filters": [[1, 2], [2, 5], [5, 4]],
    "highway_layers": 2,
    "projection": 6,
    "activation": "tanh",
}


def make_inputs(width=WIDTH):
    characters = np.random.default_rng(1).integers(1, ROWS + 1, (2, 3, width)).astype("int32")
    characters[1, 2] = 0
    return {"characters": characters}


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(CharacterCnn, CONFIG, make_inputs(), policy)


@pytest.mark.parametrize(("activation", "function"), [("relu", oracles.relu), ("tanh", np.tanh)])
def test_forward_and_gradients(activation, function):
    inputs = make_inputs()
    layer = layer_testing.built(CharacterCnn(**CONFIG | {"activation": activation}), inputs)

    def oracle(weights, characters):
        return oracles.character_cnn(characters, weights, CONFIG["filters"], 2, function)

    layer_testing.check_forward(layer, inputs, oracle)
    layer_testing.check_gradients(layer, inputs, oracle)


def test_the_published_small_model_has_13_6_million_parameters():
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    characters, recurrent = CharacterCnn(261, 16, filters, 1, 128), BidirectionalLanguageModel(1024, 128)
    characters.build((None, None, 50))
    recurrent.build((None, None, 128))
    # The vectors of the two borders come from the characters.
    total = layer_testing.parameters(characters) + layer_testing.parameters(recurrent) - 2 * 128
    assert round(total / 1e6, 1) == 13.6


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"activation must be one of tanh, relu\. Received: activation='gelu'"):
        CharacterCnn(**CONFIG | {"activation": "gelu"})


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="shapes are unknown to graphs of TensorFlow alone")
@pytest.mark.parametrize("width", [2, WIDTH])
def test_words_of_a_width_that_the_graph_does_not_know(width):
    """The maximum must not be that of characters which nobody gave."""
    import tensorflow as tf

    inputs = make_inputs(width)
    layer = layer_testing.built(CharacterCnn(**CONFIG), inputs)
    unknown = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None), tf.int32)])
    np.testing.assert_allclose(unknown(inputs["characters"]), layer(inputs["characters"]), rtol=1e-5, atol=1e-6)
