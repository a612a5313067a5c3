"""An attention that is registered from outside, alone and inside every block that can be built with it."""

import layer_testing
import oracles
import pytest
from relative_attention import RelativePositionAttention

from fabir_tf.layers import (
    ATTENTIONS,
    DecoupledAttention,
    DecoupledEncoder,
    InteractionLayer,
    ProcessingLayer,
    ReductionLayer,
)

HEADS, HIDDEN, FEATURES, PASSAGE, QUESTION = 2, 11, 6, 7, 5
AXES = {"passage": "passage", "passage_mask": "passage", "question": "question", "question_mask": "question"}
BLOCKS = {
    "interaction": InteractionLayer,
    "processing": ProcessingLayer,
    "reduction": ReductionLayer,
    "encoder": DecoupledEncoder,
}


def make_inputs(passage_lengths=(7, 4), question_lengths=(3, 5)):
    batch = len(passage_lengths)
    return {
        "passage": layer_testing.normal(batch, PASSAGE, FEATURES, seed=1),
        "question": layer_testing.normal(batch, QUESTION, FEATURES, seed=2),
        "passage_mask": layer_testing.mask_of(passage_lengths, PASSAGE),
        "question_mask": layer_testing.mask_of(question_lengths, QUESTION),
    }


def make(inputs, **config):
    layer = ProcessingLayer(num_heads=HEADS, hidden_dim=HIDDEN, attention="relative", **config)
    return layer_testing.built(layer, inputs)


def oracle_of(axis):
    def oracle(weights, **arrays):
        assert {"self_attention/distance_bias", "cross_attention/distance_bias"} <= set(weights)
        return oracles.processing_layer(**arrays, weights=weights, num_heads=HEADS, cross_axis=axis)

    return oracle


def real(inputs):
    return [inputs["passage_mask"], inputs["question_mask"]]


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    x, mask = layer_testing.normal(3, 7, 12, seed=1), layer_testing.mask_of((7, 4, 0), 7)
    inputs = {"queries": x, "keys": x, "values": x, "query_mask": mask, "key_mask": mask}
    config = {"num_heads": 3, "kernel_size": (3, 5), "depthwise": True, "softmax_axis": "query", "dropout": 0.3}
    config |= {"shared_query_key_init": True, "residual_init_scale": 0.5, "max_distance": 3}
    layer_testing.run_layer_test(RelativePositionAttention, config, inputs, policy)


@pytest.mark.parametrize("axis", ["query", "key"])
@pytest.mark.parametrize("kernel_size", [None, (1, 5), (3, 3)])
def test_forward(axis, kernel_size):
    inputs = make_inputs()
    layer = make(inputs, cross_softmax_axis=axis, kernel_size=kernel_size)
    layer_testing.check_forward(layer, inputs, oracle_of(axis), real(inputs), tolerance=2e-5)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle_of("query"), real(inputs), samples=5)


def test_padding():
    lengths = {"passage": [7, 2], "question": [3, 5]}
    inputs = make_inputs(*lengths.values())
    layer_testing.check_padding(make(inputs), inputs, lengths, AXES, ["passage", "question"])


def test_decoupled():
    """The encoder's positions make queries and keys, and both values share the weights with the bias."""
    inputs = {"x": layer_testing.normal(2, 7, 10, seed=3), "mask": layer_testing.mask_of((7, 4), 7)}
    positions = {"min_frequency": 0.01, "position_offset": 2}
    encoder = DecoupledEncoder(FEATURES, num_heads=HEADS, attention="relative", **positions)
    encoder.build(inputs["x"].shape)
    layer = layer_testing.built(encoder.self_attention, decoupled_inputs())
    assert isinstance(layer, RelativePositionAttention)

    def oracle(weights, embeddings, wide_encodings, encodings, mask):
        assert "distance_bias" in weights
        return oracles.decoupled_attention(embeddings, wide_encodings, encodings, mask, weights, HEADS)

    mask = decoupled_inputs()["mask"]
    layer_testing.check_forward(layer, decoupled_inputs(), oracle, [mask, mask], tolerance=2e-5)
    outputs = layer_testing.as_arrays(encoder(**inputs, text="passage"))
    wanted = oracles.decoupled_encoder(
        inputs["x"], inputs["mask"], layer_testing.weights_of(encoder), "passage", HEADS, FEATURES, **positions
    )
    for output, expected in zip(outputs, wanted, strict=True):
        assert abs(output - expected)[inputs["mask"]].max() < 5e-5


def decoupled_inputs():
    arrays = {
        name: layer_testing.normal(2, 7, features, seed=seed)
        for seed, (name, features) in enumerate(
            (("embeddings", 10), ("wide_encodings", 10), ("encodings", FEATURES)), start=4
        )
    }
    return arrays | {"mask": layer_testing.mask_of((7, 4), 7)}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_keeps_its_attention_in_its_configuration(name):
    layer = BLOCKS[name](num_heads=HEADS, attention="relative")
    clone = BLOCKS[name].from_config(layer.get_config())
    assert clone.get_config() == layer.get_config()
    assert clone.attention == "relative"
    attention = clone.self_attention if name == "encoder" else clone.cross_attention
    assert isinstance(attention, RelativePositionAttention)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_without_the_setting_has_convolutional_attention(name):
    """As in configurations of version 0.1."""
    config = BLOCKS[name](num_heads=HEADS).get_config()
    del config["attention"]
    layer = BLOCKS[name].from_config(config)
    attention = layer.self_attention if name == "encoder" else layer.cross_attention
    assert type(attention) is (DecoupledAttention if name == "encoder" else ATTENTIONS["convolutional"])


@pytest.mark.parametrize("name", BLOCKS)
def test_an_unknown_attention_is_refused(name):
    message = r"attention must be one of convolutional, .*Received: attention='sparse'"
    with pytest.raises(ValueError, match=message):
        BLOCKS[name](attention="sparse")
