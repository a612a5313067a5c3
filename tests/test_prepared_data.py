"""Prepared data: the same run from arrays as from the files, on TensorFlow and, without TensorFlow or NLTK, on JAX."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, CONFIG, DEV_ARTICLES, squad_json, write_squad

from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenizer import NEWEST_RULES, tokenize
from fabir_tf.reading.reader import Reader
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import load_data, prepare_data, save_data
from fabir_tf.training.train import train
from fabir_tf.training.training_config import TrainingConfig

ROOT = Path(__file__).parents[1]
RATES = {f"{name}_dropout": 0.0 for name in ("input", "sublayer", "attention", "selector", "character")}
# Without dropout, whose random numbers differ between backends; one step per epoch, so that history.csv has the loss
# of every step.
MODEL = CONFIG.replace(**RATES)
STEPS = 20
SETTINGS = {
    "vectors": "none",
    "min_word_count": 0,
    "min_character_count": 0,
    "batch_size": 12,
    "length_buckets": 1,
    "warmup_steps": 200,
    "checkpoint_steps": 1,
    "seed": 5,
}

TRAIN_ON_JAX = """
import sys
for name in ("tensorflow", "tensorflow_datasets", "nltk"):
    sys.modules[name] = None
import keras
assert keras.backend.backend() == "jax"
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.training.train import train
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.training_config import TrainingConfig
run_dir, prepared, model, training, resume = sys.argv[1:]
model, training = FabirConfig.from_json(model), TrainingConfig.from_json(training)
train(run_dir, model, training, DataOptions(prepared=prepared), resume == "resume")
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, commands):
    """The folder that the command wrote, the data's settings, and what it printed."""
    folder = tmp_path_factory.mktemp("prepared")
    data = {"dataset": write_squad(folder / "train.json", ARTICLES)}
    data |= {"eval_dataset": write_squad(folder / "dev.json", DEV_ARTICLES)}
    flags = TrainingConfig(**SETTINGS, **data).to_flags() + MODEL.to_flags()
    derived = ("--trainable_words", "--characters=", "--frozen_words")
    done = commands(
        "prepare",
        *(flag for flag in flags if not flag.startswith(derived) and not flag.endswith("=None")),
        f"--output={folder / 'arrays'}",
    )
    assert done.status == 0, done.stderr
    return folder / "arrays", data, done.stdout


def run(run_dir, epochs, prepared=None, resume=False, **changes):
    training = TrainingConfig(**SETTINGS | changes, epochs=epochs)
    return train(str(run_dir), MODEL, training, DataOptions(None, prepared=prepared), resume, lambda line: None)


def run_on_jax(run_dir, epochs, prepared, resume=False, **changes):
    training = TrainingConfig(**SETTINGS | changes, epochs=epochs)
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", TRAIN_ON_JAX, str(run_dir), str(prepared)]
    command += [MODEL.to_json(), training.to_json(), "resume" if resume else "new"]
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr


def losses(run_dir):
    with open(run_dir / "history.csv", encoding="utf-8") as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]


@pytest.fixture(scope="module")
def on_tensorflow(prepared, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("tensorflow") / "run"
    run(run_dir, STEPS, prepared[0])
    return run_dir


@pytest.fixture(scope="module")
def on_jax(prepared, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("jax") / "run"
    run_on_jax(run_dir, STEPS, prepared[0])
    return run_dir


def test_the_command_says_what_it_wrote(prepared):
    folder, _, printed = prepared
    assert f"12 questions to train on in {folder}" in printed
    assert "12 kept" in printed
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "coverage.json",
        "eval",
        "processor",
        "train",
    ]


def test_windows_of_passages_hold_their_answers(prepared):
    training = TrainingConfig(**SETTINGS, **prepared[1], passage_window=6)
    data = prepare_data(MODEL, training, DataOptions(None), lambda line: None)
    tokenized = data.processor.tokenize(read_squad(prepared[1]["dataset"]))
    unique = ["", *tokenized.texts.unique]
    assert data.features.passage_lengths.tolist() == [6] * len(data.spans)
    starts = data.features.segments["passage"].starts
    for start, (first, last), question in zip(starts, data.spans, tokenized.data.questions, strict=True):
        words = [unique[token] for token in data.features.tokens[start + first : start + last + 1]]
        assert words == tokenize(question.answers[0].text).words


@pytest.mark.slow
def test_arrays_give_the_run_that_the_files_give(prepared, on_tensorflow, tmp_path):
    run(tmp_path / "run", STEPS, **prepared[1])
    assert losses(tmp_path / "run") == losses(on_tensorflow)
    for name in ("config.json", "coverage.json", "predictions.json"):
        assert (tmp_path / "run" / name).read_text() == (on_tensorflow / name).read_text(), name
    with (
        np.load(tmp_path / "run/checkpoints/best.npz") as one,
        np.load(on_tensorflow / "checkpoints/best.npz") as other,
    ):
        assert one.files == other.files
        assert all(np.array_equal(one[name], other[name]) for name in one.files)


@pytest.mark.slow
def test_jax_without_tensorflow_and_nltk_has_the_same_losses(on_tensorflow, on_jax):
    found, expected = losses(on_jax), losses(on_tensorflow)
    assert len(expected) == STEPS
    assert expected[-1] < expected[0] - 0.2
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.long
def test_averages_on_jax_are_those_on_tensorflow(prepared, tmp_path):
    """The scores of both epochs are those of the averages, which replace the weights while the model reads."""
    run(tmp_path / "tensorflow", 2, prepared[0], ema_decay=0.6)
    run_on_jax(tmp_path / "jax", 2, prepared[0], ema_decay=0.6)
    assert losses(tmp_path / "jax") == pytest.approx(losses(tmp_path / "tensorflow"), abs=1e-3)
    ours, theirs = (np.load(tmp_path / name / "checkpoints" / "last.npz") for name in ("jax", "tensorflow"))
    assert ours.files == theirs.files
    for name in ours.files:
        if ours[name].dtype == np.float32:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-3, err_msg=name)


@pytest.mark.long
def test_a_run_of_jax_is_read_on_tensorflow(prepared, on_jax):
    data = read_squad(prepared[1]["eval_dataset"])
    passages = [data.passages[question.passage] for question in data.questions]
    answers = Reader.load(on_jax).answer_batch([question.text for question in data.questions], passages)
    predictions = json.loads((on_jax / "predictions.json").read_text())
    assert {q.id: answer.text for q, answer in zip(data.questions, answers, strict=True)} == predictions


@pytest.fixture(scope="module")
def in_steps(prepared, tmp_path_factory):
    """Two steps an epoch, with a checkpoint between them."""
    run_dir = tmp_path_factory.mktemp("steps") / "run"
    run(run_dir, 6, prepared[0], batch_size=6)
    return run_dir


@pytest.mark.long
def test_one_backend_goes_on_where_the_other_stopped(prepared, in_steps, tmp_path):
    arguments = {"prepared": prepared[0], "batch_size": 6}
    run(tmp_path / "run", 2, **arguments)
    run_on_jax(tmp_path / "run", 4, **arguments, resume=True)
    run(tmp_path / "run", 6, **arguments, resume=True)
    np.testing.assert_allclose(losses(tmp_path / "run"), losses(in_steps), atol=1e-4, rtol=0)


def test_the_command_trains_from_the_folder_and_refuses_other_settings(prepared, commands, tmp_path):
    folder = prepared[0]
    model = ["--num_layers=1", "--d_model=20", "--character_filters=20"]
    done = commands("train", f"--prepared={folder}", f"--run_dir={tmp_path / 'run'}", "--epochs=0", *model)
    assert done.status == 0, done.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["training"]["dataset"] == prepared[1]["dataset"]
    assert config["model"]["word_dim"] == CONFIG.word_dim
    done = commands("train", f"--prepared={folder}", f"--run_dir={tmp_path / 'b'}", "--max_passage=30")
    assert done.error == f"--prepared={folder}: found max_passage=30, expected max_passage=400 as prepared"
    done = commands("train", f"--prepared={folder}", f"--run_dir={tmp_path / 'b'}", "--null_head")
    assert done.error == f"--prepared={folder}: found null_head=True, expected null_head=False as prepared"
    done = commands("prepare", f"--output={folder}", "--dataset=sample")
    assert done.error == f"{folder} already holds prepared data: name another folder"
    done = commands("train", f"--prepared={tmp_path}", f"--run_dir={tmp_path / 'b'}")
    assert done.error == f"{tmp_path}: found no prepared data, expected a folder written by fabir-prepare"
    done = commands("prepare", "--dataset=sample")
    assert done.error == "--output is missing: name the folder for the arrays"
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_settings_of_the_data_hold_where_they_are_left_out(tiny_run, commands, tmp_path):
    """Also those that other settings need, and those that --adapt would change."""
    data = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--cache_dir=")
    folder, start = tmp_path / "wrong", f"--start_from={tiny_run.path}"
    asked = (f"--output={folder}", "--wrong_passages=0.5", "--shared_norm=1", start, *data)
    assert commands("prepare", *asked).status == 0
    run = (f"--prepared={folder}", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    assert_error(commands, "train", run, ["--wrong_passages=0.5 is of no effect without"])
    kept = "kept_dataset='sample', expected kept_dataset='' as prepared"
    assert_error(commands, "train", [*run, "--adapt", "--shared_norm=1"], [f"--prepared={folder}: found {kept}"])
    done = commands("train", *run, "--shared_norm=1")
    assert done.status == 0, done
    training = json.loads((tmp_path / "run" / "config.json").read_text())["training"]
    assert (training["wrong_passages"], training["shared_norm"]) == (0.5, 1.0)


@pytest.mark.slow
def test_data_prepared_by_adapt_is_adapted_to_with_its_own_settings(tiny_run, commands, tmp_path):
    folder = tmp_path / "adapting"
    data = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--cache_dir=")
    adapt = ("--adapt", f"--start_from={tiny_run.path}")
    assert (
        commands("prepare", f"--output={folder}", *adapt, "--kept_dataset=sample", "--min_word_count=7", *data).status
        == 0
    )
    kept = str(shutil.copy(tiny_run.dev, tmp_path / "kept.json"))
    changed = json.loads((folder / "config.json").read_text())
    changed["settings"]["kept_dataset"] = kept
    (folder / "config.json").write_text(json.dumps(changed))
    run = (f"--prepared={folder}", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    assert_error(commands, "train", [*run, "--adapt", "--kept_dataset=sample"], ["found kept_dataset='sample'"])
    done = commands("train", *run, *adapt)
    assert done.status == 0, done
    training = json.loads((tmp_path / "run" / "config.json").read_text())["training"]
    assert (training["kept_dataset"], training["min_word_count"], training["start_share"]) == (kept, 7, 0.15)


def test_arrays_that_another_command_left_are_not_read(prepared, tmp_path):
    folder = shutil.copytree(prepared[0], tmp_path / "again")
    expected = load_data(folder).features.to_arrays().keys()
    np.save(folder / "train" / "table_left.npy", np.zeros((3, 4), np.int32))
    assert load_data(folder).features.to_arrays().keys() == expected
    (folder / "train" / "spans.npy").unlink()
    with pytest.raises(UserError, match="found no array 'spans', expected those of fabir-prepare"):
        load_data(folder)
    path = folder / "config.json"
    for names in ("spans", [1], None):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"arrays": names}))
        with pytest.raises(UserError, match=r"config\.json: found other content than expected"):
            load_data(folder)


def test_data_of_older_rules_is_refused(prepared, commands, tmp_path):
    folder = shutil.copytree(prepared[0], tmp_path / "older")
    path = folder / "processor" / "processor.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rules": 1}))
    done = commands("train", f"--prepared={folder}", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    assert done.error == (
        f"--prepared={folder}: found text cut by version 1 of the rules, expected version {NEWEST_RULES}: prepare the "
        "data again with fabir-prepare"
    )
    assert not (tmp_path / "run").exists()


def test_questions_without_an_answer_are_prepared_for_a_null_head(tmp_path):
    content = squad_json(ARTICLES)
    content["data"][1]["paragraphs"][0]["qas"][2] |= {"answers": [], "is_impossible": True}
    (tmp_path / "v2.json").write_text(json.dumps(content))
    training = TrainingConfig(**SETTINGS, dataset=str(tmp_path / "v2.json"), eval_dataset=str(tmp_path / "v2.json"))
    for null_head, unanswerable in ((False, []), (True, [5])):
        model, lines = MODEL.replace(null_head=null_head), []
        save_data(prepare_data(model, training, DataOptions(None), lines.append), tmp_path / "arrays", model, training)
        data = load_data(tmp_path / "arrays")
        assert np.flatnonzero((data.spans == -1).any(axis=1)).tolist() == unanswerable
        assert len(data.spans) == len(data.evaluation.data.questions) == (12 if null_head else 11)
        # One line each for training and evaluation data.
        assert sum("left out 1 question without an answer" in line for line in lines) == (0 if null_head else 2)


def test_texts_that_an_earlier_version_wrote_are_read(prepared, tmp_path):
    folder = shutil.copytree(prepared[0], tmp_path / "earlier")
    path = folder / "eval" / "texts.json"
    texts = json.loads(path.read_text())
    assert {question.pop("reason") for question in texts["questions"]} == {""}
    path.write_text(json.dumps(texts))
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"].pop("set_aside") is False
    (folder / "config.json").write_text(json.dumps(config))
    assert load_data(folder).evaluation.data == load_data(prepared[0]).evaluation.data


def test_reasons_are_prepared_and_counted(tmp_path):
    content = squad_json(ARTICLES)
    for article, reason in ((1, "article"), (2, "E")):
        changes = {"answers": [], "is_impossible": True, "reason": reason}
        content["data"][article]["paragraphs"][0]["qas"][2] |= changes
    (tmp_path / "v2.json").write_text(json.dumps(content))
    training = TrainingConfig(**SETTINGS, dataset=str(tmp_path / "v2.json"), eval_dataset=str(tmp_path / "v2.json"))
    model = MODEL.replace(null_head=True)
    save_data(prepare_data(model, training, DataOptions(None), print), tmp_path / "arrays", model, training)
    data = load_data(tmp_path / "arrays")
    assert [asked.reason for asked in data.evaluation.data.questions if asked.reason] == ["article", "E"]
    for part in ("train", "eval"):
        assert data.coverage[part]["unanswerable"] == {"article": 1, "E": 1}


DAMAGES = {
    "config.json": "{}",
    "train/table_tokens.npy": "no array",
    "eval/texts.json": '{"name": "x"}',
    "eval/tokens.npz": "no archive",
}


@pytest.mark.parametrize(
    "text", ['{"settings": 5, "data": {}}', '{"settings": ["dataset"], "data": {}}', "[]", '{"data": 1}']
)
def test_another_configuration_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: found other content than expected"):
        load_data(tmp_path)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_named(prepared, tmp_path, name):
    training = TrainingConfig(**SETTINGS, **prepared[1])
    folder = tmp_path / "arrays"
    save_data(prepare_data(MODEL, training, DataOptions(None), lambda line: None), folder, MODEL, training)
    load_data(folder)
    if DAMAGES[name] is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(DAMAGES[name], encoding="utf-8")
    with pytest.raises(UserError, match=rf"{name}: "):
        load_data(folder)


def test_a_setting_that_does_not_fit_is_named_with_its_file(prepared, tmp_path):
    config = json.loads((prepared[0] / "config.json").read_text())
    config["settings"]["max_passage"] = "many"
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: max_passage must be of type int, found 'many'"):
        load_data(tmp_path)


def test_data_without_an_answer_is_refused_before_it_is_tokenized(tmp_path):
    """A first epoch would be trained before it cannot be scored."""
    content = squad_json(ARTICLES)
    for article in content["data"]:
        for asked in article["paragraphs"][0]["qas"]:
            asked |= {"answers": [], "is_impossible": True}
    (tmp_path / "train.json").write_text(json.dumps(squad_json(ARTICLES)))
    (tmp_path / "none.json").write_text(json.dumps(content))
    data = {"dataset": str(tmp_path / "train.json"), "eval_dataset": str(tmp_path / "none.json")}
    training = TrainingConfig(**SETTINGS, **data)
    with pytest.raises(UserError, match=r"none.json: no question has an answer, .* or --null_head"):
        prepare_data(MODEL.replace(null_head=False), training, DataOptions(None), lambda line: None)
