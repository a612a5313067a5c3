"""Training on several devices: the losses and weights of one, also after a resumption, or one clear sentence."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data, write_squad

from fabir_tf.backends import backend
from fabir_tf.configuration import ConfigError
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.training.devices import training_devices
from fabir_tf.training.distillation import teach
from fabir_tf.training.losses import StartEndLoss
from fabir_tf.training.train import train
from fabir_tf.training.training_config import TrainingConfig

ROOT = Path(__file__).parents[1]
STEPS = 20
# One step in an epoch, so that history.csv has the loss of every step.
WHOLE = {"batch_size": 12, "epochs": STEPS}
# Six steps of two questions in an epoch: on four devices at least two have none.
SMALL = {"batch_size": 2, "epochs": 4}
# What the rounding of a sum in another order may change in 20 steps.
STEP_LOSS, EPOCH_LOSS, WEIGHT = 1e-5, 1e-3, 2e-4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    dataset, dev = (write_squad(folder / f"{name}.json", part) for name, part in (("a", ARTICLES), ("b", DEV_ARTICLES)))
    return {"dataset": dataset, "eval_dataset": dev}


def on(devices, backend="tensorflow"):
    distribution = {"tensorflow": "mirrored", "jax": "data_parallel"}[backend]
    return {"distribution": distribution, "logical_devices": devices} if devices else {}


def train_all(runs, backend="tensorflow", status=0):
    """Trains runs one after another in one process."""
    environment = os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(ROOT / "tests" / "train_on_devices.py"), json.dumps(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == status, done.stderr
    return done.stdout


def train_on(folder, numbers, training, model=None, backend="tensorflow"):
    """The same run on several numbers of devices; 0 is a training without any distribution."""
    runs = [
        {"run_dir": str(folder / str(devices)), "training": training | on(devices, backend), "model": model or {}}
        for devices in numbers
    ]
    train_all(runs, backend)
    return [folder / str(devices) for devices in numbers]


def losses(run_dir):
    with open(run_dir / "history.csv", encoding="utf-8") as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]


def weights(run_dir):
    """All arrays of a checkpoint: weights, averages and moments, and the states of the generators."""
    with np.load(run_dir / "checkpoints" / "last.npz") as file:
        return {name: file[name] for name in file.files if name != "state"}


def assert_same_training(found, expected, loss=EPOCH_LOSS):
    np.testing.assert_allclose(losses(found), losses(expected), atol=loss, rtol=0)
    ours, theirs = weights(found), weights(expected)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        # A softmax is the same whatever is added to all logits: the bias follows the rounding alone.
        if "selector" in name and "logits" in name and "bias" in name:
            continue
        np.testing.assert_allclose(ours[name], array, atol=WEIGHT, rtol=1e-2, err_msg=name)


# === The same training ===


@pytest.mark.long
def test_several_devices_train_as_one(data, tmp_path):
    one, four = train_on(tmp_path, (0, 4), WHOLE | data)
    assert len(losses(one)) == STEPS
    assert losses(one)[-1] < losses(one)[0] - 0.1
    assert_same_training(four, one, STEP_LOSS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("devices", "settings", "model"),
    [
        # Every batch leaves a device without a question.
        (2, {"batch_size": 1, "epochs": 2}, {}),
        (2, SMALL | {"wrong_passages": 1.0, "shared_norm": 0.5, "batching": "passages"}, {"null_head": True}),
        (
            2,
            {"optimizer": "adamw", "weight_decay": 0.1, "learning_rate": 0.001, "clip_norm": 0.5, "ema_decay": 0.9},
            {},
        ),
        (2, {"optimizer": "adadelta", "learning_rate": 0.5, "wrong_passages": 1.0, "shared_norm": 1.0}, {}),
    ],
)
def test_every_optimizer_and_loss_is_that_of_one_device(devices, settings, model, data, tmp_path):
    training = {"batch_size": 5, "epochs": 4} | data | settings
    one, several = train_on(tmp_path, (0, devices), training, model)
    assert_same_training(several, one)


@pytest.mark.long
def test_teachers_teach_several_devices(data, tmp_path):
    questions = squad_data(ARTICLES)
    words = sorted({word.lower() for text in questions.passages for word in tokenize(text).words})
    teach([make_reader(words)], questions).save(tmp_path / "teacher.npz")
    training = {"batch_size": 5, "epochs": 4, "teacher": str(tmp_path / "teacher.npz")} | data
    one, two = train_on(tmp_path, (0, 2), training)
    assert_same_training(two, one)


def test_the_loss_of_the_parts_is_that_of_the_batch():
    random = np.random.default_rng(2)
    logits = {name: random.normal(size=(7, 11)).astype(np.float32) for name in ("start_logits", "end_logits")}
    # The third row only fills the second part up, and the third part consists of such rows.
    real = np.array([1, 1, 0, 1, 1, 0, 0])
    spans = {name: random.integers(0, 11, 7).astype(np.int32) * real for name in ("start", "end")}
    targets = spans | {"offset": np.zeros(7, np.int32), "length": (11 * real).astype(np.int32)}
    # The mean of the real rows' cross-entropies, by the formula.
    both = ((logits["start_logits"], spans["start"]), (logits["end_logits"], spans["end"]))
    rows = sum(np.log(np.exp(x.astype(np.float64)).sum(1)) - x[np.arange(7), columns] for x, columns in both)
    expected = (rows * real).sum() / real.sum()
    loss, total = StartEndLoss(smoothing="none"), 0.0
    for part in (slice(0, 2), slice(2, 5), slice(5, 7)):
        own, outputs = ({name: values[part] for name, values in x.items()} for x in (targets, logits))
        total += float(loss(own, outputs)) * float(loss.count(own)) / real.sum()
    assert total == pytest.approx(expected, rel=1e-6)


# === Dropout ===

DRAW = """
import before_tensorflow
import keras, tensorflow as tf
from train_on_devices import split_cpu
split_cpu()
import fabir_tf
from fabir_tf.backends.mirrored import own_random_numbers
one = fabir_tf.layers.Dropout(0.25, seed=7)
values = tf.ones((1, 7, 4000))
strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(4)])
with strategy.scope():
    layer = fabir_tf.layers.Dropout(0.25, seed=7)

@tf.function
def dropped():
    with own_random_numbers(layer.variables):
        return layer(values, training=True)

alone = [one(values, training=True).numpy() for _ in range(2)]
found = [[part.numpy() for part in strategy.experimental_local_results(strategy.run(dropped))] for _ in range(2)]
for turn, parts in enumerate(found):
    assert (parts[0] == alone[turn]).all()
    for part in parts:
        assert abs((part == 0).mean() - 0.25) < 0.01, (part == 0).mean()
masks = [part == 0 for parts in found for part in parts]
for number, mask in enumerate(masks):
    for other in masks[:number]:
        # Independent masks of one quarter agree in five eighths.
        assert abs((mask == other).mean() - 0.625) < 0.02, (mask == other).mean()
states = {tuple(state.numpy().tolist()) for state in layer.seed_generator.state.value.values}
assert states == {tuple(one.seed_generator.state.numpy().tolist())}, states
"""


def test_each_device_drops_by_itself_at_the_same_rate():
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", DRAW], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_training_with_dropout_repeats_itself(data, tmp_path):
    runs = [
        {"run_dir": str(tmp_path / name), "training": SMALL | data | on(4), "model": {"input_dropout": 0.3}}
        for name in ("first", "second")
    ]
    train_all(runs)
    assert losses(tmp_path / "first") == losses(tmp_path / "second")
    ours, theirs = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert [name for name in ours if not np.array_equal(ours[name], theirs[name])] == []


# === Killed and resumed ===


@pytest.mark.long
@pytest.mark.parametrize(("backend", "changes"), [("tensorflow", ((2, 0), (0, 4))), ("jax", ((2, 0),))])
def test_a_killed_run_goes_on_with_other_devices(backend, changes, data, tmp_path):
    training = SMALL | data
    train_all([{"run_dir": str(tmp_path / "whole"), "training": training}], backend)
    for first, then in changes:
        run = {"run_dir": str(tmp_path / f"first_{first}")}
        # In the middle of the second epoch.
        killed = run | {"training": training | on(first, backend), "killed_after": 9}
        train_all([killed], backend, -signal.SIGKILL)
        resumed = run | {"training": training | on(then, backend), "resume": True}
        assert "resuming at epoch 2, step " in train_all([resumed], backend)
        assert_same_training(tmp_path / f"first_{first}", tmp_path / "whole")


@pytest.mark.long
def test_jax_divides_the_rows_of_a_batch(data, tmp_path):
    one, two, four = train_on(tmp_path, (0, 2, 4), WHOLE | data, backend="jax")
    for found in (two, four):
        assert_same_training(found, one, STEP_LOSS)


# === Refusals ===


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distribution": "ring"}, "distribution must be one of none, mirrored, data_parallel, found 'ring'"),
        ({"logical_devices": 0, "distribution": "mirrored"}, "logical_devices must be between 1 and 16, found 0"),
        ({"logical_devices": 2}, "logical_devices needs distribution, found logical_devices=2"),
        ({"distribution": "mirrored", "jit_compile": True}, "not compiled with XLA, found jit_compile"),
        ({"distribution": "mirrored", "dtype_policy": "mixed_float16"}, "expected mixed_bfloat16 or float32"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(**settings)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--distribution=ring", "distribution must be one of none, mirrored, data_parallel, found 'ring'"),
        ("--distribution=mirrored --logical_devices=0", "logical_devices must be between 1 and 16, found 0"),
        ("--distribution=mirrored --logical_devices=two", "--logical_devices=two: expected an integer"),
        ("--logical_devices=2", "logical_devices needs distribution"),
        ("--distribution=data_parallel", "Keras' data parallelism has no effect on TensorFlow"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, message, commands, data):
    arguments = f"--run_dir=refused --dataset={data['dataset']} {flags}"
    assert_error(commands, "train", arguments, message)


def cluster(*machines):
    return json.dumps({"cluster": {"worker": list(machines)}, "task": {"type": "worker", "index": 0}})


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (cluster("a:2222", "b:2222"), r"TF_CONFIG names 2 machines, .*keras#20585"),
        (json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}}), "TF_CONFIG names 3 machines"),
        ("", "TF_CONFIG: found no description of a cluster"),
        ("{", "TF_CONFIG: found no description of a cluster"),
        ("[]", "TF_CONFIG: found no description of a cluster"),
        ('{"cluster": {"worker": 2}}', "TF_CONFIG: found no description of a cluster"),
    ],
)
def test_several_machines_are_refused(description, message, data, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", description)
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", None, TrainingConfig(**data, distribution="mirrored"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("description", ["{}", cluster("a:2222")])
def test_one_machine_trains_and_says_that_it_has_one_device(description, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", description)
    said = []
    with training_devices(TrainingConfig(distribution="mirrored"), said.append):
        assert tf.distribute.get_strategy().num_replicas_in_sync == 1
    assert said == ["--distribution=mirrored: training on one device only, CPU:0"]
    assert not tf.distribute.has_strategy()


def test_logical_devices_come_first():
    # Computes something.
    tf.zeros(()).numpy()
    with pytest.raises(UserError, match="--logical_devices=3: TensorFlow has started with 1, expected a new process"):
        backend.devices("mirrored", 3, print)


def test_without_a_distribution_nothing_is_said_or_changed():
    said = []
    with training_devices(TrainingConfig(), said.append):
        assert not tf.distribute.has_strategy()
    assert said == []


@pytest.mark.parametrize(
    ("distribution", "devices", "message"),
    [
        ("mirrored", 2, "--distribution=mirrored needs TensorFlow, found KERAS_BACKEND=jax"),
        ("data_parallel", 3, "found 3 devices, expected 1, 2, 4, 8 or 16"),
    ],
)
def test_jax_refuses_what_it_cannot_do(distribution, devices, message, data, tmp_path):
    command = [sys.executable, "-m", "fabir_tf.commands.train", f"--run_dir={tmp_path / 'run'}"]
    command += [f"--dataset={data['dataset']}", f"--distribution={distribution}", f"--logical_devices={devices}"]
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and message in done.stderr, done
    assert not (tmp_path / "run").exists()
