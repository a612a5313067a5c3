"""BertTextEncoder: one text between its borders, through the embeddings and the layers of BERT."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BertTextEncoder

PIECES, DIM, LENGTH, FIRST, LAST = 13, 6, 5, 11, 7
SIZES = {"vocabulary": PIECES, "dim": DIM, "num_layers": 2, "num_heads": 3, "hidden_dim": 10}
SIZES |= {"activation": "relu", "max_positions": 17, "epsilon": 0.01, "first": FIRST, "last": LAST}


def make_inputs(lengths=(LENGTH, 2, 0), length=LENGTH):
    # Every piece is read, so that each of them learns.
    ids = np.resize(np.arange(1, PIECES), (len(lengths), length))
    return {"ids": np.where(layer_testing.mask_of(lengths, length), ids, 0).astype("int32")}


def oracle(weights, ids):
    """The vectors of a text that stands alone; padding keeps 0."""
    out = np.zeros((*ids.shape, DIM))
    for row, text in enumerate(ids):
        pieces = np.array([[FIRST, *text[text > 0], LAST]])
        x = oracles.bert_embeddings(pieces, np.zeros_like(pieces), oracles.part(weights, "embeddings"), 0.01)
        for number in range(2):
            layer = oracles.part(weights, f"layer_{number}")
            x = oracles.bert_layer(x, pieces > 0, layer, 3, oracles.relu, 0.01)
        out[row, text > 0] = x[0, 1:-1]
    return out


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = SIZES | {"segments": 3, "dropout": 0.3, "attention_dropout": 0.2}
    layer_testing.run_layer_test(BertTextEncoder, config, make_inputs(), policy)


def test_forward_and_gradients():
    inputs = make_inputs()
    layer, mask = layer_testing.built(BertTextEncoder(**SIZES), inputs), inputs["ids"] > 0
    layer_testing.check_forward(layer, inputs, oracle, [mask])
    layer_testing.check_gradients(layer, inputs, oracle, [mask], samples=12)


@pytest.mark.parametrize("length", [15, 16, 32])
def test_padding_may_have_more_places_than_the_table(length):
    """A text of 15 pieces and its borders take all 17 positions."""
    inputs = make_inputs((15, 4), length)
    layer = layer_testing.built(BertTextEncoder(**SIZES), make_inputs())
    layer_testing.check_forward(layer, inputs, oracle, [inputs["ids"] > 0])
