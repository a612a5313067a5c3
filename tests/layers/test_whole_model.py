"""The layers put together by `build_model`: against the oracle, over padding, counted, trained, saved."""

import keras
import layer_testing
import numpy as np
import oracles
import pytest

import fabir_tf

SMALL = {
    "trainable_words": 3,
    "characters": 7,
    "frozen_words": 13,
    "word_dim": 6,
    "character_dim": 2,
    "character_kernel": 3,
    "character_filters": 4,
    "max_word_characters": 5,
    "first_position": 2,
    "min_frequency": 0.01,
    "d_model": 8,
    "num_heads": 2,
    "reduction_hidden_dim": 11,
    "hidden_dim": 9,
    "num_layers": 2,
    "selector_filters": 5,
    "selector_kernel": 3,
}
VARIANTS = {
    "published": {},
    "plain-linear": {"attention_kernel": "none", "selector": "linear"},
    "row-wise-depthwise": {"attention_kernel": "3x7", "attention_depthwise": True, "cross_attention": "row"},
}
PASSAGE, QUESTION = 11, 5
PASSAGE_LENGTHS, QUESTION_LENGTHS = [11, 6, 2], [3, 5, 1]


def ids(lengths, width, seed, config=SMALL):
    """Word ids and character ids of a text, 0 behind its tokens and behind each word's characters."""
    rng = np.random.default_rng(seed)
    mask = layer_testing.mask_of(lengths, width)
    words = rng.integers(1, 1 + config["trainable_words"] + config["frozen_words"], mask.shape) * mask
    most = config["max_word_characters"]
    own = rng.integers(1, most + 1, mask.shape)[..., None] > np.arange(most)
    characters = rng.integers(1, 1 + config["characters"], own.shape) * own * mask[..., None]
    return words.astype("int32"), characters.astype("int32")


def make_inputs(passage_lengths=PASSAGE_LENGTHS, question_lengths=QUESTION_LENGTHS, config=SMALL):
    passage_words, passage_characters = ids(passage_lengths, PASSAGE, 1, config)
    question_words, question_characters = ids(question_lengths, QUESTION, 2, config)
    return {
        "passage_words": passage_words,
        "passage_characters": passage_characters,
        "question_words": question_words,
        "question_characters": question_characters,
    }


def small_model(**changes):
    """A small model, every weight random."""
    model = fabir_tf.build_model(**(SMALL | changes))
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if "seed_generator" not in weight.path:
            weight.assign((0.5 * rng.standard_normal(weight.shape)).astype(weight.dtype))
    return model


def logits_of(model, inputs):
    outputs = model(inputs)
    return layer_testing.as_arrays([outputs["start_logits"], outputs["end_logits"]])


def cut(inputs, row, passage_length, question_length):
    lengths = {"passage": passage_length, "question": question_length}
    return {name: ids[row : row + 1, : lengths[name.split("_")[0]]] for name, ids in inputs.items()}


def padded(inputs, passage, question):
    extra = {"passage": passage, "question": question}
    return {
        name: np.pad(ids, [(0, 0), (0, extra[name.split("_")[0]])] + [(0, 0)] * (ids.ndim - 2))
        for name, ids in inputs.items()
    }


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_forward(variant):
    model, inputs = small_model(**VARIANTS[variant]), make_inputs()
    weights = {layer.name: layer_testing.weights_of(layer) for layer in model.layers if layer.weights}
    config = fabir_tf.FabirConfig(**(SMALL | VARIANTS[variant])).to_dict()
    mask = inputs["passage_words"] != 0
    for logits, expected in zip(logits_of(model, inputs), oracles.fabir(inputs, weights, config), strict=True):
        np.testing.assert_allclose(logits[mask], expected[mask], rtol=1e-4, atol=1e-4)
        assert (logits[~mask] == np.float32(-1e9)).all()


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_padding_and_neighbours_change_nothing(variant):
    model, inputs = small_model(**VARIANTS[variant]), make_inputs()
    batched = logits_of(model, inputs)
    for row, (passage, question) in enumerate(zip(PASSAGE_LENGTHS, QUESTION_LENGTHS, strict=True)):
        alone = cut(inputs, row, passage, question)
        expected = logits_of(model, alone)
        others = [padded(alone, 29 - passage, 17 - question)]
        others += [padded(alone, 3, 0), padded(alone, 0, 3)] if row == 1 else []
        for outputs in (*(logits_of(model, other) for other in others), [logits[row : row + 1] for logits in batched]):
            for logits, wanted in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(logits[:, :passage], wanted, rtol=1e-5, atol=1e-5)
                assert (logits[:, passage:] == np.float32(-1e9)).all()


def test_parameters_by_part():
    model = fabir_tf.build_model(frozen_words=10)
    parts = {layer.name: layer_testing.parameters(layer) for layer in model.layers if layer.trainable_weights}
    assert parts == {
        "word_embedding": 10_100 + 50 * 100,
        "character_embedding": 4_100 + 306 * 8,
        "highway": 160_800,
        "reduction_layer": 685_660,
        "processing_layer_1": 162_560,
        "processing_layer_2": 162_560,
        "processing_layer_3": 162_560,
        "selector": 29_410,
    }
    assert layer_testing.parameters(model) == 1_385_198


@pytest.mark.parametrize(("trainable_words", "characters"), [(1, 1), (7, 101)])
def test_parameters_of_other_vocabularies(trainable_words, characters):
    model = fabir_tf.build_model(frozen_words=3, trainable_words=trainable_words, characters=characters)
    assert layer_testing.parameters(model) == 1_377_750 + 100 * trainable_words + 8 * characters


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_a_compiled_step_and_a_saved_model(policy, tmp_path):
    """One row is padding alone. The logits are float32 whatever the policy, in the graph and in the file."""
    inputs = make_inputs([11, 6, 0], [3, 5, 0])
    targets = {name: np.array([1, 4, 0]) for name in ("start_logits", "end_logits")}
    with layer_testing.global_policy(policy):
        model = small_model()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss={name: loss for name in targets})
        before = [layer_testing.as_arrays([weight.value])[0] for weight in model.trainable_weights]
        assert np.isfinite(model.train_on_batch(inputs, targets))
    for weight, old in zip(model.trainable_weights, before, strict=True):
        (new,) = layer_testing.as_arrays([weight.value])
        assert np.isfinite(new).all(), weight.path
        assert (new != old).any(), f"{weight.path} does not learn"
    expected = logits_of(model, inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for logits, wanted in zip(logits_of(loaded, inputs), expected, strict=True):
        np.testing.assert_allclose(logits, wanted, rtol=1e-6, atol=1e-6)
    assert {keras.backend.standardize_dtype(output.dtype) for output in model(inputs).values()} == {"float32"}
    assert [output.dtype for output in model.outputs] == ["float32", "float32"]


def test_it_learns():
    """A few examples by heart, dropout and all."""
    keras.utils.set_random_seed(7)
    config = SMALL | {"d_model": 16, "num_layers": 1, "first_position": 0, "sublayer_keep": 0.95}
    model = fabir_tf.build_model(**config)
    inputs = make_inputs([11, 9, 6], [3, 5, 1])
    targets = {"start_logits": np.array([7, 2, 5]), "end_logits": np.array([9, 3, 5])}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss={name: loss for name in targets})
    losses = [float(model.train_on_batch(inputs, targets)[0]) for _ in range(120)]
    assert np.mean(losses[-10:]) < 0.3 * losses[0]
    start, end = logits_of(model, inputs)
    np.testing.assert_array_equal(start.argmax(1), targets["start_logits"])
    np.testing.assert_array_equal(end.argmax(1), targets["end_logits"])
