"""Reads files of predictions: the official JSON, the lines of `fabir-predict`, and rows in any other format."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fabir_tf.pipelines.datasets.fields import FieldReader
from fabir_tf.pipelines.datasets.formats import read_rows
from fabir_tf.pipelines.datasets.json_rows import Document
from fabir_tf.pipelines.datasets.rows import Row, rows_of_list
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted, shown

# Of fabir-predict, and of Hugging Face's metric.
TEXT_KEYS = ("answer", "prediction_text")
_PROBABILITIES = ("probability", "no_answer_probability")
_EXPECTED = 'an object that gives each question id a text ("" for no answer)'


@dataclass(frozen=True)
class Prediction:
    """One answer of a predictions file.

    Attributes:
        text: the answer; "" predicts that there is none.
        start: its offset in the passage, in code points; None if the file gives none.
        probability: the reader's probability of it, from 0 to 1; None if the file gives none.
        no_answer_probability: that there is no answer, from 0 to 1; None if the file gives none.
        best_span: the best span, also where the reader declines; None if the file gives none.
    """

    text: str
    start: int | None = None
    probability: float | None = None
    no_answer_probability: float | None = None
    best_span: str | None = None


def read_predictions(path: str | os.PathLike[str]) -> dict[str, Prediction]:
    """Reads a file of predictions.

    Args:
        path: a JSON object from question ids to texts, which is the official format; or rows, in JSON lines, a JSON
            list, CSV or Parquet, with `id`, `answer` (or `prediction_text`) and optionally `start`, `probability`,
            `no_answer_probability` and `n_best`. Rows with `error` instead of an answer count as missing.

    Returns:
        The predictions by question id, in the file's order.

    Raises:
        UserError: the file cannot be read, has neither form, or answers a question twice.
    """
    source, name = read_rows(path, _is_answer_row, ("start", *_PROBABILITIES)), str(path)
    if not isinstance(source, Document):
        return _from_rows(source, name)
    if isinstance(source.content, list) and any(isinstance(entry, dict) for entry in source.content):
        return _from_rows(rows_of_list(source.content), name)
    return {identifier: Prediction(text) for identifier, text in _official(source.content, name)}


def _official(content: Any, name: str) -> Iterator[tuple[str, str]]:
    if not isinstance(content, dict):
        raise UserError(f"{name}: found {shown(content)}, expected {_EXPECTED}.")
    for identifier, value in content.items():
        if not isinstance(value, str):
            found = f"question {quoted(identifier)} has {shown(value)}"
            raise UserError(f'{name}: {found}, expected a text ("" for no answer).')
        yield identifier, value


def _is_answer_row(content: Any) -> bool:
    return isinstance(content, dict) and "id" in content and any(key in content for key in (*TEXT_KEYS, "error"))


def _from_rows(rows: Iterable[Row], name: str) -> dict[str, Prediction]:
    reader = FieldReader(name)
    found: dict[str, Prediction] = {}
    places: dict[str, str] = {}
    for row in rows:
        if row.error:
            raise UserError(row.error)
        identifier = _identifier(reader, row)
        # A row that could not be answered may have its line as its id, which may be the id of another row.
        if row.fields.get("error"):
            continue
        first = places.setdefault(identifier, row.place)
        if first != row.place:
            repeated = f"{reader.join(row.place, 'id')} is {quoted(identifier)}, the id of {first} too"
            raise UserError(f"{name}: {repeated}, expected one answer per question.")
        found[identifier] = _prediction(reader, row)
    return found


def _identifier(reader: FieldReader, row: Row) -> str:
    value = reader.field(row.fields, "id", row.place, "a text or a whole number")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise reader.wrong(reader.join(row.place, "id"), value, "a text or a whole number")
    return str(value)


def _prediction(reader: FieldReader, row: Row) -> Prediction:
    key = next((key for key in TEXT_KEYS if key in row.fields), TEXT_KEYS[0])
    value = reader.field(row.fields, key, row.place, "a text")
    if not isinstance(value, str):
        raise reader.wrong(reader.join(row.place, key), value, "a text")
    probability, none = (_probability(reader, row, name) for name in _PROBABILITIES)
    return Prediction(value, _start(reader, row), probability, none, _best_span(row))


def _best_span(row: Row) -> str | None:
    """The text of the first span of `n_best`, as `fabir-predict` writes it; other programs have other lists."""
    spans = row.fields.get("n_best")
    first = spans[0] if isinstance(spans, list) and spans else None
    text = first.get(TEXT_KEYS[0]) if isinstance(first, dict) else None
    return text if isinstance(text, str) else None


def _start(reader: FieldReader, row: Row) -> int | None:
    start = reader.whole(row.fields.get("start"))
    if start is None or (isinstance(start, int) and not isinstance(start, bool) and start >= 0):
        return start
    raise reader.wrong(reader.join(row.place, "start"), start, "an offset in the passage")


def _probability(reader: FieldReader, row: Row, name: str) -> float | None:
    value = row.fields.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1):
        return value
    raise reader.wrong(reader.join(row.place, name), value, "a number from 0 to 1")
