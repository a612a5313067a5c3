"""The formats of files of questions: read alike, written and read again, and one clear sentence for every mistake."""

import gzip
import io
import json
import random
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import ARTICLES, squad_data, squad_json

from fabir_tf.configuration import ConfigError
from fabir_tf.pipelines.datasets import formats
from fabir_tf.pipelines.datasets.formats import read_questions, write_questions
from fabir_tf.pipelines.datasets.own_texts import questions_from
from fabir_tf.pipelines.datasets.places import PlacesOnDisk
from fabir_tf.pipelines.datasets.predictions import Prediction, read_predictions
from fabir_tf.pipelines.datasets.records import read_records
from fabir_tf.pipelines.datasets.squad import NO_START, Answer, Question, SquadData, squad_from_json
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position, read_arrays, user_path, write_text
from fabir_tf.pipelines.json_files import RepeatedKeyError, loads, parse_json, read_json
from fabir_tf.training.training_config import TrainingConfig

# Texts that a careless reader or writer changes.
HOSTILE = (
    'a "b", c;\td',
    "x\r\ny\rz\n\n",
    " 'q' ",
    "=1+1",
    "Café \U0001f600 ﷺ",
    "\ufeffx",
    "\u2028\x85\x0b",
    "null",
    "[1]",
    "\\n",
)
ROW = {"id": "a", "context": "Anna came.", "question": "Who?", "answers": {"text": ["Anna"], "answer_start": [0]}}
CSV = 'id,context,question,answers\na,Anna came.,Who?,"{""text"": [""Anna""], ""answer_start"": [0]}"\n'


def hostile_data() -> SquadData:
    questions = [
        Question(f"{number}", text, number, (Answer(text, 0), Answer(text, -1)), has_number_id=number % 2 == 0)
        for number, text in enumerate(HOSTILE)
    ]
    questions.append(Question("none", "Who?", 0, (), True))
    return SquadData("hostile", HOSTILE, tuple(f"title {text}" for text in HOSTILE), tuple(questions))


def written(folder, content, name="questions.json"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def failure(call, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# === A key given twice ===


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1, "a": 2}', "a is given twice"),
        ('{"a": 1, "a": 1}', "a is given twice"),
        ('{"": 1, "": 2}', " is given twice"),
        ('{"a": {"b": 1, "b": 2}}', "a.b is given twice"),
        ('[0, {"b": [1], "b": []}]', "[1].b is given twice"),
        ('{"data": [{"paragraphs": []}, {"qas": [], "title": "x", "qas": []}]}', "data[1].qas is given twice"),
        ('{"a": {"x": 1, "x": 2}, "b": 1, "b": 2}', "b is given twice"),
        ('{"\\u0061": 1, "a": 2}', "a is given twice"),
        ('{"q": {"q": {"q": 1, "q": null}}}', "q.q.q is given twice"),
        ('{"a": 1, "b": 2, "c": 3, "b": 4, "b": 5}', "b is given twice"),
    ],
)
def test_a_json_key_given_twice_is_an_error_with_its_place(text, place):
    assert failure(parse_json, text.encode(), "x.json") == f"x.json: {place}, expected each key once."
    with pytest.raises(RepeatedKeyError, match="given twice"):
        loads(text)


def test_all_repeated_keys_of_a_file_are_collected():
    faults: list[str] = []
    content = parse_json(b'{"a": 1, "a": 2, "b": [{"c": 1, "c": 2, "d": 3, "d": 4}], "e": 5}', "x", faults)
    assert [fault.split(" ")[1] for fault in faults] == ["a", "b[0].c", "b[0].d"]
    assert content == {"a": 2, "b": [{"c": 2, "d": 4}], "e": 5}
    assert loads('{"a": 1, "b": {"a": 2}}') == {"a": 1, "b": {"a": 2}}


def test_every_file_that_is_json_refuses_a_repeated_key(tmp_path):
    path = written(tmp_path, '{"a": "x", "a": "y"}')
    for read in (read_json, read_questions, read_predictions, lambda path: list(read_records(path))):
        assert "a is given twice" in failure(read, path)
    with pytest.raises(ConfigError, match="epochs is given twice"):
        TrainingConfig.from_json('{"epochs": 1, "epochs": 2}')
    (bad,) = read_records(written(tmp_path, json.dumps(ROW)[:-1] + ', "id": "b"}', "lines.jsonl"))
    assert bad.error.endswith("line 1: id is given twice, expected each key once.")


# === Reading ===


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", json.dumps(ROW)),
        ("rows.json", json.dumps(ROW)),
        ("no-ending", json.dumps(ROW) + "\n\n"),
        ("rows.jsonl", "\ufeff\r\n" + json.dumps(ROW | {"title": None, "other": [{}]}) + "\r\n"),
        ("list.json", json.dumps([ROW], indent=2)),
        ("list.jsonl", json.dumps([ROW])),
        ("data.json", json.dumps({"version": "0.1", "data": [ROW]}, indent=1)),
        ("columns.json", json.dumps({name: [value] for name, value in ROW.items()})),
        ("columns.json", json.dumps({name: [value] for name, value in ROW.items()}, indent=1)),
        ("objects.jsonl", json.dumps(ROW | {"answers": [{"text": "Anna", "answer_start": 0}]})),
        (
            "single.jsonl",
            json.dumps({**ROW, "answers": None} | {"answer": "Anna", "answer_start": 0}).replace(
                '"answers": null, ', ""
            ),
        ),
        ("rows.csv", CSV),
        ("ROWS.CSV", "\ufeff\n" + CSV.replace("\n", "\r\n") + "\r\n\r\n"),
        ("semicolons.csv", 'id;"context";question;answer;answer_start\na;"Anna came.";Who?;Anna;0\n'),
        ("named.csv", 'sep=;\r\nid;"context";question;answer;answer_start\r\na;"Anna came.";Who?;Anna;0\r\n'),
        ("bars.csv", '\ufeff \n"sep=|"\nid|context|question|answer|answer_start\na|Anna came.|Who?|Anna|0\n'),
        ("export", "SEP=\t\nid\tcontext\tquestion\tanswer\tanswer_start\na\tAnna came.\tWho?\tAnna\t0\n"),
        ("tabs.csv", "id\tcontext\tquestion\tanswer\tanswer_start\na\tAnna came.\tWho?\tAnna\t0.0\n"),
        (
            "pandas.csv",
            "context, question ,id,answers\nAnna came.,Who?,a,"
            "\"{'text': array(['Anna'], dtype=object), 'answer_start': array([0])}\"",
        ),
        (
            "python.csv",
            "passage,question,id,title,answers\nAnna came.,Who?,a,,\"[{'text': 'Anna', 'answer_start': 0}]\"",
        ),
        ("spreadsheet.csv", ",,id,context,question,answer,answer_start,\n0,0,a,Anna came.,Who?,Anna,0,\n,,,,,,,\n"),
        ("rows.tsv", "question\tid\tcontext\tanswer\tanswer_start\nWho?\ta\tAnna came.\tAnna\t0\n"),
        (
            "export.txt",
            '\ufeff"id";"question";"passage";"answer";"answer_start"\r\n"a";"Who?";"Anna came.";"Anna";"0"\r\n',
        ),
        (
            "numpy.csv",
            "id,context,question,answers\na,Anna came.,Who?,"
            "\"{'text': (np.str_('Anna'),), 'answer_start': np.array([np.int64(0)])}\"",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_gives_the_same_question(tmp_path, name, content, packed):
    raw = content.encode()
    path = written(tmp_path, gzip.compress(raw) if packed else raw, f"{name}.gz" if packed else name)
    data = read_questions(path)
    assert data == SquadData(str(path), ("Anna came.",), ("",), (Question("a", "Who?", 0, (Answer("Anna", 0),)),))
    assert [(record.id, record.question, record.passage, record.error) for record in read_records(path)] == [
        ("a", "Who?", "Anna came.", "")
    ]


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize("ending", list(formats.FORMATS))
def test_what_is_written_is_read_again(tmp_path, ending, packing):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    for data in (hostile_data(), squad_data(ARTICLES)):
        path = tmp_path / f"new/questions{ending}{packing}"
        write_questions(data, path)
        again = read_questions(path)
        assert (again.passages, again.titles) == (data.passages, data.titles)
        # Only JSON lines have numbers as ids.
        numbers = [replace(asked, has_number_id=asked.has_number_id and ending == ".jsonl") for asked in data.questions]
        assert sorted(again.questions, key=str) == sorted(numbers, key=str)
        first = path.read_bytes()
        write_questions(data, path)
        assert path.read_bytes() == first
        assert first.startswith(b"\x1f\x8b") == bool(packing)


@pytest.mark.parametrize("ending", [*formats.FORMATS, ".csv.gz"])
def test_reasons_are_written_and_read_again(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    # Of answered questions, too, and of those that are not marked.
    reasons = [text if number % 3 else "" for number, text in enumerate((*HOSTILE, "#"))]
    data = hostile_data()
    questions = [replace(asked, reason=reason) for asked, reason in zip(data.questions, reasons, strict=True)]
    write_questions(replace(data, questions=tuple(questions)), tmp_path / f"x{ending}")
    again = read_questions(tmp_path / f"x{ending}").questions
    assert {asked.id: asked.reason for asked in again} == {asked.id: asked.reason for asked in questions}
    assert sum(bool(asked.reason) for asked in again) == 7


@pytest.mark.parametrize("ending", list(formats.FORMATS))
def test_files_without_reasons_have_no_such_field(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    for data in (hostile_data(), squad_data(ARTICLES)):
        write_questions(data, tmp_path / f"x{ending}")
        assert b"reason" not in (tmp_path / f"x{ending}").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("lines.jsonl", json.dumps(ROW | {"reason": "E"}), "E"),
        ("lines.jsonl", json.dumps(ROW | {"reason": None}), ""),
        ("list.json", json.dumps([ROW | {"reason": "E"}]), "E"),
        ("data.json", json.dumps({"data": [ROW | {"reason": "E"}]}), "E"),
        ("columns.json", json.dumps({name: [value] for name, value in (ROW | {"reason": "E"}).items()}), "E"),
        ("rows.csv", "id,context,question,answer,answer_start,reason\na,Anna came.,Who?,Anna,0, E\n", " E"),
        ("rows.csv", "id,context,question,answer,answer_start,reason\na,Anna came.,Who?,Anna,0,\n", ""),
        ("rows.csv", "id,reason,context,question,answer,answer_start\na,1,Anna came.,Who?,Anna,0\n", "1"),
    ],
)
def test_the_reason_in_every_form(tmp_path, name, content, reason):
    assert [asked.reason for asked in read_questions(written(tmp_path, content, name)).questions] == [reason]


@pytest.mark.parametrize("value", [3, True, ["E"], {"E": 1}, "\ud800"])
def test_a_reason_is_a_text(tmp_path, value):
    path = written(tmp_path, json.dumps(ROW | {"reason": value}), "x.jsonl")
    expected = "half of a surrogate pair" if isinstance(value, str) else "expected a text"
    assert "line 1: reason " in failure(read_questions, path) and expected in failure(read_questions, path)
    # Who only asks does not look at it.
    assert [record.error for record in read_records(path)] == [""]


def test_gzip_is_recognized_without_its_ending_and_damage_is_told(tmp_path):
    raw = gzip.compress(json.dumps(squad_json(ARTICLES)).encode())
    assert len(read_questions(written(tmp_path, raw, "packed.json")).questions) == 12
    assert len(list(read_records(written(tmp_path, raw, "packed")))) == 12
    for cut in (raw[:-9], raw[:100] + b"zz" + raw[102:], raw[:12]):
        for read in (read_questions, lambda path: list(read_records(path))):
            assert "cannot be read (" in failure(read, written(tmp_path, cut, "cut.json.gz"))


def test_rows_about_one_text_share_a_passage_and_ids_are_line_numbers_where_they_are_missing(tmp_path):
    rows = [
        {"passage": "A.", "question": "1?", "answers": []},
        {"passage": "B.", "question": "2?", "answers": [], "is_impossible": True},
        {"passage": "A.", "question": "3?", "answers": []},
        {"passage": "A.", "question": "4?", "answers": [], "title": "T"},
    ]
    data = read_questions(written(tmp_path, "\n\n".join(map(json.dumps, rows)), "rows.jsonl"))
    assert (data.passages, data.titles) == (("A.", "B.", "A."), ("", "", "T"))
    found = [(asked.id, asked.passage, asked.is_impossible) for asked in data.questions]
    assert found == [("1", 0, False), ("3", 1, True), ("5", 0, False), ("7", 2, False)]


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("x.jsonl", json.dumps(ROW) + "\n{", ["line 2 is no valid JSON at column 2"]),
        ("x.jsonl", json.dumps(ROW) + "\n[1]", ["line 2 is a list"]),
        ("x.jsonl", json.dumps(ROW | {"context": 3}), ["line 1: context is the number 3", "a text"]),
        ("x.jsonl", json.dumps(ROW) + "\n\n" + json.dumps(ROW), ["line 3: id is 'a', the id of line 1 too"]),
        ("x.jsonl", json.dumps(ROW | {"id": ""}), ["line 1: id is empty", "a whole number"]),
        (
            "x.jsonl",
            json.dumps(ROW | {"answers": {"text": ["Anna"], "answer_start": []}}),
            ["1 values of text and 0 of"],
        ),
        ("x.jsonl", json.dumps(ROW | {"answers": {"answer_start": []}}), ["line 1: answers.text is missing"]),
        (
            "x.jsonl",
            json.dumps(ROW | {"answers": {"text": [4], "answer_start": [0]}}),
            ["answers.text[0] is the number 4"],
        ),
        ("x.json", json.dumps([ROW, ROW | {"id": "b", "answers": 4}]), ["[1].answers is the number 4", "a list"]),
        ("x.json", json.dumps({"data": [ROW, 3]}), ["data[1] is the number 3", "an object"]),
        ("x.json", json.dumps({"question": ["1?"], "context": ["A.", "B."]}), ["1 of question, 2 of context"]),
        ("x.json", json.dumps({"question": ["1?"], "context": ["A."], "id": "a"}), ["id is the text 'a'"]),
        ("x.json", json.dumps(ROW, indent=1), ["a single object", "one object a line, or a JSON list"]),
        ("x.json", "[]", ["found no question"]),
        ("x.csv", "", ["the file is empty", "CSV with a header"]),
        ("x.csv", "sep=;\n", ["the file is empty", "CSV with a header"]),
        ("x.csv", "sep=;\nid;question;context\na;Who?\n", ["line 3 has 2 cells, expected 3"]),
        ("x.csv", "sep=,\nid;question;context\n", ["line 2 is 'id;question;context'", "expected a header"]),
        ("x.csv", "sep=;;\nid;question\n", ["line 1 is 'sep=, , '", "expected a header"]),
        ("x.csv", b"sep=\xff\nid\xffquestion\n", ["byte 4 is not UTF-8"]),
        ("x.csv", "sep=\0\nid\0question\n", ["line 1"]),
        ("x.csv", "sep=x\nidxquestion\n", ["line 1 is 'sep=x'", "expected a header"]),
        ("x.csv", "Who?,Anna came.\n", ["line 1", "expected a header such as id, context, question"]),
        ("x.csv", "id,question,id\n", ["line 1", "the column 'id' twice"]),
        ("x.csv", 'id,context,question\na,"Anna\ncame.",Who?,\n', ["line 2 has 4 cells, expected 3"]),
        ("x.csv", CSV.replace('""Anna', "Anna"), ["line 2: answers is the text", "expected JSON"]),
        ("x.csv", 'context,question,answers\nA.,1?,"{[0]: 1}"\n', ["line 2: answers is the text '{[0]: 1}'"]),
        ("x.csv", "context,question,answer,answer_start\nA.,1?,A,one\n", ["line 2: answer_start is the text 'one'"]),
        ("x.csv", "context,question,answer,answer_start\nA.,1?,A,0.5\n", ["line 2: answer_start is the number 0.5"]),
        ("x.csv", "context,question,answers,is_impossible\nA.,1?,,perhaps\n", ["is_impossible is the text 'perhaps'"]),
        ("x.csv", b"context,question\n\xe9,1?\n", ["byte 17 is not UTF-8"]),
        ("x.csv", 'context,question\n"A.', ["line 2 is no valid CSV"]),
        ("x.csv", "question,answers\n1?,[]\n", ["line 2: passage (or context) is missing"]),
        (
            "x.csv",
            'context,question,answers\nA.,1?,"{""answer_start"": [0], ""text"": [""A""], ""answer_start"": [1]}"\n',
            ["line 2: answers: answer_start is given twice"],
        ),
        (
            "x.csv",
            "context,question,answers\nA.,1?,\"[{'text': 'A', 'answer_start': 0, 'text': 'B'}]\"\n",
            ["line 2: answers: text is given twice"],
        ),
    ],
)
def test_a_mistake_in_rows_is_one_sentence_with_its_place(tmp_path, name, content, parts):
    message = failure(read_questions, written(tmp_path, content, name))
    assert all(part in message for part in [str(tmp_path / name), *parts]), message


@pytest.mark.parametrize("name", ["absent.csv", "absent.jsonl.gz", "absent.parquet"])
def test_the_name_of_a_missing_file_is_known_to_be_one(tmp_path, name):
    from fabir_tf.pipelines.datasets.sources import load_dataset, names_file

    assert names_file(name)
    assert f"{name}: found no such file" in failure(load_dataset, str(tmp_path / name), "train")


def test_parquet(tmp_path, monkeypatch):
    path = written(tmp_path, b"PAR1" + bytes(20), "x.parquet")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pyarrow", None)
        message = failure(read_questions, path)
        assert "needs the package pyarrow" in message and "pip install 'fabir_tf[parquet]'" in message
        assert "--output_file" in failure(write_questions, squad_data(ARTICLES), tmp_path / "new.parquet")
    assert not (tmp_path / "new.parquet").exists()
    pyarrow = pytest.importorskip("pyarrow")
    assert "expected a Parquet file" in failure(read_questions, path)
    rows = [ROW | {"id": 3, "title": None}, ROW | {"id": 12, "is_impossible": None}]
    table = pyarrow.Table.from_pylist(rows)
    # Recognized by its content, too.
    pyarrow.parquet.write_table(table, tmp_path / "without-ending")
    data = read_questions(tmp_path / "without-ending")
    assert [asked.given_id for asked in data.questions] == [3, 12]
    assert [record.id for record in read_records(tmp_path / "without-ending")] == [3, 12]
    assert data.titles == ("",)
    again = read_questions(written(tmp_path, gzip.compress((tmp_path / "without-ending").read_bytes()), "x.parquet.gz"))
    assert again.questions == data.questions
    # A column with missing numbers holds floats.
    flat = [
        {"question": "Who?", "passage": "Ada came.", "answer": "Ada", "answer_start": start} for start in (0.0, None)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat), tmp_path / "floats.parquet")
    assert [one.answers for one in read_questions(tmp_path / "floats.parquet").questions] == [
        (Answer("Ada", 0),),
        (Answer("Ada", NO_START),),
    ]
    far = SquadData("far.json", ("Ada came.",), ("",), (Question("q", "Who?", 0, (Answer("Ada", 10**20),)),))
    assert "far.json: cannot be written as Parquet" in failure(write_questions, far, tmp_path / "far.parquet")
    assert not (tmp_path / "far.parquet").exists()


# === Ids ===


@pytest.mark.parametrize("identifier", [0, 7, -3, 10**30, "7", "007", "7.0", " ", "None", "é"])
def test_ids_keep_their_type_in_json_lines_and_are_texts_elsewhere(tmp_path, identifier):
    line = json.dumps(ROW | {"id": identifier})
    (record,) = read_records(written(tmp_path, line, "x.jsonl"))
    assert record.id == identifier and type(record.id) is type(identifier)
    data = read_questions(tmp_path / "x.jsonl")
    assert data.questions[0].id == str(identifier)
    write_questions(data, tmp_path / "y.jsonl")
    assert json.loads((tmp_path / "y.jsonl").read_text())["id"] == identifier
    write_questions(data, tmp_path / "y.json")
    assert json.loads((tmp_path / "y.json").read_text())["data"][0]["paragraphs"][0]["qas"][0]["id"] == str(identifier)


@pytest.mark.parametrize(("first", "second"), [(7, "7"), ("7", 7), (7, 7), (0, "0"), (-1, "-1")])
def test_a_number_and_its_text_are_the_same_id(tmp_path, first, second):
    content = squad_json(ARTICLES[:1])
    qas = content["data"][0]["paragraphs"][0]["qas"]
    qas[0]["id"], qas[1]["id"] = first, second
    assert "qas[1].id" in failure(squad_from_json, content, "official")
    lines = "\n".join(json.dumps(ROW | {"id": identifier}) for identifier in (first, second))
    assert [bool(record.error) for record in read_records(written(tmp_path, lines, "x.jsonl"))] == [False, True]


def test_numbers_of_an_official_file_come_back_as_numbers(tmp_path):
    content = squad_json(ARTICLES[:1])
    for number, entry in enumerate(content["data"][0]["paragraphs"][0]["qas"]):
        entry["id"] = number
    content["data"][0]["title"] = None
    data = read_questions(written(tmp_path, json.dumps(content)))
    assert ([asked.id for asked in data.questions], data.titles) == (["0", "1", "2"], ("",))
    assert [record.id for record in read_records(tmp_path / "questions.json")] == [0, 1, 2]


@pytest.mark.parametrize("identifier", [1.0, 1.5, True, None, [], {}, float("nan"), ""])
def test_other_ids_are_refused(tmp_path, identifier):
    (record,) = read_records(written(tmp_path, json.dumps(ROW | {"id": identifier}), "x.jsonl"))
    assert record.id == "1" and "line 1: id is" in record.error


# === Answers are not judged before they are needed ===

ANSWERS = [
    None,
    "Anna",
    7,
    {},
    {"text": "Anna"},
    {"text": [1], "answer_start": ["x"]},
    [None],
    [{"answer_start": 3}],
    [{"text": None, "answer_start": -9}],
    [[["Anna"]]],
    ...,
]


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("is_impossible", [..., None, "no", True])
def test_answers_are_not_looked_at_where_questions_are_only_asked(tmp_path, answers, is_impossible):
    content = squad_json(ARTICLES[:1])
    fields = {"answers": answers, "is_impossible": is_impossible}
    asked = [*content["data"][0]["paragraphs"][0]["qas"], row := dict(ROW)]
    for entry in asked:
        del entry["answers"]
        entry |= {name: value for name, value in fields.items() if value is not ...}
    official = written(tmp_path, json.dumps(content))
    lines = written(tmp_path, json.dumps(row), "x.jsonl")
    assert [record.error for path in (official, lines) for record in read_records(path)] == [""] * 4
    # A null is no answer.
    is_right = answers is None and is_impossible in (..., True)
    for path in () if is_right else (official, lines):
        assert any(name in failure(read_questions, path) for name in fields)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("answers", "[Anna"),
        ("answer_start", "5 (?)"),
        ("is_impossible", "unknown"),
        ("start", "0:35"),
        ("probability", "-"),
    ],
)
def test_answers_in_csv_are_not_looked_at_where_questions_are_only_asked(tmp_path, column, cell):
    path = written(tmp_path, f"id,context,question,answer,{column}\nb,Bo left.,Who?,Bo,{cell}\n", "x.csv")
    (record,) = read_records(path)
    assert (record.id, record.passage, record.error) == ("b", "Bo left.", "")
    if column in ("start", "probability"):
        assert read_questions(path).questions[0].answers[0].text == "Bo"
        assert f"line 2: {column} is the text '{cell}'" in failure(read_predictions, path)
    else:
        assert f"line 2: {column} is the text '{cell}'" in failure(read_questions, path)
        assert read_predictions(path) == {"b": Prediction("Bo")}


def test_a_row_of_csv_that_cannot_be_read_costs_only_itself(tmp_path):
    lines = [
        b"",
        b"id;question;context",
        b'a;Who?;"Anna\r\nKeld."',
        b"b;Who?;Andr\xe9.",
        b"c;Who?",
        b"d;Who?;Bo \xf0\x9f\x98\x80 left.",
        b"a;Who?;Cy.",
    ]
    records = list(read_records(written(tmp_path, b"\r\n".join(lines), "x.csv")))
    assert [record.id for record in records] == ["a", "5", "6", "d", "a"]
    assert (records[0].passage, records[3].passage) == ("Anna\r\nKeld.", "Bo 😀 left.")
    errors = ["", "x.csv: line 5 is not UTF-8, expected CSV", "line 6 has 2 cells", "", "the id of line 3 too"]
    for record, error in zip(records, errors, strict=True):
        assert bool(record.error) == bool(error) and error in record.error


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_of_csv_is_known(tmp_path, end):
    path = written(tmp_path, end.join(["", "id,question,context", "a,Who?,Anna.", "", "b,Who?,Bo."]) + end, "x.csv")
    assert [(record.id, record.passage) for record in read_records(path)] == [("a", "Anna."), ("b", "Bo.")]


def test_a_header_that_is_not_utf_8(tmp_path):
    raw = "id,question,context,größe\na,Who?,Anna.,1\n".encode("latin-1")
    assert "x.csv: line 1 is not UTF-8, expected CSV" in failure(list, read_records(written(tmp_path, raw, "x.csv")))


@pytest.mark.parametrize("header", ["id,question,context\n", ""])
def test_rows_are_yielded_as_they_arrive(monkeypatch, header):
    def lines():
        yield header.encode()
        for number in range(3):
            row = {"id": number, "question": "Who?", "context": "Anna."}
            yield (f"{number},Who?,Anna.\n" if header else json.dumps(row) + "\n").encode()
        raise AssertionError("read further than needed")

    source = lines()
    if not header:
        next(source)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(readline=lambda: next(source))))
    records = read_records("-")
    assert [str(next(records).id) for _ in range(2)] == ["0", "1"]


def test_the_position_in_a_file_is_told(tmp_path):
    row = json.dumps(ROW | {"id": "%06d"}) + "\n"
    text = "".join(row % number for number in range(100_000))
    for raw in (text.encode(), gzip.compress(text.encode(), 1)):
        position = Position()
        records = read_records(written(tmp_path, raw, "x.jsonl"), position)
        shares = [position.done / position.total for number, _ in enumerate(records) if number % 10_000 == 0]
        assert position.total == position.done == len(raw)
        assert shares == pytest.approx(np.arange(10) / 10, abs=0.1)


def test_ids_on_disk_are_those_of_a_dictionary():
    places, known = PlacesOnDisk(), {}
    generator = random.Random(0)
    for number in range(3000):
        identifier = generator.choice(["", "é", "\0", "a\0", "a"]) + str(generator.randrange(500))
        assert places.setdefault(identifier, f"line {number}") == known.setdefault(identifier, f"line {number}")
    assert 1000 < len(known) < 3000


def test_gzip_on_standard_input_is_told(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(json.dumps(ROW).encode()))))
    assert "standard input: found gzip" in failure(list, read_records("-"))


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([ROW], indent=1),
        json.dumps([ROW]),
        json.dumps({"data": [ROW]}),
        CSV,
        "question\tid\tcontext\nWho?\ta\tAnna.\n",
    ],
)
def test_a_document_on_standard_input_is_read_to_its_end(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
    assert [record.id for record in read_records("-")] == ["a"]


# === Predictions ===


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", '{"a": "x", "7": ""}'),
        ("x.jsonl", '{"a": "x", "7": ""}'),
        ("x.jsonl", '{"id": "a", "answer": "x"}\n\n{"id": 7, "answer": ""}\n'),
        ("x.json", '{"id": "a", "answer": "x"}\n{"id": 7, "answer": ""}\n{"id": 8, "error": "line 3 is no JSON"}'),
        (
            "x.json",
            '[{"id": "a", "prediction_text": "x"}, {"id": "7", "prediction_text": "", "no_answer_probability": 0}]',
        ),
        (
            "x.jsonl",
            '{"id": "a", "answer": "x", "n_best": [{"text": "x"}]}\n{"id": "7", "answer": "", "is_answer": false}',
        ),
        ("x.csv", "id,answer\na,x\n7,\n"),
        ("x.csv", "answer,start,id,probability,error\nx,,a,,\n,,7,,\n,,8,,not read\n"),
        ("x.csv", "id;prediction_text\r\na;x\r\n7;\r\n"),
        ("x.tsv", "id\tanswer\na\tx\n7\t\n"),
        ("x.jsonl", '{"id": "a", "answer": "x"}\n{"id": "7", "error": "line 7 has 2 cells"}\n{"id": 7, "answer": ""}'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_predictions_of_every_form(tmp_path, name, content, packed):
    raw = content.encode()
    path = written(tmp_path, gzip.compress(raw) if packed else raw, f"{name}.gz" if packed else name)
    # Of Hugging Face's metric, one file gives the no-answer probability, too.
    none = 0 if "no_answer_probability" in content else None
    assert read_predictions(path) == {"a": Prediction("x"), "7": Prediction("", no_answer_probability=none)}


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("x.json", '{"a": "x", "a": "y"}', "a is given twice"),
        ("x.jsonl", '{"id": 7, "answer": "x"}\n{"id": "7", "answer": "y"}', "line 2: id is '7', the id of line 1 too"),
        ("x.jsonl", '{"id": "a", "answer": "x", "answer": "y"}', "line 1: answer is given twice"),
        ("x.jsonl", '{"id": "a", "answer": "x"}\n{"id": "b"', "line 2 is no valid JSON"),
        ("x.jsonl", '{"id": "a", "answer": "x"}\n3', "line 2 is the number 3"),
        (
            "x.jsonl",
            '{"id": "a", "best_span_str": "x"}\n{"id": "b", "best_span_str": "y"}',
            "line 1: answer is missing",
        ),
        ("x.json", '[{"id": null, "answer": "x"}]', "[0].id is null"),
        ("x.json", '[{"id": "a", "answer": 3}]', "[0].answer is the number 3"),
        ("x.json", "[]", "found a list, expected an object"),
        ("x.csv", "id,answer,start\na,x,two\n", "line 2: start is the text 'two'"),
        ("x.csv", "id,text\na,x\n", "line 2: answer is missing"),
    ],
)
def test_a_mistake_in_predictions_is_one_sentence_with_its_place(tmp_path, name, content, part):
    assert part in failure(read_predictions, written(tmp_path, content, name))


# === The home folder ===


def test_the_home_folder_in_paths_of_the_library(tmp_path, monkeypatch):
    from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
    from fabir_tf.reading.run_directory import RunDirectory

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert user_path("~/x") == tmp_path / "x"
    assert str(user_path("~nobody-of-this-name/x")) == "~nobody-of-this-name/x"
    write_text("~/new/text", "x")
    assert (tmp_path / "new" / "text").read_text() == "x"
    write_questions(squad_data(ARTICLES), "~/questions.csv")
    assert len(read_questions("~/questions.csv").questions) == 12
    assert names_file("~/questions.csv") and not names_file("~/questions")
    assert len(load_dataset("~/questions.csv", "train").questions) == 12
    assert len(list(read_records("~/questions.csv"))) == 12
    assert RunDirectory("~/run").config == tmp_path / "run" / "config.json"
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        read_arrays("~/arrays.npz")


# === One row a line, as programs write lists ===

THREE = [ROW | {"id": identifier} for identifier in "abc"]


@pytest.mark.parametrize("form", ["[\n{}\n]", '{{"data": [\n{}\n]}}', "\ufeff[{}]\n", '{{\n"data":\n[\n{}\n]\n}}\n'])
@pytest.mark.parametrize("name", ["list.json", "list.jsonl", "list"])
def test_a_list_with_one_row_a_line_is_a_list(tmp_path, monkeypatch, form, name):
    content = form.format(",\n".join(map(json.dumps, THREE))).encode()
    path = written(tmp_path, content, name)
    assert [asked.id for asked in read_questions(path).questions] == ["a", "b", "c"]
    assert [(record.id, record.error) for record in read_records(path)] == [("a", ""), ("b", ""), ("c", "")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
    assert [(record.id, record.error) for record in read_records("-")] == [("a", ""), ("b", ""), ("c", "")]


def test_a_fault_in_a_list_with_one_row_a_line_is_the_only_one(tmp_path):
    lines = ",\n".join(map(json.dumps, THREE)).replace('"b"', "b")
    message = failure(read_questions, written(tmp_path, f"[\n{lines}\n]", "list.json"))
    assert message.endswith("list.json: no valid JSON at line 3, column 8 (Expecting value).")


def test_predictions_in_a_list_with_one_a_line(tmp_path):
    lines = ['{"id": "a", "answer": "x", "start": 12.0}', '{"id": "b", "answer": "y", "start": null}']
    found = read_predictions(written(tmp_path, "[\n" + ",\n".join(lines) + "\n]", "said.json"))
    assert [(one.text, one.start) for one in found.values()] == [("x", 12), ("y", None)]


# === What programs write for missing values ===

NO_ANSWER = {"id": "n", "context": "Anna came.", "question": "When?"}


@pytest.mark.parametrize(
    ("row", "is_impossible"),
    [
        # Hugging Face's SQuAD 2.0.
        (NO_ANSWER | {"answers": {"text": [], "answer_start": []}}, True),
        (NO_ANSWER | {"answers": {"text": [], "answer_start": []}, "is_impossible": False}, False),
        (NO_ANSWER | {"answers": []}, False),
        (NO_ANSWER | {"answers": None, "is_impossible": True}, True),
        (NO_ANSWER | {"answers": None}, False),
        (NO_ANSWER | {"answer": None, "answer_start": None}, False),
    ],
)
def test_rows_without_an_answer(tmp_path, row, is_impossible):
    for name, content in (("x.jsonl", json.dumps(row)), ("x.json", json.dumps([row, ROW]))):
        first = read_questions(written(tmp_path, content, name)).questions[0]
        assert (first.answers, first.is_impossible) == ((), is_impossible)
    first = questions_from([row]).questions[0]
    assert (first.answers, first.is_impossible) == ((), is_impossible)


def test_rows_without_an_answer_in_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [ROW, NO_ANSWER | {"answers": {"text": [], "answer_start": []}}, NO_ANSWER | {"id": "m", "answers": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    found = read_questions(tmp_path / "x.parquet").questions
    assert [(len(asked.answers), asked.is_impossible) for asked in found] == [(1, False), (0, True), (0, False)]


@pytest.mark.parametrize("start", [0.0, 0])
def test_offsets_of_a_column_of_floats(tmp_path, start):
    forms = ({"answer": "Anna", "answer_start": start}, {"answers": {"text": ["Anna"], "answer_start": [start]}})
    for answers in (*forms, {"answers": [{"text": "Anna", "answer_start": start}]}):
        row = {name: value for name, value in ROW.items() if name != "answers"} | answers
        (found,) = read_questions(written(tmp_path, json.dumps(row), "x.jsonl")).questions
        assert found.answers == (Answer("Anna", 0),) and type(found.answers[0].start) is int
    assert "answer_start is the number 0.5, expected an integer" in failure(
        read_questions, written(tmp_path, json.dumps(row).replace(f": {start}}}", ": 0.5}"), "x.jsonl")
    )


class NAType:
    """Stands where pandas has pandas.NA: its type has this name, and comparing it gives no truth value."""

    def __eq__(self, other):
        return self

    __hash__ = None

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


def test_missing_cells_of_pandas(tmp_path):
    rows = [ROW | {"title": NAType(), "reason": float("nan")}, NO_ANSWER | {"answer": NAType(), "title": "T"}]
    data = questions_from(rows)
    assert data.titles == ("", "T") and [len(asked.answers) for asked in data.questions] == [1, 0]
