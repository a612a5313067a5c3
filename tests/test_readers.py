"""What holds for every reader of `fabir_tf.list_models()`, by its name in code and in the commands."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_bad_input import assert_error
from tiny import SMALL_DATA, SMALL_MODEL, deduplicated_inputs

import fabir_tf
from fabir_tf.backends.tensorflow import as_graph
from fabir_tf.configuration import ConfigError
from fabir_tf.export import export_reader
from fabir_tf.models import MODELS
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.outputs import END, NULL, START
from fabir_tf.models.parameters import count_trainable
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor

# Flags that make a reader small.
SMALL = {
    "fabir": SMALL_MODEL,
    "bidaf": ("--model=bidaf", "--word_dim=20", "--character_filters=20", "--units=6", "--vectors=none"),
    "bidaf-bologna": ("--model=bidaf-bologna", "--word_dim=20", "--character_filters=9", "--units=6", "--vectors=none"),
    "bidaf-cheung": ("--model=bidaf-cheung", "--word_dim=20", "--units=6", "--vectors=none"),
    "bidaf-porwal": ("--model=bidaf-porwal", "--word_dim=20", "--units=6", "--vectors=none"),
}
# Readers of words; tests/test_bert_reader.py has those of word pieces.
NAMES = sorted(SMALL)
QUESTION, PASSAGE = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."


def small_model(name):
    """The reader with random weights; some of Keras' initial ones are all equal."""
    pairs = [flag.removeprefix("--").split("=") for flag in SMALL[name]]
    values = {field: int(value) for field, value in pairs if field not in ("model", "vectors")}
    model = fabir_tf.build_model(name, frozen_words=30, characters=20, **values)
    random = np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.4, weight.shape))
    return model


def make_inputs(passages=(17, 9, 1), questions=(4, 7, 1)):
    random = np.random.default_rng(0)
    inputs = {}
    for text, lengths in (("passage", passages), ("question", questions)):
        is_token = np.arange(max(lengths)) < np.array(lengths)[:, None]
        words = random.integers(1, 80, is_token.shape) * is_token
        characters = random.integers(0, 20, (*is_token.shape, 20)) * is_token[..., None]
        inputs |= {f"{text}_words": words.astype("int32"), f"{text}_characters": characters.astype("int32")}
    return inputs


def row_of(inputs, row, extra=0):
    """One example alone, its padding cut off, `extra` tokens of padding behind it."""
    alone = {}
    for text in ("passage", "question"):
        length = int((inputs[f"{text}_words"][row] > 0).sum())
        for kind in ("words", "characters"):
            values = inputs[f"{text}_{kind}"][row : row + 1, :length]
            alone[f"{text}_{kind}"] = np.pad(values, [(0, 0), (0, extra)] + [(0, 0)] * (values.ndim - 2))
    return alone


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_neither_padding_nor_neighbours_change_a_logit(name):
    model, inputs = small_model(name), make_inputs()
    together = model(inputs, training=False)
    for row in range(3):
        for extra in (0, 13):
            alone = model(row_of(inputs, row, extra), training=False)
            length = int((inputs["passage_words"][row] > 0).sum())
            for output, logits in alone.items():
                real = slice(None if output == NULL else length)
                np.testing.assert_allclose(together[output][row, real], logits[0, real], rtol=1e-5, atol=1e-5)
                assert output == NULL or (np.asarray(logits)[0, length:] == np.float32(-1e9)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_words_in_both_texts_counts(name):
    """No input is left unread where the model has a use for it."""
    model, inputs = small_model(name), make_inputs((9,), (7,))
    before = model(inputs, training=False)
    for text in ("passage", "question"):
        turned = inputs | {f"{text}_words": np.roll(inputs[f"{text}_words"], 1, axis=1)}
        after = model(turned, training=False)
        # A trained null logit is the same for all texts.
        assert all(np.abs(before[output] - after[output]).max() > 1e-3 for output in (START, END)), text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_passages_are_shared_by_their_questions(name):
    model, inputs = small_model(name), make_inputs()
    rows = np.array([1, 0, 0], np.int32)
    expected = model({k: v[rows] if k.startswith("passage") else v for k, v in inputs.items()}, training=False)
    sharing = DeduplicatedModel(model)
    graph = as_graph(sharing)
    shared = {key: tf.constant(value) for key, value in (deduplicated_inputs(inputs) | {"passage_index": rows}).items()}
    for run in (sharing, graph):
        for output, logits in run(shared).items():
            np.testing.assert_allclose(logits, expected[output], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_and_finite_under_every_policy(name, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = small_model(name)
    finally:
        keras.config.set_dtype_policy("float32")
    for logits in model(make_inputs(), training=False).values():
        assert logits.dtype == "float32"
        assert np.isfinite(logits).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_saved_and_loaded(name, tmp_path):
    model, inputs = small_model(name), make_inputs()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for output, logits in model(inputs, training=False).items():
        np.testing.assert_allclose(loaded(inputs, training=False)[output], logits, rtol=1e-6, atol=1e-6)


# FABIR is trained, resumed and exported by the tests of these commands.
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name != "fabir"])
def test_it_is_trained_evaluated_and_exported(commands, tiny_run, tmp_path, name):
    """The same answer from the run and from its SavedModel, through the commands alone."""
    run = tmp_path / "run"
    flags = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL[name], *SMALL_DATA)
    # One of the three is resumed, because each training takes ten seconds to begin.
    for more in ("--epochs=1", "--epochs=2 --resume")[: 2 if name == "bidaf" else 1]:
        result = commands("train", f"--run_dir={run}", *flags, *more.split())
        assert result.status == 0, result
    history = (run / "history.csv").read_text().splitlines()
    assert len(history) == (4 if name == "bidaf" else 3)
    assert all(np.isfinite(float(value)) for line in history[2:] for value in line.split(",")[2:5])
    assert json.loads((run / "config.json").read_text())["model"]["name"] == name
    scores = commands("evaluate", f"--run_dir={run}", f"--dataset={tiny_run.dev}")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] > 0, scores
    asked = commands("predict", f"--run_dir={run}", f"--question={QUESTION}", f"--passage={PASSAGE}")
    assert asked.status == 0, asked
    exported = commands("export", f"--run_dir={run}", f"--export_dir={tmp_path / 'e'}", "--calibration_dataset=none")
    assert exported.status == 0, exported
    served = tf.saved_model.load(str(tmp_path / "e" / "1")).signatures["serving_default"]
    found, expected = served(question=tf.constant([QUESTION]), passage=tf.constant([PASSAGE])), json.loads(asked.stdout)
    assert (found["start"][0], found["end"][0]) == (expected["start"], expected["end"])
    assert found["answer"][0].numpy().decode() == expected["answer"] == PASSAGE[expected["start"] : expected["end"]]


# === Sizes ===


def lstm(inputs, units):
    """Four gates in each of two directions: weights of the input and of the state, and a bias."""
    return 2 * 4 * ((inputs + units) * units + units)


def test_porwal_has_the_published_parameters():
    model = fabir_tf.build_model("bidaf-porwal", frozen_words=11)
    sizes = {layer.name: count_trainable(layer) for layer in model.layers if layer.trainable_weights}
    assert sizes.pop("word_embedding") == 50 * 400
    assert sizes == {
        "highway": 320_800,
        "contextual_encoder": 2_563_200,
        "attention_flow": 2_401,
        "modelling_encoder_1": 11_523_200,
        "modelling_encoder_2": 3_843_200,
        "start": 4_000,
        "end": 4_000,
    }
    assert count_trainable(model) == 18_260_801 + 50 * 400


def test_bidaf_has_the_parameters_of_its_equations():
    """The published 2,695,851 include rows of the two tables, whose numbers are unknown."""
    model = fabir_tf.build_model("bidaf", frozen_words=11, trainable_words=7, characters=13)
    body = 5 * 8 * 100 + 100  # the characters' convolution
    body += 2 * 2 * (200 * 200 + 200)  # two highway layers
    body += lstm(200, 100) + 3 * 200 + lstm(800, 100) + lstm(200, 100)
    body += (800 + 200) + lstm(800 + 3 * 200, 100) + (800 + 200)
    assert count_trainable(model) == body + 7 * 100 + 13 * 8


def test_the_variants_of_bologna_have_what_the_report_says():
    sizes, names = {}, {}
    for variant in range(5):
        model = fabir_tf.build_model("bidaf-bologna", variant=variant, frozen_words=11, characters=101)
        sizes[variant] = {layer.name: count_trainable(layer) for layer in model.layers if layer.trainable_weights}
        names[variant] = {layer.name: type(layer).__name__ for layer in model.layers}
        rates = {layer.rate for layer in model._flatten_layers() if type(layer).__name__ == "Dropout"}
        assert rates == ({0.2} if variant <= 2 else {0.0})
    assert [kinds["highway"] for kinds in names.values()] == ["Highway"] + ["ConvolutionalHighway"] * 4
    summed, one_hot = "SummedCharacterEmbedding", "OneHotCharacterEmbedding"
    assert [kinds["character_embedding"] for kinds in names.values()] == [summed, summed, one_hot, one_hot, one_hot]
    # 50 values of the word and 100 of its characters; from variant 2 on 50 of both.
    assert sizes[0]["highway"] == 2 * 2 * (150 * 150 + 150) and sizes[1]["highway"] == 2 * 2 * (5 * 5 + 1)
    assert sizes[1]["character_embedding"] == 101 * 8 + 5 * 100 + 100
    assert sizes[2]["character_embedding"] == (5 * 101 * 100 + 100) + (100 * 100 + 100) + (100 * 50 + 50)
    assert sizes[0]["contextual_encoder"] == lstm(150, 100)
    # A GRU has three gates, and in Keras two biases.
    assert sizes[2]["contextual_encoder"] == 2 * 3 * ((100 + 100) * 100 + 2 * 100)
    assert [sizes[variant]["end_encoder"] for variant in (0, 1)] == [lstm(200, 100), lstm(201, 100)]
    assert sizes[2] == sizes[3] == sizes[4]


def test_only_variant_4_of_bologna_keeps_the_end_behind_the_start():
    start = np.array([[0.0, 0.0, 9.0]], "float32")
    end = np.array([[9.0, 0.0, 1.0]], "float32")
    found = {}
    for variant in (3, 4):
        config = MODELS["bidaf-bologna"].config(variant=variant)
        found[variant] = [int(part[0, 0]) for part in config.decoder(1)(start, end)[:2]]
    assert found == {3: [2, 0], 4: [2, 2]}


def test_one_null_is_enough_for_cheungs_no_answer_and_not_by_default():
    """The best span has the logits 1 + 9, both nulls 9 - 8, and the null start with the second end 9 + 9."""
    start, end = np.array([[0.0, 1.0, 0.0]], "float32"), np.array([[0.0, 9.0, 0.0]], "float32")
    null = np.array([[9.0, -8.0]], "float32")
    for null_pairs, expected in ((False, 10 - 1), (True, 10 - 18)):
        decoder = MODELS["bidaf-cheung"].config(null_pairs=null_pairs).decoder(1)
        first, last, _, score = (np.asarray(part).ravel()[0] for part in decoder(start, end, null))
        assert (first, last) == (1, 1)
        assert score == pytest.approx(expected)


# The first and the last; test_compatibility.py has answers of all five.
@pytest.mark.long
@pytest.mark.parametrize("variant", [0, 4])
def test_a_variant_of_bologna_answers_alike_in_its_run_and_exported(tmp_path, variant):
    """Also where an end comes before its start: with the empty text, and the probability of both."""
    words = sorted({word.lower() for text in (QUESTION, PASSAGE) for word in tokenize(text).words})
    processor = WordProcessor(Vocabulary(tuple(words), tuple("abdehilntuwy"), ()))
    config = MODELS["bidaf-bologna"].config(variant=variant, word_dim=8, units=4, **processor.sizes)
    model = fabir_tf.build_model(config)
    random = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    reader = fabir_tf.Reader(model, processor, config)
    spans = reader.answer(QUESTION, PASSAGE, n_best=9).n_best
    folder = export_reader(reader, tmp_path, n_best=9)
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    found = served(question=tf.constant([QUESTION]), passage=tf.constant([PASSAGE]))
    for number, span in enumerate(spans):
        assert span.text == PASSAGE[span.start : span.end] == found["n_best_answer"][0, number].numpy().decode()
        assert (found["n_best_start"][0, number], found["n_best_end"][0, number]) == (span.start, span.end)
        assert float(found["n_best_probability"][0, number]) == pytest.approx(span.probability, rel=1e-4)
    empty = [span for span in spans if not span.text]
    assert bool(empty) == (variant < 4)


# === Names ===


def test_readers_are_listed_and_named(commands):
    listed = fabir_tf.list_models()
    assert next(iter(listed)) == "fabir" and set(listed) == set(MODELS) == {*SMALL, "bert-span"}
    # Help is also wrapped at hyphens.
    text = " ".join(commands("train", "--helpfull").stdout.split()).replace("- ", "-")
    for name, about in listed.items():
        assert f"{name}: {about}" in text
    assert "Default: 100; 400 of bidaf-porwal; 50 of bidaf-bologna; 300 of bidaf-cheung." in text
    owners = "With --model=bidaf, bidaf-porwal, bidaf-bologna, bidaf-cheung."
    defaults = "Default: 100; 400 of bidaf-porwal; 150 of bidaf-cheung."
    assert f"Features of the state of each recurrent network. {owners} {defaults}" in text
    assert "the reader gets null logits. Default: false; true of bidaf-cheung; true of bert-span." in text


@pytest.mark.parametrize(
    ("name", "message"),
    [("bidef", "the model must be one of fabir, .*, found 'bidef'; did you mean 'bidaf'"), ("", "found ''$")],
)
def test_an_unknown_name_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        fabir_tf.build_model(name)


def test_fields_of_one_name_are_of_one_kind():
    """They share a flag, where they have one."""
    first = {}
    for family in MODELS.values():
        for name, field in family.config.__dataclass_fields__.items():
            if field.metadata.get("derived"):
                continue
            other = first.setdefault(name, field)
            assert field.type == other.type and field.metadata == other.metadata, name


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--model=bidaf", "--num_heads=2"], ["--num_heads=2", "--model=bidaf has no such setting"]),
        (["--units=7"], ["--units=7", "--model=fabir has no such setting"]),
        (["--model=bert"], ["--model=bert", "fabir, bidaf"]),
        (["--model=bidaf", "--units=0"], ["units must be", "found 0"]),
        (["--model=bidaf", "--character_filters=0"], ["character_filters must be at least 1 for BidafConfig"]),
        (["--model=bidaf-bologna", "--character_filters=0"], ["character_filters must be at least 1"]),
        (["--model=bidaf-bologna", "--variant=5"], ["variant must be between 0 and 4, found 5"]),
        (["--model=bidaf-cheung", "--null_pairs", "--nonull_head"], ["null_pairs needs a null head"]),
        (["--model=bert-span", "--num_heads=2"], ["--num_heads=2", "--model=bert-span has no such setting"]),
        (["--model=bert-span"], ["encoder: found no folder", "--encoder"]),
        (["--model=bidaf", "--null_pairs"], ["--null_pairs=True", "--model=bidaf has no such setting"]),
    ],
)
def test_settings_that_do_not_fit_the_model(commands, tmp_path, flags, parts):
    assert_error(commands, "train", [f"--run_dir={tmp_path / 'run'}", "--dataset=sample", *flags], parts)
    assert not (tmp_path / "run").exists()


def test_a_run_is_resumed_with_its_own_model_alone(commands, tiny_run):
    flags = [flag for flag in tiny_run.flags if flag.split("=")[0] in ("--dataset", "--eval_dataset", "--cache_dir")]
    assert_error(
        commands,
        "train",
        [f"--run_dir={tiny_run.path}", "--resume", "--model=bidaf", *flags],
        ["holds a run of --model=fabir", "found --model=bidaf"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("content", [{"model": "bidaf", "units": 5}, {"model": {"name": "bidaf", "units": 5}}])
def test_a_file_of_settings_names_the_model(commands, tiny_run, tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(content))
    flags = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--epochs=0", "--vectors=none")
    result = commands("train", f"--config={path}", f"--run_dir={tmp_path / 'run'}", *flags, *SMALL_DATA)
    assert result.status == 0, result
    written = json.loads((tmp_path / "run" / "config.json").read_text())["model"]
    assert (written["name"], written["units"]) == ("bidaf", 5)


def test_a_file_of_settings_of_an_unknown_model(commands, tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"model": "bert"}))
    assert_error(commands, "train", [f"--config={path}", "--run_dir=new"], [str(path), "unknown model", "fabir, bidaf"])
