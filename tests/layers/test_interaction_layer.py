"""InteractionLayer: the part of a layer in which the passage attends to the question."""

import layer_testing
import oracles
import pytest
import relative_attention  # noqa: F401  registers "relative"

from fabir_tf.layers import InteractionLayer

HEADS, HIDDEN, FEATURES = 2, 11, 6
AXES = {"passage": "passage", "passage_mask": "passage", "question": "question", "question_mask": "question"}


def make_inputs(passage_lengths=(7, 4), question_lengths=(3, 5)):
    return {
        "passage": layer_testing.normal(len(passage_lengths), 7, FEATURES, seed=1),
        "question": layer_testing.normal(len(passage_lengths), 5, FEATURES, seed=2),
        "passage_mask": layer_testing.mask_of(passage_lengths, 7),
        "question_mask": layer_testing.mask_of(question_lengths, 5),
    }


def make(inputs, **config):
    return layer_testing.built(InteractionLayer(num_heads=HEADS, hidden_dim=HIDDEN, **config), inputs)


def oracle_of(axis):
    def oracle(weights, **arrays):
        return oracles.after_self_attention(**arrays, weights=weights, num_heads=HEADS, cross_axis=axis)

    return oracle


def real(inputs):
    return [inputs["passage_mask"], inputs["question_mask"]]


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {
        "num_heads": HEADS,
        "hidden_dim": HIDDEN,
        "kernel_size": (3, 5),
        "depthwise": True,
        "cross_softmax_axis": "key",
        "shared_query_key_init": True,
        "residual_init_scale": 0.5,
        "attention_dropout": 0.2,
        "dropout": 0.3,
        "attention": "relative",
    }
    layer_testing.run_layer_test(InteractionLayer, config, make_inputs((7, 4, 0, 7), (3, 5, 5, 0)), policy)


@pytest.mark.parametrize("axis", ["query", "key"])
def test_forward(axis):
    inputs = make_inputs()
    layer = make(inputs, cross_softmax_axis=axis)
    layer_testing.check_forward(layer, inputs, oracle_of(axis), real(inputs), tolerance=2e-5)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle_of("query"), real(inputs), samples=3)


def test_padding():
    lengths = {"passage": [7, 2], "question": [3, 5]}
    inputs = make_inputs(*lengths.values())
    layer_testing.check_padding(make(inputs), inputs, lengths, AXES, ["passage", "question"])


def test_published_parameters():
    """The 162,560 of a processing layer without its self-attention and two norms."""
    layer = InteractionLayer(num_heads=4, hidden_dim=200)
    layer.build((None, None, 100), (None, None, 100))
    attention = 4 * (100 * 100 + 100) + 5 * 4 * 4
    assert layer_testing.parameters(layer) == 162_560 - attention - 2 * 200
