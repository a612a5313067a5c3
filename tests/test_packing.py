"""A trained reader as one small folder: what is kept, what is reported, the readers that come with the package."""

import json
import shutil

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import CONFIG

from fabir_tf.models import build_model
from fabir_tf.models.weights import load_weights, save_weights, set_frozen_tables
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.pipelines.text.word_vectors import (
    WordVectors,
    dequantise_rows,
    load_saved_vectors,
    load_saved_words,
    quantise_rows,
    save_packed_vectors,
)
from fabir_tf.reading import packing, pretrained
from fabir_tf.reading.calibration import FIGURES, Calibration
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import FORMAT, RunDirectory
from fabir_tf.training.training_config import TrainingConfig

WORDS = ["the", "mill", "was", "built", "by", "anna", "keld", "who", "?", "."]
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
QUESTION, PASSAGE = "Who built the mill?", "The mill was built by Anna Keld."


@pytest.fixture
def run(tmp_path):
    """A run of an untrained reader with word vectors."""
    run = RunDirectory(tmp_path / "run")
    table = np.random.default_rng(3).normal(size=(len(WORDS), CONFIG.word_dim)).astype(np.float16)
    vectors = WordVectors(WORDS, table, "/somewhere/glove.txt")
    processor = WordProcessor(Vocabulary(("frobnicate",), LETTERS, WORDS), vectors)
    processor.save(run.processor)
    config = CONFIG.replace(**processor.sizes)
    model = build_model(config)
    save_weights(run.best, model, {})
    paths = {"vectors": "/secret/glove.txt", "start_from": "/secret/reader", "kept_dataset": "/secret/kept.json"}
    training = TrainingConfig(dataset="/secret/place/train.json,/secret/more.json", **paths)
    run.write_config(config, training, {"train": "1", "eval": "2"})
    return run


@pytest.mark.slow
def test_a_packed_reader_answers_as_the_run_does_with_vectors_of_8_bits(run, tmp_path):
    packed = Reader.load(packing.pack(run.path, tmp_path / "packed", 100))
    whole = Reader.load(run.path)
    table = load_saved_vectors(run.processor).table
    set_frozen_tables(whole.model, {"word_embedding": dequantise_rows(*quantise_rows(table))})
    for reader in (packed, whole):
        assert reader.config.frozen_words == len(WORDS)
    answers = [reader.answer(QUESTION, PASSAGE, n_best=5) for reader in (packed, whole)]
    assert answers[0] == answers[1]
    assert not (tmp_path / "packed" / "processor" / "vectors.npy").exists()


def test_the_commonest_words_are_kept_and_the_others_are_unknown(run, tmp_path):
    packed = Reader.load(packing.pack(run.path, tmp_path / "packed", 4))
    assert packed.config.frozen_words == 4
    ids = packed.processor.vocabulary.word_ids(["frobnicate", *WORDS])
    assert ids.tolist() == [2, 3, 4, 5, 6, 1, 1, 1, 1, 1, 1]
    assert load_saved_words(tmp_path / "packed" / "processor") == WORDS[:4]
    assert packed.answer(QUESTION, PASSAGE).text in PASSAGE


def test_a_packed_reader_names_no_folder_of_the_machine_that_trained(run, tmp_path):
    packed = packing.pack(run.path, tmp_path / "packed", 4)
    text = (packed / "config.json").read_text()
    assert "/" not in text
    content = json.loads(text)
    assert content["training"]["dataset"] == "train.json,more.json"
    assert (content["format"], content["versions"]) == (FORMAT, run.read_config()["versions"])


def test_a_reader_is_not_written_over_another(run, tmp_path):
    packing.pack(run.path, tmp_path / "packed", 4)
    with pytest.raises(UserError, match="already holds a reader"):
        packing.pack(run.path, tmp_path / "packed", 4)


def test_a_run_that_is_not_whole_leaves_nothing(run, tmp_path):
    run.best.unlink()
    with pytest.raises(UserError, match=r"best\.npz: no such checkpoint"):
        packing.pack(run.path, tmp_path / "packed", 4)
    assert not (tmp_path / "packed").exists()


@pytest.fixture
def other(run, tmp_path):
    """A run that started from the first one and changed its weights."""
    other = RunDirectory(shutil.copytree(run.path, tmp_path / "other"))
    model = build_model(other.read_model_config())
    load_weights(other.best, model)
    for weight in model.trainable_weights:
        weight.assign(weight + np.random.default_rng(8).normal(size=weight.shape))
    save_weights(other.best, model, {"f1": 3.0})
    return other


def weights_of(run):
    return [np.asarray(weight, np.float64) for weight in Reader.load(run).model.trainable_weights]


def reconfigure(run, **changes):
    run.write_config(run.read_model_config().replace(**changes), TrainingConfig(), {"train": "1", "eval": "2"})


def test_weights_are_averaged_as_often_as_a_run_is_named(run, other, tmp_path):
    reconfigure(other, sublayer_dropout=0.5, dropout_amplification=1.0)
    packed = packing.pack(run.path, tmp_path / "packed", 100, [other.path, run.path])
    for mean, one, two in zip(weights_of(packed), weights_of(run.path), weights_of(other.path), strict=True):
        np.testing.assert_allclose(mean, (2 * one + two) / 3, rtol=1e-6, atol=1e-6)
        assert np.abs(one - two).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("words", "found other words"),
        ("weights", "found another model"),
        ("settings", "found another model"),
        ("best", "best.npz"),
        ("config", "found no run"),
    ],
)
def test_runs_that_did_not_start_from_the_same_reader_are_refused(commands, run, other, tmp_path, changed, expected):
    if changed == "words":
        WordProcessor(Vocabulary(("quux",), LETTERS, WORDS), other.read_processor().vectors).save(other.processor)
    elif changed == "weights":
        config = other.read_model_config()
        save_weights(other.best, build_model(config.replace(hidden_dim=2 * config.hidden_dim)), {})
    elif changed == "settings":
        reconfigure(other, cross_attention="row")
    else:
        getattr(other, changed).unlink()
    flags = [f"--run_dir={run.path}", f"--output={tmp_path / 'packed'}", f"--average_with={run.path},{other.path}"]
    assert_error(commands, "pack", flags, [str(other.path), expected])
    assert not (tmp_path / "packed").exists()


def test_a_run_without_a_name_is_refused(commands, run, tmp_path):
    flags = [f"--run_dir={run.path}", f"--output={tmp_path / 'packed'}", f"--average_with={run.path},"]
    assert_error(commands, "pack", flags, ["found an empty name", "expected the folder of a run"])


def test_a_folder_that_cannot_be_written_is_an_error(commands, run, tmp_path):
    (tmp_path / "file").write_text("mine")
    flags = [f"--run_dir={run.path}", f"--output={tmp_path / 'file' / 'packed'}"]
    assert_error(commands, "pack", flags, ["file", "cannot be written"])
    assert (tmp_path / "file").read_text() == "mine"


def test_packed_vectors_are_within_half_a_step(tmp_path):
    table = np.random.default_rng(4).normal(size=(50, 12)).astype(np.float16)
    save_packed_vectors(WordVectors([f"w{number}" for number in range(50)], table, "x"), tmp_path)
    found = load_saved_vectors(tmp_path)
    assert found.words[7] == "w7"
    steps = np.abs(table.astype(np.float64)).max(axis=1, keepdims=True) / 127
    # Half a step, and what the rounding to float16 adds.
    assert (np.abs(found.table.astype(np.float64) - table) <= 0.5 * steps + 2e-3 * np.abs(table) + 1e-4).all()


@pytest.mark.slow
def test_a_run_without_vectors_is_packed_too(commands, tiny_run, tmp_path):
    done = commands("pack", f"--run_dir={tiny_run.path}", f"--output={tmp_path / 'packed'}")
    assert done.status == 0 and "MB" in done.stdout, done
    asked = (f"--question={QUESTION}", f"--passage={PASSAGE}")
    answers = [commands("predict", f"--run_dir={folder}", *asked) for folder in (tiny_run.path, tmp_path / "packed")]
    assert answers[0].stdout == answers[1].stdout != ""
    assert_error(commands, "pack", [f"--run_dir={tiny_run.path}", f"--output={tmp_path / 'packed'}"], ["already holds"])
    assert_error(commands, "pack", ["--output=x"], ["--run_dir is missing"])
    assert_error(commands, "pack", ["--run_dir=x"], ["--output is missing"])
    assert_error(commands, "pack", ["--run_dir=nowhere", "--output=x"], ["nowhere", "no run"])


@pytest.mark.slow
def test_a_reader_packed_with_held_out_questions_keeps_its_temperature(commands, tiny_run, tmp_path):
    packed, flags = tmp_path / "packed", [f"--run_dir={tiny_run.path}", f"--output={tmp_path / 'packed'}"]
    assert_error(commands, "pack", [*flags, "--calibration_dataset=absent.json"], ["absent.json", "no such file"])
    article = {"title": "t", "paragraphs": [{"context": PASSAGE, "qas": [{"id": "1", "question": "?", "answers": []}]}]}
    (tmp_path / "open.json").write_text(json.dumps({"version": "v2.0", "data": [article]}))
    assert_error(commands, "pack", [*flags, f"--calibration_dataset={tmp_path / 'open.json'}"], ["open.json"])
    assert not packed.exists()
    done = commands("pack", *flags, f"--calibration_dataset={tiny_run.dev}")
    assert done.status == 0, done
    found = json.loads((packed / "calibration.json").read_text())
    assert found["temperature"] != pytest.approx(1)
    plain, reader = Reader.load(tiny_run.path), Reader.load(packed)
    assert (plain.temperature, reader.temperature) == (1, found["temperature"])
    calibrated = reader.answer(QUESTION, PASSAGE)
    reader.calibration = None
    assert reader.answer(QUESTION, PASSAGE).probability == plain.answer(QUESTION, PASSAGE).probability
    assert plain.answer(QUESTION, PASSAGE).probability != pytest.approx(calibrated.probability, rel=1e-2)
    exported = commands("export", f"--run_dir={packed}", f"--export_dir={tmp_path / 'e'}")
    assert exported.status == 0 and f"temperature {found['temperature']:.2f}" in exported.stderr, exported
    assert json.loads((tmp_path / "e" / "1" / "assets.extra" / "calibration.json").read_text()) == found


def test_a_packed_reader_packed_again_keeps_its_temperature(run, tmp_path):
    figures = dict.fromkeys(FIGURES, 0.5)
    known = Calibration(1.5, 1, 1.0, figures, figures, [{"coverage": 1.0, "risk": 0.0}])
    known.save(run.calibration)
    assert Reader.load(packing.pack(run.path, tmp_path / "again", 5)).calibration == known
    # A mean of readers is another reader with unknown probabilities; the file here is left from a killed packing.
    known.save(RunDirectory(tmp_path / "mean").calibration)
    assert Reader.load(packing.pack(run.path, tmp_path / "mean", 5, [run.path])).calibration is None


def test_a_reader_of_the_package_is_known_by_its_name(run, tmp_path, monkeypatch):
    packing.pack(run.path, tmp_path / "readers" / "tiny", 4)
    monkeypatch.setattr(pretrained, "_FOLDER", tmp_path / "readers")
    assert pretrained.pretrained_readers() == ["tiny"]
    assert Reader.load("tiny").config.frozen_words == 4
    assert Reader.load(packing.pack("tiny", tmp_path / "smaller", 2, ["tiny"])).config.frozen_words == 2
    monkeypatch.chdir(tmp_path / "readers")
    (tmp_path / "readers" / "tiny" / "config.json").unlink()
    with pytest.raises(UserError, match="found no run"):
        # A folder of that name comes first.
        Reader.load("tiny")


@pytest.mark.parametrize("command", ["predict", "evaluate", "export", "analyze"])
def test_an_unknown_reader_of_the_package_is_refused(commands, command):
    assert_error(commands, command, ["--model=none-such"], ["--model=none-such", "expected one of"])
    assert_error(commands, command, ["--model=none-such", "--run_dir=x"], ["either --run_dir or --model"])
