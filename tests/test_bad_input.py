"""Every mistake of a user ends a command with one sentence, and changes nothing that was there before."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import CommandLines
from tiny import ARTICLES, DEV_ARTICLES, squad_json, write_squad

CHANGED_ANSWER = squad_json(ARTICLES)
CHANGED_ANSWER["data"][0]["paragraphs"][0]["qas"][1]["answers"][0]["answer_start"] = 3
VERSION_2 = squad_json(ARTICLES)
VERSION_2["data"][1]["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
TEXTS = {
    "list.json": "[]",
    "number.json": "3",
    "empty.json": "",
    "blank.json": " \n\n",
    "one_line.json": '{"id": "Mill-0", "best_span_str": "Anna Keld"}\n',
    "no_questions.json": '{"data": []}',
    "no_context.json": '{"data": [{"title": "A", "paragraphs": [{"qas": []}]}]}',
    "no_answers.json": '{"data": [{"paragraphs": [{"context": "C", "qas": [{"id": "q", "question": "Q"}]}]}]}',
    "text_offset.json": json.dumps(CHANGED_ANSWER).replace('"answer_start": 3}', '"answer_start": "3"}'),
    "offset.json": json.dumps(CHANGED_ANSWER),
    "one_passage.json": json.dumps(squad_json(ARTICLES[:1])),
    "cut.json": json.dumps(squad_json(ARTICLES), indent=1)[:500],
    "broken_line.txt": "the 1 2 3\nmill 1 2\nlake 1 2 3\n",
    "no_number.txt": "the 1 2 3\nmill 1 x 3\n",
    "three_numbers.txt": "the 1 2 3\nmill 4 5 6\n",
    "unknown_setting.json": '{"training": {"epoch": 3}}',
    "other_type.json": '{"training": {"epochs": "three"}}',
    "other_range.json": '{"model": {"d_model": 20, "input_dropout": 1.5}}',
    "no_number.json": '{"training": {"adam_epsilon": NaN}}',
    "positional.flags": "--epochs=1\nbatch_size=3\n",
    "unknown.flags": "--epochs=1\n--batchsize=3\n",
    "old.flags": "# A comment.\n--epochs=1\n--attention_keep=0.75\n",
    "old.json": json.dumps(
        {
            "model": {"input_keep": 0.85, "cross_attention_start": "independent", "sublayer_start": 0.5},
            "training": {"length_groups": 3, "smoothing_amount": 0.2},
        }
    ),
    "texts.json": '{"Mill-0": "Anna Keld"}',
    "numbers.json": '{"Mill-0": 3}',
    "no_answer.json": '{"Mill-0": 0.5}',
    "no_probabilities.json": "{}",
    "version_2.json": json.dumps(VERSION_2),
    "bad_no_answer.json": '{"Mill-0": "high"}',
}
FILES = {name: text.encode() for name, text in TEXTS.items()} | {
    "garbage": bytes(range(256)) * 20,
    "latin.flags": "--dataset=\xe9t\xe9.json\n".encode("latin-1"),
}


@pytest.fixture(scope="module")
def files(commands, tiny_run) -> Path:
    """Broken files of every kind in the commands' working directory, beside a whole run."""
    for name, content in FILES.items():
        (commands.folder / name).write_bytes(content)
    (commands.folder / "folder").mkdir()
    shutil.copy(tiny_run.train, commands.folder / "train.json")
    shutil.copy(tiny_run.dev, commands.folder / "dev.json")
    shutil.copytree(tiny_run.path, commands.folder / "run")
    return commands.folder


@pytest.fixture
def run_copy(tiny_run, tmp_path) -> Path:
    return shutil.copytree(tiny_run.path, tmp_path / "run")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_error(
    commands: CommandLines, command: str, arguments: str | list[str], parts: str | list[str], **options
) -> str:
    """The sentence of a command that changed no file."""
    before = contents(commands.folder)
    arguments = arguments.split() if isinstance(arguments, str) else arguments
    result = commands(command, *arguments, **options)
    for part in [parts] if isinstance(parts, str) else parts:
        assert part in result.error
    assert contents(commands.folder) == before
    return result.error


# Flags


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "arguments", "parts"),
    [
        ("train", "--epoch=3", ["unknown command line flag 'epoch'", "epochs", "--help"]),
        ("train", "--zzz=3", ["'zzz'", "--help"]),
        ("evaluate", "--epochs=3", "'epochs'"),
        ("predict", "--dataset=dev.json", "'dataset'"),
        ("train", "--epochs=ten", ["--epochs=ten", "expected an integer"]),
        ("train", "--epochs=1.5", ["--epochs=1.5", "expected an integer"]),
        ("train", "--epochs=", ["--epochs=", "expected an integer"]),
        ("train", "--learning_rate_factor=high", ["--learning_rate_factor=high", "expected a number"]),
        ("train", "--patience=often", ["--patience=often", "expected an integer or none"]),
        ("train", "--resume=perhaps", ["--resume=perhaps", "expected true or false"]),
        ("train", "--noresume=1", "--noresume=1"),
        ("train", "--run_dir", ["missing value", "--run_dir"]),
        ("train", "--run_dir=new epochs=3", ["unexpected argument 'epochs=3'", "--flag=value"]),
        ("evaluate", "dev.json", "unexpected argument 'dev.json'"),
        ("predict", "--run_dir=run --question=Who? --document=", "--document is empty, expected the name of a file"),
        ("predict", "--run_dir=run --input_file=", "--input_file is empty, expected the name of a file"),
        ("serve", "--run_dir=run --index=", "--index is empty, expected the name of a file or folder"),
        ("predict", "--run_dir=run Who?", "unexpected argument 'Who?'"),
        ("predict", "--n_best=0", ["--n_best=0", "expected an integer in the range [1, 1000]"]),
        ("predict", "--n_best=1001", ["--n_best=1001", "expected an integer in the range [1, 1000]"]),
        ("predict", "--n_best=many", ["--n_best=many", "expected an integer"]),
        ("predict", "--max_passage=0", ["--max_passage=0", "expected an integer in the range [1, 4096]"]),
        ("evaluate", "--max_passage=-1", ["--max_passage=-1", "expected an integer in the range [1, 4096]"]),
        ("train", "--flagfile=absent.flags", ["--flagfile=absent.flags", "No such file"]),
        ("train", "--flagfile=folder", ["--flagfile=folder", "Is a directory"]),
        ("train", "--flagfile=garbage", ["--flagfile", "not UTF-8"]),
        ("train", "--flagfile=latin.flags", ["--flagfile", "not UTF-8 at 10"]),
        ("train", "--flagfile=positional.flags", "unexpected argument 'batch_size=3'"),
        ("train", "--flagfile=unknown.flags", ["'batchsize'", "batch_size"]),
    ],
)
def test_flags(commands, files, command, arguments, parts):
    error = assert_error(commands, command, arguments, [])
    for part in [parts] if isinstance(parts, str) else parts:
        assert part.lower() in error.lower()


@pytest.mark.parametrize(
    ("command", "arguments", "parts"),
    [
        ("train", "", "--run_dir is missing"),
        ("train", "--run_dir=", "--run_dir is missing"),
        ("evaluate", "", ["--run_dir", "--model", "--predictions_file", "neither"]),
        ("evaluate", "--run_dir=run --predictions_file=texts.json --dataset=dev.json", ["both", "--predictions_file"]),
        ("evaluate", "--run_dir=run", "--dataset is missing"),
        ("evaluate", "--predictions_file=texts.json --dataset=", "--dataset is missing"),
        ("evaluate", "--run_dir=run --dataset=dev.json --no_answer_file=no_answer.json", "--no_answer_file belongs to"),
        ("evaluate", "--predictions_file=texts.json --dataset=dev.json --output_file=x", "--output_file belongs to"),
        (
            "evaluate",
            "--run_dir=run --dataset=sample,dev.json --output_file=dev.json",
            "is the file that --dataset reads",
        ),
        *(
            (
                "evaluate",
                f"--predictions_file=texts.json --dataset=dev.json --{flag}",
                f"--{flag.split('=')[0]} belongs",
            )
            for flag in ("no_answer_threshold=0.5", "max_passage=20", "max_answer=3", "precision=mixed_bfloat16")
        ),
        ("negatives", "--dataset=dev.json --output_file=x.json --share=nan", "--share=nan"),
        *(
            (
                command,
                f"--run_dir=run --{output}=x --calibration_dataset=dev.json --unanswerable_share={share}",
                expected,
            )
            for command, output in (("pack", "output"), ("export", "export_dir"))
            for share, expected in (("0", "between 0 and 1"), ("1.5", "between 0 and 1"), ("nan", "between 0 and 1"))
        ),
        ("pack", "--run_dir=run --output=x --unanswerable_share=0.3", "needs --calibration_dataset"),
        ("export", "--run_dir=run --export_dir=x --unanswerable_share=0.3", "needs --calibration_dataset"),
        ("predict", "", "--run_dir is missing"),
        ("predict", "--run_dir=run", ["--question with --passage", "--input_file"]),
        ("predict", "--run_dir=run --question=Who?", "--passage is missing"),
        ("predict", "--run_dir=run --question=A? --passage=B. --paragraphs=3", "--paragraphs=3: found no --document"),
        ("predict", "--run_dir=run --passage=Anna", "--question is missing"),
        (
            "predict",
            "--run_dir=run --question=Who? --passage=Anna --input_file=-",
            ["found both or neither", "--input_file"],
        ),
        ("predict", "--run_dir=run --question= --passage=Anna", "--question is blank"),
        ("predict", ["--run_dir=run", "--question=Who?", "--passage= \t\n "], "--passage is blank"),
        ("predict", "--run_dir=run --question=? --passage=Anna", "--question is blank"),
        ("predict", "--run_dir=run --question=Who? --passage=...", "--passage is blank"),
    ],
)
def test_flags_that_belong_together(commands, files, command, arguments, parts):
    assert_error(commands, command, arguments, parts)


@pytest.mark.parametrize(
    ("command", "arguments", "new"),
    [
        ("train", "--input_keep=0.9", "--input_dropout=0.1"),
        ("train", "--input_keep 0.9", "--input_dropout=0.1"),
        ("train", "--length_groups=5", "--length_buckets=5"),
        ("train", "--cross_attention_start=independent", "--shared_query_key_init=false"),
        ("train", "--cross_attention_start=matching", "--shared_query_key_init=true"),
        ("train", "--teacher_share=0.7", "--distillation_weight=0.7"),
        ("train", "--flagfile=old.flags", "--attention_dropout=0.25"),
        ("prepare", "--output=new --first_position=0", "--position_offset=0"),
        ("compare", "--output=new --configs=a.flags --cooldown_epochs=2", "--linear_decay_epochs=2"),
        ("reproduce", "--output=new --table=2 --sublayer_start=1", "--residual_init_scale=1"),
    ],
)
def test_a_flag_of_version_0_1_is_an_error_with_the_new_flag(commands, files, command, arguments, new):
    error = assert_error(commands, command, f"--run_dir=new {arguments}" if command == "train" else arguments, [])
    assert error.endswith(f"was renamed in version 0.2: use {new} instead")
    assert not (files / "new").exists()


# Configuration


@pytest.mark.slow
def test_settings_of_version_0_1_in_a_configuration_are_translated(commands, files, tiny_run, tmp_path):
    flags = [*tiny_run.flags, "--config=old.json", f"--run_dir={tmp_path / 'run'}", "--epochs=0"]
    flags = [flag for flag in flags if not flag.startswith("--length_buckets")]
    assert commands("train", *flags).status == 0
    recorded = json.loads((tmp_path / "run" / "config.json").read_text())
    model, training = recorded["model"], recorded["training"]
    found = [model[name] for name in ("input_dropout", "shared_query_key_init", "residual_init_scale")]
    assert [*found, training["length_buckets"], training["label_smoothing"]] == [0.15, False, 0.5, 3, 0.2]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--smoothing=laplace", ["smoothing must be one of gaussian, uniform, none", "'laplace'"]),
        ("--selector=magic", ["selector must be one of", "'magic'"]),
        ("--dtype_policy=float8", ["dtype_policy must be one of", "'float8'"]),
        ("--cross_attention=both", ["cross_attention must be one of column, row", "'both'"]),
        ("--epochs=-1", ["epochs must be", "0", "found -1"]),
        ("--batch_size=0", ["batch_size must be", "1", "found 0"]),
        ("--batch_size=99999999999", ["batch_size must be", "found 99999999999"]),
        ("--input_dropout=1.5", ["input_dropout must be between 0.0 and 0.95", "found 1.5"]),
        ("--adam_epsilon=nan", ["adam_epsilon must be a finite number", "found nan"]),
        ("--learning_rate_factor=inf", ["learning_rate_factor must be a finite number", "found inf"]),
        ("--ema_decay=1", ["ema_decay must be between", "found 1.0"]),
        ("--d_model=20 --num_heads=3", ["d_model must be even and a multiple of num_heads=3", "found 20"]),
        ("--word_dim=21 --d_model=20", ["word_dim + character_filters", "num_heads=4", "found 121"]),
        ("--word_dim=2 --character_filters=0 --num_heads=2", ["word_dim + character_filters must be at least 4", "2"]),
        ("--model=bidaf-bologna --variant=1 --character_kernel=9", ["character_kernel", "character_dim=8", "found 9"]),
        ("--model=bidaf-cheung --as_published --word_vectors=glove", ["word_vectors must be one of", "'glove'"]),
        ("--attention_kernel=2x5", ["attention_kernel", "odd", "'2x5'"]),
        ("--attention_kernel=none --attention_depthwise", ["attention_depthwise", "attention_kernel='none'"]),
        ("--config=absent.json", ["absent.json", "no such file"]),
        ("--config=folder", ["folder", "found a folder"]),
        ("--config=cut.json", ["cut.json", "no valid JSON at line"]),
        ("--config=empty.json", ["empty.json", "empty"]),
        ("--config=garbage", ["garbage", "not UTF-8"]),
        ("--config=list.json", ["list.json", "found a list", "expected a JSON object of settings"]),
        ("--config=unknown_setting.json", ["unknown_setting.json", "unknown setting 'epoch'"]),
        ("--config=other_type.json", ["other_type.json", "epochs must be of type int", "'three'"]),
        ("--config=other_range.json", ["other_range.json", "input_dropout must be between", "1.5"]),
        ("--config=no_number.json", ["no_number.json", "adam_epsilon must be a finite number"]),
    ],
)
def test_configurations(commands, files, arguments, parts):
    assert_error(commands, "train", f"--run_dir=new --dataset=train.json --cache_dir= {arguments}", parts)
    assert not (files / "new").exists()


# Data


BAD_DATA = [
    ("absent.json", ["absent.json", "no such file"]),
    ("folder", ["folder", "found a folder"]),
    ("cut.json", ["cut.json", "no valid JSON at line"]),
    ("empty.json", ["empty.json", "the file is empty"]),
    ("blank.json", ["blank.json", "the file is empty"]),
    ("garbage", ["garbage", "not UTF-8"]),
    ("list.json", ["list.json", "found no question"]),
    ("number.json", ["number.json", "the top level is the number 3"]),
    ("texts.json", ["texts.json", "data is missing"]),
    ("no_context.json", ["no_context.json", "data[0].paragraphs[0].context is missing"]),
    ("no_answers.json", ["no_answers.json", "qas[0].answers is missing"]),
    ("text_offset.json", ["text_offset.json", "answers[0].answer_start is the text '3'", "an integer"]),
    ("no_questions.json", ["no_questions.json", "found no question"]),
    ("train.json,", ["dataset=train.json,: found an empty name", "separated by commas"]),
]


@pytest.mark.parametrize(("name", "parts"), BAD_DATA)
@pytest.mark.parametrize("flag", ["dataset", "eval_dataset"])
def test_training_data(commands, files, tiny_run, tmp_path, name, parts, flag):
    assert_error(commands, "train", [*tiny_run.flags, f"--run_dir={tmp_path / 'new'}", f"--{flag}={name}"], parts)
    assert not contents(tmp_path)


@pytest.mark.parametrize(("name", "parts"), BAD_DATA)
def test_evaluation_data(commands, files, name, parts):
    assert_error(commands, "evaluate", f"--predictions_file=texts.json --dataset={name}", parts)


def test_an_answer_that_does_not_stand_at_its_offset(commands, files, tiny_run, tmp_path):
    arguments = [*tiny_run.flags, f"--run_dir={tmp_path / 'new'}", "--dataset=offset.json"]
    parts = ["offset.json", "'Mill-1'", "answer_start 3", "expected '1712'", "1 of 12 answers are off"]
    assert_error(commands, "train", arguments, parts)
    assert not contents(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--dataset=one_passage.json --eval_dataset=", ["one_passage.json", "one passage"]),
        ("--max_passage=5", ["train.json", "no question is left to train on", "passage too long 12"]),
        ("--max_question=1", ["train.json", "no question is left to train on", "question too long 12"]),
        ("--dataset=squad/v1.1 --tfds_manual_dir=absent", ["--tfds_manual_dir=absent", "no such folder"]),
    ],
)
def test_data_that_cannot_be_trained_on(commands, files, tiny_run, tmp_path, arguments, parts):
    places = [f"--run_dir={tmp_path / 'new'}", f"--tfds_data_dir={tmp_path}"]
    assert_error(commands, "train", [*tiny_run.flags, *places, *arguments.split()], parts)
    assert not contents(tmp_path)


def test_a_dataset_that_nobody_knows(commands, files, tmp_path):
    arguments = f"--predictions_file=texts.json --dataset=unheard_of --tfds_data_dir={tmp_path}"
    assert_error(commands, "evaluate", arguments, ["--dataset=unheard_of", "no such file or dataset", "squad/v1.1"])


def test_the_flag_of_the_dataset_is_named(commands, tiny_run, tmp_path):
    places = [f"--run_dir={tmp_path / 'new'}", f"--tfds_data_dir={tmp_path}"]
    for flag in ("--dataset=unheard_of", "--eval_dataset=unheard_of"):
        assert_error(commands, "train", [*tiny_run.flags, *places, flag], [f"{flag}: found no such file"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--vectors=absent.txt", ["absent.txt", "no such file"]),
        ("--vectors=folder", ["folder", "found a folder"]),
        ("--vectors=", ["word vectors", "empty"]),
        ("--vectors=empty.json", ["empty.json", "found no vectors"]),
        ("--vectors=garbage", ["garbage, line 1", "found no numbers"]),
        ("--vectors=broken_line.txt", ["broken_line.txt, line 2", "found 2 numbers, expected 3"]),
        ("--vectors=no_number.txt", ["no_number.txt, line 2", "found 'x'"]),
        ("--vectors=three_numbers.txt", ["three_numbers.txt", "dimension 3", "word_dim=20"]),
        ("--vectors=bundled", ["bundled", "dimension 100", "word_dim=20"]),
    ],
)
def test_word_vectors(commands, files, tiny_run, tmp_path, arguments, parts):
    assert_error(commands, "train", [*tiny_run.flags, f"--run_dir={tmp_path / 'new'}", arguments], parts)
    assert not contents(tmp_path)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("absent.json", ["absent.json", "no such file"]),
        ("folder", ["folder", "found a folder"]),
        ("cut.json", ["cut.json", "no valid JSON"]),
        ("garbage", ["garbage", "not UTF-8"]),
        ("list.json", ["list.json", "found a list", "question id"]),
        ("numbers.json", ["numbers.json", "'Mill-0'", "the number 3", "text"]),
        ("train.json", ["train.json", "'version'"]),
        # One line of other programs' answers has the official form.
        ("one_line.json", ["one_line.json: found ids such as 'id', expected those of questions of train.json"]),
    ],
)
def test_predictions_files(commands, files, name, parts):
    if name == "train.json":
        parts = ["train.json", "'data'"]
    assert_error(commands, "evaluate", f"--predictions_file={name} --dataset=train.json", parts)


def test_no_answer_probabilities_for_data_whose_questions_all_have_answers(commands, files):
    arguments = "--predictions_file=texts.json --dataset=train.json --no_answer_file=no_answer.json"
    assert_error(commands, "evaluate", arguments, ["--no_answer_file", "no unanswerable question", "train.json"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("absent.json", ["absent.json", "no such file"]),
        ("bad_no_answer.json", ["bad_no_answer.json", "'Mill-0'", "the text 'high'"]),
        ("list.json", ["list.json", "found a list"]),
        ("no_probabilities.json", ["'Mill-0'"]),
    ],
)
def test_no_answer_files_that_hold_no_probabilities(commands, files, name, parts):
    arguments = f"--predictions_file=texts.json --dataset=version_2.json --no_answer_file={name}"
    assert_error(commands, "evaluate", arguments, parts)


# Questions


@pytest.mark.slow
def test_a_line_that_cannot_be_answered_gets_an_error_and_the_others_are_answered(commands, files, tmp_path):
    good = '{"id": "a", "question": "Who built it?", "passage": "Anna Keld built the mill."}'
    lines = [
        good,
        "nonsense",
        '{"question": "Who?"}',
        '{"question": " ", "context": "Anna."}',
        '{"question": 3, "context": "Anna."}',
        '["Who?"]',
        good.replace("Anna", "Ida"),
        "",
        good.replace('"a"', '"b"'),
    ]
    result = commands(
        "predict", "--run_dir=run", "--input_file=-", f"--output_file={tmp_path / 'out'}", stdin="\n".join(lines)
    )
    assert result.status == 0
    assert "6 of 8 questions could not be answered" in result.stderr
    answers = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ["a", "2", "3", "4", "5", "6", "a", "b"]
    assert ["error" in answer for answer in answers] == [False, True, True, True, True, True, True, False]
    parts = ["line 2", "passage (or context) is missing", "question is empty", "the number 3", "a list", "line 1 too"]
    for answer, part in zip(answers[1:-1], parts, strict=True):
        assert answer.keys() == {"id", "error"}
        assert answer["error"].startswith("standard input: line ") and part in answer["error"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("absent.jsonl", ["absent.jsonl", "no such file"]),
        ("folder", ["folder", "found a folder"]),
        ("empty.json", ["empty.json", "the file is empty"]),
        ("blank.json", ["blank.json", "the file is empty"]),
        ("no_questions.json", ["no_questions.json", "found no question"]),
        ("no_context.json", ["no_context.json", "context is missing"]),
        ("cut.json", ["cut.json", "no valid JSON at line"]),
    ],
)
def test_input_files(commands, files, tmp_path, name, parts):
    output = tmp_path / "answers.jsonl"
    output.write_text("from yesterday")
    assert_error(commands, "predict", f"--run_dir=run --input_file={name} --output_file={output}", parts)
    assert contents(tmp_path) == {output: b"from yesterday"}


def test_an_input_without_a_good_line(commands, files):
    result = commands("predict", "--run_dir=run", "--input_file=garbage")
    assert "questions could not be answered" in result.error
    assert all(json.loads(line)["error"].startswith("garbage: line ") for line in result.stdout.splitlines())
    assert "found no question" in commands("predict", "--run_dir=run", "--input_file=-", stdin="").error


# Runs


def test_a_folder_that_holds_a_run(commands, tiny_run):
    before = contents(tiny_run.path)
    error = commands("train", *tiny_run.flags, f"--run_dir={tiny_run.path}", "--epochs=1").error
    assert f"--run_dir={tiny_run.path} already holds a run" in error and "--resume" in error
    assert contents(tiny_run.path) == before


def test_a_reader_without_weights_to_start_from(commands, tiny_run, run_copy, tmp_path):
    (run_copy / "checkpoints" / "best.npz").unlink()
    arguments = [*tiny_run.flags, f"--run_dir={tmp_path / 'new'}", f"--start_from={run_copy}"]
    assert_error(commands, "train", arguments, ["best.npz", "no such checkpoint"])
    assert not contents(tmp_path / "new")


@pytest.mark.parametrize(
    ("flag", "parts"),
    [
        ("--hidden_dim=22", ["hidden_dim=20", "hidden_dim=22"]),
        ("--seed=2", ["seed=1", "seed=2"]),
        ("--clip_norm=3", ["clip_norm=None", "clip_norm=3.0"]),
        ("--dataset=dev.json", ["dataset='", "dataset='dev.json'"]),
    ],
)
def test_a_run_of_another_configuration(commands, files, tiny_run, flag, parts):
    before = contents(tiny_run.path)
    error = commands("train", *tiny_run.flags, f"--run_dir={tiny_run.path}", "--epochs=2", "--resume", flag).error
    for part in [str(tiny_run.path), *parts]:
        assert part in error
    assert contents(tiny_run.path) == before


@pytest.mark.parametrize(
    ("flag", "parts"),
    [
        ("--hidden_dim=22", ["hidden_dim=20", "hidden_dim=22"]),
        ("--batch_size=6", ["batch_size=5", "batch_size=6"]),
        ("--learning_rate=0.1", ["learning_rate=None", "learning_rate=0.1"]),
        ("--warmup_steps=3", ["warmup_steps=4000", "warmup_steps=3"]),
        ("--nodeterministic", ["deterministic=True", "deterministic=False"]),
        ("--start_from=fabir-base", ["start_from=''", "start_from='fabir-base'"]),
        ("--vectors=bundled", ["vectors='none'", "vectors='bundled'"]),
        ("--residual_init_scale=0.5", ["residual_init_scale=", "residual_init_scale=0.5"]),
        ("--config=old.json", ["shared_query_key_init=True", "shared_query_key_init=False"]),
        ("--model=bidaf", ["--model=fabir", "--model=bidaf"]),
        ("--units=5", ["--units=5", "--model=fabir has no such setting"]),
        ("--config=unknown_setting.json", ["unknown_setting.json", "unknown setting 'epoch'"]),
    ],
)
def test_a_flag_that_contradicts_the_run_that_is_resumed(commands, files, tiny_run, flag, parts):
    """The other settings are the run's own: nobody types them again."""
    before = contents(tiny_run.path)
    error = commands("train", f"--run_dir={tiny_run.path}", "--resume", flag).error
    for part in parts:
        assert part in error
    assert contents(tiny_run.path) == before


@pytest.mark.parametrize("run", ["absent", "folder", "train.json"])
def test_a_run_that_is_not_there_is_not_resumed(commands, files, run):
    parts = [f"--run_dir={run}: found no run to resume", "leave out --resume to begin one"]
    assert_error(commands, "train", f"--run_dir={run} --resume --dataset=train.json", parts)
    assert not (files / "absent").exists()


def test_a_packed_reader_is_not_resumed(commands, run_copy):
    for name in ("coverage.json", "history.csv", "checkpoints/last.npz"):
        (run_copy / name).unlink()
    assert_error(commands, "train", f"--run_dir={run_copy} --resume", ["packed reader", f"--start_from={run_copy}"])


def test_a_run_that_another_process_trains(commands, tiny_run, run_copy):
    (run_copy / "training.lock").write_text('{"pid": 1, "host": "elsewhere", "started": ""}')
    before = contents(run_copy)
    error = commands("train", f"--run_dir={run_copy}", "--resume").error
    assert "process 1 on the machine elsewhere" in error and f"delete {run_copy / 'training.lock'}" in error
    assert contents(run_copy) == before
    # Reading is not locked: a run may be tried while it trains.
    assert commands("predict", f"--run_dir={run_copy}", "--question=Who?", "--passage=Anna.").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["dataset", "eval_dataset"])
def test_a_run_whose_data_has_changed(commands, tmp_path, tiny_run, flag):
    names = {"dataset": tmp_path / "train.json", "eval_dataset": tmp_path / "dev.json"}
    shutil.copytree(tiny_run.path, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["training"] |= {name: str(path) for name, path in names.items()}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    write_squad(names["dataset"], ARTICLES[flag == "dataset" :])
    write_squad(names["eval_dataset"], DEV_ARTICLES[flag == "eval_dataset" :])
    before = contents(tmp_path)
    flags = [f"--{name}={path}" for name, path in names.items()]
    error = commands("train", *tiny_run.flags, *flags, f"--run_dir={tmp_path / 'run'}", "--epochs=2", "--resume").error
    assert error.startswith(f"--{flag}: the data is not that of the run in {tmp_path / 'run'}")
    assert contents(tmp_path) == before


def _saved(path: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def _cut(path: Path) -> bytes:
    return path.read_bytes()[:-1000]


def _changed(old: str, new: str):
    def change(path: Path) -> bytes:
        text = path.read_text()
        assert old in text
        return text.replace(old, new, 1).encode()

    return change


BEST, CONFIG, WORDS = "checkpoints/best.npz", "config.json", "processor/vocabulary.json"
TABLE, LIST, NOTE = (f"processor/{name}" for name in ("vectors.npy", "vectors_words.txt", "vectors.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage", "parts"),
    [
        (BEST, None, ["no such checkpoint"]),
        (BEST, _cut, ["damaged or cut short"]),
        (BEST, lambda path: b"", ["damaged or cut short"]),
        (BEST, lambda path: b"garbage", ["damaged or cut short"]),
        (BEST, _saved, ["damaged or cut short"]),
        (CONFIG, None, ["found no run", "fabir-train"]),
        (CONFIG, lambda path: b"", ["empty"]),
        (CONFIG, lambda path: path.read_bytes()[:300], ["no valid JSON"]),
        (CONFIG, lambda path: b"\xff\xfe", ["not UTF-8"]),
        (CONFIG, lambda path: b"[]", ["no object 'model'"]),
        (CONFIG, lambda path: b'{"model": 3}', ["no object 'model'"]),
        (CONFIG, _changed('"fabir"', '"bert"'), ["unknown model 'bert'", "fabir", "--import=MODULE"]),
        (CONFIG, _changed('"convolutional"', '"mine"'), ["attention must be one of", "'mine'", "--import=MODULE"]),
        (CONFIG, _changed('"fabir"', "[]"), ["unknown model []", "fabir"]),
        (CONFIG, _changed('"d_model"', '"dmodel"'), ["no field 'dmodel'", "d_model"]),
        (CONFIG, _changed('"d_model": 20', '"d_model": "20"'), ["d_model must be of type int"]),
        (CONFIG, _changed('"num_layers": 1', '"num_layers": 2'), [BEST, "another configuration"]),
        (CONFIG, _changed('"hidden_dim": 20', '"hidden_dim": 22'), [BEST, "another configuration"]),
        (CONFIG, _changed('"frozen_words": 0', '"frozen_words": 9'), ["frozen_words=0", "expected 9"]),
        (WORDS, None, ["no such file"]),
        (WORDS, lambda path: path.read_bytes()[:-5], ["broken JSON"]),
        (WORDS, lambda path: b'{"trainable_words": [], "characters": []}', ["trainable_words=1", "expected"]),
        (TABLE, None, ["no such file"]),
        (TABLE, lambda path: path.read_bytes()[:20], ["damaged word vectors"]),
        (LIST, None, ["no such file"]),
        (LIST, lambda path: b"mill\n", ["expected float16 (1, dimension)"]),
        (NOTE, lambda path: b"{}", ["damaged word vectors"]),
    ],
)
def test_a_damaged_run_cannot_be_asked(commands, run_copy, name, damage, parts):
    path = run_copy / name
    if damage:
        path.write_bytes(damage(path))
    else:
        path.unlink()
    before = contents(run_copy)
    error = commands("predict", f"--run_dir={run_copy}", "--question=Who?", "--passage=Anna.").error
    for part in [str(run_copy), *parts]:
        assert part in error
    assert contents(run_copy) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage", "parts"),
    [
        ("checkpoints/last.npz", _cut, ["last.npz", "damaged or cut short"]),
        ("checkpoints/last.npz", lambda path: b"", ["last.npz", "damaged or cut short"]),
        ("checkpoints/best.npz", _cut, ["best.npz", "damaged or cut short"]),
        (CONFIG, lambda path: path.read_bytes()[:300], [CONFIG, "no valid JSON"]),
        (CONFIG, lambda path: b'{"model": {}, "training": [], "data": {}}', [CONFIG, "no object 'training'"]),
        (WORDS, lambda path: b"", [WORDS, "broken JSON"]),
    ],
)
def test_a_damaged_run_is_not_resumed(commands, tiny_run, run_copy, name, damage, parts):
    path = run_copy / name
    path.write_bytes(damage(path))
    before = contents(run_copy)
    error = commands("train", *tiny_run.flags, f"--run_dir={run_copy}", "--epochs=1", "--resume").error
    for part in [str(run_copy), *parts]:
        assert part in error
    assert contents(run_copy) == before


@pytest.mark.parametrize("run", ["absent", "folder", "train.json"])
@pytest.mark.parametrize("command", ["predict --question=Who? --passage=Anna.", "evaluate --dataset=dev.json"])
def test_a_folder_without_a_run(commands, files, command, run):
    name, *arguments = command.split()
    assert_error(commands, name, [*arguments, f"--run_dir={run}"], [run, "found no run", "fabir-train"])


@pytest.mark.slow
def test_a_learning_rate_beyond_all_bounds(commands, tiny_run, tmp_path):
    flags = (f"--run_dir={tmp_path / 'new'}", "--epochs=1", "--learning_rate_factor=1e30")
    error = commands("train", *tiny_run.flags, *flags).error
    assert "the loss is nan in epoch " in error and "--learning_rate_factor" in error


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux' /proc")
def test_a_model_beyond_the_memory(commands, tiny_run, tmp_path):
    flags = (f"--run_dir={tmp_path / 'new'}", "--epochs=1", "--d_model=64000")
    error = commands("train", *tiny_run.flags, *flags, memory_limit=4 << 30).error
    assert "memory is full" in error and "--batch_size" in error


# Disks


PLACES = [
    pytest.param("/proc/nowhere", id="a file system that nobody writes to"),
    pytest.param("train.json/below", id="below a file"),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("train --dataset=train.json --epochs=0 --cache_dir=", "run_dir"),
        ("evaluate --run_dir=run --dataset=dev.json", "output_file"),
        ("evaluate --predictions_file=texts.json --dataset=dev.json", "report_file"),
        ("predict --run_dir=run --question=Who? --passage=Anna.", "output_file"),
    ],
)
def test_a_place_that_cannot_be_written(commands, files, command, flag, place):
    name, *arguments = command.split()
    assert_error(commands, name, [*arguments, f"--{flag}={place}/x"], [f"{place}/x", "cannot be written ("])


def test_a_folder_in_the_place_of_a_file(commands, files):
    for command in ("evaluate --dataset=dev.json", "predict --question=Who? --passage=Anna."):
        name, *arguments = command.split()
        parts = ["folder: cannot be written", "directory"]
        assert_error(commands, name, ["--run_dir=run", *arguments, "--output_file=folder"], parts)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("evaluate --run_dir=run", "--dataset --output_file"),
        ("evaluate --predictions_file=texts.json", "--dataset --report_file"),
        ("evaluate --dataset=train.json", "--predictions_file --report_file"),
        ("predict --run_dir=run", "--input_file --output_file"),
    ],
)
def test_a_result_never_takes_the_place_of_what_it_is_made_from(commands, files, command, flags):
    name, *arguments = command.split()
    source, result = flags.split()
    assert_error(commands, name, [*arguments, f"{source}=dev.json", f"{result}=./dev.json"], [source, result])


@pytest.mark.long
def test_a_full_disk_leaves_the_last_checkpoint_and_a_later_run_goes_on(commands, tiny_run, run_copy):
    kept = {name: (run_copy / name).read_bytes() for name in ("checkpoints/last.npz", "model.keras")}
    flags = (*tiny_run.flags, f"--run_dir={run_copy}", "--epochs=2", "--resume")
    error = commands("train", *flags, file_limit=50_000).error
    assert "/checkpoints/" in error and "cannot be written (File too large)" in error
    assert {name: (run_copy / name).read_bytes() for name in kept} == kept
    assert not list(run_copy.rglob("*.tmp"))
    result = commands("train", *flags)
    assert result.status == 0, result
    assert [line.split(",")[0] for line in (run_copy / "history.csv").read_text().split()] == ["epoch", "0", "1", "2"]


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_model(commands, tiny_run, run_copy):
    model = (run_copy / "model.keras").read_bytes()
    flags = (*tiny_run.flags, f"--run_dir={run_copy}", "--epochs=1", "--resume")
    error = commands("train", *flags, file_limit=50_000).error
    assert "model.keras: cannot be written (File too large)" in error
    assert (run_copy / "model.keras").read_bytes() == model
    assert sorted(path.name for path in run_copy.iterdir()) == sorted(path.name for path in tiny_run.path.iterdir())


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_results(commands, files, tmp_path):
    output = tmp_path / "result"
    output.write_text("from yesterday")
    for name, arguments in (
        ("predict", ["--run_dir=run", "--input_file=train.json", f"--output_file={output}"]),
        ("evaluate", ["--run_dir=run", "--dataset=train.json", f"--output_file={output}"]),
        ("evaluate", ["--predictions_file=texts.json", "--dataset=train.json", f"--report_file={output}"]),
    ):
        error = commands(name, *arguments, file_limit=20).error
        assert error == f"{output}: cannot be written (File too large)"
        assert contents(tmp_path) == {output: b"from yesterday"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("pack --run_dir=run", "output"),
        ("prepare --dataset=train.json --eval_dataset=dev.json --cache_dir= --vectors=none", "output"),
        ("train --dataset=train.json --eval_dataset=dev.json --cache_dir= --vectors=none", "run_dir"),
        ("teach --run_dirs=run --dataset=train.json --cache_dir=", "output"),
        ("analyze --dataset=train.json --predictions_files=texts.json --cache_dir=", "output"),
        pytest.param("export --run_dir=run --calibration_dataset=none", "export_dir", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_leaves_nothing_half_made(commands, files, tmp_path, command, flag):
    name, *arguments = command.split()
    error = commands(name, *arguments, f"--{flag}={tmp_path / 'new' / 'place'}", file_limit=40).error
    assert re.fullmatch(rf"{tmp_path}/new/\S+: cannot be written \((File too large|No space left on device)\)", error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("def f(:", "it raises SyntaxError: invalid syntax"),
        ("1 / 0", "it raises ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "it raises SystemExit: 0"),
        ("import sys; sys.exit()", "it raises SystemExit: "),
        ("from fabir_tf import no_such_name", "cannot import name 'no_such_name'"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("\tx = 1\n  y = 2", "it raises IndentationError: "),
        ("x = '\0'", "it raises "),
        ("raise KeyError('a key')", "it raises KeyError: 'a key'"),
        ("def f(): f()\nf()", "it raises RecursionError: "),
    ],
)
@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_module_that_cannot_be_imported(commands, files, text, cause, command):
    (files / "own_module.py").write_text(text)
    error = commands(command, "--import=own_module").error
    assert error.startswith(f"--import=own_module: {cause}")
    assert error.endswith(", expected a module that can be imported from here")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
def test_a_full_disk_behind_standard_output(commands, files):
    for name, arguments in (
        ("predict", ["--run_dir=run", "--input_file=dev.json"]),
        ("evaluate", ["--predictions_file=texts.json", "--dataset=train.json"]),
    ):
        result = commands(name, *arguments, stdout="/dev/full")
        assert result.error == "standard output: cannot be written (No space left on device)"
    assert_error(
        commands,
        "predict",
        "--run_dir=run --input_file=dev.json --output_file=/dev/full",
        "/dev/full: cannot be written (No space left on device)",
    )
    assert not Path("/dev/full").is_file()


# The console scripts themselves


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("fabir-train", ["--dataset=absent.json", "--run_dir=new"], "absent.json: found no such file"),
        ("fabir-evaluate", ["--dataset=absent.json", "--predictions_file=x"], "absent.json: found no such file"),
        ("fabir-predict", ["--run_dir=absent", "--question=Who?", "--passage=Anna."], "absent: found no run"),
    ],
)
def test_the_installed_commands(tmp_path, name, arguments, sentence):
    script = Path(sys.executable).with_name(name)
    if not script.exists():
        pytest.skip("needs the package installed with pip")
    done = subprocess.run([script, *arguments], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {sentence}")
    assert "Traceback" not in done.stderr and not done.stdout
    assert not contents(tmp_path)


def test_a_run_that_lost_its_checkpoint_is_not_begun_anew(commands, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    (run / "checkpoints" / "last.npz").unlink()
    best = (run / "checkpoints" / "best.npz").read_bytes()
    result = commands("train", f"--run_dir={run}", "--resume", "--epochs=1", *tiny_run.flags)
    assert "last.npz: no such checkpoint" in result.error
    assert (run / "checkpoints" / "best.npz").read_bytes() == best
