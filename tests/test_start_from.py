"""A run that starts from a trained reader: with its weights, words and settings, on other data."""

import json

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, write_squad

from fabir_tf.models import config_class, training_settings
from fabir_tf.models.weights import load_weights, weights_of
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.packing import pack
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import load_data
from fabir_tf.training.train import train
from fabir_tf.training.training_config import TrainingConfig

QUESTION, PASSAGE = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."


@pytest.fixture
def other_data(tiny_run, tmp_path):
    """Flags of data that the first run has not seen, with words of its own."""
    words = [(title, text.replace("mill", "zeppelin"), pairs) for title, text, pairs in ARTICLES[1:3]]
    return [f"--dataset={write_squad(tmp_path / 'other.json', words)}", f"--eval_dataset={tiny_run.dev}"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_run_starts_with_the_answers_of_the_reader(commands, tiny_run, other_data, tmp_path, packed):
    first = pack(tiny_run.path, tmp_path / "packed", 1000) if packed else tiny_run.path
    run = tmp_path / "run"
    done = commands("train", f"--start_from={first}", f"--run_dir={run}", "--epochs=0", "--cache_dir=", *other_data)
    assert done.status == 0, done
    settings = [RunDirectory(folder).read_config()["model"] for folder in (first, run)]
    assert settings[0] == settings[1]
    answers = [Reader.load(folder).answer(QUESTION, PASSAGE, n_best=5) for folder in (first, run)]
    assert answers[0] == answers[1]


@pytest.mark.long
def test_it_learns_from_there_and_resumes_exactly(commands, tiny_run, other_data, tmp_path):
    flags = [f"--start_from={tiny_run.path}", *other_data, "--batch_size=3", "--learning_rate=0.001", "--cache_dir="]
    # With random numbers of its own, which go on, too.
    flags.append("--word_dropout=0.2")
    weights = []
    for name, epochs in (("whole", [2]), ("parts", [1, 2])):
        run = tmp_path / name
        for number in epochs:
            resume = ["--resume"] if run.exists() else []
            done = commands("train", *flags, f"--run_dir={run}", f"--epochs={number}", *resume)
            assert done.status == 0, done
        model = Reader.load(run).model
        load_weights(run / "checkpoints" / "last.npz", model)
        weights.append([np.asarray(weight) for weight in model.trainable_weights])
    before = [np.asarray(weight) for weight in Reader.load(tiny_run.path).model.trainable_weights]
    for whole, parts in zip(*weights, strict=True):
        np.testing.assert_array_equal(whole, parts)
    # Two steps of Adam at 0.001 an epoch, two epochs: near the reader, and not it.
    moved = max(abs(new - old).max() for new, old in zip(weights[0], before, strict=True))
    assert 1e-4 < moved < 0.02


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"start_from": ""}, {}),
        ({"start_from": "fabir-base"}, {"learning_rate": 0.0003, "epochs": 4}),
        ({"start_from": "runs/one", "learning_rate": 0.01}, {"learning_rate": 0.01, "epochs": 4}),
        ({"start_from": "runs/one", "learning_rate": None, "epochs": 2}, {"learning_rate": None, "epochs": 2}),
        ({"start_from": "runs/one", "warmup_steps": 300}, {"epochs": 4}),
        ({"start_from": "runs/one", "optimizer": "adadelta"}, {"epochs": 4}),
        # What a rate rises over is no rate.
        ({"start_from": "runs/one", "warmup_share": 0.1}, {"learning_rate": 0.0003, "epochs": 4}),
    ],
)
def test_a_trained_reader_has_settings_of_its_own(given, expected):
    for model in ("fabir", "bidaf"):
        assert training_settings(model, given) == given | expected


def test_a_models_own_settings_come_before_those_of_a_trained_reader():
    given = {"start_from": "bert-squad2"}
    assert training_settings("bert-span", given) == training_settings("bert-span", {}) | given


@pytest.mark.slow
def test_the_command_fine_tunes_by_default(commands, tiny_run, other_data, tmp_path):
    run = tmp_path / "run"
    done = commands("train", f"--start_from={tiny_run.path}", *other_data, "--cache_dir=", f"--run_dir={run}")
    assert done.status == 0, done
    found = RunDirectory(run).read_config()["training"]
    assert (found["learning_rate"], found["epochs"]) == (0.0003, 4)
    assert "--warmup_steps" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("word_dropout", ["0", "0.2"])
def test_dropout_may_differ(commands, tiny_run, other_data, tmp_path, word_dropout):
    run = tmp_path / "run"
    rates = [f"--{part}_dropout=0" for part in ("input", "sublayer", "attention", "selector", "character")]
    rates.append(f"--word_dropout={word_dropout}")
    flags = [f"--start_from={tiny_run.path}", *other_data, f"--run_dir={run}", "--epochs=0", "--cache_dir=", *rates]
    done = commands("train", *flags)
    assert done.status == 0, done
    answers = [Reader.load(folder).answer(QUESTION, PASSAGE) for folder in (tiny_run.path, run)]
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_from_python_the_settings_are_the_readers_too(tiny_run, other_data, tmp_path):
    data = dict(flag.removeprefix("--").split("=", 1) for flag in other_data)
    settings = TrainingConfig(**data, start_from=str(tiny_run.path), epochs=0)
    train(str(tmp_path / "run"), training=settings, options=DataOptions(None), log=lambda line: None)
    answers = [Reader.load(folder).answer(QUESTION, PASSAGE) for folder in (tiny_run.path, tmp_path / "run")]
    assert answers[0] == answers[1]


def test_from_python_another_model_is_refused(tiny_run, other_data, tmp_path):
    data = dict(flag.removeprefix("--").split("=", 1) for flag in other_data)
    settings = TrainingConfig(**data, start_from=str(tiny_run.path), epochs=0)
    with pytest.raises(UserError, match="found a --model=fabir, expected --model=bidaf"):
        train(str(tmp_path / "run"), config_class("bidaf")(), settings, DataOptions(None))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_settings_of_the_text_processor_are_the_readers(commands, tiny_run, other_data, tmp_path):
    run = [f"--start_from={tiny_run.path}", *other_data, f"--run_dir={tmp_path / 'run'}", "--cache_dir="]
    found = f"--start_from={tiny_run.path}: found max_word_characters=30, expected"
    assert_error(commands, "train", [*run, "--max_word_characters=30"], [found, "that of its text processor"])
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_more_layers_than_the_reader_has_start_with_new_weights(commands, tiny_run, other_data, tmp_path):
    run = tmp_path / "run"
    flags = [f"--start_from={tiny_run.path}", *other_data, f"--run_dir={run}", "--epochs=0", "--cache_dir="]
    done = commands("train", *flags, "--num_layers=3")
    assert done.status == 0, done
    assert [line for line in done.stdout.splitlines() if "it lacks" in line] == [
        f"--start_from={tiny_run.path}: it lacks processing_layer_2, processing_layer_3, which start with new weights"
    ]
    first, longer = (weights_of(Reader.load(folder).model) for folder in (tiny_run.path, run))
    new = [name for name in longer if name not in first]
    assert new and all(name.startswith(("model/processing_layer_2/", "model/processing_layer_3/")) for name in new)
    for name, weight in first.items():
        np.testing.assert_array_equal(longer[name], weight, err_msg=name)
    assert commands("train", *flags, "--num_layers=3", "--resume").status == 0


@pytest.mark.slow
def test_prepared_data_has_the_words_of_the_reader(commands, tiny_run, other_data, tmp_path):
    prepared = tmp_path / "prepared"
    done = commands("prepare", f"--start_from={tiny_run.path}", f"--output={prepared}", "--cache_dir=", *other_data)
    assert done.status == 0, done
    first = json.loads((tiny_run.path / "processor" / "vocabulary.json").read_text())
    assert list(load_data(prepared).processor.vocabulary.characters) == first["characters"]
    done = commands("train", f"--prepared={prepared}", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    assert done.status == 0, done
    answers = [Reader.load(folder).answer(QUESTION, PASSAGE) for folder in (tiny_run.path, tmp_path / "run")]
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_mistakes_are_reported(commands, tiny_run, other_data, tmp_path):
    flags = [f"--run_dir={tmp_path / 'run'}", *other_data]
    assert_error(commands, "train", [*flags, "--start_from=nowhere"], ["nowhere", "found no run"])
    begin = [*flags, f"--start_from={tiny_run.path}"]
    assert_error(commands, "train", [*begin, "--model=bidaf"], ["--start_from", "--model=fabir", "--model=bidaf"])
    assert_error(
        commands, "train", [*begin, "--num_layers=0"], ["--start_from", "num_layers=0 instead of 1", "best.npz"]
    )
    assert_error(
        commands, "train", [*begin, "--selector=linear"], ["selector='linear' instead of 'convolution'", "best.npz"]
    )
    config = tmp_path / "config.json"
    config.write_text('{"model": "bidaf"}')
    assert_error(commands, "train", [*begin, f"--config={config}"], ["--start_from", "--model=fabir", "--model=bidaf"])
    config.write_text('{"start_from": 3}')
    assert_error(commands, "train", [*flags, f"--config={config}"], [str(config), "start_from"])
    assert not (tmp_path / "run").exists()
