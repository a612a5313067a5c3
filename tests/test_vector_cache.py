"""Vectors of a frozen word model that are computed once: the same logits, few files, interrupted and damaged ones."""

import json
import os
import threading

import bilm_folders
import keras
import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, squad_data, write_squad
from wordpiece_folders import POSITIONS, write_bert

import fabir_tf
from fabir_tf.backends import backend
from fabir_tf.models.bidaf_cheung import BidafCheungConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.array_batches import array_batches
from fabir_tf.pipelines.features.features import Segments
from fabir_tf.pipelines.features.rows_on_disk import RowsOnDisk
from fabir_tf.pipelines.features.tensor_batches import make_batches
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.files import WriteError
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.training import vector_cache
from fabir_tf.training.vector_cache import with_kept_vectors

MODELS = ("elmo", "bert", "bert-words")


@pytest.fixture(scope="module", params=MODELS)
def config(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "elmo":
        given = {"word_model": str(bilm_folders.write_folder(folder))}
    else:
        given = {"word_model": str(write_bert(folder / "bert")), "max_sequence": POSITIONS}
        given |= {"pool_words": request.param == "bert-words"}
    return BidafCheungConfig(word_vectors=request.param.split("-")[0], units=5, **given).completed()


@pytest.fixture(scope="module")
def model(config):
    keras.utils.set_random_seed(5)
    model = fabir_tf.build_model(config)
    config.initialize(model)
    return model


@pytest.fixture(scope="module")
def features(config):
    """Passages with several questions, windows of a longer one, and an empty passage."""
    texts = [*ARTICLES, ("Long", " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES), ARTICLES[0][2])]
    data = squad_data(texts)
    processor = PROCESSORS[config.processor].create(config.to_dict())
    tokenized = processor.tokenize(data)
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    found = processor.features(tokenized, reading_examples(lengths, np.full(len(lengths), 24)))
    empty = found.segments["passage"].lengths.copy()
    empty[1] = 0
    found.segments["passage"] = Segments(found.segments["passage"].starts, empty)
    return found


def kept(features, config, model, folder, seconds=30.0):
    lines = []
    found = with_kept_vectors(features, config.frozen_part(model), str(folder), lines.append, seconds)
    return found, lines


def logits(trainer, features, batches):
    targets = {"number": np.arange(len(features))}
    found = [trainer(inputs, training=True) for inputs, _ in make_batches(features, batches, targets)]
    return [{name: np.asarray(values) for name, values in part.items()} for part in found]


# === What is computed ===


@pytest.mark.long
def test_training_computes_the_same_logits(config, model, features, tmp_path):
    cached, lines = kept(features, config, model, tmp_path)
    assert isinstance(cached.unique["vectors"], RowsOnDisk)
    assert "are computed once" in lines[0] and " GB are free" in lines[0]
    batches = [np.arange(5), np.array([len(features) - 1, 2, 1]), np.arange(len(features))]
    whole = logits(backend.trainer(model), features, batches)
    rest = logits(backend.trainer(model, config.frozen_part(model).rest), cached, batches)
    for one, other, batch in zip(whole, rest, batches, strict=True):
        assert one.keys() == other.keys()
        for name, values in one.items():
            assert values.shape == other[name].shape
            for row, length in enumerate(features.passage_lengths[batch]):
                real = slice(None if name == "null_logits" else length)
                np.testing.assert_allclose(other[name][row, real], values[row, real], rtol=2e-3, atol=2e-3)


@pytest.mark.long
def test_the_vectors_are_the_word_models_rounded_to_half_precision(config, model, features, tmp_path):
    cached, _ = kept(features, config, model, tmp_path)
    text_model = config.frozen_part(model).text_model
    values = features.unique[text_model.inputs[0].name]
    for text in ("passage", "question"):
        ours, theirs = cached.segments[text], features.segments[text]
        # Some of them: the word model takes a second for each.
        for row in range(0, len(features), 5):
            tokens = features.tokens[theirs.starts[row] :][: theirs.lengths[row]]
            if len(tokens):
                expected = np.asarray(text_model(values[tokens][None]))[0]
                found = cached.unique["vectors"][cached.tokens[ours.starts[row] :][: ours.lengths[row]]]
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert not cached.unique["vectors"][np.array([0])].any() and not cached.unique["mask"][0]


def test_each_distinct_text_is_kept_once(config, model, features, tmp_path):
    cached, _ = kept(features, config, model, tmp_path)
    distinct = {
        pair
        for part in features.segments.values()
        for pair in zip(part.starts.tolist(), part.lengths.tolist(), strict=True)
    }
    assert len(cached.unique["vectors"]) == 1 + sum(length for _, length in distinct)


def test_only_what_is_trained_is_trained(config, model):
    whole, rest = backend.trainer(model), backend.trainer(model, config.frozen_part(model).rest)
    for name in ("trainable_variables", "variables"):
        assert [part.path for part in getattr(rest, name)] == [part.path for part in getattr(whole, name)]


def test_arrays_for_other_backends_are_the_same(config, model, features, tmp_path):
    cached, _ = kept(features, config, model, tmp_path)
    batch = np.arange(4)
    (inputs,) = next(array_batches(cached, [batch]))
    tensors, _ = next(iter(make_batches(cached, [batch], {})))
    # Passages come in another order.
    index, other = inputs["question_token_index"], np.asarray(tensors["question_token_index"])
    rows, width = len(other), min(index.shape[1], other.shape[1])
    for part in ("vectors", "mask"):
        found = inputs[f"unique_{part}"][index[:rows, :width]]
        expected = np.asarray(tensors[f"unique_{part}"])[other[:, :width]]
        np.testing.assert_array_equal(found, expected)


# === Files ===


def test_a_second_training_computes_nothing(config, model, features, tmp_path, monkeypatch):
    first, _ = kept(features, config, model, tmp_path)
    monkeypatch.setattr(vector_cache._Computation, "_vectors_of", None)
    again, lines = kept(features, config, model, tmp_path)
    everything = np.arange(len(first.unique["vectors"]))
    np.testing.assert_array_equal(again.unique["vectors"][everything], first.unique["vectors"][everything])
    assert len(lines) == 1 and "were computed before" in lines[0]


def test_an_interrupted_computation_goes_on(config, model, features, tmp_path, monkeypatch):
    whole, _ = kept(features, config, model, tmp_path / "whole")
    compute, calls = vector_cache._Computation._vectors_of, []

    def interrupted(self, batch):
        calls.append(len(batch))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return compute(self, batch)

    monkeypatch.setattr(vector_cache, "BATCH_TOKENS", 64)
    monkeypatch.setattr(vector_cache._Computation, "_vectors_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept(features, config, model, tmp_path / "parts", seconds=0.0)
    done, calls[:] = sum(calls[:3]), [0] * 4
    resumed, lines = kept(features, config, model, tmp_path / "parts", seconds=0.0)
    assert f"{done:,} of " in lines[0]
    everything = np.arange(len(whole.unique["vectors"]))
    np.testing.assert_allclose(
        resumed.unique["vectors"][everything], whole.unique["vectors"][everything], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("config", ["bert"], indirect=True)
def test_a_second_training_at_the_same_time_waits(config, model, features, tmp_path, monkeypatch):
    """It neither empties the file of the first nor computes the same."""
    whole, _ = kept(features, config, model, tmp_path / "whole")
    compute, waits, done = vector_cache._Computation._vectors_of, threading.Event(), []

    def slow(self, batch):
        done.append(len(batch))
        # The second begins after the first has written something, and before it has noted anything.
        if len(done) == 2:
            second.start()
            assert waits.wait(60)
        return compute(self, batch)

    def train_too():
        lines = []
        log = lambda line: (lines.append(line), "waiting" in line and waits.set())  # noqa: E731
        found.append(with_kept_vectors(features, config.frozen_part(model), str(tmp_path / "both"), log))
        found.append(lines)

    found, second = [], threading.Thread(target=train_too)
    monkeypatch.setattr(vector_cache, "BATCH_TOKENS", 64)
    monkeypatch.setattr(vector_cache, "SECONDS_OF_WAITING", 0.05)
    monkeypatch.setattr(vector_cache._Computation, "_vectors_of", slow)
    first, _ = kept(features, config, model, tmp_path / "both")
    batches = len(done)
    second.join(60)
    assert len(done) == batches, "the second has computed vectors, too"
    assert f"process {os.getpid()} computes these vectors; waiting for it" in found[1][0]
    everything = np.arange(len(whole.unique["vectors"]))
    expected = whole.unique["vectors"][everything]
    for part in (first, found[0]):
        np.testing.assert_allclose(part.unique["vectors"][everything], expected, rtol=1e-3, atol=1e-3)
    assert not list(tmp_path.glob("both/*.lock"))


def test_other_weights_have_other_files(config, model, features, tmp_path):
    kept(features, config, model, tmp_path)
    weight = config.frozen_part(model).text_model.weights[0]
    before = np.asarray(weight).copy()
    try:
        weight.assign(before + 1)
        _, lines = kept(features, config, model, tmp_path)
    finally:
        weight.assign(before)
    assert len(lines) > 1
    assert len(list(tmp_path.glob("vectors-*.npy"))) == 2


def test_damaged_files_are_named(config, model, features, tmp_path):
    kept(features, config, model, tmp_path)
    (array,), (progress,) = tmp_path.glob("*.npy"), tmp_path.glob("*.json")
    array.write_bytes(array.read_bytes()[:-1])
    with pytest.raises(UserError, match=f"{array.name}: found no whole array .*remove it"):
        kept(features, config, model, tmp_path)
    np.save(array, np.zeros((3, 2)))
    with pytest.raises(UserError, match=r"found an array \(3, 2\) of float64, expected .* of float16"):
        kept(features, config, model, tmp_path)
    for content in ({"texts": -1}, {"texts": 10**9}, {"texts": True}, [], {}):
        progress.write_text(json.dumps(content))
        with pytest.raises(UserError, match=f"{progress.name}: found .*expected how many"):
            kept(features, config, model, tmp_path)
    progress.unlink()
    assert kept(features, config, model, tmp_path)[1][-1].endswith("are computed")


def test_a_full_disk_is_told_before_anything_is_computed(config, model, features, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache.shutil, "disk_usage", lambda path: type("", (), {"free": 10})())
    with pytest.raises(UserError, match=r"found 0\.00 GB of free space, expected"):
        kept(features, config, model, tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(WriteError) as caught:
        kept(features, config, model, tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.filename and caught.value.strerror


# === The command ===


@pytest.fixture(scope="module")
def flags(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    train, dev = write_squad(folder / "train.json", ARTICLES), write_squad(folder / "dev.json", DEV_ARTICLES)
    return (
        *("--model=bidaf-cheung", f"--word_vectors={config.word_vectors}", f"--word_model={config.word_model}"),
        *("--units=5", f"--max_sequence={config.max_sequence}", "--batch_size=6", "--learning_rate=0.01"),
        *(f"--dataset={train}", f"--eval_dataset={dev}", "--cache_dir="),
    )


def losses(run):
    return [float(line.split(",")[2]) for line in (run / "history.csv").read_text().splitlines()[2:]]


@pytest.mark.long
@pytest.mark.parametrize("config", ["elmo", "bert-words"], indirect=True)
def test_a_training_with_the_cache_learns_the_same(commands, flags, tmp_path):
    cache = f"--vector_cache={tmp_path / 'cache'}"
    plain, cached = tmp_path / "plain", tmp_path / "cached"
    for run, more in ((plain, []), (cached, [cache])):
        done = commands("train", f"--run_dir={run}", *flags, "--epochs=3", *more)
        assert done.status == 0, done
    assert "are computed once" in done.stdout
    np.testing.assert_allclose(losses(cached), losses(plain), rtol=5e-3)
    # An interrupted one goes on as if it had not been.
    parts = tmp_path / "parts"
    assert commands("train", f"--run_dir={parts}", *flags, "--epochs=3", "--max_steps=2", cache).status == 0
    resumed = commands("train", f"--run_dir={parts}", *flags, "--epochs=3", "--max_steps=1000", "--resume", cache)
    assert resumed.status == 0 and "were computed before" in resumed.stdout, resumed
    assert losses(parts)[-1] == pytest.approx(losses(cached)[-1], rel=1e-6)
    assert "not exact" not in resumed.stdout
    without = commands("train", f"--run_dir={parts}", *flags, "--epochs=3", "--max_steps=1001", "--resume")
    told = "the run was trained with --vector_cache, which rounds, and goes on without --vector_cache"
    assert without.status == 0 and told in without.stdout, without
    answer = commands("predict", f"--run_dir={cached}", "--question=Who built it?", "--passage=Karl Wend built it.")
    assert answer.status == 0, answer


@pytest.mark.slow
@pytest.mark.parametrize("config", ["elmo", "bert"], indirect=True)
def test_the_cache_needs_a_frozen_word_model(commands, flags, tmp_path):
    run, cache = f"--run_dir={tmp_path / 'run'}", f"--vector_cache={tmp_path / 'cache'}"
    assert_error(commands, "train", [run, *flags[6:], cache], ["--vector_cache", "without a frozen word model"])
    tuned = [run, *flags, cache, "--tune_word_model"]
    expected = "without a frozen word model" if "--word_vectors=bert" in flags else "tune_word_model needs"
    assert_error(commands, "train", tuned, [expected])
    several = [run, *flags, cache, "--distribution=mirrored", "--logical_devices=2"]
    assert_error(commands, "train", several, ["--vector_cache", "expected one device"])
    assert not (tmp_path / "cache").exists()
    (tmp_path / "file").touch()
    assert_error(commands, "train", [run, *flags, f"--vector_cache={tmp_path / 'file'}"], [str(tmp_path / "file")])
    assert not (tmp_path / "run").exists()
