"""Training with the real `train` on a tiny file: it learns, repeats itself, and survives being killed."""

import csv
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, CONFIG, DEV_ARTICLES, squad_json, write_squad

import fabir_tf
from fabir_tf.backends import backend, bfloat16
from fabir_tf.configuration import ConfigError
from fabir_tf.models.weights import load_weights
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.datasets.squad_metrics import score_v1, score_v2
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.word_vectors import load_vectors
from fabir_tf.reading.calibration import calibrate
from fabir_tf.reading.evaluation import predictions_of
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training import train as training
from fabir_tf.training.averaging import AveragingAdam
from fabir_tf.training.checkpoint import load_checkpoint
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.losses import StartEndLoss
from fabir_tf.training.run_lock import locked
from fabir_tf.training.train import train
from fabir_tf.training.training_config import TrainingConfig

ROOT = Path(__file__).parents[1]
# So few steps show that the loss falls with this start only.
MODEL = CONFIG.replace(shared_query_key_init=False)
# Six steps in an epoch: 12 questions in batches of 2.
STEPS = 6
SETTINGS = {
    "vectors": "none",
    "min_word_count": 0,
    "min_character_count": 0,
    "epochs": 3,
    "batch_size": 2,
    "length_buckets": 2,
    "learning_rate_factor": 0.05,
    "warmup_steps": 10,
    "checkpoint_steps": 2,
    "seed": 5,
}
PATIENCE_OF_THE_TEST = 900


# === Running ===


def train_tiny(run_dir, settings, resume=False, log=lambda line: None):
    return train(str(run_dir), MODEL, TrainingConfig(**(SETTINGS | settings)), DataOptions(None), resume, log)


def capture_models(patch):
    """A list that every model compiled from now on is put into."""
    models, original = [], training.compiled_model

    def capturing(*arguments):
        models.append(original(*arguments))
        return models[-1]

    patch.setattr(training, "compiled_model", capturing)
    return models


def make_every_epoch_better(patch):
    """Lets the number of steps be the score, so that the best epoch is the last one in every process."""
    models = capture_models(patch)
    patch.setattr(
        training,
        "score_answers",
        lambda data, answers: {"exact_match": 0.0, "f1": float(models[-1].optimizer.iterations.numpy())},
    )
    return models


def after_every_step(patch, call):
    original = keras.callbacks.CallbackList.on_train_batch_end

    def on_train_batch_end(self, batch, logs=None):
        original(self, batch, logs)
        call()

    patch.setattr(keras.callbacks.CallbackList, "on_train_batch_end", on_train_batch_end)


def numbers_of(run_dir, name="last.npz"):
    """State and arrays of a checkpoint, without what a clock says."""
    with np.load(run_dir / "checkpoints" / name) as file:
        arrays = {key: file[key] for key in file.files}
    state = json.loads(arrays.pop("state").tobytes())
    state.pop("seconds", None)
    for row in state.get("epochs", []):
        row.pop("seconds")
    return state, arrays


def assert_same_run(run_dir, other_dir):
    for name in ("last.npz", "best.npz"):
        (state, arrays), (other_state, other_arrays) = numbers_of(run_dir, name), numbers_of(other_dir, name)
        assert state == other_state
        assert arrays.keys() == other_arrays.keys()
        different = [key for key in arrays if not np.array_equal(arrays[key], other_arrays[key])]
        assert different == [], f"{len(different)} of {len(arrays)} arrays of {name} differ"
    predictions, other_predictions = ((part / "predictions.json").read_text() for part in (run_dir, other_dir))
    assert predictions == other_predictions


def rate(step):
    """The learning rate after so many steps; see test_schedules.py."""
    t = step + 1
    return SETTINGS["learning_rate_factor"] * 20**-0.5 * min(t**-0.5, t * SETTINGS["warmup_steps"] ** -1.5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Settings that name the data, and those that name word vectors too."""
    folder = tmp_path_factory.mktemp("data")
    data = {"dataset": write_squad(folder / "train.json", ARTICLES)}
    data |= {"eval_dataset": write_squad(folder / "dev.json", DEV_ARTICLES)}
    random_numbers = np.random.default_rng(7)
    words = ("the", "was", "built", "by", "owl", "fox", "tower", "never")
    lines = [" ".join([word, *(f"{number:.4f}" for number in random_numbers.normal(size=20))]) for word in words]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return SimpleNamespace(data=data, with_vectors=data | {"vectors": str(folder / "vectors.txt")})


@pytest.fixture(scope="module")
def finished(files, tmp_path_factory):
    """An uninterrupted run of three epochs."""
    run_dir, lines, shapes, traces = tmp_path_factory.mktemp("finished") / "run", [], set(), []
    with pytest.MonkeyPatch.context() as patch:
        original, train_step = backend.feed, keras.Model.train_step

        def spying(*arguments):
            dataset = original(*arguments)
            shapes.update(inputs["passage_token_index"].shape for inputs, _ in dataset.as_numpy_iterator())
            return dataset

        def tracing(model, batch):
            # TensorFlow runs this once for every kind of batch that it compiles a graph for.
            traces.append(batch)
            return train_step(model, batch)

        patch.setattr(backend, "feed", spying)
        patch.setattr(keras.Model, "train_step", tracing)
        history = train_tiny(run_dir, files.with_vectors, log=lines.append)
    return SimpleNamespace(run_dir=run_dir, history=history, lines=lines, shapes=shapes, traces=traces)


# Averages change nothing about how the weights are trained, so it is the seed that makes another run of this one.
# The decay is reached in the fourteenth step of eighteen.
EMA = {"ema_decay": 0.6, "checkpoint_steps": 1, "seed": 6}


@pytest.fixture(scope="module")
def averaged(files, tmp_path_factory):
    """An uninterrupted run that keeps averages, with the weights after each of its steps."""
    run_dir, weights = tmp_path_factory.mktemp("averaged") / "run", []
    with pytest.MonkeyPatch.context() as patch:
        models = make_every_epoch_better(patch)
        after_every_step(patch, lambda: weights.append([w.numpy() for w in models[0].trainable_variables]))
        history = train_tiny(run_dir, files.with_vectors | EMA)
    return SimpleNamespace(run_dir=run_dir, history=history, weights=weights, model=models[0])


# === A whole run ===


@pytest.mark.slow
def test_the_loss_falls(files, tmp_path):
    """Without dropout, which moves the loss of a batch of 2 more than a few steps of learning do."""
    rates = [name for name in MODEL.to_dict() if name.endswith("_dropout")]
    model = MODEL.replace(**dict.fromkeys(rates, 0.0))
    settings = TrainingConfig(**(SETTINGS | files.with_vectors))
    losses = [row["loss"] for row in train(str(tmp_path / "run"), model, settings, DataOptions(None))["epochs"]]
    assert losses[0] is None
    assert len(losses) == 4
    assert losses[1] > losses[2] > losses[3] > 0


@pytest.mark.slow
def test_the_history_counts_epochs_steps_and_rates(finished):
    rows = finished.history["epochs"]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [row["step"] for row in rows] == [0, STEPS, 2 * STEPS, 3 * STEPS]
    assert [row["learning_rate"] for row in rows] == pytest.approx([rate(row["step"]) for row in rows], rel=1e-5)
    assert all(row["seconds"] >= 0 for row in rows)
    best = max(rows, key=lambda row: row["f1"])
    assert finished.history["best_f1"] == best["f1"]
    assert finished.history["best_epoch"] == best["epoch"]


def test_the_history_is_written(finished):
    with open(finished.run_dir / "history.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    names = ["epoch", "step", "loss", "held_out_loss", "accuracy", "exact_match", "f1", "learning_rate", "seconds"]
    assert list(written[0]) == names
    for row, line in zip(finished.history["epochs"], written, strict=True):
        assert {name: "" if value is None else str(value) for name, value in row.items()} == line


def test_the_run_says_what_it_does(finished):
    text = "\n".join(finished.lines)
    assert "12 questions to train on, 6 steps per epoch" in text
    assert "8 frozen words" in text
    # Its warm-up is shorter than the run.
    assert "--warmup_steps" not in text
    row = finished.history["epochs"][3]
    assert "before training:  EM " in text
    scores = (
        f"EM {row['exact_match']:.2f}  F1 {row['f1']:.2f}  loss {row['loss']:.4f}  "
        f"held out {row['held_out_loss']:.4f}, accuracy {row['accuracy']:.3f}"
    )
    assert f"epoch 3/3:  {scores}  " in text


def test_the_run_directory_is_complete(finished):
    names = {path.name for path in finished.run_dir.iterdir()}
    expected = {"config.json", "processor", "checkpoints", "model.keras", "history.csv", "coverage.json"}
    assert names == expected | {"tensorboard", "predictions.json"}
    assert {path.name for path in (finished.run_dir / "checkpoints").iterdir()} == {"last.npz", "best.npz"}
    coverage = json.loads((finished.run_dir / "coverage.json").read_text())
    assert coverage["train"]["counts"]["kept"] == 12
    assert coverage["eval"]["counts"]["kept"] == 4


def test_batches_of_all_lengths_share_one_trace(finished):
    assert len(finished.shapes) >= 4
    assert len(finished.traces) == 1


def test_the_scores_are_those_of_an_evaluation(finished, files):
    data = read_squad(files.data["eval_dataset"])
    reader = Reader.load(finished.run_dir)
    answers = predictions_of(reader, data)
    texts = {key: answer.text for key, answer in answers.items()}
    assert list(texts) == [question.id for question in data.questions]
    assert json.loads((finished.run_dir / "predictions.json").read_text()) == texts
    best = finished.history["epochs"][finished.history["best_epoch"]]
    scores = score_v1(data, texts)
    assert (scores["exact_match"], scores["f1"], scores["total"]) == (best["exact_match"], best["f1"], 4)
    state, _ = numbers_of(finished.run_dir, "best.npz")
    assert (state["epoch"], state["f1"]) == (finished.history["best_epoch"], best["f1"])


def test_the_reader_has_the_words_and_vectors_of_the_run(finished, files):
    reader = Reader.load(finished.run_dir)
    vectors = load_vectors(files.with_vectors["vectors"])
    table = reader.model.get_layer("word_embedding").frozen_table.numpy()
    np.testing.assert_array_equal(table, vectors.table)
    vocabulary = reader.processor.vocabulary
    assert list(vocabulary.frozen_words) == list(vectors.words)
    # Words with a vector are not learned a second time; those that the dev set alone has are unknown.
    learned = set(vocabulary.trainable_words)
    assert {"mill", "keld", "frogs", "1871"} <= learned
    assert not learned & {"the", "owl", "built", "never", "tower", "wend", "fox"}
    assert reader.config.trainable_words == 1 + len(learned)


LOAD_AND_COMPARE = """
import sys
import numpy as np
import keras
import fabir_tf
model = keras.saving.load_model(sys.argv[1])
with np.load(sys.argv[2]) as file:
    arrays = {name: file[name] for name in file.files}
logits = model({name: array for name, array in arrays.items() if "logits" not in name})
for name, array in logits.items():
    np.testing.assert_allclose(np.asarray(array), arrays[name], rtol=1e-5, atol=1e-5, err_msg=name)
print(sorted(logits), model.name)
"""


@pytest.mark.slow
def test_the_model_file_loads_where_only_the_package_is_imported(finished, tmp_path):
    reader = Reader.load(finished.run_dir)
    generator = np.random.default_rng(3)
    inputs = {}
    for name, length in (("passage", 9), ("question", 4)):
        inputs[f"{name}_words"] = generator.integers(0, 20, (2, length)).astype(np.int32)
        inputs[f"{name}_characters"] = generator.integers(0, 20, (2, length, 20)).astype(np.int32)
    logits = {name: np.asarray(array) for name, array in reader.model(inputs).items()}
    np.savez(tmp_path / "arrays.npz", **inputs, **logits)
    command = [sys.executable, "-c", LOAD_AND_COMPARE, finished.run_dir / "model.keras", tmp_path / "arrays.npz"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_OF_THE_TEST)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "['end_logits', 'start_logits'] fabir"


# === Seeds ===


@pytest.mark.slow
def test_one_seed_gives_one_run_also_when_it_is_made_longer_later(finished, files, tmp_path):
    history = train_tiny(tmp_path / "run", files.with_vectors | {"epochs": 1})
    assert [row["loss"] for row in history["epochs"]] == [row["loss"] for row in finished.history["epochs"][:2]]
    train_tiny(tmp_path / "run", files.with_vectors, resume=True)
    assert_same_run(tmp_path / "run", finished.run_dir)


@pytest.mark.slow
def test_another_seed_gives_another_run(finished, averaged):
    losses, other_losses = ([row["loss"] for row in run.history["epochs"]] for run in (finished, averaged))
    assert len(losses) == len(other_losses) == 4
    assert not set(losses[1:]) & set(other_losses[1:])


# === Killed and resumed ===


def die_somewhere(run_dir, settings):
    """In a process of its own: trains slowly enough to be killed in the middle."""
    after_every_step(pytest.MonkeyPatch(), lambda: time.sleep(0.15))
    train_tiny(run_dir, settings)


def die_while_writing(run_dir, settings, number):
    """In a process of its own: is killed with half of a checkpoint written."""
    patch, savez, writes = pytest.MonkeyPatch(), np.savez, itertools.count(1)
    make_every_epoch_better(patch)

    def dying(file, **arrays):
        if next(writes) == number:
            file.write(b"PK\x03\x04 and no more")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        savez(file, **arrays)

    patch.setattr(np, "savez", dying)
    train_tiny(run_dir, settings)


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import test_training
getattr(test_training, sys.argv[2])(*json.loads(sys.argv[3]))
"""


def start_child(function, *arguments):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), function, json.dumps(arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def is_inside_second_epoch(run_dir):
    if not (run_dir / "checkpoints" / "last.npz").exists():
        return False
    state, _ = numbers_of(run_dir)
    return state["epoch"] == 1 and state["step"] > 0


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_is_the_uninterrupted_run(finished, files, tmp_path):
    run_dir = tmp_path / "run"
    process = start_child("die_somewhere", str(run_dir), files.with_vectors)
    begin = time.monotonic()
    while not is_inside_second_epoch(run_dir):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() - begin < PATIENCE_OF_THE_TEST
        time.sleep(0.02)
    time.sleep(random.uniform(0, 0.5))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()
    killed, _ = numbers_of(run_dir)
    assert killed["epoch"] in (1, 2)
    lines = []
    history = train_tiny(run_dir, files.with_vectors, resume=True, log=lines.append)
    assert f"resuming at epoch {killed['epoch'] + 1}, step {killed['step']} of 6" in lines
    assert_same_run(run_dir, finished.run_dir)
    losses = [row["loss"] for row in history["epochs"]]
    assert losses == [row["loss"] for row in finished.history["epochs"]]


@pytest.mark.slow
def test_the_best_checkpoint_holds_averages_and_the_last_one_weights(averaged):
    assert len(averaged.weights) == 3 * STEPS
    averages = [weight.astype(np.float64) for weight in averaged.weights[0]]
    for step, weights in enumerate(averaged.weights[1:], 1):
        decay = min(0.6, step / (step + 9))
        averages = [decay * average + (1 - decay) * weight for average, weight in zip(averages, weights, strict=True)]
    load_weights(averaged.run_dir / "checkpoints" / "best.npz", averaged.model)
    for variable, average in zip(averaged.model.trainable_variables, averages, strict=True):
        np.testing.assert_allclose(variable.numpy(), average, rtol=1e-4, atol=1e-6, err_msg=variable.path)
    load_checkpoint(averaged.run_dir / "checkpoints" / "last.npz", averaged.model)
    for variable, weight in zip(averaged.model.trainable_variables, averaged.weights[-1], strict=True):
        np.testing.assert_array_equal(variable.numpy(), weight, err_msg=variable.path)
    assert max(np.abs(average - weight).max() for average, weight in zip(averages, weights, strict=True)) > 1e-3


@pytest.mark.long
def test_killed_while_writing_a_checkpoint_with_averages_and_resumed(averaged, files, tmp_path):
    run_dir = tmp_path / "run"
    # Written are best and last before training, then five steps, best and last in each epoch: this falls in the second.
    process = start_child("die_while_writing", str(run_dir), files.with_vectors | EMA, 2 + 7 + 4)
    _, errors = process.communicate(timeout=PATIENCE_OF_THE_TEST)
    assert process.returncode == -signal.SIGKILL, errors
    killed, _ = numbers_of(run_dir)
    assert (killed["epoch"], killed["step"]) == (1, 3)
    with pytest.MonkeyPatch.context() as patch:
        make_every_epoch_better(patch)
        train_tiny(run_dir, files.with_vectors | EMA, resume=True)
    assert_same_run(run_dir, averaged.run_dir)


@pytest.mark.long
def test_a_limit_that_is_reached_already_trains_no_further(files, tmp_path, monkeypatch):
    """Also in the middle of an epoch, which is then left."""
    run_dir, save = tmp_path / "run", training._Session.save

    def interrupted(session):
        save(session)
        if (session.state["epoch"], session.state["step"]) == (1, 4):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training._Session, "save", interrupted)
        train_tiny(run_dir, files.with_vectors)
    before = numbers_of(run_dir)[0]
    assert (before["epoch"], before["step"], before["batches"]) == (1, 4, 10)
    for limit in ({"epochs": 1}, {"max_steps": 9}):
        history = train_tiny(run_dir, files.with_vectors | limit, resume=True)
        assert [row["epoch"] for row in history["epochs"]] == [0, 1]
        assert numbers_of(run_dir)[0] == before


@pytest.mark.long
@pytest.mark.parametrize("steps", [4, 9])
def test_a_limit_that_is_lifted_leaves_the_run_that_had_none(files, tmp_path, steps):
    """In the first epoch of six steps, or in the second and last one."""
    settings = files.with_vectors | {"epochs": 2, "ema_decay": 0.9}
    train_tiny(tmp_path / "straight", settings)
    train_tiny(tmp_path / "cut", settings | {"max_steps": steps})
    assert numbers_of(tmp_path / "cut")[0]["batches"] == steps
    train_tiny(tmp_path / "cut", settings, resume=True)
    (state, arrays), (expected, straight) = (numbers_of(tmp_path / name) for name in ("cut", "straight"))
    # What was scored in between may have been the best.
    for name in ("best_f1", "best_epoch"):
        del state[name], expected[name]
    assert state == expected
    assert [name for name in straight if not np.array_equal(arrays[name], straight[name])] == []


def test_a_run_is_not_begun_twice_nor_resumed_as_another(finished, files, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")}
    with pytest.raises(UserError, match=r"already holds a run: add --resume to continue it"):
        train_tiny(finished.run_dir, files.with_vectors)
    with pytest.raises(UserError, match=r"holds a run with seed=5, found seed=6"):
        train_tiny(finished.run_dir, files.with_vectors | {"seed": 6}, resume=True)
    with pytest.raises(UserError, match=r"holds a run with num_heads=2, found num_heads=4"):
        train(str(finished.run_dir), MODEL.replace(num_heads=4), TrainingConfig(**SETTINGS), DataOptions(None), True)
    assert {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")} == before


def test_a_run_is_resumed_with_its_own_settings(finished):
    assert train(finished.run_dir, resume=True, log=lambda line: None)["epochs"] == finished.history["epochs"]


def test_a_run_that_is_not_there_is_not_resumed(tmp_path):
    for folder in (tmp_path / "absent", tmp_path):
        with pytest.raises(UserError, match="found no run to resume"):
            train(folder, resume=True)
    assert list(tmp_path.iterdir()) == []


def test_two_trainings_in_one_folder(finished, files):
    with locked(RunDirectory(finished.run_dir)), pytest.raises(UserError, match="which is training this run"):
        train_tiny(finished.run_dir, files.with_vectors, resume=True)
    assert not (finished.run_dir / "training.lock").exists()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"warmup_steps": 18}, None),
        ({"warmup_steps": 19}, "has only 18 steps, so its learning rate still rises at its end"),
        ({"warmup_steps": 37}, "has only 18 steps, so its learning rate stays low; try --warmup_steps=18"),
        (
            {"warmup_steps": 37, "start_from": "fabir-base"},
            "has only 18 steps, so its learning rate stays low; try --learning_rate=0.0003",
        ),
        ({"warmup_steps": 37, "learning_rate": 0.1}, None),
        ({"warmup_steps": 37, "epochs": 0}, None),
    ],
)
def test_a_warm_up_longer_than_the_run_is_told(settings, told):
    lines = []
    session = SimpleNamespace(training=TrainingConfig(**(SETTINGS | settings)), steps_per_epoch=STEPS, log=lines.append)
    training._Session._report_warm_up(session)
    assert lines == ([f"--warmup_steps={settings['warmup_steps']}: this run {told}"] if told else [])


@pytest.mark.parametrize(
    ("settings", "seconds", "said"),
    [
        ({}, [50.0] * 5 + [2.0] * 21, ["the other 1,975 steps take about 66 minutes, and scoring some more"]),
        ({}, [50.0] * 5 + [0.05] * 21, []),
        ({}, [2.0] * 24, []),
        ({"max_minutes": 1.0}, [2.0] * 26, []),
        ({"max_steps": 325}, [3.0] * 30, ["the other 300 steps take about 15 minutes, and scoring some more"]),
    ],
)
def test_a_long_run_tells_once_how_long_it_takes(settings, seconds, said, monkeypatch):
    monkeypatch.setattr(training, "_is_terminal", lambda: False)
    lines = []
    config = TrainingConfig(**(SETTINGS | {"epochs": 4} | settings))
    session = SimpleNamespace(training=config, steps_per_epoch=500, log=lines.append, state={"batches": 0})
    progress = training._Progress(session)
    for number, duration in enumerate(seconds, 1):
        session.state["batches"] = number
        progress._estimate(duration)
    assert lines == said


def test_a_run_is_not_resumed_on_other_data(finished, files, tmp_path):
    path = Path(files.data["dataset"])
    original = path.read_text()
    try:
        write_squad(path, ARTICLES[:3])
        with pytest.raises(UserError, match=r"^--dataset: the data is not that of the run in "):
            train_tiny(finished.run_dir, files.with_vectors, resume=True)
    finally:
        path.write_text(original)


# === Settings ===


@pytest.mark.long
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_stays_finite_and_clipping_clips_and_patience_ends(files, tmp_path, policy):
    # One step in an epoch, and nothing that could get better: after the first epoch it is over.
    settings = files.data | {"dtype_policy": policy, "clip_norm": 1e-3, "batch_size": 12}
    settings |= {"learning_rate_factor": 0.0, "epochs": 9, "patience": 1}
    said = []
    with pytest.MonkeyPatch.context() as patch:
        models = capture_models(patch)
        patch.setattr(bfloat16, "processor_features", lambda: frozenset({"avx2"}))
        history = train_tiny(tmp_path / "run", settings, log=said.append)
    # Told, and obeyed.
    assert any("computes bfloat16 in software" in line for line in said) == (policy == "mixed_bfloat16")
    assert keras.config.dtype_policy().name == "float32"
    assert models[0].model.get_layer("highway").compute_dtype == policy.removeprefix("mixed_")
    assert [row["epoch"] for row in history["epochs"]] == [0, 1]
    assert history["best_epoch"] == 0
    assert np.isfinite(history["epochs"][1]["loss"])
    state, arrays = numbers_of(tmp_path / "run")
    assert (state["epoch"], state["step"]) == (1, 0)
    for name, array in arrays.items():
        assert np.isfinite(array).all(), name
    assert {array.dtype for name, array in arrays.items() if name.endswith("kernel")} == {np.dtype(np.float32)}
    # After one step Adam's first moment is 1 - beta_1 of the clipped gradient.
    moments = [array.astype(np.float64) for name, array in arrays.items() if name.endswith("_momentum")]
    norm = np.sqrt(sum((moment**2).sum() for moment in moments))
    assert len(moments) == len(models[0].trainable_variables)
    if history["epochs"][1]["step"] or policy == "mixed_bfloat16":
        assert norm == pytest.approx(0.1 * 1e-3, rel=1e-3)
    else:
        # The loss scale begins high, and a step whose gradients overflow is skipped.
        assert norm == 0


NO_TABLES = SimpleNamespace(frozen_tables={})


def test_adam_is_set_as_asked():
    settings = {"adam_beta_1": 0.8, "adam_beta_2": 0.95, "adam_epsilon": 1e-5, "clip_norm": 0.7, "ema_decay": 0.6}
    settings |= {"learning_rate_factor": 0.3, "warmup_steps": 40}
    optimizer = training.compiled_model(CONFIG, TrainingConfig(**settings), NO_TABLES).optimizer
    assert type(optimizer) is AveragingAdam
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.8, 0.95, 1e-5)
    assert (optimizer.global_clipnorm, optimizer.clipnorm, optimizer.clipvalue) == (0.7, None, None)
    assert (optimizer.use_ema, optimizer.ema_momentum, optimizer.ema_overwrite_frequency) == (True, 0.6, None)
    assert optimizer.get_config()["learning_rate"]["config"] == {"d_model": 20, "factor": 0.3, "warmup_steps": 40}


def test_adam_is_the_papers_by_default():
    optimizer = training.compiled_model(CONFIG, TrainingConfig(), NO_TABLES).optimizer
    assert type(optimizer) is backend.Adam
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-8)
    assert (optimizer.global_clipnorm, optimizer.use_ema, optimizer.weight_decay) == (None, False, None)
    assert optimizer.get_config()["learning_rate"]["config"] == {"d_model": 20, "factor": 0.5, "warmup_steps": 4000}


def test_the_learning_rate_may_be_constant():
    optimizer = training.compiled_model(CONFIG, TrainingConfig(learning_rate=0.002), NO_TABLES).optimizer
    assert float(optimizer.learning_rate) == pytest.approx(0.002)
    optimizer.iterations.assign(5000)
    assert float(optimizer.learning_rate) == pytest.approx(0.002)


def test_the_learning_rate_falls_over_the_last_epochs():
    settings = TrainingConfig(learning_rate=0.002, epochs=10, linear_decay_epochs=2.5)
    optimizer = training.compiled_model(CONFIG, settings, NO_TABLES, steps_per_epoch=40).optimizer
    for step, expected in ((300, 0.002), (350, 0.001), (400, 0.0)):
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == pytest.approx(expected)


@pytest.mark.long
def test_a_run_cools_down_and_stops_at_its_last_step(files, tmp_path):
    """Six steps an epoch: nine end in the middle of the second, which three epochs resumed from there complete."""
    run, settings = tmp_path / "run", {"learning_rate": 0.002, "linear_decay_epochs": 1.0}
    short = train_tiny(run, files.data | settings | {"epochs": 5, "max_steps": 9})
    assert [row["step"] for row in short["epochs"]] == [0, 6, 9]
    assert [row["learning_rate"] for row in short["epochs"]] == pytest.approx([0.002, 0.001, 0.0])
    longer = train_tiny(run, files.data | settings | {"epochs": 3}, resume=True)
    assert [row["step"] for row in longer["epochs"]] == [0, 6, 12, 18]
    assert [row["learning_rate"] for row in longer["epochs"][2:]] == pytest.approx([0.002, 0.0])
    with pytest.raises(ConfigError, match="linear_decay_epochs"):
        TrainingConfig(epochs=2, linear_decay_epochs=3)
    for name in ("max_minutes", "patience"):
        with pytest.raises(ConfigError, match=name):
            TrainingConfig(linear_decay_epochs=3, **{name: 5})


def test_a_teacher_of_whole_passages_and_windows_exclude_each_other():
    with pytest.raises(ConfigError, match="passage_window"):
        TrainingConfig(passage_window=40, teacher="teacher.npz")


@pytest.mark.long
def test_training_ends_when_the_time_is_up_and_goes_on_with_more(files, tmp_path):
    """After the first step of six; the epoch is scored as far as it went, and with more time it goes on there.

    In between the run becomes one of a version with fewer settings.
    """
    run = tmp_path / "run"
    short = train_tiny(run, files.data | {"max_minutes": 1e-3})
    assert [(row["epoch"], row["step"]) for row in short["epochs"]] == [(0, 0), (1, 1)]
    config = json.loads((run / "config.json").read_text())
    del config["training"]["learning_rate"], config["model"]["interaction"]
    (run / "config.json").write_text(json.dumps(config))
    longer = train_tiny(run, files.data | {"max_minutes": 60.0}, resume=True)
    assert [(row["epoch"], row["step"]) for row in longer["epochs"]] == [(0, 0), (1, 6), (2, 12), (3, 18)]
    assert np.isfinite(longer["epochs"][1]["loss"])


def test_a_decay_of_zero_averages_nothing():
    optimizer = training.compiled_model(CONFIG, TrainingConfig(ema_decay=0.0), NO_TABLES).optimizer
    assert optimizer.ema_momentum == 0.0


@pytest.mark.long
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run_with_a_sentence(files, tmp_path, monkeypatch, value):
    """Before the next step, and before anything is written."""

    class Broken(StartEndLoss):
        def call(self, y_true, y_pred):
            return super().call(y_true, y_pred) * value

    monkeypatch.setattr(training, "StartEndLoss", Broken)
    with pytest.raises(UserError, match=rf"^the loss is {value} in epoch 1, step 1, expected a number"):
        train_tiny(tmp_path / "run", files.data | {"checkpoint_steps": 1})
    state, arrays = numbers_of(tmp_path / "run")
    assert (state["epoch"], state["step"]) == (0, 0)
    assert all(np.isfinite(array).all() for array in arrays.values())


# === What a run records ===


def test_the_configuration_tells_its_format_and_the_versions(finished):
    config = json.loads((finished.run_dir / "config.json").read_text())
    assert list(config) == ["format", "versions", "model", "training", "data"]
    assert config["format"] == 2
    assert config["versions"]["fabir_tf"] == fabir_tf.__version__
    assert config["versions"]["keras"] == keras.__version__
    assert config["versions"]["backend"] == keras.backend.backend()
    assert config["versions"]["numpy"] == np.__version__


def as_version_0_1(run_dir):
    """Leaves out what version 0.1 did not write into its configuration."""
    path = run_dir / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({name: config[name] for name in ("model", "training", "data")}))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_of_version_0_1_is_not_resumed_and_stays_as_it_is(finished, files, tmp_path):
    run_dir = shutil.copytree(finished.run_dir, tmp_path / "run")
    as_version_0_1(run_dir)
    before = contents(tmp_path)
    with pytest.raises(
        UserError, match=r"holds a run of version 0\.1, whose training this version cannot resume"
    ) as it:
        train_tiny(run_dir, files.with_vectors | {"epochs": 4}, resume=True)
    assert str(it.value).endswith(f"--start_from={run_dir}")
    assert contents(tmp_path) == before


# === Questions without an answer ===

# Of other things than the passage is about.
UNANSWERABLE = {
    "Mill": ("Which queen of Sweden slept there?", "Who painted the harbour at Zadar?", "Which comet was seen?"),
    "Lake": ("Which queen of Norway slept there?", "Who painted the castle at Zadar?", "Which star was seen?"),
    "Bridge": ("Which queen of Denmark slept there?", "Who painted the garden at Zadar?", "Which planet was seen?"),
    "Owl": ("Which queen of France slept there?", "Who painted the market at Zadar?", "Which moon was seen?"),
}


def write_unanswerable(path, articles):
    """The articles with more questions, which their passages do not answer."""
    content = squad_json(articles)
    for article in content["data"]:
        article["paragraphs"][0]["qas"] += [
            {"id": f"{article['title']}-none-{number}", "question": question, "answers": [], "is_impossible": True}
            for number, question in enumerate(UNANSWERABLE[article["title"]])
        ]
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.long
def test_without_a_null_head_unanswerable_questions_are_as_if_they_were_not_there(files, tmp_path):
    lines = []
    data = files.data | {"dataset": write_unanswerable(tmp_path / "v2.json", ARTICLES)}
    train_tiny(tmp_path / "with", data | {"epochs": 1}, log=lines.append)
    train_tiny(tmp_path / "without", files.data | {"epochs": 1})
    assert [line for line in lines if "without an answer" in line] == [
        f"{data['dataset']}: left out 12 questions without an answer; --null_head learns from such"
    ]
    assert_same_run(tmp_path / "with", tmp_path / "without")
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("with", "without")]
    assert configs[0]["data"] == configs[1]["data"]


ABSTAINING = MODEL.replace(
    null_head=True, **dict.fromkeys([name for name in MODEL.to_dict() if name.endswith("_dropout")], 0.0)
)
ABSTAINING_SETTINGS = {"epochs": 16, "batch_size": 8, "learning_rate": 3e-3}


def train_abstaining(run_dir, data, epochs, resume=False, model=ABSTAINING):
    settings = TrainingConfig(**(SETTINGS | ABSTAINING_SETTINGS | data | {"epochs": epochs}))
    return train(str(run_dir), model, settings, DataOptions(None), resume, lambda line: None)


@pytest.fixture(scope="module")
def abstaining(tmp_path_factory):
    """A reader with a null head, trained and scored on the same questions, half of them without an answer."""
    folder = tmp_path_factory.mktemp("abstaining")
    path = write_unanswerable(folder / "v2.json", ARTICLES)
    data = {"dataset": path, "eval_dataset": path}
    history = train_abstaining(folder / "run", data, ABSTAINING_SETTINGS["epochs"])
    return SimpleNamespace(run_dir=folder / "run", data=data, history=history)


@pytest.mark.long
def test_a_reader_with_a_null_head_learns_to_abstain(abstaining):
    losses = [row["loss"] for row in abstaining.history["epochs"][1:]]
    assert losses[-1] < 0.7 * losses[0]
    data = read_squad(abstaining.data["dataset"])
    assert data.unanswerable == 12
    reader = Reader.load(abstaining.run_dir)
    answers = predictions_of(reader, data)
    found = {True: [], False: []}
    for question in data.questions:
        found[bool(question.answers)].append(answers[question.id].no_answer_probability)
    assert np.mean(found[False]) > np.mean(found[True]) + 0.3
    # With the threshold that suits these questions the reader abstains where it should.
    reader.calibration = calibrate(reader, data)
    abstains = {key: not answer.is_answer for key, answer in predictions_of(reader, data).items()}
    right = [abstains[question.id] != bool(question.answers) for question in data.questions]
    assert np.mean(right) > 0.8


@pytest.mark.slow
def test_the_score_of_an_abstaining_reader_is_that_of_squad_2(abstaining, commands):
    flags = (f"--run_dir={abstaining.run_dir}", f"--dataset={abstaining.data['dataset']}", "--cache_dir=")
    result = commands("evaluate", *flags)
    assert result.status == 0, result
    scored = json.loads(result.stdout)
    assert (scored["total"], scored["HasAns_total"], scored["NoAns_total"]) == (24, 12, 12)
    # Without a threshold it never abstains; with the best one it gets most of these right.
    assert scored["NoAns_f1"] == 0
    assert scored["best_f1"] > scored["f1"] + 30
    best = abstaining.history["epochs"][abstaining.history["best_epoch"]]
    assert (scored["best_exact"], scored["best_f1"]) == pytest.approx((best["exact_match"], best["f1"]))
    assert 0.8 < scored["no_answer_auroc"] <= 1


@pytest.mark.slow
def test_the_official_rules_on_the_three_files_give_the_same_figures(abstaining, commands, tmp_path):
    names = {flag: tmp_path / f"{flag}.json" for flag in ("output_file", "spans_file", "na_prob_file", "report_file")}
    files = [f"--{flag}={path}" for flag, path in names.items()]
    flags = (f"--run_dir={abstaining.run_dir}", f"--dataset={abstaining.data['dataset']}", "--cache_dir=")
    assert commands("evaluate", *flags, *files, "--no_answer_threshold=0.5").status == 0
    said, spans, none, report = (json.loads(path.read_text()) for path in names.values())
    assert all(spans.values()) and all(0 < value < 1 for value in none.values())
    assert said == {key: "" if none[key] > 0.5 else text for key, text in spans.items()}
    assert "" in said.values() and any(said.values())
    data = read_squad(abstaining.data["dataset"])
    for scored in (score_v2(data, said), {k: v for k, v in score_v2(data, spans, none).items() if k[:4] == "best"}):
        assert scored == pytest.approx({name: report[name] for name in scored}, abs=1e-9)
    # By the command, too.
    files = (f"--predictions_file={names['spans_file']}", f"--no_answer_file={names['na_prob_file']}")
    again = json.loads(commands("evaluate", *files, flags[1], flags[2]).stdout)
    assert {again[name] - report[name] for name in ("best_exact", "best_f1", "best_f1_thresh")} == {0}


@pytest.mark.slow
def test_lines_of_answers_are_scored_like_the_reader_itself(abstaining, commands, tmp_path):
    """With their no-answer probabilities, and the best spans where it declines."""
    reader = (f"--run_dir={abstaining.run_dir}", "--no_answer_threshold=0.5")
    data, answers = abstaining.data["dataset"], tmp_path / "answers.jsonl"
    assert commands("predict", *reader, f"--input_file={data}", f"--output_file={answers}").status == 0
    own = json.loads(commands("evaluate", *reader, f"--dataset={data}", "--cache_dir=").stdout)
    del own["questions_per_second"]
    assert "" in [json.loads(line)["answer"] for line in answers.read_text().splitlines()]
    scored = json.loads(commands("evaluate", f"--predictions_file={answers}", f"--dataset={data}").stdout)
    assert scored.pop("missing") == 0 and scored == pytest.approx(own, abs=1e-9)
    # A question that was not answered is wrong, and has no probability.
    lines = answers.read_text().splitlines()
    (tmp_path / "fewer.jsonl").write_text(
        "\n".join([json.dumps({"id": json.loads(lines[0])["id"], "error": "x"}), *lines[1:]])
    )
    fewer = json.loads(
        commands("evaluate", f"--predictions_file={tmp_path / 'fewer.jsonl'}", f"--dataset={data}").stdout
    )
    assert fewer["missing"] == 1 and fewer["best_f1"] <= own["best_f1"] and 0 < fewer["no_answer_auroc"] <= 1
    # Other programs' lines may have no probabilities.
    bare = [{"id": line["id"], "answer": line["answer"]} for line in map(json.loads, lines)]
    (tmp_path / "bare.jsonl").write_text("\n".join(map(json.dumps, bare)))
    texts = json.loads(
        commands("evaluate", f"--predictions_file={tmp_path / 'bare.jsonl'}", f"--dataset={data}").stdout
    )
    assert texts["f1"] == pytest.approx(own["f1"]) and "best_f1" not in texts


def test_two_results_in_one_file_are_refused(commands, tmp_path):
    flags = ("--model=fabir-base", "--dataset=sample", f"--spans_file={tmp_path}/x.json")
    assert_error(
        commands,
        "evaluate",
        " ".join([*flags, f"--output_file={tmp_path}/../{tmp_path.name}/x.json"]),
        ["--spans_file", "--output_file"],
    )
    flags = ("--predictions_file=x.json", "--dataset=sample")
    for flag in ("output_file", "spans_file", "na_prob_file"):
        assert_error(commands, "evaluate", " ".join([*flags, f"--{flag}=y.json"]), [f"--{flag} belongs to --run_dir"])


@pytest.mark.long
def test_training_with_a_null_head_is_resumed_exactly(abstaining, tmp_path):
    for epochs in (1, 2):
        history = train_abstaining(tmp_path / "run", abstaining.data, epochs, resume=epochs > 1)
    expected = abstaining.history["epochs"][:3]
    for row, other in zip(history["epochs"], expected, strict=True):
        assert {**row, "seconds": 0} == {**other, "seconds": 0}
