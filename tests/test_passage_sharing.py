"""PassageSharing: a model's own outputs, with every passage read once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf.backends.tensorflow import as_graph
from fabir_tf.passage_sharing import PassageSharing

ROWS = np.array([1, 0, 0, 1, 2, 1], np.int32)
SMALL = {"frozen_words": 30, "characters": 20, "num_layers": 1}


def make_inputs():
    random = np.random.default_rng(0)
    inputs = {}
    for text, lengths, width in (("passage", [23, 9, 1], 23), ("question", [4, 7, 1, 2, 7, 3], 7)):
        count = len(lengths)
        is_token = np.arange(width) < np.array(lengths)[:, None]
        words = random.integers(1, 30, (count, width)) * is_token
        characters = random.integers(0, 20, (count, width, 20)) * is_token[..., None]
        inputs |= {f"{text}_words": words.astype("int32"), f"{text}_characters": characters.astype("int32")}
    return inputs


def repeated(inputs):
    return {name: values[ROWS] if name.startswith("passage") else values for name, values in inputs.items()}


@pytest.mark.parametrize("overrides", [{}, {"cross_attention": "row", "attention_kernel": "3x3", "selector": "linear"}])
def test_outputs_are_the_models(overrides):
    model = fabir_tf.build_model(**SMALL, **overrides)
    inputs = make_inputs()
    sharing = PassageSharing(model)
    expected = model(repeated(inputs), training=False)
    for run in (sharing, as_graph(sharing)):
        found = run(inputs | {"asked_passages": ROWS})
        assert found.keys() == expected.keys()
        for name, logits in expected.items():
            np.testing.assert_allclose(found[name], logits, rtol=1e-5, atol=1e-5)


def test_what_depends_on_the_passage_alone_is_computed_once_for_each():
    """The encoder's rows are the three passages', the reduction layer's the six questions'."""
    model = fabir_tf.build_model(**SMALL)
    seen = {}

    def recorded(layer):
        call = layer.call

        def record(*args, **kwargs):
            first = args[0] if args else kwargs["passage"]
            seen.setdefault(layer.name, []).append(len(first))
            return call(*args, **kwargs)

        return record

    for name in ("highway", "decoupled_encoder", "reduction_layer", "processing_layer_1"):
        layer = model.get_layer(name)
        object.__setattr__(layer, "call", recorded(layer))
    PassageSharing(model)(make_inputs() | {"asked_passages": ROWS})
    for name in ("highway", "decoupled_encoder"):
        assert sorted(seen[name]) == [3, 6]
    for name in ("reduction_layer", "processing_layer_1"):
        assert seen[name] == [6]


def test_a_model_whose_texts_never_meet():
    names = ("passage_words", "question_words")
    words = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    model = keras.Model(words, {"start_logits": keras.ops.cast(words["passage_words"], "float32")})
    inputs = {name: values for name, values in make_inputs().items() if name.endswith("words")}
    found = PassageSharing(model)(inputs | {"asked_passages": tf.constant(ROWS)})
    np.testing.assert_array_equal(found["start_logits"], inputs["passage_words"][ROWS])


def test_training_reaches_every_layer():
    """Dropout is on where the model trains: in the part that is shared, too."""
    model = fabir_tf.build_model(**SMALL, input_keep=0.5)
    sharing = PassageSharing(model)
    inputs = make_inputs() | {"asked_passages": ROWS}
    calm = [sharing(inputs, training=training)["start_logits"].numpy() for training in (False, False, None)]
    np.testing.assert_array_equal(calm[0], calm[1])
    np.testing.assert_array_equal(calm[0], calm[2])
    keeps = {f"{name}_keep": 1.0 for name in ("sublayer", "attention", "selector", "character")}
    only_input = PassageSharing(fabir_tf.build_model(**SMALL, **keeps, input_keep=0.5))
    for model in (sharing, only_input):
        wild = [model(inputs, training=True)["start_logits"].numpy() for _ in range(2)]
        assert np.abs(wild[0] - wild[1])[:, 0].max() > 1e-3


def test_gradients_are_the_models():
    keeps = {f"{name}_keep": 1.0 for name in ("input", "sublayer", "attention", "selector", "character")}
    model = fabir_tf.build_model(**SMALL, **keeps)
    sharing, inputs = PassageSharing(model), make_inputs()
    assert [id(weight) for weight in sharing.weights] == [id(weight) for weight in model.weights]
    gradients = []
    for run in (
        lambda: model(repeated(inputs), training=True),
        lambda: sharing(inputs | {"asked_passages": ROWS}, training=True),
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.log_softmax(run()["start_logits"])[:, 0])
        gradients.append(tape.gradient(loss, model.trainable_weights))
    for weight, one, other in zip(model.trainable_weights, *gradients, strict=True):
        assert (one is None) == (other is None), weight.path
        if one is not None:
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5, err_msg=weight.path)
