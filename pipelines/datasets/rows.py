"""Flat rows: one question each, with its passage. Every format but SQuAD's own is read as rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabir_tf.pipelines.datasets.squad import NO_START, Answer, Question, QuestionReader, SquadData
from fabir_tf.pipelines.errors import UserError

PASSAGE_KEYS = ("passage", "context")


@dataclass(frozen=True)
class Row:
    """One row of a file, its fields unchecked.

    Attributes:
        place: where it is, for messages: "line 3", "data[2]".
        number: the number of the line or row, from 1; the id of a question that has none.
        fields: the values by name.
        error: "" or the sentence that says why the row cannot be read.
    """

    place: str
    number: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


class RowReader(QuestionReader):
    """Reads rows, of which those with the same title and passage share one passage."""

    def read(self, rows: Iterable[Row]) -> SquadData:
        """Reads all rows.

        Args:
            rows: the rows.

        Raises:
            UserError: a row has a mistake, or there is no row; unless mistakes are collected.
        """
        passages: dict[tuple[str, str], int] = {}
        questions: list[Question] = []
        for row in rows:
            found = self.attempt(None, self.row, row, passages)
            questions += [found] if found else []
        if not questions and not self.mistakes:
            self.report(f"{self.name}: found no question, expected at least one.")
        titles, texts = zip(*passages, strict=True) if passages else ((), ())
        return SquadData(self.name, texts, titles, tuple(questions))

    def row(self, row: Row, passages: dict[tuple[str, str], int]) -> Question:
        """Reads one row.

        Args:
            row: the row.
            passages: the index of each passage by title and text; a new one is added.
        """
        if row.error:
            raise UserError(row.error)
        self.as_object(row.fields, row.place, "question")
        entry = {"id": str(row.number)} | dict(row.fields)
        before = self.mistakes
        title = self.attempt("", self.title, entry, row.place)
        passage = self.attempt("", self.passage, entry, row.place)
        index = passages.setdefault((title, passage), len(passages))
        return self.question(entry, row.place, index, self.mistakes == before)

    def answers(self, entry: dict[str, Any], path: str) -> tuple[Answer, ...]:
        """The answers, also the only one as the fields `answer` and `answer_start`; an empty one is none."""
        if entry.get("answers", 0) is None and "answer" not in entry:
            return ()
        if entry.get("answers") is not None or not isinstance(entry.get("answer", 0), str | None):
            return super().answers(entry, path)
        if not entry["answer"]:
            return ()
        start = NO_START if entry.get("answer_start") is None else entry["answer_start"]
        found = self.answer(entry["answer"], self.join(path, "answer"), start, self.join(path, "answer_start"))
        return (found,) if found else ()

    def is_impossible(self, entry: dict[str, Any], path: str, answers: int) -> bool:
        """Whether a question is marked to have no answer; Hugging Face's SQuAD 2.0 marks it by two empty lists."""
        given = entry.get("answers")
        if "is_impossible" not in entry and isinstance(given, dict):
            return given.get("text") == []
        return super().is_impossible(entry, path, answers)

    def passage(self, entry: dict[str, Any], path: str) -> str:
        """The text of the field `passage` or, without one, of `context`."""
        key = next((key for key in PASSAGE_KEYS if key in entry), "")
        if not key:
            raise UserError(f"{self.name}: {self.join(path, ' (or '.join(PASSAGE_KEYS))}) is missing, expected a text.")
        return self.text(entry, key, path)


def is_question_row(content: Any) -> bool:
    """Whether parsed JSON is one row with a question and its passage."""
    return isinstance(content, dict) and "question" in content and any(key in content for key in PASSAGE_KEYS)


def rows_of_list(values: Iterable[Any], path: str = "") -> Iterator[Row]:
    """The rows of a JSON list.

    Args:
        values: the entries of the list.
        path: its JSON path.
    """
    for number, value in enumerate(values, 1):
        yield Row(f"{path}[{number - 1}]", number, value)


def rows_of(data: SquadData) -> list[dict[str, Any]]:
    """Questions as rows with Hugging Face's fields; `is_impossible` and `reason` only where a question has one.

    Args:
        data: the questions.
    """
    rows = [_fields(data, question) for question in data.questions]
    if any(question.is_impossible for question in data.questions):
        for row, question in zip(rows, data.questions, strict=True):
            row["is_impossible"] = question.is_impossible
    if any(question.reason for question in data.questions):
        for row, question in zip(rows, data.questions, strict=True):
            row["reason"] = question.reason
    return rows


def _fields(data: SquadData, question: Question) -> dict[str, Any]:
    texts = [answer.text for answer in question.answers]
    return {
        "id": question.given_id,
        "title": data.titles[question.passage],
        "context": data.passages[question.passage],
        "question": question.text,
        "answers": {"text": texts, "answer_start": [answer.start for answer in question.answers]},
    }
