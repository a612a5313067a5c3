"""The model of `build_model`: outputs, padding, parameters, training, saving."""

import keras
import layer_testing
import numpy as np
import oracles
import pytest

import fabir_tf
from fabir_tf.precision import dtype_policy

SMALL = {
    "trainable_words": 3,
    "characters": 7,
    "frozen_words": 13,
    "word_dim": 6,
    "character_dim": 2,
    "character_kernel": 3,
    "character_filters": 4,
    "max_word_characters": 5,
    "position_offset": 2,
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
    "plain-linear": {"attention_kernel": "none", "selector": "linear", "selector_filters": 32, "selector_kernel": 9},
    "row-wise-depthwise": {"attention_kernel": "3x7", "attention_depthwise": True, "cross_attention": "row"},
}
PASSAGE, QUESTION = 11, 5
PASSAGE_LENGTHS, QUESTION_LENGTHS = [11, 2], [3, 5]


def ids(lengths, width, seed, config=SMALL):
    """Word ids and character ids of a text, padded with 0 after its tokens and after each word's characters."""
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
    """A small model with random values in all weights."""
    model = fabir_tf.build_model(**(SMALL | changes))
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if "seed_generator" not in weight.path:
            weight.assign((0.5 * rng.standard_normal(weight.shape)).astype(weight.dtype))
    return model


def logits_of(model, inputs):
    """Start and end logits of a model or of its `runner`."""
    call = layer_testing.runner(model) if isinstance(model, keras.Model) else model
    outputs = call(inputs)
    return layer_testing.as_arrays([outputs["start_logits"], outputs["end_logits"]])


def compiled(model, optimizer):
    """The model, compiled to train on start and end."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # XLA takes minutes to compile this on TensorFlow, which can do without; JAX cannot.
    jit = keras.backend.backend() == "jax"
    model.compile(
        optimizer=optimizer,
        loss={"start_logits": loss, "end_logits": loss},
        jit_compile=jit,
    )
    return model


def total_loss(result):
    """The first result of `train_on_batch`: the sum of the outputs' losses."""
    return float(np.ravel(result)[0])


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


@pytest.mark.parametrize("variant", ["published", "row-wise-depthwise"])
def test_padding_and_neighbors_change_nothing(variant):
    model, inputs = layer_testing.runner(small_model(**VARIANTS[variant], num_layers=1)), make_inputs()
    batched = logits_of(model, inputs)
    longer = logits_of(model, padded(inputs, 19, 13))
    for row, (passage, question) in enumerate(zip(PASSAGE_LENGTHS, QUESTION_LENGTHS, strict=True)):
        alone = logits_of(model, cut(inputs, row, passage, question))
        for outputs in (batched, longer):
            for logits, wanted in zip(outputs, alone, strict=True):
                np.testing.assert_allclose(logits[row : row + 1, :passage], wanted, rtol=1e-5, atol=1e-5)
                assert (logits[row, passage:] == np.float32(-1e9)).all()


def test_parameters_by_part():
    model = fabir_tf.build_model(frozen_words=10)
    parts = {layer.name: layer_testing.parameters(layer) for layer in model.layers if layer.trainable_weights}
    assert parts == {
        "word_embedding": 10_100 + 50 * 100,
        "character_embedding": 4_100 + 306 * 8,
        "highway": 160_800,
        "decoupled_encoder": 182_280,
        "reduction_layer": 685_660 - 182_280,
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


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_in_mixed_precision(policy):
    """One of the examples is only padding."""
    inputs = make_inputs([11, 0], [3, 0])
    with dtype_policy(policy):
        model = small_model(num_layers=0)
    outputs = layer_testing.runner(model)(inputs)
    for logits in outputs.values():
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
        assert np.isfinite(layer_testing.as_arrays(logits)[0]).all()
    assert [output.dtype for output in model.outputs] == ["float32", "float32"]


@pytest.mark.slow
def test_it_learns_and_is_saved(tmp_path):
    """It learns two examples by heart, beside one of padding, with loss scaling; then it is loaded from a file."""
    keras.utils.set_random_seed(7)
    rates = ("input_dropout", "sublayer_dropout", "attention_dropout", "selector_dropout", "character_dropout")
    config = SMALL | {"num_layers": 0, "selector_filters": 16} | dict.fromkeys(rates, 0.0)
    inputs = make_inputs([11, 9, 0], [3, 5, 0])
    targets = {"start_logits": np.array([7, 2, 0]), "end_logits": np.array([9, 3, 0])}
    with dtype_policy("mixed_float16"):
        model = compiled(fabir_tf.build_model(**config), keras.optimizers.Adam(0.01))
    before = model.get_weights()
    losses = [total_loss(model.train_on_batch(inputs, targets)) for _ in range(60)]
    assert np.isfinite(losses).all()
    for weight, old, new in zip(model.weights, before, model.get_weights(), strict=True):
        assert np.isfinite(new).all(), weight.path
        if (
            weight.trainable and "question_encoding_norm" not in weight.path
        ):  # the reduced question has no effect on the logits
            assert (new != old).any(), f"{weight.path} does not learn"
    start, end = logits_of(model, inputs)
    np.testing.assert_array_equal(start.argmax(1), targets["start_logits"])
    np.testing.assert_array_equal(end.argmax(1), targets["end_logits"])
    padding_alone = 2 * np.log(PASSAGE) / 3  # loss of the third example, for any weights
    assert losses[-1] < padding_alone + 0.1
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for logits, wanted in zip(logits_of(loaded, inputs), (start, end), strict=True):
        np.testing.assert_allclose(logits, wanted, rtol=1e-5, atol=1e-5)
