"""What version 0.1 wrote: small readers of every model and variant, made by commit dbf94ce, give the same answers."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from test_bad_input import assert_error

import fabir_tf
from fabir_tf.configuration import ConfigError
from fabir_tf.models import MODELS, model_name
from fabir_tf.pipelines.datasets.records import read_records
from fabir_tf.reading.packing import pack
from fabir_tf.renamed_settings import renamed_flag_error, translate_settings

OLD = Path(__file__).parent / "fixtures" / "0.1"
RUNS = sorted(path.parent.name for path in OLD.glob("*/model.keras"))
# Readers that came later.
NEW_MODELS = {"bidaf-cheung", "bert-span"}


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answers_of(reader, n_best=3):
    records = list(read_records(OLD / "questions.jsonl"))
    return reader.answer_batch([r.question for r in records], [r.passage for r in records], n_best)


def assert_same(answers, path):
    """The answers are those that version 0.1 gave; it wrote `n_best` and nothing about "no answer"."""
    expected = read_lines(path)
    assert len(answers) == len(expected) > 10
    for answer, old in zip(answers, expected, strict=True):
        assert (answer.text, answer.start, answer.end) == (old["answer"], old["start"], old["end"])
        assert answer.is_answer
        assert [span.probability for span in answer.n_best] == pytest.approx(
            [span["probability"] for span in old["n_best"]], abs=1e-5
        )


def test_there_is_a_run_of_every_model_and_variant():
    configs = [fabir_tf.reading.run_directory.RunDirectory(OLD / name).read_model_config() for name in RUNS]
    assert {model_name(config) for config in configs} == set(MODELS) - NEW_MODELS
    assert {config.variant for config in configs if hasattr(config, "variant")} == set(range(5))
    for field in ("reduction", "selector", "start_layer", "attention_kernel", "attention_depthwise", "interaction"):
        values = {getattr(config, field) for config in configs if hasattr(config, field)}
        assert len(values) > 1, field


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_weights_and_settings_of_its_keras_file(name):
    """Weights are found by their order in the one and by their names in the other."""
    reader, model = fabir_tf.Reader.load(OLD / name), keras.models.load_model(OLD / name / "model.keras")
    assert [weight.path for weight in reader.model.weights] == [weight.path for weight in model.weights]
    for weight, expected in zip(reader.model.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected, err_msg=weight.path)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_same_answers(name):
    assert_same(answers_of(fabir_tf.Reader.load(OLD / name)), OLD / name / "answers.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_keras_file_gives_the_same_logits(name):
    model = keras.models.load_model(OLD / name / "model.keras")
    with np.load(OLD / name / "logits.npz") as file:
        arrays = dict(file)
    found = model({tensor.name: arrays[tensor.name] for tensor in model.inputs}, training=False)
    for output in ("start_logits", "end_logits"):
        np.testing.assert_allclose(found[output], arrays[output], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fabir", "fabir_linear", "bidaf-porwal"])
def test_a_keras_file_can_be_saved_again(name, tmp_path):
    model = keras.models.load_model(OLD / name / "model.keras")
    model.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    for weight, expected in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.slow
def test_a_packed_reader_gives_the_same_answers():
    reader = fabir_tf.Reader.load(OLD / "packed")
    assert reader.calibration is not None and reader.no_answer_threshold is None
    assert_same(answers_of(reader), OLD / "packed_answers.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fabir", "bidaf-bologna_4"])
def test_a_run_is_packed_into_the_new_form(name, tmp_path):
    packed = pack(OLD / name, tmp_path / "packed", max_words=100)
    assert (packed / "processor" / "processor.json").exists()
    with np.load(packed / "checkpoints" / "best.npz") as file:
        assert not [name for name in file.files if name.startswith("model/") and name.split("/")[1].isdecimal()]
    # Vectors are rounded to 8 bits, which may move a probability a little and an answer hardly.
    answers, expected = answers_of(fabir_tf.Reader.load(packed)), answers_of(fabir_tf.Reader.load(OLD / name))
    for answer, old in zip(answers, expected, strict=True):
        assert answer.probability == pytest.approx(old.probability, abs=0.02)


@pytest.mark.slow
def test_commands_read_an_old_run(commands, tmp_path):
    run = OLD / "fabir_word_match"
    scores = commands("evaluate", f"--run_dir={run}", f"--dataset={OLD / 'dev.json'}", "--cache_dir=")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] == 4, scores
    exported = commands("export", f"--run_dir={run}", f"--export_dir={tmp_path / 'e'}", "--calibration_dataset=none")
    assert exported.status == 0, exported


@pytest.mark.slow
def test_training_starts_from_an_old_run(commands, tmp_path):
    data = (f"--dataset={OLD / 'train.json'}", f"--eval_dataset={OLD / 'dev.json'}", "--cache_dir=", "--batch_size=5")
    run = tmp_path / "run"
    result = commands("train", f"--start_from={OLD / 'fabir'}", f"--run_dir={run}", *data, "--epochs=0")
    assert result.status == 0, result
    assert_same(answers_of(fabir_tf.Reader.load(run)), OLD / "fabir" / "answers.jsonl")


@pytest.mark.slow
def test_a_null_head_starts_fresh_on_an_old_run(commands, tmp_path):
    """One line lists the layers that the old reader lacks; the others have its weights."""
    data = (f"--dataset={OLD / 'train.json'}", f"--eval_dataset={OLD / 'dev.json'}", "--cache_dir=", "--batch_size=5")
    run = tmp_path / "run"
    flags = (f"--start_from={OLD / 'fabir'}", f"--run_dir={run}", *data, "--epochs=0", "--null_head")
    result = commands("train", *flags)
    assert result.status == 0, result
    assert "it lacks null_head, which start with new weights" in result.stdout
    answers = answers_of(fabir_tf.Reader.load(run))
    expected = read_lines(OLD / "fabir" / "answers.jsonl")
    assert [answer.n_best[0].text for answer in answers] == [old["answer"] for old in expected]
    assert all(0 < answer.no_answer_probability < 1 for answer in answers)


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_resuming_an_old_run_is_refused(commands, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(OLD / "fabir", run)
    before = contents(run)
    flags = [f"--run_dir={run}", f"--dataset={OLD / 'train.json'}", f"--eval_dataset={OLD / 'dev.json'}", "--resume"]
    assert_error(commands, "train", [*flags, "--cache_dir="], ["version 0.1", "cannot resume", f"--start_from={run}"])
    assert contents(run) == before


def test_prepared_data_and_teachers_of_0_1_are_refused(commands, tmp_path):
    run = f"--run_dir={tmp_path / 'run'}"
    assert_error(commands, "train", [run, f"--prepared={OLD / 'prepared'}"], ["version 0.1", "fabir-prepare"])
    data = [f"--dataset={OLD / 'train.json'}", f"--eval_dataset={OLD / 'dev.json'}", "--cache_dir=", "--vectors=none"]
    flags = [run, *data, f"--teacher={OLD / 'teacher.npz'}", "--min_character_count=1"]
    assert_error(commands, "train", flags, ["teacher.npz", "version 0.1", "fabir-teach"])
    assert not (tmp_path / "run").exists()


# === Settings and flags ===


def test_settings_get_their_new_names_and_values():
    old = {"input_keep": 0.9, "cross_attention_start": "independent", "sublayer_start": 1.0, "d_model": 20}
    new = {"input_dropout": 0.1, "shared_query_key_init": False, "residual_init_scale": 1.0, "d_model": 20}
    assert translate_settings(old) == new
    assert translate_settings(new) == new


def test_a_setting_of_the_wrong_type_is_left_to_the_configuration():
    with pytest.raises(ConfigError, match="input_dropout must be of type float, found 'much'"):
        fabir_tf.FabirConfig.from_dict(translate_settings({"input_keep": "much"}))


@pytest.mark.parametrize(
    ("argument", "new"),
    [
        ("--input_keep=0.9", "--input_dropout=0.1"),
        ("--word_keep=1", "--word_dropout=0"),
        ("-keep=0.8", "--dropout=0.2"),
        ("--sublayer_start=0.5", "--residual_init_scale=0.5"),
        ("--cross_attention_start=matching", "--shared_query_key_init=true"),
        ("--cross_attention_start=independent", "--shared_query_key_init=false"),
        ("--smoothing_amount=0.2", "--label_smoothing=0.2"),
        ("--length_groups=5", "--length_buckets=5"),
        ("--teacher_share=0.7", "--distillation_weight=0.7"),
        ("--first_position", "--position_offset"),
    ],
)
def test_an_old_flag_names_the_new_one(argument, new):
    old = argument.lstrip("-").partition("=")[0]
    assert renamed_flag_error(["--epochs=3", argument]) == f"--{old} was renamed in version 0.2: use {new} instead"
    assert renamed_flag_error([new, "--input_dropout=0.1", "keep", "--keep_going=1"]) == ""


def test_an_old_flag_is_refused_by_a_command(commands, tmp_path):
    flag_file = tmp_path / "old.flags"
    flag_file.write_text("# A comment.\n--epochs=1\n--attention_keep=0.75\n")
    assert_error(commands, "train", ["--run_dir=x", "--input_keep=0.9"], ["--input_keep", "--input_dropout=0.1"])
    assert_error(commands, "train", ["--run_dir=x", f"--flagfile={flag_file}"], ["--attention_dropout=0.25"])
