"""DeduplicatedModel: a model's own outputs, with every passage and every word read once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import deduplicated_inputs

import fabir_tf
from fabir_tf.backends.tensorflow import as_graph
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.features.array_batches import array_batches
from fabir_tf.pipelines.features.features import Features, Segments
from fabir_tf.pipelines.features.tensor_batches import make_batches
from fabir_tf.training.losses import StartEndLoss

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("word_dropout", [0.0, 0.5])
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
    unique = len(inputs["unique_words"])
    assert unique < 3 * 23
    for name in words:
        assert sorted(seen[name]) == (texts if training else [(unique, 1)])
    assert sorted(seen["decoupled_encoder"]) == texts
    for name in ("reduction_layer", "processing_layer_1"):
        assert seen[name] == [(6, 23)]


def test_the_inputs_of_a_model():
    words, index = ((None,), "int32"), ((None, None), "int32")
    assert DeduplicatedModel(fabir_tf.build_model(**SMALL)).input_specs == {
        "passage_token_index": index,
        "question_token_index": index,
        "unique_words": words,
        "unique_characters": ((None, 20), "int32"),
        "passage_index": words,
    }
    assert DeduplicatedModel(sequence_model()).input_specs == {"sequence_token_index": index, "unique_ids": words}


def test_a_model_whose_texts_never_meet():
    names = ("passage_words", "question_words")
    words = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    model = keras.Model(words, {"start_logits": keras.ops.cast(words["passage_words"], "float32")})
    inputs = {name: values for name, values in make_inputs().items() if name.endswith("words")}
    found = DeduplicatedModel(model)(shared(inputs))
    np.testing.assert_array_equal(found["start_logits"], inputs["passage_words"][ROWS])


def test_texts_that_are_joined_word_by_word():
    """Ids of two texts side by side: the last axis is that of the words, and not of their features."""
    names = ("passage_words", "question_words")
    words = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    joined = keras.layers.Concatenate()([words["passage_words"], words["question_words"]])
    model = keras.Model(words, {"start_logits": keras.ops.cast(joined, "float32")})
    inputs = {name: values for name, values in make_inputs().items() if name.endswith("words")}
    found = DeduplicatedModel(model)(shared(inputs))
    np.testing.assert_array_equal(found["start_logits"], model(repeated(inputs))["start_logits"])


@pytest.mark.slow
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


# === One text for question and passage ===


def sequence_model(null_head=False):
    """Two logits of each token of a sequence, and two of "no answer" from its first token."""
    ids = keras.Input((None,), dtype="int32", name="sequence_ids")
    logits = keras.layers.Dense(2, name="logits")(keras.layers.Embedding(9, 5, name="ids")(ids))
    logits = keras.ops.where(ids[..., None] > 0, logits, -1e9)
    outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    if null_head:
        outputs["null_logits"] = keras.layers.Dense(2, name="null")(logits[:, 0])
    return keras.Model({"sequence_ids": ids}, outputs)


def sequence_features(count=23):
    random = np.random.default_rng(6)
    lengths = random.integers(3, 9, count)
    return Features(
        tokens=random.integers(1, 9, int(lengths.sum())).astype(np.int32),
        unique={"ids": np.arange(9, dtype=np.int32)},
        segments={"sequence": Segments(np.cumsum(lengths) - lengths, lengths)},
        passages=np.arange(count),
        passage_lengths=lengths - 1,
        logit_offsets=np.ones(count, np.int64),
    )


@pytest.mark.parametrize("training", [False, True])
def test_a_model_of_one_text(training):
    model, features = sequence_model(null_head=True), sequence_features()
    ((inputs,),) = array_batches(features, [np.array([4, 0, 7])])
    found = DeduplicatedModel(model)(inputs, training=training)
    ids = inputs["unique_ids"][inputs["sequence_token_index"]]
    for name, expected in model({"sequence_ids": ids}).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    for row, example in enumerate((4, 0, 7)):
        start, length = (getattr(features.segments["sequence"], name)[example] for name in ("starts", "lengths"))
        assert ids[row, :length].tolist() == features.tokens[start : start + length].tolist()


# === Training ===


def sequence_targets(features):
    spans = np.random.default_rng(7).integers(0, features.passage_lengths) + 1
    return {
        "start": spans,
        "end": spans,
        "offset": features.logit_offsets,
        "length": features.passage_lengths,
    }


def compiled(model, rate=0.0, **options):
    trainer = DeduplicatedModel(model)
    trainer.compile(keras.optimizers.SGD(rate), StartEndLoss(), **options)
    return trainer


# The last batches are small, and others have few examples with long texts.
BATCHES = [np.arange(0, 12), np.arange(12, 20), np.array([20]), np.array([21, 22])]


@pytest.mark.slow
@pytest.mark.parametrize("fills_up", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_loss_of_an_epoch_is_the_mean_over_its_questions(fills_up, jit_compile):
    """Not over batches, nor over rows that only fill them up."""
    features = sequence_features()
    targets = sequence_targets(features)
    trainer = compiled(sequence_model(), jit_compile=jit_compile)
    feed = array_batches if fills_up else make_batches
    history = trainer.fit(feed(features, BATCHES, targets), shuffle=False, steps_per_epoch=len(BATCHES), verbose=0)
    assert set(history.history) == {"loss"}
    total = 0.0
    for row in range(len(features)):
        ((inputs, labels),) = make_batches(features, [np.array([row])], targets)
        total += float(StartEndLoss()(labels, trainer(inputs)))
    assert history.history["loss"][0] == pytest.approx(total / len(features), rel=1e-5)
    (metric,) = trainer.metrics
    assert [float(part.value) for part in metric.variables] == pytest.approx([total, len(features)], rel=1e-5)


@pytest.mark.slow
def test_the_loss_of_shared_passages_is_the_mean_over_questions():
    """Each passage has another number of questions; the first input by name could be one row per passage."""
    inputs = make_inputs()
    rates = {f"{name}_dropout": 0.0 for name in ("input", "sublayer", "attention", "selector", "character")}
    model = fabir_tf.build_model(**SMALL, **rates)
    targets = {
        "start": np.array([3, 0, 22, 1, 0, 8]),
        "end": np.array([3, 4, 22, 2, 0, 8]),
        "offset": np.zeros(6, int),
        "length": np.array([9, 23, 23, 9, 1, 9]),
    }
    parts = ([0, 1, 2, 5], [3, 4])
    batches = []
    for rows in parts:
        questions = {name: values[rows] for name, values in inputs.items() if name.startswith("question")}
        passages = {name: values for name, values in inputs.items() if name.startswith("passage")}
        batches.append(
            (
                deduplicated_inputs(passages | questions) | {"passage_index": ROWS[rows]},
                {name: values[rows] for name, values in targets.items()},
            )
        )
    history = compiled(model).fit((batch for batch in batches), shuffle=False, steps_per_epoch=2, verbose=0)
    expected = float(StartEndLoss()(targets, model(repeated(inputs))))
    assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)


def test_every_epoch_begins_its_mean_anew():
    features = sequence_features()
    targets = sequence_targets(features)
    trainer = compiled(sequence_model(null_head=True), rate=0.1)
    batches = list(make_batches(features, BATCHES, targets))
    losses = trainer.fit(
        (batch for batch in batches * 3), shuffle=False, steps_per_epoch=len(BATCHES), epochs=3, verbose=0
    ).history["loss"]
    assert losses[0] > losses[1] > losses[2]
    # In the last epoch the weights have moved; the loss before it was that of its own steps.
    (inputs, labels) = batches[0]
    before = float(StartEndLoss()(labels, trainer(inputs)))
    trainer.train_on_batch(inputs, labels)
    assert float(StartEndLoss()(labels, trainer(inputs))) < before


def test_metrics_are_no_state_of_the_model():
    model = sequence_model()
    trainer = compiled(model)
    assert [id(variable) for variable in trainer.variables] == [id(variable) for variable in model.variables]
    assert DeduplicatedModel(model).metrics == []
