"""DecoupledEncoder: positions, decoupled attention, and separate norms for the two texts."""

import keras
import layer_testing
import numpy as np
import oracles
import pytest
import relative_attention  # noqa: F401  registers "relative"

from fabir_tf.layers import DecoupledEncoder

HEADS, INPUT_DIM, OUTPUT_DIM, LENGTH = 2, 10, 6, 7
# Small positions, because float32 loses three digits of a sine from 500 on; see test_published_positions.
POSITIONS = {"min_frequency": 0.01, "position_offset": 2}
VARIANTS = [{}, {"kernel_size": None}, {"kernel_size": (3, 7), "depthwise": True}]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=["published", "plain", "depthwise"])
texts = pytest.mark.parametrize("text", ["passage", "question"])


@keras.saving.register_keras_serializable(package="tests")
class PassageEncoder(DecoupledEncoder):
    """The encoder with a fixed text, because `layer_testing` passes only arrays."""

    TEXT = "passage"

    def call(self, x, mask, training=None):
        return super().call(x, mask, self.TEXT, training)


@keras.saving.register_keras_serializable(package="tests")
class QuestionEncoder(PassageEncoder):
    TEXT = "question"


@keras.saving.register_keras_serializable(package="tests")
class BothEncoder(DecoupledEncoder):
    """The encoder on both texts, so that all of its weights learn."""

    def build(self, passage_shape, question_shape):
        super().build(passage_shape)

    def call(self, passage, question, passage_mask, question_mask, training=None):
        passage = super().call(passage, passage_mask, "passage", training)
        return *passage, *super().call(question, question_mask, "question", training)

    def compute_output_shape(self, passage_shape, question_shape):
        return *super().compute_output_shape(passage_shape), *super().compute_output_shape(question_shape)


ENCODERS = {"passage": PassageEncoder, "question": QuestionEncoder}


def make_inputs(lengths=(7, 4), seed=1):
    return {
        "x": layer_testing.normal(len(lengths), LENGTH, INPUT_DIM, seed=seed),
        "mask": layer_testing.mask_of(lengths, LENGTH),
    }


def make(inputs, text="passage", **config):
    return layer_testing.built(ENCODERS[text](OUTPUT_DIM, num_heads=HEADS, **(POSITIONS | config)), inputs)


def oracle_of(text="passage", **changes):
    def oracle(weights, x, mask):
        return oracles.decoupled_encoder(x, mask, weights, text, HEADS, OUTPUT_DIM, **(POSITIONS | changes))

    return oracle


def real(inputs):
    return [inputs["mask"]] * 2


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = POSITIONS | {
        "output_dim": OUTPUT_DIM,
        "encoding_dropout": 0.1,
        "num_heads": HEADS,
        "kernel_size": (3, 5),
        "depthwise": True,
        "residual_init_scale": 0.5,
        "attention_dropout": 0.2,
        "dropout": 0.3,
        "attention": "relative",
    }
    passage, question = make_inputs((7, 4, 0)), make_inputs((2, 0, 7), seed=2)
    inputs = {"passage": passage["x"], "question": question["x"]}
    inputs |= {"passage_mask": passage["mask"], "question_mask": question["mask"]}
    layer_testing.run_layer_test(BothEncoder, config, inputs, policy)


@texts
@variants
def test_forward(variant, text):
    inputs = make_inputs()
    layer_testing.check_forward(make(inputs, text, **variant), inputs, oracle_of(text), real(inputs), tolerance=2e-5)


def test_published_positions():
    """The defaults: positions from 500, frequencies down to 1e-4."""
    inputs = make_inputs()
    layer = layer_testing.built(PassageEncoder(OUTPUT_DIM, num_heads=HEADS), inputs)
    oracle = oracle_of(min_frequency=1e-4, position_offset=500)
    layer_testing.check_forward(layer, inputs, oracle, real(inputs), tolerance=1e-3)


def test_gradients():
    inputs = make_inputs()
    layer_testing.check_gradients(make(inputs), inputs, oracle_of(), real(inputs), samples=3)


@variants
def test_padding(variant):
    lengths = {"text": [7, 2]}
    inputs = make_inputs(*lengths.values())
    layer = make(inputs, **variant)
    layer_testing.check_padding(layer, inputs, lengths, dict.fromkeys(inputs, "text"), ["text", "text"])


def test_encoding_dropout_falls_on_both_encodings_before_the_attention():
    inputs = make_inputs()
    layer = make(inputs, encoding_dropout=1.0)
    arrays = inputs | {"x": inputs["x"].astype("float64")}
    expected = oracle_of(encoding_scale=0.0)(layer_testing.weights_of(layer), **arrays)
    for output, wanted in zip(layer_testing.run(layer, inputs, training=True), expected, strict=True):
        np.testing.assert_allclose(output[inputs["mask"]], wanted[inputs["mask"]], rtol=2e-5, atol=2e-5)


def test_sublayer_dropout_leaves_the_residual():
    inputs = make_inputs()
    layer = make(inputs, dropout=1.0)
    weights = layer_testing.weights_of(layer)
    encoding = np.repeat(oracles.position_encoding(LENGTH, OUTPUT_DIM, **POSITIONS)[None], 2, axis=0)
    outputs = layer_testing.run(layer, inputs, training=True)
    for output, x, norm in zip(outputs, (inputs["x"], encoding), ("self_norm", "encoding_norm"), strict=True):
        expected = oracles.residual_norm(x, 0.0, oracles.part(weights, f"passage_{norm}"))
        np.testing.assert_allclose(output, expected, rtol=2e-5, atol=2e-5)


def test_an_unknown_text_is_refused():
    with pytest.raises(KeyError):
        DecoupledEncoder(OUTPUT_DIM, num_heads=HEADS)(*make_inputs().values(), text="answer")
