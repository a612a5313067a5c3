"""`--adapt`: a reader learns new texts, and its answers to others stay as they were."""

import dataclasses

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, squad_data, write_squad

from fabir_tf.models.weights import load_weights, weights_of
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import data_without_unanswerable
from fabir_tf.reading.calibration import Calibration, calibrate
from fabir_tf.reading.no_answer import UNREAD_SCORE, NoAnswerCalibration, matched_no_answer, no_answer_probability
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory, reader_directory
from fabir_tf.training import adapting
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import load_data, prepare_data
from fabir_tf.training.train import make_targets, train
from fabir_tf.training.training_config import TrainingConfig

WEIGHT = 0.25
NO_CACHE = DataOptions(cache_dir=None)


def silent(line):
    pass


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """New texts, texts to keep, and others to score."""
    folder = tmp_path_factory.mktemp("texts")
    parts = {"new": ARTICLES[1:3], "old": ARTICLES[3:], "scored": DEV_ARTICLES}
    return {name: write_squad(folder / f"{name}.json", articles) for name, articles in parts.items()}


@pytest.fixture
def training(tiny_run, files):
    return TrainingConfig(
        dataset=str(files["new"]),
        eval_dataset=str(files["scored"]),
        start_from=str(tiny_run.path),
        kept_dataset=str(files["old"]),
        distillation_weight=WEIGHT,
        learning_rate=0.01,
        epochs=1,
    )


def as_flags(files, start):
    return [f"--dataset={files['new']}", f"--eval_dataset={files['scored']}", f"--start_from={start}", "--cache_dir="]


@pytest.mark.slow
def test_the_distributions_of_the_start_are_the_targets(tiny_run, training):
    reader = Reader.load(tiny_run.path)
    config = reader.config
    data = prepare_data(config, training, NO_CACHE, silent)
    assert data.kept.tolist() == [False] * 6 + [True] * 3
    targets = make_targets(data.features, data.spans, data.soft_labels, np.where(data.kept, 1.0, WEIGHT))
    half = data.soft_labels.shape[-1] // 2
    sums = targets["soft_labels"][..., half:].sum(-1)
    np.testing.assert_allclose(sums, np.where(data.kept, 1.0, WEIGHT)[:, None].repeat(2, axis=1), rtol=1e-6)
    # The likeliest start and end, from the reader's own logits.
    for row, scores in enumerate(reader.scores(squad_data((*ARTICLES[1:3], *ARTICLES[3:])))):
        for side, logits in enumerate((scores.start_logits, scores.end_logits)):
            exact = np.exp(logits.astype(np.float64) - logits.max())
            exact /= exact.sum()
            kept = np.sort(exact)[::-1][:half]
            np.testing.assert_allclose(data.soft_labels[row, side, half : 2 * half], kept / kept.sum(), rtol=1e-5)


@pytest.mark.slow
def test_prepared_data_keeps_them(commands, tiny_run, files, training, tmp_path):
    keep = [f"--kept_dataset={files['old']}", "--learning_rate=0.01", "--epochs=1", f"--distillation_weight={WEIGHT}"]
    done = commands("prepare", f"--output={tmp_path / 'arrays'}", *as_flags(files, tiny_run.path), *keep)
    assert done.status == 0, done
    data = load_data(tmp_path / "arrays")
    own = prepare_data(Reader.load(tiny_run.path).config, training, NO_CACHE, silent)
    np.testing.assert_array_equal(data.kept, own.kept)
    np.testing.assert_array_equal(data.soft_labels, own.soft_labels)


@pytest.mark.long
def test_a_share_of_the_start_stays(tiny_run, training, tmp_path):
    share = 0.3
    config = Reader.load(tiny_run.path).config
    # Scored on what it learns, so that the weights before training are not the best.
    training = training.replace(start_share=share, eval_dataset=training.dataset)
    train(tmp_path / "run", config, training, NO_CACHE, log=silent)
    run = RunDirectory(tmp_path / "run")
    model = Reader.load(tiny_run.path).model
    start = {name: np.array(weight) for name, weight in weights_of(model).items()}
    load_weights(run.last, model)
    trained = {name: np.array(weight) for name, weight in weights_of(model).items()}
    state, arrays = run.read_weights()
    assert state["epoch"] == 1
    moved = 0.0
    for name, weight in trained.items():
        np.testing.assert_allclose(arrays[name], (1 - share) * weight + share * start[name], rtol=1e-5, atol=1e-7)
        moved = max(moved, abs(weight - start[name]).max())
    assert moved > 1e-3


@pytest.mark.long
def test_an_adapted_run_resumes_exactly(commands, tiny_run, files, tmp_path):
    # A rate that falls depends on the last epoch, which differs here.
    flags = ["--adapt", f"--kept_dataset={files['old']}", "--batch_size=3", "--linear_decay_epochs=0"]
    weights = []
    for name, epochs in (("whole", [2]), ("parts", [1, 2])):
        run = tmp_path / name
        for number in epochs:
            resume = ["--resume"] if run.exists() else []
            mine = [f"--run_dir={run}", f"--epochs={number}", *resume]
            done = commands("train", *as_flags(files, tiny_run.path), *flags, *mine)
            assert done.status == 0, done
        weights.append(RunDirectory(run).read_weights()[1])
    for name, array in weights[0].items():
        np.testing.assert_array_equal(array, weights[1][name])


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "changed"),
    [([], {}), (["--warmup_steps=5"], {"learning_rate": None, "warmup_steps": 5})],
    ids=["nothing", "schedule"],
)
def test_the_command_sets_what_is_not_given(commands, tiny_run, files, tmp_path, given, changed):
    run = RunDirectory(tmp_path / "run")
    mine = ["--adapt", f"--kept_dataset={files['old']}", "--epochs=1", *given]
    done = commands("train", *as_flags(files, tiny_run.path), *mine, f"--run_dir={run.path}")
    assert done.status == 0, done
    expected = adapting.adapting_settings(null_head=False, epochs=1) | {"kept_dataset": str(files["old"])} | changed
    assert expected["linear_decay_epochs"] == 1
    found = run.read_config()["training"]
    assert {name: found[name] for name in expected} == expected
    assert found["wrong_passages"] == 0
    assert f"{tiny_run.path} reads 9 questions, whose distributions it keeps" in done.stdout
    assert f"the calibration stays that of {tiny_run.path.name}: 4 held-out questions have an answer" in done.stdout


def test_a_reader_that_may_decline_learns_from_wrong_passages():
    assert adapting.adapting_settings(null_head=True)["wrong_passages"] > 0
    assert "wrong_passages" not in adapting.adapting_settings(null_head=False)


def test_it_needs_a_reader(commands, files, tmp_path):
    data = [f"--dataset={files['new']}", f"--run_dir={tmp_path / 'run'}"]
    assert_error(commands, "train", [*data, "--adapt"], ["--adapt", "--start_from"])
    assert_error(commands, "train", [*data, "--kept_dataset=sample"], ["kept_dataset", "start_from", "'sample'"])
    assert_error(commands, "train", [*data, "--start_share=0.5"], ["start_share", "start_from", "0.5"])
    assert_error(commands, "train", [*data, "--start_from=fabir-base", "--start_share=1"], ["start_share", "0.99"])
    mine = [*data, "--start_from=fabir-base", "--adapt"]
    assert_error(commands, "train", [*mine, "--patience=2"], ["--adapt", "--patience=2", "--linear_decay_epochs=0"])
    assert_error(commands, "train", [*mine, "--max_minutes=1.5"], ["--adapt", "--max_minutes=1.5", "last epoch"])
    same = [*mine, f"--kept_dataset={files['new']}"]
    assert_error(commands, "train", same, ["--kept_dataset: ", "new", "expected other questions"])
    missing = [*data, "--start_from=fabir-base", "--adapt", "--kept_dataset=nothing.json"]
    assert_error(commands, "train", missing, "nothing.json: found no such file")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_the_calibration_is_the_starts_or_new(monkeypatch):
    """With fabir-base itself, because a reader of tiny data says nothing sensible."""
    start, said = reader_directory("fabir-base"), []
    held_out = data_without_unanswerable(load_dataset("sample", "dev"))
    reader = Reader.load("fabir-base")
    kept = adapting.adapted_calibration(reader, start, held_out, held_out, True, said.append)
    # The same reader has the same scores, so matching them changes nothing.
    before = Calibration.load(start.calibration)
    assert kept.no_answer.scale == pytest.approx(before.no_answer.scale, rel=1e-6)
    assert kept.no_answer.bias == pytest.approx(before.no_answer.bias, rel=1e-6)
    assert dataclasses.replace(kept, no_answer=before.no_answer) == before
    assert adapting.adapted_calibration(reader, start, None, held_out, True, said.append) == before
    assert f"{len(held_out.questions)} held-out questions have an answer, expected 300" in said[0]
    monkeypatch.setattr(adapting, "FEWEST_QUESTIONS", 10)
    new = adapting.adapted_calibration(reader, start, None, held_out, True, said.append)
    assert new.questions == len(held_out.questions)
    assert 0 < new.no_answer.threshold < 1
    assert new.no_answer.unanswerable_share == pytest.approx(0.5)
    assert said[-1].startswith("new calibration: ")
    answering = adapting.adapted_calibration(reader, start, None, held_out, False, said.append)
    assert answering == calibrate(reader, held_out)


def test_kept_questions_have_the_probabilities_that_they_had():
    random = np.random.default_rng(3)
    before = np.append(random.normal(2, 4, 50), UNREAD_SCORE)
    calibration = NoAnswerCalibration(threshold=0.4, scale=0.25, bias=0.2)
    now = np.where(before > UNREAD_SCORE, (before + 1.5) / 0.8, UNREAD_SCORE)
    found = matched_no_answer(calibration, before, now)
    old = no_answer_probability(before, calibration.scale, calibration.bias)
    np.testing.assert_allclose(no_answer_probability(now, found.scale, found.bias), old, rtol=1e-9)
    assert found.threshold == 0.4
    # With noise, by NumPy's own least squares.
    noisy = now + np.append(random.normal(0, 1, 50), 0)
    slope, shift = np.polyfit(noisy[:50], before[:50], 1)
    found = matched_no_answer(calibration, before, noisy)
    assert (found.scale, found.bias) == pytest.approx((0.25 * slope, 0.2 - 0.25 * shift))


@pytest.mark.parametrize("now", [[1.0, 1.0, 1.0], [3.0, 2.0, 1.0], [UNREAD_SCORE, UNREAD_SCORE, 1.0]])
def test_scores_that_do_not_rise_together_change_nothing(now):
    calibration = NoAnswerCalibration(threshold=0.4, scale=0.25, bias=0.2)
    assert matched_no_answer(calibration, np.array([1.0, 2.0, 3.0]), np.array(now)) == calibration
