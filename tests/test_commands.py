"""The commands without mistakes, on a dozen questions and a model of a few thousand parameters."""

import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, squad_json, write_squad

from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training import run_setup
from fabir_tf.training.run_setup import recorded_training
from fabir_tf.training.training_config import TrainingConfig

QUESTION, PASSAGE = "Who built the tower?", "The tower was built by Karl Wend in 1840, and it was opened in May."


def passed(result):
    assert result.status == 0, result
    return result


def history(run: Path, *, but: str = "seconds") -> list[dict]:
    with open(run / "history.csv", encoding="utf-8") as file:
        return [{name: text for name, text in row.items() if name != but} for row in csv.DictReader(file)]


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "state"}


def assert_equal_checkpoints(first: Path, second: Path):
    expected, found = arrays(first), arrays(second)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.fixture(scope="module")
def two_epochs(commands, tiny_run, tmp_path_factory) -> Path:
    """The same run, but of two epochs in one go."""
    path = tmp_path_factory.mktemp("two") / "run"
    passed(commands("train", *tiny_run.flags, f"--run_dir={path}", "--epochs=2"))
    return path


# fabir-train


def test_a_run_holds_everything_that_it_promises(tiny_run):
    files = {str(path.relative_to(tiny_run.path)) for path in tiny_run.path.rglob("*") if path.is_file()}
    events = {name for name in files if name.startswith("tensorboard/events.out.tfevents.")}
    assert events
    assert files - events == {
        "checkpoints/best.npz",
        "checkpoints/last.npz",
        "config.json",
        "coverage.json",
        "history.csv",
        "model.keras",
        "predictions.json",
        "processor/processor.json",
        "processor/vectors.json",
        "processor/vectors.npy",
        "processor/vectors_words.txt",
        "processor/vocabulary.json",
    }


def test_the_recorded_configuration_is_the_one_asked_for(tiny_run):
    recorded = json.loads((tiny_run.path / "config.json").read_text(encoding="utf-8"))
    model, training = recorded["model"], recorded["training"]
    assert model.pop("name") == "fabir"
    assert (model["d_model"], model["num_layers"], model["frozen_words"]) == (20, 1, 0)
    assert (training["epochs"], training["batch_size"], training["dataset"]) == (1, 5, tiny_run.train)
    assert FabirConfig.from_dict(model).to_dict() == model
    assert TrainingConfig.from_dict(training).to_dict() == training


def test_the_history_starts_before_training(tiny_run):
    before, after = history(tiny_run.path)
    assert list(before) == ["epoch", "step", "loss", "held_out_loss", "accuracy", "exact_match", "f1", "learning_rate"]
    assert (before["epoch"], before["step"], before["loss"]) == ("0", "0", "")
    assert (after["epoch"], after["step"]) == ("1", "4")
    assert 0 < float(after["loss"]) < 100
    assert float(after["learning_rate"]) == pytest.approx(0.5 * 20**-0.5 * 5 * 4000**-1.5, rel=1e-5)


def test_the_coverage_accounts_for_every_question(tiny_run):
    coverage = json.loads((tiny_run.path / "coverage.json").read_text(encoding="utf-8"))
    assert coverage["train"]["total"] == sum(len(article[2]) for article in ARTICLES)
    assert coverage["eval"]["total"] == sum(len(article[2]) for article in DEV_ARTICLES)
    for part in coverage.values():
        assert sum(part["counts"].values()) == part["total"]


def test_the_output_has_the_size_the_score_and_the_next_step(tiny_run):
    for part in (
        "trainable parameters",
        "12 questions to train on, 4 steps per epoch",
        "--warmup_steps=4000: this run has only 4 steps, so its learning rate stays low; try --warmup_steps=4\n",
        "before training:",
        "epoch 1/1:",
        f"fabir-predict --run_dir={tiny_run.path}",
    ):
        assert part in tiny_run.printed


@pytest.mark.slow
def test_one_seed_gives_one_run_and_a_longer_run_starts_alike(tiny_run, two_epochs):
    first, longer = history(tiny_run.path), history(two_epochs)
    assert longer[:2] == first
    assert len(longer) == 3


@pytest.mark.slow
def test_a_run_that_is_over_can_be_made_longer_exactly(commands, tiny_run, two_epochs, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    result = passed(commands("train", *tiny_run.flags, f"--run_dir={run}", "--epochs=2", "--resume"))
    assert "resuming at epoch 2" in result.stdout
    assert history(run) == history(two_epochs)
    assert (run / "predictions.json").read_bytes() == (two_epochs / "predictions.json").read_bytes()
    for name in ("best.npz", "last.npz"):
        assert_equal_checkpoints(two_epochs / "checkpoints" / name, run / "checkpoints" / name)


@pytest.mark.slow
def test_a_run_is_resumed_without_repeating_its_settings(commands, tiny_run, two_epochs, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    passed(commands("train", f"--run_dir={run}", "--epochs=2", "--resume", "--cache_dir="))
    assert history(run) == history(two_epochs)
    assert_equal_checkpoints(two_epochs / "checkpoints" / "last.npz", run / "checkpoints" / "last.npz")


def test_a_resumed_runs_data_may_be_named_in_another_way(tiny_run, monkeypatch):
    run, folder = RunDirectory(tiny_run.path), Path(tiny_run.train).parent
    config, training = run.read_model_config(), recorded_training(run)
    monkeypatch.setenv("HOME", str(folder.parent))
    for dataset in (f"~/{folder.name}/train.json", f"{folder}/./train.json", os.path.relpath(tiny_run.train)):
        assert run_setup._check_run(run, config, training.replace(dataset=dataset), resume=True)
    for dataset in (f"~/{folder.name}/dev.json", "train.json,train.json"):
        with pytest.raises(UserError, match=f"found dataset='{dataset}'"):
            run_setup._check_run(run, config, training.replace(dataset=dataset), resume=True)


@pytest.mark.slow
def test_resuming_a_run_that_is_over_changes_nothing(commands, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    names = ["checkpoints/best.npz", "checkpoints/last.npz", "config.json", "history.csv", "predictions.json"]
    names += ["coverage.json", "processor/processor.json", "processor/vocabulary.json", "processor/vectors.npy"]
    result = passed(commands("train", *tiny_run.flags, f"--run_dir={run}", "--epochs=1", "--resume"))
    assert "epoch 1/1" not in result.stdout
    for name in names:
        assert (run / name).read_bytes() == (tiny_run.path / name).read_bytes(), name


@pytest.mark.slow
def test_a_run_of_older_rules_keeps_them_when_it_is_resumed(commands, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    path = run / "processor" / "processor.json"
    older = json.loads(path.read_text()) | {"rules": 1}
    path.write_text(json.dumps(older))
    result = passed(commands("train", *tiny_run.flags, f"--run_dir={run}", "--epochs=1", "--resume"))
    assert result.stdout.count("text is cut by version 1 of the rules, as it was; new readers have version 2\n") == 1
    assert json.loads(path.read_text()) == older


@pytest.mark.slow
def test_a_new_run_from_the_settings_of_another_with_flags_on_top(commands, tiny_run, tmp_path):
    config = tiny_run.path / "config.json"
    flag_file = tmp_path / "more.flags"
    flag_file.write_text("--seed=5\n--max_answer=7\n")
    flags = ("--epochs=0", "--cache_dir=", f"--flagfile={flag_file}", "--max_answer=9")
    passed(commands("train", f"--config={config}", f"--run_dir={tmp_path / 'run'}", *flags))
    expected = json.loads(config.read_text(encoding="utf-8"))
    expected["training"] |= {"epochs": 0, "seed": 5}
    expected["model"]["max_answer"] = 9
    assert json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8")) == expected
    assert len(history(tmp_path / "run")) == 1


@pytest.mark.slow
def test_settings_may_be_flat_and_flags_may_come_in_any_order(commands, tiny_run, tmp_path):
    settings = {"d_model": 20, "num_heads": 2, "epochs": 5, "clip_norm": 1, "patience": 3}
    (tmp_path / "flat.json").write_text(json.dumps(settings))
    flags = ("--epochs=0", "--patience=none", f"--config={tmp_path / 'flat.json'}", f"--run_dir={tmp_path / 'run'}")
    others = [flag for flag in tiny_run.flags if not flag.startswith(("--d_model", "--num_heads"))]
    passed(commands("train", *flags, *others))
    recorded = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert recorded["model"]["d_model"] == 20
    training = recorded["training"]
    assert (training["epochs"], training["clip_norm"], training["patience"]) == (0, 1.0, None)


@pytest.mark.slow
def test_a_part_of_the_data_is_held_out_without_eval_data(commands, tiny_run, tmp_path):
    # Without the ending .json a file is still a file.
    data = shutil.copy(tiny_run.train, tmp_path / "questions")
    flags = (f"--dataset={data}", "--eval_dataset=", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    result = passed(commands("train", *tiny_run.flags, *flags))
    assert "no --eval_dataset: 3 questions" in result.stdout
    coverage = json.loads((tmp_path / "run" / "coverage.json").read_text(encoding="utf-8"))
    assert (coverage["train"]["total"], coverage["eval"]["total"]) == (9, 3)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_reported(commands, tiny_run, tmp_path):
    (tmp_path / "file").write_text("here stands a file")
    flags = (f"--cache_dir={tmp_path / 'file' / 'cache'}", f"--run_dir={tmp_path / 'run'}", "--epochs=0")
    result = passed(commands("train", *tiny_run.flags, *flags))
    assert "the tokens cannot be cached in" in result.stdout and "continuing without a cache" in result.stdout


@pytest.mark.parametrize("flag", ["--help", "--helpfull"])
def test_help_lists_every_setting(commands, flag):
    done = commands("train", flag)
    assert (done.status, done.stderr) == (0, "")
    text = done.stdout
    assert "Trains a reader on SQuAD or data like it." in text
    for cls in (FabirConfig, TrainingConfig):
        for field in dataclasses.fields(cls):
            is_listed = f"--{field.name}:" in text or f"--[no]{field.name}:" in text
            assert is_listed != field.metadata["derived"], field.name
    assert "--[no]resume:" in text and "--run_dir:" in text and "--cache_dir:" in text


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_help_of_the_other_commands(commands, command):
    text = commands(command, "--help").stdout
    assert f"fabir-{command} --run_dir=runs/base" in text
    assert "--run_dir:" in text and "--max_passage:" in text and "--output_file:" in text


# fabir-evaluate


def test_a_run_and_its_predictions_have_one_score(commands, tiny_run, tmp_path):
    output, report = tmp_path / "new" / "predictions.json", tmp_path / "report.json"
    data = f"--dataset={tiny_run.dev}"
    flags = (f"--run_dir={tiny_run.path}", f"--output_file={output}", f"--report_file={report}", "--cache_dir=")
    scored = json.loads(passed(commands("evaluate", data, *flags)).stdout)
    assert json.loads(report.read_text(encoding="utf-8")) == scored
    assert scored.keys() == {"exact_match", "f1", "total", "questions_per_second"}
    assert scored["total"] == 4 and scored["questions_per_second"] > 0
    best = max(history(tiny_run.path), key=lambda row: float(row["f1"]))
    assert (scored["exact_match"], scored["f1"]) == (float(best["exact_match"]), float(best["f1"]))

    predictions = json.loads(output.read_text(encoding="utf-8"))
    assert predictions == json.loads((tiny_run.path / "predictions.json").read_text(encoding="utf-8"))
    passages = {title: passage for title, passage, _ in DEV_ARTICLES}
    assert predictions.keys() == {"Tower-0", "Tower-1", "Fox-0", "Fox-1"}
    for identifier, text in predictions.items():
        assert text and text in passages[identifier.split("-")[0]]

    again = json.loads(passed(commands("evaluate", data, f"--predictions_file={output}")).stdout)
    del scored["questions_per_second"]
    assert again == scored | {"missing": 0}


def test_what_cannot_be_read_has_no_answer_and_another_script_is_said_once(commands, tiny_run):
    passages = ["安娜建了磨坊。", "Anna built it.", "แอนนา", "アンナ"]
    lines = [json.dumps({"question": "Who?", "passage": passage}) for passage in passages]
    result = passed(commands("predict", f"--run_dir={tiny_run.path}", "--input_file=-", stdin="\n".join(lines)))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["is_answer"] for answer in answers] == [False, True, False, False]
    assert {(answer["answer"], answer["probability"]) for answer in answers if not answer["is_answer"]} == {("", 0.0)}
    assert result.stderr.count("this reader reads English") == 1


def test_a_blank_text_is_an_error_of_its_line(commands, tiny_run):
    asked = [("Who?", "..."), ("Who?", "\u200b"), ("?!", "Anna built it."), ("Who?", "Anna built it.")]
    lines = [json.dumps({"question": question, "passage": passage}) for question, passage in asked]
    result = passed(commands("predict", f"--run_dir={tiny_run.path}", "--input_file=-", stdin="\n".join(lines)))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer.get("error") for answer in answers] == [
        "standard input: line 1: passage is the text '...', expected a text with a letter or digit.",
        "standard input: line 2: passage is the text '\\u200b', expected a text with a letter or digit.",
        "standard input: line 3: question is the text '?!', expected a text with a letter or digit.",
        None,
    ]


def test_missing_predictions_are_counted(commands, tiny_run, tmp_path):
    (tmp_path / "one.json").write_text('{"Tower-0": "Karl Wend", "unknown": "x"}')
    flags = (f"--dataset={tiny_run.dev}", f"--predictions_file={tmp_path / 'one.json'}")
    scored = json.loads(passed(commands("evaluate", *flags)).stdout)
    assert scored == {"exact_match": 25.0, "f1": 25.0, "total": 4, "missing": 3}


@pytest.mark.slow
def test_unanswerable_questions_are_scored_as_squad_2(commands, tiny_run, tmp_path):
    data = squad_json(DEV_ARTICLES)
    data["data"][1]["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
    (tmp_path / "v2.json").write_text(json.dumps(data))
    flags = (f"--run_dir={tiny_run.path}", f"--dataset={tmp_path / 'v2.json'}", "--cache_dir=")
    scored = json.loads(passed(commands("evaluate", *flags)).stdout)
    assert scored["total"] == 4 and (scored["HasAns_total"], scored["NoAns_total"]) == (3, 1)
    # A reader that answers everything can at best be stopped from answering that one.
    assert scored["NoAns_f1"] == 0 and scored["best_f1"] >= max(scored["f1"], 25)


def test_the_bundled_sample_is_there_for_every_command(commands, tmp_path):
    (tmp_path / "none.json").write_text("{}")
    scored = json.loads(
        passed(commands("evaluate", "--dataset=sample", f"--predictions_file={tmp_path / 'none.json'}")).stdout
    )
    assert scored["total"] == scored["missing"] > 100


# fabir-predict


@pytest.mark.slow
def test_every_way_of_asking_gives_the_same_answer(commands, tiny_run, tmp_path):
    run = f"--run_dir={tiny_run.path}"
    asked = passed(commands("predict", run, f"--question={QUESTION}", f"--passage={PASSAGE}"))
    (line,) = asked.stdout.splitlines()
    answer = json.loads(line)
    keys = ["id", "answer", "start", "end", "probability", "no_answer_probability", "is_answer", "score", "n_best"]
    assert list(answer) == keys
    assert answer.pop("id") == "1"
    assert PASSAGE[answer["start"] : answer["end"]] == answer["answer"]
    assert 0 < answer["probability"] <= 1
    # Without a null head a reader always answers.
    assert answer["is_answer"] is True
    assert answer["no_answer_probability"] == pytest.approx(1 - answer["probability"], abs=1e-6)
    assert answer["n_best"] == [{name: answer[name] for name in ("answer", "start", "end", "probability")}]

    records = [
        {"id": "a", "question": QUESTION, "passage": PASSAGE},
        {"question": QUESTION, "context": PASSAGE},
        {"id": 7, "question": "Where?", "passage": "Dünen – 😀 – Lake Orrin lies north of Dunmere."},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "questions.jsonl").write_text(lines)
    piped = passed(commands("predict", run, "--input_file=-", stdin=lines)).stdout
    output = tmp_path / "answers" / "out.jsonl"
    done = passed(commands("predict", run, f"--input_file={tmp_path / 'questions.jsonl'}", f"--output_file={output}"))
    assert not done.stdout and output.read_text(encoding="utf-8") == piped
    answers = [json.loads(line) for line in piped.splitlines()]
    assert [found.pop("id") for found in answers] == ["a", "2", 7]
    for found in answers[:2]:
        for name in ("probability", "no_answer_probability", "score"):
            assert found.pop(name) == pytest.approx(answer[name], rel=1e-4, abs=1e-6)
        assert found.items() <= (answer | {"n_best": found["n_best"]}).items()
    unicode = answers[2]
    assert records[2]["passage"][unicode["start"] : unicode["end"]] == unicode["answer"]

    squad = passed(commands("predict", run, f"--input_file={tiny_run.dev}")).stdout
    by_id = {found["id"]: found["answer"] for found in map(json.loads, squad.splitlines())}
    assert by_id == json.loads((tiny_run.path / "predictions.json").read_text(encoding="utf-8"))
    assert Reader.load(tiny_run.path).answer(QUESTION, PASSAGE).text == answer["answer"]


@pytest.mark.slow
def test_the_best_answers_are_distinct_and_in_order(commands, tiny_run):
    flags = (f"--run_dir={tiny_run.path}", f"--question={QUESTION}", f"--passage={PASSAGE}")
    answer = json.loads(passed(commands("predict", *flags, "--n_best=4")).stdout)
    spans = answer["n_best"]
    assert len(spans) == 4 and {name: answer[name] for name in spans[0]} == spans[0]
    assert len({(span["start"], span["end"]) for span in spans}) == 4
    probabilities = [span["probability"] for span in spans]
    assert probabilities == sorted(probabilities, reverse=True) and sum(probabilities) <= 1 + 1e-6
    for span in spans:
        assert PASSAGE[span["start"] : span["end"]] == span["answer"]


@pytest.mark.slow
def test_more_answers_than_there_are_spans(commands, tiny_run):
    flags = (f"--run_dir={tiny_run.path}", "--question=Who?", "--passage=Anna Keld.", "--n_best=1000")
    spans = json.loads(passed(commands("predict", *flags)).stdout)["n_best"]
    assert sorted(span["answer"] for span in spans) == [".", "Anna", "Anna Keld", "Anna Keld.", "Keld", "Keld."]
    assert sum(span["probability"] for span in spans) <= 1 + 1e-6


@pytest.mark.slow
def test_a_long_passage_is_read_in_windows(commands, tiny_run):
    passage = " ".join(f"Word {number} ." for number in range(40)) + " " + PASSAGE
    flags = (f"--run_dir={tiny_run.path}", f"--question={QUESTION}", f"--passage={passage}", "--max_passage=50")
    answer = json.loads(passed(commands("predict", *flags)).stdout)
    assert passage[answer["start"] : answer["end"]] == answer["answer"] != ""


@pytest.mark.slow
def test_bytes_that_are_no_text_come_back_as_they_went_in(commands, tiny_run):
    # An argument that is not UTF-8 reaches Python as lone surrogates.
    flags = (f"--run_dir={tiny_run.path}", "--question=Who\udcff?", "--passage=Anna\udcff")
    answer = passed(commands("predict", *flags)).stdout
    assert '"start": 0, "end": 5' in answer


@pytest.mark.slow
def test_a_reader_of_the_output_may_leave_early(commands, tiny_run):
    result = commands("predict", f"--run_dir={tiny_run.path}", f"--input_file={tiny_run.dev}", stdout="closed")
    assert result.status == 1
    for word in ("Traceback", "Exception", "\nerror: "):
        assert word not in result.stderr


# Outside of the commands


@pytest.mark.slow
def test_the_keras_file_needs_nothing_but_the_import(tiny_run):
    program = """
import sys
import fabir_tf
import keras
import numpy as np
model = keras.models.load_model(sys.argv[1])
inputs = {t.name: np.ones([2, 7, *t.shape[2:]], "int32") for t in model.inputs}
outputs = model.predict(inputs, verbose=0)
np.savez(sys.argv[2], **outputs)
"""
    target = tiny_run.path.parent / "outputs.npz"
    done = subprocess.run(
        [sys.executable, "-c", program, tiny_run.path / "model.keras", target],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    model = Reader.load(tiny_run.path).model
    inputs = {t.name: np.ones([2, 7, *t.shape[2:]], "int32") for t in model.inputs}
    expected = model(inputs, training=False)
    with np.load(target) as outputs:
        for name in ("start_logits", "end_logits"):
            np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_installed_command_answers(tiny_run, tmp_path):
    script = Path(sys.executable).with_name("fabir-predict")
    if not script.exists():
        pytest.skip("needs the package installed with pip")
    path = write_squad(tmp_path / "dev.json", DEV_ARTICLES)
    done = subprocess.run(
        [script, f"--run_dir={tiny_run.path}", "--input_file=-"],
        input=Path(path).read_text(encoding="utf-8"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == ["Tower-0", "Tower-1", "Fox-0", "Fox-1"]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("high", ["--no_answer_threshold=high", "a number from 0 to 1, or none"]),
        ("1.5", ["--no_answer_threshold=1.5", "a number from 0 to 1, or none"]),
        ("nan", ["--no_answer_threshold=nan", "a number from 0 to 1, or none"]),
    ],
)
def test_thresholds_that_do_not_fit(commands, value, parts):
    flags = ["--model=fabir-base", f"--no_answer_threshold={value}", "--question=Who?", "--passage=Ada came."]
    assert_error(commands, "predict", flags, parts)


def test_a_threshold_needs_a_null_head(commands, tiny_run):
    flags = [f"--run_dir={tiny_run.path}", "--no_answer_threshold=0.5", "--question=Who?", "--passage=Ada came."]
    assert_error(commands, "predict", flags, ["no_answer_threshold=0.5", "no null head"])


def test_a_reader_may_be_told_to_answer_always(commands):
    flags = ["--model=fabir-base", "--question=Who came?", "--passage=Ada came."]
    declined, told = (commands("predict", *flags, *more) for more in ([], ["--no_answer_threshold=none"]))
    assert declined.status == 0 and json.loads(declined.stdout)["answer"] == "", declined
    assert told.status == 0 and json.loads(told.stdout)["answer"] == "Ada came.", told
