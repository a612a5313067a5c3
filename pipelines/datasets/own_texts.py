"""Questions from Python's own values instead of a file."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fabir_tf.pipelines.datasets.rows import RowReader, rows_of_list
from fabir_tf.pipelines.datasets.squad import NO_START, Answer, Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted

# The types of pandas.NA and pandas.NaT, by name: this package does not need pandas.
_EMPTY_CELLS = ("NAType", "NaTType")


def questions_from(rows: Iterable[Mapping[str, Any]], name: str = "rows") -> SquadData:
    """Makes a dataset of rows, each a question about its passage.

    Args:
        rows: mappings with the fields of a JSON line: `question`, `passage` (or `context`), and `answer` with
            `answer_start` or `answers` as in SQuAD; optionally `id` and `title`. Arrays and numbers may be NumPy's.
            Without `answer_start`, the answer must stand in the passage once. An empty `answer` is none.
        name: the dataset's name, for messages.

    Returns:
        The questions in the order of the rows; rows with the same title and passage share one passage.

    Raises:
        UserError: there is no row, a row has a mistake, or an answer without an offset is not in its passage, or there
            more than once.

    Example:
        >>> rows = [{"question": "Who built it?", "passage": "It was built by Anna Keld.", "answer": "Anna Keld"}]
        >>> questions_from(rows).questions[0].answers
        (Answer(text='Anna Keld', start=16),)
    """
    data = RowReader(name).read(rows_of_list(_row(values) for values in rows))
    questions = tuple(_with_offsets(question, data.passages[question.passage], name) for question in data.questions)
    return replace(data, questions=questions)


def _row(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    fields = {name: _plain(value) for name, value in values.items()}
    given = {name: value for name, value in fields.items() if not _is_missing(value)}
    # Answers that are named and missing are none; no name at all would be a mistake.
    return given | {name: None for name in ("answer", "answers") if name in fields.keys() - given.keys()}


def _is_missing(value: Any) -> bool:
    """Whether it is what pandas has for an empty cell, of any column."""
    return type(value).__name__ in _EMPTY_CELLS or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    """NumPy's arrays and numbers as Python's own."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _with_offsets(question: Question, passage: str, name: str) -> Question:
    answers = tuple(_located(answer, passage, f"{name}: question {question.id!r}") for answer in question.answers)
    return replace(question, answers=answers)


def _located(answer: Answer, passage: str, place: str) -> Answer:
    if answer.start != NO_START or not answer.text:
        return answer
    first = passage.find(answer.text)
    if first < 0:
        raise UserError(f"{place}: the answer {quoted(answer.text)} is not in its passage, expected a piece of it")
    if passage.find(answer.text, first + 1) >= 0:
        raise UserError(
            f"{place}: the answer {quoted(answer.text)} stands in its passage more than once, expected an answer_start"
        )
    return Answer(answer.text, first)
