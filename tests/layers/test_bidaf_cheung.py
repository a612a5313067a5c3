"""The model of `bidaf-cheung`, equation by equation; the same parameters on every backend."""

import layer_testing
import numpy as np
import oracles
import pytest

import fabir_tf

SMALL = {
    "trainable_words": 3,
    "frozen_words": 13,
    "characters": 2,
    "max_word_characters": 2,
    "word_dim": 5,
    "units": 3,
}
LENGTHS = {"passage": [7, 4, 1], "question": [2, 4, 1]}


def make_inputs():
    rng = np.random.default_rng(2)
    inputs = {}
    for text, lengths in LENGTHS.items():
        mask = layer_testing.mask_of(lengths, max(lengths))
        inputs[f"{text}_words"] = (rng.integers(1, 17, mask.shape) * mask).astype("int32")
        inputs[f"{text}_characters"] = np.zeros((*mask.shape, 2), "int32")
    return inputs


def small_model(**changes):
    model = fabir_tf.build_model("bidaf-cheung", **SMALL | changes)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if "seed_generator" not in weight.path:
            weight.assign((0.5 * rng.standard_normal(weight.shape)).astype(weight.dtype))
    return model


def expected_logits(inputs, weights):
    """Equations 9 to 13 of the report."""
    masks = {text: inputs[f"{text}_words"] != 0 for text in LENGTHS}
    encoded = {
        text: oracles.recurrent_encoder(
            oracles.word_table(inputs[f"{text}_words"], weights["word_embedding"]),
            mask,
            weights["contextual_encoder"],
            "gru",
        )
        for text, mask in masks.items()
    }
    flow = oracles.attention_flow(
        encoded["passage"], encoded["question"], masks["passage"], masks["question"], weights["attention_flow"]
    )
    modelled = flow
    for number in (1, 2):
        modelled = oracles.recurrent_encoder(modelled, masks["passage"], weights[f"modelling_encoder_{number}"], "gru")
    ended = oracles.recurrent_encoder(modelled, masks["passage"], weights["end_encoder"], "gru")
    start, end = (
        (np.concatenate([flow, last], axis=-1) @ weights[name]["kernel"])[..., 0]
        for name, last in (("start", modelled), ("end", ended))
    )
    return {
        "start_logits": np.where(masks["passage"], start, -1e9),
        "end_logits": np.where(masks["passage"], end, -1e9),
        "null_logits": np.repeat(weights["null_logits"]["null_logits"][None], len(start), axis=0),
    }


def test_forward():
    model, inputs = small_model(), make_inputs()
    weights = {layer.name: layer_testing.weights_of(layer) for layer in model.layers if layer.weights}
    expected = expected_logits(inputs, weights)
    found = layer_testing.runner(model)(inputs)
    assert found.keys() == expected.keys()
    for name, logits in expected.items():
        np.testing.assert_allclose(layer_testing.as_arrays(found[name])[0], logits, rtol=1e-4, atol=1e-4, err_msg=name)


def test_dropout_is_for_training():
    inputs = make_inputs()
    found, dropping = (layer_testing.runner(small_model(dropout=rate)) for rate in (0.0, 0.5))
    for name in ("start_logits", "end_logits"):
        logits, same, other = (
            layer_testing.as_arrays(call(inputs, training=training)[name])[0]
            for call, training in ((found, True), (dropping, False), (dropping, True))
        )
        np.testing.assert_allclose(logits, same, rtol=1e-5, atol=1e-5)
        assert np.abs(logits - other).max() > 1e-2


@pytest.mark.parametrize("words", [1, 50])
def test_parameters(words):
    """By hand, with f = 150 and d = 300; the report gives no count."""
    f, d = 150, 300

    def gru(inputs):
        return 2 * 3 * ((inputs + f) * f + 2 * f)

    model = fabir_tf.build_model("bidaf-cheung", trainable_words=words, frozen_words=3)
    parts = {layer.name: layer_testing.parameters(layer) for layer in model.layers if layer.trainable_weights}
    assert parts == {
        "word_embedding": words * d,
        "contextual_encoder": gru(d),
        "attention_flow": 6 * f,
        "modelling_encoder_1": gru(8 * f),
        "modelling_encoder_2": gru(2 * f),
        "end_encoder": gru(2 * f),
        "start": 10 * f,
        "end": 10 * f,
        "null_logits": 2,
    }
    assert layer_testing.parameters(model) == 2_441_102 + 300 * words


def test_without_a_null_head_it_always_answers():
    model = small_model(null_head=False)
    assert sorted(model.output) == ["end_logits", "start_logits"]
    assert layer_testing.parameters(small_model()) == layer_testing.parameters(model) + 2
