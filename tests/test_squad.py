"""Tests of reading SQuAD: unchanged texts, one clear message per mistake, splits, and records for prediction."""

import io
import json
from types import SimpleNamespace

import pytest
from shared_data import OWN_QUESTIONS, SHARED, needs_shared

from fabir_tf.pipelines.datasets import squad
from fabir_tf.pipelines.datasets.records import Record, read_records
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData
from fabir_tf.pipelines.errors import UserError

PASSAGE = "Caf\u00e9 \U0001f600 \u201cAda\u201d\r\n wrote  it\u00a0here."


def question(identifier="q1", answers=(("wrote", 15),), **more):
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": identifier, "question": f"Who is {identifier}?", "answers": listed, **more}


def content(*questions, context=PASSAGE, title="Ada"):
    return {"version": "1.1", "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def written(folder, value, name="set.json"):
    path = folder / name
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode("utf-8"))
    return path


def failure(call, *arguments):
    with pytest.raises(UserError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", ")."))
    return message


# === read_squad ===


def test_texts_are_unchanged_and_each_paragraph_is_one_passage(tmp_path):
    value = content(question("q1"), question("q2", [("Ada", 8), ("it", 22)], is_impossible=False))
    value["data"].append({"paragraphs": [{"context": "Nobody.", "qas": [question("q3", [], is_impossible=True)]}]})
    data = squad.read_squad(written(tmp_path, value))
    assert data.name == str(tmp_path / "set.json")
    assert data.passages == (PASSAGE, "Nobody.")
    assert data.titles == ("Ada", "")
    assert data.questions == (
        Question("q1", "Who is q1?", 0, (Answer("wrote", 15),)),
        Question("q2", "Who is q2?", 0, (Answer("Ada", 8), Answer("it", 22))),
        Question("q3", "Who is q3?", 1, (), True),
    )
    assert data.has_unanswerable
    squad.check_offsets(data)


def test_offsets_count_code_points_not_bytes(tmp_path):
    data = squad.read_squad(written(tmp_path, content(question())))
    answer = data.questions[0].answers[0]
    assert PASSAGE[answer.start : answer.start + 5] == "wrote"
    assert not data.has_unanswerable


@pytest.mark.parametrize("start", [{}, {"answer_start": -1}])
def test_an_absent_start_is_minus_one(tmp_path, start):
    value = content({"id": "q", "question": "?", "answers": [{"text": "Ada", **start}]})
    assert squad.read_squad(written(tmp_path, value)).questions[0].answers == (Answer("Ada", -1),)


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbf" + json.dumps(content(question())).encode())
    assert len(squad.read_squad(path).questions) == 1


def test_unmarked_questions_without_answers_are_read_but_not_valid_for_training(tmp_path):
    data = squad.read_squad(written(tmp_path, content(question("lonely", []))))
    assert data.questions[0].answers == ()
    message = failure(squad.check_offsets, data)
    assert "set.json" in message
    assert "'lonely'" in message
    assert "is_impossible" in message


PATH_OF_START = "data[0].paragraphs[0].qas[0].answers[0].answer_start"


def with_field(path, value):
    """Returns a valid file with one field replaced, or removed if the value is `...`."""
    good = content(question())
    *parents, last = path
    node = good
    for key in parents:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return good


QA = ("data", 0, "paragraphs", 0, "qas", 0)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ([1], ["the top level is a list", "expected an object with the field data"]),
        ({"version": "1.1"}, ["data is missing", "expected a list"]),
        ({"data": {}}, ["data is an object", "expected a list"]),
        ({"data": ["x"]}, ["data[0] is the text 'x'", "expected an object with the field paragraphs"]),
        (with_field(("data", 0, "title"), 7), ["data[0].title is the number 7", "expected a text"]),
        (with_field(("data", 0, "paragraphs"), ...), ["data[0].paragraphs is missing"]),
        (with_field(("data", 0, "paragraphs", 0, "context"), ...), ["data[0].paragraphs[0].context is missing"]),
        (with_field(("data", 0, "paragraphs", 0, "context"), None), ["data[0].paragraphs[0].context is null"]),
        (with_field(("data", 0, "paragraphs", 0, "qas"), ...), ["data[0].paragraphs[0].qas is missing"]),
        (with_field((*QA, "id"), 5.0), ["data[0].paragraphs[0].qas[0].id is the number 5.0", "expected a text"]),
        (with_field((*QA, "question"), ...), ["data[0].paragraphs[0].qas[0].question is missing"]),
        (with_field((*QA, "answers"), ...), ["data[0].paragraphs[0].qas[0].answers is missing", "expected a list"]),
        (with_field((*QA, "answers"), "Ada"), ["qas[0].answers is the text 'Ada'", "expected a list"]),
        (with_field((*QA, "answers", 0, "text"), ["a"]), ["qas[0].answers[0].text is a list", "expected a text"]),
        (with_field((*QA, "answers", 0, "answer_start"), "3"), [PATH_OF_START, "the text '3'", "an integer"]),
        (with_field((*QA, "answers", 0, "answer_start"), 3.5), [PATH_OF_START, "the number 3.5", "an integer"]),
        (with_field((*QA, "answers", 0, "answer_start"), True), [PATH_OF_START, "is true", "an integer"]),
        (with_field((*QA, "answers", 0, "answer_start"), None), [PATH_OF_START, "is null", "an integer"]),
        (with_field((*QA, "answers", 0, "answer_start"), -2), [PATH_OF_START, "the number -2", "an integer"]),
        (with_field((*QA, "is_impossible"), "no"), ["qas[0].is_impossible is the text 'no'", "true or false"]),
        (with_field((*QA, "is_impossible"), True), ["qas[0].is_impossible is true", "expected no answers"]),
        (with_field((*QA, "reason"), 7), ["qas[0].reason is the number 7", "expected a text"]),
        (with_field((*QA, "question"), "\ud83d"), ["qas[0].question", "surrogate"]),
        (content(question("twin"), question("twin")), ["qas[1].id is 'twin'", "qas[0] too", "one question per id"]),
        ({"data": []}, ["no question", "expected at least one"]),
        (content(), ["no question", "expected at least one"]),
    ],
)
def test_an_invalid_structure_is_reported_with_file_and_path(tmp_path, value, parts):
    message = failure(squad.read_squad, written(tmp_path, value))
    assert message.startswith(str(tmp_path / "set.json"))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"", ["empty"]),
        (b" \n", ["empty"]),
        (b'{"data": [\n  {"title": "x",', ["no valid JSON", "line 2, column"]),
        (b"<html>", ["no valid JSON", "line 1, column 1"]),
        (b'{"data": "caf\xe9"}', ["byte 13", "not UTF-8"]),
        (b"[" * 200_000, ["no valid JSON"]),
        (b'{"data": ' + b"9" * 5000 + b"}", ["no valid JSON"]),
    ],
)
def test_a_broken_file_is_reported_with_the_position(tmp_path, raw, parts):
    message = failure(squad.read_squad, written(tmp_path, raw))
    assert message.startswith(str(tmp_path / "set.json"))
    for part in parts:
        assert part in message


def test_a_missing_file_and_a_folder_are_reported(tmp_path):
    assert "absent.json: found no such file" in failure(squad.read_squad, tmp_path / "absent.json")
    assert "found a folder" in failure(squad.read_squad, tmp_path)
    path = written(tmp_path, content(question()))
    assert "cannot be opened" in failure(squad.read_squad, path / "inside.json")


# === check_offsets ===


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (("Ada", 9), ["found 'da\u201d' at answer_start 9", "expected 'Ada'"]),
        (("Ada", 500), ["found the end of the passage at answer_start 500", "expected 'Ada'"]),
        (("Ada", -1), ["no answer_start for 'Ada'"]),
        (("", 3), ["an empty answer"]),
    ],
)
def test_wrong_offsets_are_reported_and_counted(tmp_path, answer, parts):
    value = content(question("good"), question("bad", [("wrote", 15), answer]), question("worse", [("it", 0)]))
    message = failure(squad.check_offsets, squad.read_squad(written(tmp_path, value)))
    for part in ["set.json", "'bad'", "2 of 4 answers are off", *parts]:
        assert part in message


# === Unanswerable questions ===


def test_unanswerable_questions_are_counted_and_dropped():
    mixed = content(question("a"), question("b", [], is_impossible=True), question("c"), question("d", []))
    data = squad.squad_from_json(mixed, "mixed")
    assert (data.unanswerable, data.has_unanswerable) == (2, True)
    kept = squad.data_without_unanswerable(data)
    assert (kept.unanswerable, kept.has_unanswerable) == (0, False)
    assert kept.questions == (data.questions[0], data.questions[2])
    assert (kept.name, kept.passages, kept.titles) == (data.name, data.passages, data.titles)


def test_a_passage_stays_when_all_its_questions_are_dropped():
    value = content(question("a", [], is_impossible=True))
    value["data"].append({"paragraphs": [{"context": "Ada wrote.", "qas": [question("b", [("Ada", 0)])]}]})
    data = squad.data_without_unanswerable(squad.squad_from_json(value, "mixed"))
    assert data.passages == (PASSAGE, "Ada wrote.")
    assert [data.passages[asked.passage] for asked in data.questions] == ["Ada wrote."]


def test_reasons_are_read_and_written_where_they_are_given():
    value = content(
        question("a", [], is_impossible=True, reason="E"),
        question("b", [], is_impossible=True),
        question("c", is_impossible=False),
    )
    data = squad.squad_from_json(value, "reasons")
    assert [asked.reason for asked in data.questions] == ["E", "", ""]
    written = squad.squad_to_json(data)
    assert written == value | {"version": "2.0"}
    assert squad.squad_from_json(written, "reasons") == data
    value["data"][0]["paragraphs"][0]["qas"][0]["reason"] = None
    assert not any(asked.reason for asked in squad.squad_from_json(value, "reasons").questions)


# === hold_out ===


def made(titles, passages=None):
    """Makes a dataset with one question per passage."""
    passages = passages or [f"passage {index}" for index in range(len(titles))]
    questions = tuple(Question(f"q{index}", "?", index, (Answer("p", 0),)) for index in range(len(passages)))
    return SquadData("made", tuple(passages), tuple(titles), questions)


def ids(data):
    return [question.id for question in data.questions]


def test_whole_articles_are_held_out():
    titles = [f"t{index % 23}" for index in range(46)]
    train, dev = squad.hold_out(made(titles))
    # The 10th and the 20th of 23 articles.
    assert ids(dev) == ["q9", "q19", "q32", "q42"]
    assert set(dev.titles) == {"t9", "t19"}
    assert not set(dev.titles) & set(train.titles)
    assert sorted(ids(train) + ids(dev)) == sorted(f"q{index}" for index in range(46))
    for part in (train, dev):
        for asked in part.questions:
            assert part.passages[asked.passage] == f"passage {asked.id[1:]}"


def test_with_few_titles_passages_are_held_out_and_equal_ones_stay_in_one_part():
    passages = [f"p{index % 5}" for index in range(10)]
    train, dev = squad.hold_out(made(["a"] * 10, passages), every=5)
    assert ids(dev) == ["q4", "q9"]
    assert not set(dev.passages) & set(train.passages)


def test_the_last_of_two_passages_is_held_out():
    train, dev = squad.hold_out(made(["a", "a"]))
    assert (ids(train), ids(dev)) == (["q0"], ["q1"])
    assert (train.name, dev.name) == ("made (training part)", "made (held-out part)")


def test_unsplittable_data_is_an_error():
    assert "one passage" in failure(squad.hold_out, made(["a"]))
    assert "expected 2 or more" in failure(squad.hold_out, made(["a", "b"]), 1)


# === read_records ===


def records(folder, raw):
    path = written(folder, raw, "asked")
    return list(read_records(path))


def test_json_lines_with_every_field_name(tmp_path):
    raw = (
        b'\xef\xbb\xbf{"question": "Who?", "passage": "Ada."}\n\n'
        b'{"id": "x", "question": "Where?", "context": "Caf\xc3\xa9."}\r\n'
        b'{"id": 7, "question": "When?", "passage": "Now.", "context": "Then."}'
    )
    assert records(tmp_path, raw) == [
        Record("1", "Who?", "Ada."),
        Record("x", "Where?", "Caf\u00e9."),
        Record(7, "When?", "Now."),
    ]


@pytest.mark.parametrize(
    ("line", "identifier", "parts"),
    [
        (b"nonsense", "2", ["no valid JSON", "column 1"]),
        (b'{"question": "Who?"', "2", ["no valid JSON"]),
        (b"[1]", "2", ["a list", "question and passage"]),
        (b'{"id": "x", "passage": "Ada."}', "x", ["question is missing"]),
        (b'{"question": "Who?"}', "2", ["passage (or context) is missing"]),
        (b'{"question": 4, "passage": "Ada."}', "2", ["question is the number 4"]),
        (b'{"question": "Who?", "context": null}', "2", ["context is null"]),
        (b'{"question": " ", "passage": "Ada."}', "2", ["question is empty"]),
        (b'{"question": "Who?", "passage": ""}', "2", ["passage is empty"]),
        (b'{"question": "Who?", "passage": "\\ud83d"}', "2", ["passage", "surrogate"]),
        (b'{"id": [], "question": "Who?", "passage": "Ada."}', "2", ["id is a list"]),
        (b'{"id": true, "question": "Who?", "passage": "Ada."}', "2", ["id is true"]),
        (b'{"question": "Who?", "passage": "caf\xe9"}', "2", ["not UTF-8"]),
        (b"[" * 200_000, "2", ["no valid JSON"]),
    ],
)
def test_a_bad_line_does_not_stop_the_others(tmp_path, line, identifier, parts):
    good = b'{"question": "Who?", "passage": "Ada."}'
    first, bad, last = records(tmp_path, b"\n".join([good, line, good]))
    assert (first.id, first.error, last.id, last.error) == ("1", "", "3", "")
    assert (bad.id, bad.question, bad.passage) == (identifier, "", "")
    for part in ["asked: line 2", *parts]:
        assert part in bad.error


@pytest.mark.parametrize("first", [b"nonsense", b'{"question": "Who?"', b'{"broken', b"{"])
def test_a_bad_first_line_does_not_stop_the_others(tmp_path, first):
    bad, good = records(tmp_path, first + b'\n{"question": "Who?", "passage": "Ada."}')
    assert "line 1" in bad.error
    assert good == Record("2", "Who?", "Ada.")


@pytest.mark.parametrize("indent", [None, 1])
def test_squad_json_is_recognized_with_and_without_answers(tmp_path, indent):
    value = content(question("q1"), {"id": "q2", "question": "Where?"})
    raw = b"\n" + json.dumps(value, indent=indent).encode()
    assert records(tmp_path, raw) == [Record("q1", "Who is q1?", PASSAGE), Record("q2", "Where?", PASSAGE)]


def test_an_empty_passage_in_squad_json_is_a_bad_record(tmp_path):
    (bad,) = records(tmp_path, json.dumps(content(question("q1"), context=" ")).encode())
    assert bad.id == "q1"
    assert "passage is empty" in bad.error


def test_broken_squad_json_is_one_error_with_its_position(tmp_path):
    raw = json.dumps(content(question()), indent=1).encode()
    assert "line 3, column" in failure(records, tmp_path, b'{\n"version": "1",\n"data": [')
    assert "no valid JSON" in failure(records, tmp_path, raw[:-20])
    assert "data is an object" in failure(records, tmp_path, b'{"data": {}}')


def test_an_empty_file_has_no_records_and_a_missing_one_is_an_error(tmp_path):
    assert records(tmp_path, b"\n \n") == []
    assert "absent" in failure(read_records, tmp_path / "absent")


def test_standard_input_is_answered_line_by_line(monkeypatch):
    lines_read = []

    class Pipe(io.BytesIO):
        def readline(self, *arguments):
            lines_read.append(1)
            return super().readline(*arguments)

    lines = b'{"question": "Who?", "passage": "Ada."}\n' * 3
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(lines)))
    stream = read_records("-")
    assert next(stream) == Record("1", "Who?", "Ada.")
    assert len(lines_read) == 1
    assert [record.id for record in stream] == ["2", "3"]


def test_standard_input_without_bytes_and_its_errors(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('x\n{"question": "Who?", "passage": "Caf\u00e9."}\n'))
    bad, good = read_records("-")
    assert bad.error.startswith("standard input: line 1")
    assert good.passage == "Caf\u00e9."


# === The real files ===


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "articles", "passages", "questions", "unanswerable"),
    [
        (OWN_QUESTIONS, 10, 10, 100, 0),
        pytest.param(SHARED / "squad" / "dev-v1.1.json", 48, 2067, 10570, 0, marks=needs_shared),
        pytest.param(SHARED / "squad" / "dev-v2.0.json", 35, 1204, 11873, 5945, marks=needs_shared),
    ],
)
def test_real_files(path, articles, passages, questions, unanswerable):
    data = squad.read_squad(path)
    assert (len(set(data.titles)), len(data.passages), len(data.questions)) == (articles, passages, questions)
    assert data.unanswerable == unanswerable
    squad.check_offsets(data)
    train, dev = squad.hold_out(data)
    assert not set(train.titles) & set(dev.titles)
    assert len(train.questions) + len(dev.questions) == questions
    assert [record.id for record in read_records(path)] == ids(data)


def test_parts_are_joined_in_order():
    first = squad.squad_from_json(content(question("a"), question("b")), "first")
    second = squad.squad_from_json(content(question("c", (("Bob", 0),)), context="Bob.", title="Bob"), "second")
    joined = squad.join([first, second])
    assert joined.name == "first,second"
    assert [(q.id, joined.passages[q.passage], joined.titles[q.passage]) for q in joined.questions] == [
        ("a", PASSAGE, "Ada"),
        ("b", PASSAGE, "Ada"),
        ("c", "Bob.", "Bob"),
    ]
    assert joined.questions[2].answers == (Answer("Bob", 0),)
    assert squad.join([first]) is first


def test_parts_with_a_question_of_the_same_id_are_not_joined():
    first, second = (squad.squad_from_json(content(question("a")), name) for name in ("first", "second"))
    assert failure(squad.join, [first, second]) == (
        "first and second both have the question 'a', expected different ids."
    )
