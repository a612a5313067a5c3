"""fabir-convert: every fault of a file with its place, shifted answers mended, and one format made of another."""

import gzip
import json
import os
from pathlib import Path

import pytest
from tiny import ARTICLES, squad_json

from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.checking import check_file, list_faults, mend
from fabir_tf.pipelines.datasets.formats import FORMATS, read_questions

PASSAGE = "Anna met Ada. Ada met Bo, and Bo met Anna in the harbour of Velm."


def written(folder, content, name="questions.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def faults_of(folder, content, name="questions.json") -> list[str]:
    path = written(folder, content, name)
    faults = list_faults(check_file(path))
    assert all(fault.startswith(f"{path}: ") and fault.endswith(".") for fault in faults), faults
    return [fault.removeprefix(f"{path}: ") for fault in faults]


def asked(identifier, *answers, **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": identifier, "question": "Who?", "answers": found, **more}


def official(*qas, **more):
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": PASSAGE, "qas": list(qas), **more}]}]})


# === All faults ===


def test_a_file_without_a_fault(tmp_path):
    assert faults_of(tmp_path, json.dumps(squad_json(ARTICLES))) == []
    assert faults_of(tmp_path, official(asked("a", ("Anna", 0), ("Bo", 22)), asked("b", is_impossible=True))) == []


def test_every_fault_of_an_official_file_is_listed_with_its_place(tmp_path):
    good = official(asked("a", ("Anna", 0)))
    content = json.loads(good)
    qas = content["data"][0]["paragraphs"][0]["qas"]
    qas += [
        asked("a", ("Anna", 0)),
        asked("b", ("Ada", 3), ("nobody", 0), ("", 0), ("Bo", -1)),
        asked(3.5, ("Anna", 0)) | {"question": None},
        asked("c"),
        asked("d", ("Anna", 0), is_impossible=True),
        asked("e") | {"answers": [{"text": 3, "answer_start": "x"}, 4]},
        asked("f", ("Anna", 0)) | {"question": " \n"},
        "not an object",
        {"id": "g"},
    ]
    content["data"] += [
        {"title": 4, "paragraphs": [{"qas": [asked("h", ("Anna", 0))]}, 5, {"context": "x", "qas": {}}]},
        6,
        {"title": "x"},
    ]
    q = "data[0].paragraphs[0].qas"
    assert faults_of(tmp_path, json.dumps(content)) == [
        f"{q}[1].id is 'a', the id of {q}[0] too, expected one question per id.",
        f"{q}[3].id is the number 3.5, expected a text or a whole number.",
        f"{q}[3].question is null, expected a text.",
        f"{q}[5].is_impossible is true beside 1 answers, expected no answers.",
        f"{q}[6].answers[0].text is the number 3, expected a text.",
        f"{q}[6].answers[0].answer_start is the text 'x', expected an integer, the answer's offset in the passage.",
        f"{q}[6].answers[1] is the number 4, expected an object with the field text.",
        f"{q}[8] is the text 'not an object', expected an object with the field question.",
        f"{q}[9].question is missing, expected a text.",
        f"{q}[9].answers is missing, expected a list.",
        "data[1].title is the number 4, expected a text.",
        "data[1].paragraphs[0].context is missing, expected a text.",
        "data[1].paragraphs[1] is the number 5, expected an object with the field qas.",
        "data[1].paragraphs[2].qas is an object, expected a list.",
        "data[2] is the number 6, expected an object with the field paragraphs.",
        "data[3].paragraphs is missing, expected a list.",
        f"{q}[2]: question 'b': found 'a m' at answer_start 3, expected 'Ada'.",
        f"{q}[2]: question 'b': found 'Anna m' at answer_start 0, expected 'nobody'.",
        f"{q}[2]: question 'b' has an empty answer, expected a piece of the passage.",
        f"{q}[2]: question 'b' has no answer_start for 'Bo', expected its offset.",
        f"{q}[4]: question 'c' has no answer and is not marked is_impossible.",
        f"{q}[7]: question is empty, expected a text with a letter or digit.",
    ]


def test_every_fault_of_json_lines_is_listed_with_its_place(tmp_path):
    row = {"id": "a", "context": PASSAGE, "question": "Who?", "answers": {"text": ["Velm"], "answer_start": [60]}}
    lines = [
        json.dumps(row),
        "",
        "{",
        json.dumps(row | {"id": 1, "question": 3, "title": []}),
        b'{"id": "\xe9"}',
        '{"id": 2, "id": 3}',
        json.dumps(row | {"id": "b", "answers": {"text": ["Velm", "Bo"], "answer_start": [55, 20]}}),
        "[]",
        json.dumps({"id": "c"}),
        json.dumps(row),
    ]
    raw = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    assert faults_of(tmp_path, raw, "x.jsonl") == [
        "line 3 is no valid JSON at column 2 (Expecting property name enclosed in double quotes).",
        "line 4: title is a list, expected a text.",
        "line 4: question is the number 3, expected a text.",
        "line 5 is not UTF-8 at byte 8, expected a JSON object.",
        "line 6: id is given twice, expected each key once.",
        "line 8 is a list, expected an object with the fields question and passage.",
        "line 9: passage (or context) is missing, expected a text.",
        "line 9: question is missing, expected a text.",
        "line 9: answers is missing, expected a list.",
        "line 10: id is 'a', the id of line 1 too, expected one question per id.",
        "line 7: question 'b': found 'r of' at answer_start 55, expected 'Velm'; --mend shifts it.",
        "line 7: question 'b': found 't ' at answer_start 20, expected 'Bo'.",
    ]


def test_every_fault_of_csv_is_listed_with_its_place(tmp_path):
    content = (
        "id,context,question,answer,answer_start\n"
        'a,"Anna\ncame.",Who?,Anna,0\n'
        "b,Anna came.,Who?\n"
        "c,Anna came.,,Anna,first\n"
        "a,Anna came.,,Anna,2\n"
    )
    assert faults_of(tmp_path, content.encode("latin-1") + b"d,\xe9\xe8 and \xe9,Who?,und,3\n", "x.csv") == [
        "byte 133 is not UTF-8, expected CSV in UTF-8.",
        "byte 140 is not UTF-8, expected CSV in UTF-8.",
        "line 4 has 3 cells, expected 5 as in the header.",
        "line 5: answer_start is the text 'first', expected a number.",
        "line 6: id is 'a', the id of line 2 too, expected one question per id.",
        "line 6: question 'a': found 'na c' at answer_start 2, expected 'Anna'; --mend shifts it.",
        "line 7: question 'd': found 'nd ' at answer_start 3, expected 'und'.",
    ]


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (b"", ["the file is empty"]),
        (b"[", ["no valid JSON at line 1"]),
        (b'{"a": 1, "a": [{"b": 1, "b": 2}]}', ["a is given", "a[0].b is given", "data is missing"]),
        (b'{"data": "\xff\xfe", "x": "\xe9"}', ["byte 10 is", "byte 21 is", "data is the text"]),
        (b'{"data": []}', ["found no question"]),
        (b"[]", ["found no question"]),
        (b"[3, null]", ["[0] is the number 3", "[1] is null"]),
        ("{".encode("utf-16"), ["byte 0 is", "no valid JSON"]),
        (b"\x1f\x8b\x08", ["cannot be read"]),
        (b"\xef\xbb\xbf\xff", ["byte 3 is", "no valid JSON"]),
    ],
)
def test_a_file_that_cannot_be_read_to_its_end(tmp_path, content, faults):
    found = faults_of(tmp_path, content)
    assert len(found) == len(faults) and all(part in fault for part, fault in zip(faults, found, strict=True)), found


# === Mending ===


@pytest.mark.parametrize(
    ("text", "start", "mended"),
    [
        ("harbour", 49, 49),
        ("harbour", 50, 49),
        ("harbour", 0, 49),
        ("harbour", -1, 49),
        ("harbour", 10**9, 49),
        ("Velm", 62, 60),
        # Twice in the passage, and once within 20 characters.
        ("Anna", 1, 0),
        ("Anna", 38, 37),
        ("Bo", 5, 22),
        # Near both, or far from both.
        ("Ada", 11, 11),
        ("Bo", 26, 26),
        ("Anna", 10**9, 10**9),
        ("Anna", -1, -1),
        ("met", 6, 6),
        # Not in the passage.
        ("anna", 1, 1),
        ("Harbour of Velm", 40, 40),
        ("", 4, 4),
    ],
)
def test_an_answer_is_moved_to_the_only_place_that_it_can_have(tmp_path, text, start, mended):
    checked, lines = mend(check_file(written(tmp_path, official(asked("a", (text, start), ("Anna", 0))))))
    first, second = checked.data.questions[0].answers
    assert (first.text, first.start, second.start) == (text, mended, 0)
    place = "data[0].paragraphs[0].qas[0]"
    moved = [f"{tmp_path}/questions.json: {place}: answer_start {start} of {text!r} is now {mended}."]
    assert lines == (moved if start != mended else [])
    assert bool(list_faults(checked)) == (PASSAGE[mended : mended + len(text)] != text or not text)


def test_offsets_in_bytes_are_mended(tmp_path):
    passage = "Éva Škodová žila v Brně. " * 3 + "Potom odešla do Žiliny."
    start = len(passage[: passage.index("Žiliny")].encode())
    row = {"id": "a", "context": passage, "question": "Kam?", "answer": "Žiliny", "answer_start": start}
    checked, _ = mend(check_file(written(tmp_path, json.dumps(row), "x.jsonl")))
    assert list_faults(checked) == []


# === The command ===


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The file of questions that all conversions start from."""
    return written(tmp_path_factory.mktemp("source"), json.dumps(squad_json(ARTICLES)))


def test_a_single_question_is_one_question(commands, tmp_path):
    path = written(tmp_path, json.dumps(squad_json([("Mill", "A mill.", (("Which?", "mill"),))])))
    result = commands("convert", f"--input_file={path}", "--check")
    assert (result.status, result.stdout) == (0, f"{path}: 1 question about 1 passage, no fault\n")
    assert (counted(0, "step"), counted(2000, "step")) == ("0 steps", "2,000 steps")


@pytest.mark.parametrize("ending", [*FORMATS, ".json.gz", ".CSV"])
def test_conversion(commands, source, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"new/converted{ending}"
    result = commands("convert", f"--input_file={source}", f"--output_file={output}")
    assert result.status == 0 and result.stdout == f"{output}: 12 questions about 4 passages\n", result
    back = tmp_path / "back.json"
    assert commands("convert", f"--input_file={output}", f"--output_file={back}", "--check").status == 0
    assert json.loads(back.read_text()) == squad_json(ARTICLES)


def test_the_check_of_a_good_file_writes_nothing(commands, source):
    result = commands("convert", f"--input_file={source}", "--check")
    assert (result.status, result.stdout) == (0, f"{source}: 12 questions about 4 passages, no fault\n")


def test_the_check_lists_all_faults_and_ends_with_status_2(commands, tmp_path):
    path = written(tmp_path, official(asked("a", ("harbour", 3)), asked("a", ("Bo", 5)), asked("b")))
    result = commands("convert", f"--input_file={path}", "--check", f"--output_file={tmp_path / 'new.csv'}")
    assert result.error == f"{path}: found 4 faults, listed above; nothing is written"
    assert len(result.stdout.splitlines()) == 4 and result.stdout.count(str(path)) == 4
    assert list(tmp_path.iterdir()) == [path]


def test_mending_writes_the_file_or_says_what_is_left(commands, tmp_path):
    path, output = written(tmp_path, official(asked("a", ("harbour", 3)))), tmp_path / "mended.json.gz"
    flags = ("--mend", f"--input_file={path}", f"--output_file={output}")
    result = commands("convert", *flags)
    assert result.status == 0 and "answer_start 3 of 'harbour' is now 49" in result.stdout, result
    assert json.loads(gzip.decompress(output.read_bytes()))["data"][0]["paragraphs"][0]["qas"][0]["answers"] == [
        {"text": "harbour", "answer_start": 49}
    ]
    before = output.read_bytes()
    written(tmp_path, official(asked("a", ("harbour", 3)), asked("b", ("nobody", 0))))
    result = commands("convert", *flags)
    assert "found 1 fault, " in result.error and "'nobody'" in result.stdout and "is now 49" in result.stdout
    assert output.read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ("", ["--input_file is missing"]),
        ("--input_file={source}", ["--output_file is missing"]),
        ("--input_file={source} --mend", ["--output_file is missing"]),
        ("--input_file={source} --output_file=x.txt", ["--output_file=x.txt", ".jsonl", ".gz"]),
        ("--input_file={source} --output_file=x.gz", ["--output_file=x.gz", "another ending"]),
        ("--input_file={source} --output_file={source}", ["--output_file", "--input_file reads"]),
        ("--input_file=absent.csv --output_file=x.json", ["absent.csv: found no such file"]),
        ("--input_file=absent.csv --check", ["absent.csv", "found 1 fault"]),
        ("--input_file=. --output_file=x.json", ["found a folder"]),
        ("--input_file={source} --output_file=/dev/null/x.json", ["cannot be written"]),
    ],
)
def test_mistakes(commands, source, tmp_path, flags, parts):
    result = commands("convert", *flags.format(source=source).split())
    assert all(part in result.error for part in parts), result
    assert not [path for path in commands.folder.iterdir() if path.name.startswith("x.")]


# === The other commands ===


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("evaluate", "--dataset={bad} --predictions_file={predictions}"),
        ("evaluate", "--dataset={good} --predictions_file={bad}"),
        ("analyze", "--dataset={bad} --predictions_files={predictions} --output={folder}/new"),
        ("analyze", "--dataset={good} --predictions_files=ours={bad} --output={folder}/new"),
        ("train", "--dataset={bad} --run_dir={folder}/new"),
        ("train", "--dataset={good} --eval_dataset={bad} --run_dir={folder}/new"),
        ("prepare", "--dataset={good},{bad} --output={folder}/new"),
        ("export", "--model=fabir-base --calibration_dataset={bad} --export_dir={folder}/new"),
        ("pack", "--run_dir=fabir-base --calibration_dataset={bad} --output={folder}/new"),
    ],
)
def test_every_command_reads_json_lines(commands, tmp_path, command, flags):
    row = {"id": 1, "question": "Who?", "passage": "Anna came.", "answer": "Anna", "answer_start": 0}
    good = written(tmp_path, json.dumps(row | {"id": 7}), "good.jsonl")
    bad = written(tmp_path, gzip.compress(f"{json.dumps(row)}\n{{".encode()), "bad.jsonl.gz")
    predictions = written(tmp_path, json.dumps({"1": "Anna"}), "predictions.json")
    named = flags.format(good=good, bad=bad, predictions=predictions, folder=tmp_path).split()
    result = commands(command, *named, "--cache_dir=")
    assert f"{bad}: line 2 is no valid JSON" in result.error
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_answers_in_lines_are_scored_like_the_reader_itself(commands, tiny_run, tmp_path):
    rows, answers = tmp_path / "rows.csv", tmp_path / "answers.jsonl.gz"
    assert commands("convert", f"--input_file={tiny_run.dev}", f"--output_file={rows}").status == 0
    reader, data = f"--run_dir={tiny_run.path}", f"--dataset={rows}"
    result = commands("predict", reader, f"--input_file={rows}")
    assert result.status == 0, result
    answers.write_bytes(gzip.compress(result.stdout.encode()))
    scored = json.loads(commands("evaluate", data, f"--predictions_file={answers}").stdout)
    own = json.loads(commands("evaluate", reader, data, "--cache_dir=").stdout)
    assert scored.pop("missing") == 0 and own.pop("questions_per_second") > 0
    assert scored == own


@pytest.mark.slow
def test_numbers_as_ids_come_back_as_numbers(commands, tiny_run):
    rows = [{"id": identifier, "question": "Who?", "passage": "Anna."} for identifier in (7, "x", 10**20, "8")]
    lines = "\n".join(json.dumps(row) for row in [*rows, rows[0], {"question": "Who?", "passage": "Bo."}])
    result = commands("predict", f"--run_dir={tiny_run.path}", "--input_file=-", stdin=lines)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["id"] for line in found] == [7, "x", 10**20, "8", 7, "6"]
    assert ["error" in line for line in found] == [False, False, False, False, True, False]


@pytest.mark.parametrize(("titles", "unit"), [(1, "passage"), (9, "passage"), (10, "article"), (11, "article")])
def test_training_says_what_is_held_out(tmp_path, titles, unit):
    from fabir_tf.training.data_options import DataOptions
    from fabir_tf.training.prepared_data import _load_data
    from fabir_tf.training.training_config import TrainingConfig

    fields = {"question": "Who?", "answer": "A", "answer_start": 0}
    rows = [fields | {"title": f"t{n % titles}", "passage": f"A{n}"} for n in range(22)]
    path = written(tmp_path, "\n".join(map(json.dumps, rows)), "x.jsonl")
    lines: list[str] = []
    train, held_out = _load_data(TrainingConfig(dataset=str(path)), DataOptions(), lines.append)
    assert lines == [f"no --eval_dataset: {len(held_out.questions)} questions of {path} are held out, {unit} by {unit}"]
    assert bool(set(train.titles) & set(held_out.titles)) == (unit == "passage")


def test_the_home_folder_in_a_flag(commands, source, tmp_path):
    home = f"~/{os.path.relpath(tmp_path, Path.home().resolve())}"
    result = commands("convert", f"--input_file={source}", f"--output_file={home}/x.csv")
    assert result.status == 0 and len(read_questions(tmp_path / "x.csv").questions) == 12, result
    predictions = written(tmp_path, json.dumps({"Mill-0": "Anna Keld"}), "predictions.json")
    flags = (f"--predictions_file={home}/{predictions.name}", f"--report_file={home}/new/report.json")
    result = commands("evaluate", *flags, f"--dataset={home}/x.csv,{source}x.json")
    assert f"{source}x.json: found no such file" in result.error
    result = commands("evaluate", *flags, f"--dataset={home}/x.csv")
    assert json.loads((tmp_path / "new" / "report.json").read_text())["missing"] == 11, result


@pytest.mark.parametrize(
    ("ending", "told"), [(".json", ""), (".jsonl", ", 1 of them without a question and so left out of a file of rows")]
)
def test_passages_that_rows_cannot_hold_are_told(commands, tmp_path, ending, told):
    content = squad_json(ARTICLES)
    content["data"][0]["paragraphs"].append({"context": "Nobody asks about this.", "qas": []})
    path, output = written(tmp_path, json.dumps(content)), tmp_path / f"new{ending}"
    result = commands("convert", f"--input_file={path}", f"--output_file={output}")
    assert result.stdout == f"{output}: 12 questions about 5 passages{told}\n", result
