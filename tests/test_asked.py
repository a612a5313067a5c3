"""Questions without passages: lines, and files of questions whose passages are not looked at."""

import csv
import io
import json
import sys

import pytest
from tiny import ARTICLES, squad_json

from fabir_tf.pipelines.datasets.asked import read_asked
from fabir_tf.pipelines.errors import UserError

QUESTIONS = {"a": "Who built the mill?", "7": "When?", "c": "Does it, still, turn?"}


def as_csv(rows):
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def as_json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMATS = {"asked.csv": as_csv, "asked.jsonl": as_json_lines, "asked.json": json.dumps}


def asked(folder, name, content):
    (folder / name).write_text(content, encoding="utf-8")
    return [(record.id, record.question, record.passage, record.error) for record in read_asked(folder / name)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("passage", [{}, {"passage": ""}, {"passage": "The mill."}, {"context": "The mill."}])
def test_rows_need_no_passage(tmp_path, name, passage):
    rows = [{"id": identifier, "question": question} | passage for identifier, question in QUESTIONS.items()]
    expected = [(identifier, question, "", "") for identifier, question in QUESTIONS.items()]
    assert asked(tmp_path, name, FORMATS[name](rows)) == expected


def test_parquet_needs_no_passage(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"id": identifier, "question": question} for identifier, question in QUESTIONS.items()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "asked.parquet")
    assert [record.question for record in read_asked(tmp_path / "asked.parquet")] == list(QUESTIONS.values())


def test_questions_of_squad_are_asked_whatever_their_passages(tmp_path):
    content = squad_json(ARTICLES)
    content["data"][0]["paragraphs"][0]["context"] = " "
    found = asked(tmp_path, "squad.json", json.dumps(content))
    assert len(found) == 12 and not any(error for *_, error in found)


@pytest.mark.parametrize("name", FORMATS)
def test_a_blank_question_is_told(tmp_path, name):
    rows = [{"id": "a", "question": "Who?"}, {"id": "b", "question": "?!"}, {"id": "c", "question": "\u200b"}]
    found = asked(tmp_path, name, FORMATS[name](rows))
    assert [identifier for identifier, *_ in found] == ["a", "b", "c"]
    assert [bool(error) for *_, error in found] == [False, True, True]
    assert "question is the text '?!', expected a text with a letter or digit." in found[1][3]


@pytest.mark.parametrize("empty", ["", " ", "\u00a0", "\t\u2003"])
def test_empty_lines_are_left_out(tmp_path, empty):
    found = asked(tmp_path, "asked.txt", f"\ufeff{empty}\nWho came?\n{empty}\n...\nWhen?\n")
    assert [(identifier, question) for identifier, question, _, error in found if not error] == [
        ("2", "Who came?"),
        ("5", "When?"),
    ]
    assert [identifier for identifier, *_, error in found if error] == ["4"]


def test_a_file_without_a_question_is_told(tmp_path):
    for content in ("", "\n \n", "\ufeff\n"):
        with pytest.raises(UserError, match="found no question, expected one a line"):
            asked(tmp_path, "asked.txt", content)


@pytest.mark.parametrize("name", ["asked.tsv", "asked", "-"])
@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_csv_is_recognized_by_its_header(tmp_path, monkeypatch, name, delimiter):
    content = "\n".join(delimiter.join((key, f'"{text}"')) for key, text in [("id", "question"), *QUESTIONS.items()])
    (tmp_path / "asked").write_text(content)
    (tmp_path / "asked.tsv").write_text(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode()), "utf-8"))
    found = list(read_asked(name if name == "-" else tmp_path / name))
    assert {record.id: record.question for record in found} == QUESTIONS
    assert not any(record.error for record in found)


def test_a_first_question_with_commas_is_no_header(tmp_path):
    lines = "Who, if any question is asked, built it?\nWhen, then?\n"
    assert [question for _, question, *_ in asked(tmp_path, "asked.txt", lines)] == lines.splitlines()


def test_rows_under_data_need_no_passage(tmp_path):
    content = json.dumps({"data": [{"id": "a", "question": "Who?"}, {"id": "b", "question": "When?"}]}, indent=1)
    assert [record[:2] for record in asked(tmp_path, "asked.json", content)] == [("a", "Who?"), ("b", "When?")]


def test_half_a_surrogate_pair_is_told(tmp_path):
    lines = '{"id": "\\ud83d", "question": "Who?"}\n{"id": "b", "question": "Who\\ud83d?"}\n'
    found = asked(tmp_path, "asked.jsonl", lines)
    assert [record[:3] for record in found] == [("1", "", ""), ("b", "", "")]
    assert all("half of a surrogate pair, expected Unicode text." in error for *_, error in found)
