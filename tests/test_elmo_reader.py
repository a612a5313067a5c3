"""bidaf-cheung with the vectors of ELMo: its processor, its model, and every command."""

import json

import bilm_folders
import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_answers import export_and_compare
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_testing import check_processor
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, squad_data

import fabir_tf
from fabir_tf.backends.tensorflow import as_graph
from fabir_tf.models.bidaf_cheung import BidafCheungConfig
from fabir_tf.models.bilm import read_bilm
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.outputs import NULL
from fabir_tf.models.parameters import count_trainable
from fabir_tf.models.word_vectors import elmo_vectors
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import PASSAGE_INDEX
from fabir_tf.pipelines.features.tensor_batches import batches_to_read
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.text.bilm_characters import character_ids
from fabir_tf.pipelines.text.bilm_processor import BilmProcessor
from fabir_tf.reading.reader import Reader

PROCESSOR = BilmProcessor()
QUESTION, PASSAGE = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."
LONG = " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES)
# Words of 47 to 49 bytes, and one that ends inside a character; a word that is also a byte of padding; no word.
HARD = (
    f"{'x' * 47} {'y' * 48} {'z' * 49} {'😀' * 13} a{'é' * 24}",
    "İn 😀 a\u0301 \x00 x\x00y!",
    " \n ",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bilm_folders.write_folder(tmp_path_factory.mktemp("bilm"))


@pytest.fixture(scope="module")
def config(folder):
    return BidafCheungConfig(word_vectors="elmo", word_model=str(folder), units=5).completed()


@pytest.fixture(scope="module")
def model(config):
    keras.utils.set_random_seed(5)
    model = fabir_tf.build_model(config)
    config.initialize(model)
    for name in ("start", "end"):
        for weight in model.get_layer(name).trainable_weights:
            weight.assign(weight * 5)
    return model


@pytest.fixture(scope="module")
def reader(model, config):
    return Reader(model, PROCESSOR, config, 24, log=lambda line: None)


def model_inputs(texts):
    """A model's inputs, one row for each pair of a passage and a question."""
    inputs = {}
    for name, words in zip(("passage", "question"), zip(*texts, strict=True), strict=True):
        ids = [tokens_ids(text) for text in words]
        padded = np.zeros((len(ids), max(map(len, ids)), 50), "int32")
        for row, values in enumerate(ids):
            padded[row, : len(values)] = values
        inputs[f"{name}_characters"] = padded
    return inputs


def tokens_ids(text):
    return character_ids([word.encode() for word in PROCESSOR.tokenize_text(text).words])


# === The processor ===


@pytest.mark.slow
def test_hard_words_in_python_and_in_a_graph():
    check_processor(PROCESSOR, ["Who saw it?", "", HARD[0]], HARD, 3)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_words_in_python_and_in_a_graph(questions, passages):
    check_processor(PROCESSOR, questions, passages, 4)


# === The model ===


def test_the_mix_is_all_that_is_trained_of_elmo(model, folder):
    assert count_trainable(model.get_layer("layer_mix")) == 4
    assert not any(count_trainable(model.get_layer(name)) for name in ("bilm_characters", "bilm"))
    kernel = read_bilm(folder).arrays["bilm/backward_1/kernel"]
    found = {variable.path: variable for variable in model.variables}
    np.testing.assert_array_equal(found["bilm/backward_1/kernel"], kernel)


def test_the_vectors_of_both_texts_are_the_bilms(folder):
    """Each text by itself, all layers alike in a new mix."""
    found = read_bilm(folder)
    texts = elmo_vectors(found.sizes)
    model = keras.Model(texts.inputs, texts.vectors)
    found.set_weights(model)
    inputs = model_inputs([(PASSAGE, QUESTION), (HARD[0], "Who?")])
    characters, language_model = (model.get_layer(name) for name in ("bilm_characters", "bilm"))
    for text, vectors in model(inputs).items():
        ids = inputs[f"{text}_characters"]
        layered, _ = language_model(characters(ids), ids[:, :, 0] > 0)
        np.testing.assert_allclose(vectors, np.asarray(layered).mean(axis=2), rtol=1e-5, atol=1e-6)


def test_neither_padding_nor_neighbours_change_a_logit(model):
    texts = [(PASSAGE, QUESTION), (LONG, "Who is it?"), ("The owl", "What does the red fox eat at night?")]
    together = model(model_inputs(texts), training=False)
    for row, text in enumerate(texts):
        alone = model(model_inputs([text]), training=False)
        for output, logits in alone.items():
            real = slice(None if output == NULL else logits.shape[1])
            np.testing.assert_allclose(together[output][row, real], logits[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_passages_and_words_are_computed_once(model, training):
    """The characters of a word are read once per batch in training, too."""
    data = squad_data(ARTICLES)
    tokenized = PROCESSOR.tokenize(data)
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    features = PROCESSOR.features(tokenized, reading_examples(lengths, np.full(len(lengths), 400)))
    batch = np.array([3, 0, 1])
    inputs = next(iter(batches_to_read(features, [batch])))
    assert inputs[PASSAGE_INDEX].numpy().tolist() == [0, 1, 1]
    sharing = DeduplicatedModel(model)
    found = sharing(inputs, training=True) if training else as_graph(sharing)(inputs)
    texts = [(data.passages[question.passage], question.text) for question in (data.questions[row] for row in batch)]
    for output, logits in model(model_inputs(texts), training=False).items():
        real = slice(None if output == NULL else logits.shape[1])
        np.testing.assert_allclose(found[output][:, real], logits, rtol=1e-4, atol=1e-5)


def test_no_answer_depends_on_an_earlier_one(reader):
    first = reader.answer(QUESTION, PASSAGE)
    reader.answer("When does the grey owl hunt?", LONG)
    assert reader.answer(QUESTION, PASSAGE) == first


def test_a_model_without_a_folder_is_the_published_small_one():
    model = fabir_tf.build_model("bidaf-cheung", word_vectors="elmo")
    frozen = sum(np.prod(weight.shape) for weight in model.non_trainable_weights)
    assert round(frozen / 1e6, 1) == 13.6
    # The vectors have 256 numbers.
    gru = 2 * 3 * ((256 + 150) * 150 + 2 * 150)
    assert count_trainable(model.get_layer("contextual_encoder")) == gru


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_and_finite_under_every_policy(config, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = fabir_tf.build_model(config)
        config.initialize(model)
    finally:
        keras.config.set_dtype_policy("float32")
    for logits in model(model_inputs([(PASSAGE, QUESTION)]), training=False).values():
        assert logits.dtype == "float32"
        assert np.isfinite(logits).all()


@pytest.mark.slow
def test_a_model_is_saved_and_loaded(model, tmp_path):
    inputs = model_inputs([(PASSAGE, QUESTION)])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert count_trainable(loaded) == count_trainable(model)
    for output, logits in model(inputs, training=False).items():
        np.testing.assert_allclose(loaded(inputs, training=False)[output], logits, rtol=1e-6, atol=1e-6)


# === The commands ===


@pytest.mark.long
def test_the_graph_says_the_same_in_few_more_of_tensorflows_own_operations(reader, tmp_path):
    # Bytes of words, and the loop of a recurrent network.
    export_and_compare(reader, tmp_path / "exported", [QUESTION, "What?", QUESTION], [LONG, HARD[0], PASSAGE])


@pytest.mark.long
def test_it_goes_through_every_command(commands, tiny_run, folder, tmp_path):
    """The folder of the word model is needed for a new training alone."""
    run, own = tmp_path / "run", bilm_folders.write_folder(tmp_path / "own")
    flags = ("--model=bidaf-cheung", "--word_vectors=elmo", f"--word_model={own}", "--batch_size=5")
    data = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--cache_dir=")
    prepared = commands("prepare", f"--output={tmp_path / 'prepared'}", *data, *flags[:3])
    assert prepared.status == 0, prepared
    training = (f"--run_dir={run}", f"--prepared={tmp_path / 'prepared'}", *flags, "--units=6")
    result = commands("train", *training, "--epochs=1")
    assert result.status == 0, result
    before = fabir_tf.Reader.load(run).model.get_layer("bilm").get_weights()
    for path in own.iterdir():
        path.unlink()
    result = commands("train", *training, "--epochs=2", "--resume")
    assert result.status == 0, result
    for weight, frozen in zip(fabir_tf.Reader.load(run).model.get_layer("bilm").get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, frozen)
    scores = commands("evaluate", f"--run_dir={run}", f"--dataset={tiny_run.dev}", "--cache_dir=")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] > 0, scores
    packed = commands("pack", f"--run_dir={run}", f"--output={tmp_path / 'packed'}")
    assert packed.status == 0, packed
    content = json.loads((tmp_path / "packed" / "config.json").read_text())
    assert content["model"]["word_model"] == "own"
    asked = [
        commands("predict", f"--run_dir={place}", f"--question={QUESTION}", f"--passage={PASSAGE}")
        for place in (run, tmp_path / "packed")
    ]
    assert asked[0].status == 0 and asked[0].stdout == asked[1].stdout, asked
    exported = commands("export", f"--run_dir={run}", f"--export_dir={tmp_path / 'e'}", "--calibration_dataset=none")
    assert exported.status == 0, exported
    served = tf.saved_model.load(str(tmp_path / "e" / "1")).signatures["serving_default"]
    found, expected = (
        served(question=tf.constant([QUESTION]), passage=tf.constant([PASSAGE])),
        json.loads(asked[0].stdout),
    )
    assert found["answer"][0].numpy().decode() == expected["answer"]
    again = commands(
        "train", f"--run_dir={tmp_path / 'more'}", f"--start_from={run}", *data, *flags, "--units=6", "--epochs=1"
    )
    assert again.status == 0, again


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--word_model=x"], ["word_model needs word_vectors=elmo", "found word_model='x'"]),
        (["--word_vectors=elmo"], ["word_model: found no folder", "--word_vectors=elmo"]),
        (["--word_vectors=elmo", "--word_model=nowhere"], ["nowhere: found no such folder", "options.json"]),
        (["--word_vectors=glove"], ["word_vectors must be one of table, elmo", "found 'glove'"]),
    ],
)
def test_settings_that_are_refused(commands, tmp_path, flags, parts):
    run = tmp_path / "run"
    assert_error(commands, "train", [f"--run_dir={run}", "--dataset=sample", "--model=bidaf-cheung", *flags], parts)
    assert not run.exists()


def test_weights_of_other_sizes_are_refused(folder, config):
    weights = bilm_folders.arrays(bilm_folders.OPTIONS)
    weights["char_embed"] = weights["char_embed"][:, :2]
    other = bilm_folders.write_folder(folder / "other", weights=weights)
    with pytest.raises(UserError, match=r"lm_weights\.hdf5: found char_embed of shape \(261, 2\)"):
        config.replace(word_model=str(other)).initialize(fabir_tf.build_model(config))


def test_the_published_training_reads_smaller_batches():
    _, training = fabir_tf.models.published_settings("bidaf-cheung", {"word_vectors": "elmo"})
    assert training["batch_size"] == 32
