"""DeduplicatedModel: a model's own outputs, with every passage and every word read once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import deduplicated_inputs

import fabir_tf
from fabir_tf.backends.tensorflow import as_graph
from fabir_tf.models.deduplicated import DeduplicatedModel

ROWS = np.array([1, 0, 0, 1, 2, 1], np.int32)
SMALL = {"frozen_words": 30, "characters": 20, "num_layers": 1}


def make_inputs():
    random = np.random.default_rng(0)
    spellings = random.integers(0, 20, (30, 20))
    inputs = {}
    for text, lengths, width in (("passage", [23, 9, 1], 23), ("question", [4, 7, 1, 2, 7, 3], 7)):
        count = len(lengths)
        is_token = np.arange(width) < np.array(lengths)[:, None]
        words = random.integers(1, 30, (count, width)) * is_token
        characters = spellings[words] * is_token[..., None]
        inputs |= {f"{text}_words": words.astype("int32"), f"{text}_characters": characters.astype("int32")}
    return inputs


def shared(inputs):
    return deduplicated_inputs(inputs) | {"passage_index": ROWS}


def repeated(inputs):
    return {name: values[ROWS] if name.startswith("passage") else values for name, values in inputs.items()}


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cross_attention": "row", "attention_kernel": "3x3", "selector": "linear"},
        {"word_dropout": 0.5, "word_match": True},
    ],
)
def test_outputs_are_the_models(overrides):
    model = fabir_tf.build_model(**SMALL, **overrides)
    inputs = make_inputs()
    sharing = DeduplicatedModel(model)
    expected = model(repeated(inputs), training=False)
    for run in (sharing, as_graph(sharing)):
        found = run(shared(inputs))
        assert found.keys() == expected.keys()
        for name, logits in expected.items():
            np.testing.assert_allclose(found[name], logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("word_dropout", [1.0, 0.5])
@pytest.mark.parametrize("training", [False, True])
def test_what_depends_on_a_word_or_a_passage_alone_is_computed_once_for_each(training, word_dropout):
    """The encoder's rows are the three passages', the reduction layer's the six questions'."""
    model = fabir_tf.build_model(**SMALL, word_dropout=word_dropout)
    seen = {}

    def recorded(layer):
        call = layer.call

        def record(*args, **kwargs):
            first = args[0] if args else kwargs["passage"]
            seen.setdefault(layer.name, []).append(tuple(first.shape[:2]))
            return call(*args, **kwargs)

        return record

    words = ("word_embedding", "character_embedding", "highway")
    for name in (*words, "decoupled_encoder", "reduction_layer", "processing_layer_1"):
        layer = model.get_layer(name)
        object.__setattr__(layer, "call", recorded(layer))
    inputs = shared(make_inputs())
    DeduplicatedModel(model)(inputs, training=training)
    texts = [(3, 23), (6, 7)]
    types = len(inputs["unique_words"])
    assert types < 3 * 23
    for name in words:
        assert sorted(seen[name]) == (texts if training else [(types, 1)])
    assert sorted(seen["decoupled_encoder"]) == texts
    for name in ("reduction_layer", "processing_layer_1"):
        assert seen[name] == [(6, 23)]


def test_a_model_whose_texts_never_meet():
    names = ("passage_words", "question_words")
    words = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    model = keras.Model(words, {"start_logits": keras.ops.cast(words["passage_words"], "float32")})
    inputs = {name: values for name, values in make_inputs().items() if name.endswith("words")}
    found = DeduplicatedModel(model)(shared(inputs))
    np.testing.assert_array_equal(found["start_logits"], inputs["passage_words"][ROWS])


def test_training_reaches_every_layer():
    """Dropout is on where the model trains: in the part that is shared, too."""
    model = fabir_tf.build_model(**SMALL, input_dropout=0.5)
    sharing = DeduplicatedModel(model)
    inputs = shared(make_inputs())
    calm = [sharing(inputs, training=training)["start_logits"].numpy() for training in (False, False, None)]
    np.testing.assert_array_equal(calm[0], calm[1])
    np.testing.assert_array_equal(calm[0], calm[2])
    rates = {f"{name}_dropout": 0.0 for name in ("sublayer", "attention", "selector", "character")}
    only_input = DeduplicatedModel(fabir_tf.build_model(**SMALL, **rates, input_dropout=0.5))
    for model in (sharing, only_input):
        wild = [model(inputs, training=True)["start_logits"].numpy() for _ in range(2)]
        assert np.abs(wild[0] - wild[1])[:, 0].max() > 1e-3


def test_gradients_are_the_models():
    rates = {f"{name}_dropout": 0.0 for name in ("input", "sublayer", "attention", "selector", "character")}
    model = fabir_tf.build_model(**SMALL, **rates)
    sharing, inputs = DeduplicatedModel(model), make_inputs()
    assert [id(weight) for weight in sharing.weights] == [id(weight) for weight in model.weights]
    gradients = []
    for run in (
        lambda: model(repeated(inputs), training=True),
        lambda: sharing(shared(inputs), training=True),
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.log_softmax(run()["start_logits"])[:, 0])
        gradients.append(tape.gradient(loss, model.trainable_weights))
    for weight, one, other in zip(model.trainable_weights, *gradients, strict=True):
        assert (one is None) == (other is None), weight.path
        if one is not None:
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5, err_msg=weight.path)
