"""BertEmbeddings: three tables, summed and normalized."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import BertEmbeddings

WORDS, DIM, POSITIONS, LENGTH = 11, 5, 37, 7


def make_inputs(length=LENGTH):
    rng = np.random.default_rng(1)
    # Every row of the tables is used, so that each of them learns.
    ids = rng.integers(0, WORDS, (2, length)).astype("int32")
    return {"ids": ids, "segment_ids": (np.arange(length) > [[2], [4]]).astype("int32")}


def make(inputs, **config):
    return layer_testing.built(BertEmbeddings(WORDS, DIM, POSITIONS, **config), inputs)


def oracle(weights, ids, segment_ids):
    return oracles.bert_embeddings(ids, segment_ids, weights)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {"vocabulary": WORDS, "dim": DIM, "max_positions": POSITIONS, "segments": 3}
    config |= {"dropout": 0.3, "epsilon": 0.01}
    layer_testing.run_layer_test(BertEmbeddings, config, make_inputs(), policy)


@pytest.mark.parametrize("segments", [0, 2])
def test_forward_and_gradients(segments):
    inputs = make_inputs()
    layer = make(inputs, segments=segments)
    assert ("segment_table" in layer_testing.weights_of(layer)) == bool(segments)
    layer_testing.check_forward(layer, inputs, oracle)
    layer_testing.check_gradients(layer, inputs, oracle, samples=12)


def test_by_hand():
    layer = BertEmbeddings(2, 2, 3)
    inputs = {"ids": np.array([[1, 0]], "int32"), "segment_ids": np.array([[0, 1]], "int32")}
    layer(**layer_testing.symbols_of(inputs))
    values = {
        "word_table": [[5.0, 0.0], [1.0, 4.0]],
        "position_table": [[0.0, 1.0], [0.0, 2.0], [9.0, 9.0]],
        "segment_table": [[0.0, 0.0], [1.0, 6.0]],
        "gain": [3.0, 3.0],
        "bias": [0.0, 1.0],
    }
    for weight in layer.trainable_weights:
        weight.assign(np.asarray(values[weight.name], "float32"))
    # [1, 5] and [6, 8] are one below and one above their means, times the standard deviations 2 and 1.
    np.testing.assert_allclose(layer_testing.run(layer, inputs)[0], [[[-3.0, 4.0], [-3.0, 4.0]]], atol=1e-5)


def test_dropout_is_of_the_result():
    inputs = make_inputs()
    (dropped,) = layer_testing.run(make(inputs, dropout=1.0), inputs, training=True)
    assert not dropped.any()


def test_padding():
    inputs = make_inputs()
    axes = dict.fromkeys(inputs, "text")
    layer_testing.check_padding(make(inputs), inputs, {"text": [7, 3]}, axes, ["text"])


def test_a_sequence_longer_than_the_table_is_refused():
    inputs = make_inputs(POSITIONS + 1)
    with pytest.raises(ValueError, match=r"at most max_positions tokens. Received: 38 tokens, max_positions=37"):
        make(make_inputs())(**inputs)


def test_published_parameters():
    layer = BertEmbeddings(30_522, 384)
    layer.build((None, None))
    assert layer_testing.parameters(layer) == (30_522 + 512 + 2 + 2) * 384
    assert abs(layer_testing.weights_of(layer)["word_table"].std() - 0.02) < 1e-4
