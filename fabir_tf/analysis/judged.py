"""Predictions for a dataset's questions, each scored by the official metrics."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, check_predictions, exact_match, f1
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import open_json, parse_json, shown


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One answer of a predictions file.

    Attributes:
        text: the answer; "" predicts that there is none.
        start: its offset in the passage, in code points; None if the file gives none.
        probability: the reader's probability of it, from 0 to 1; None if the file gives none.
    """

    text: str
    start: int | None = None
    probability: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """Predictions and their scores, question by question in the order of the data.

    Attributes:
        name: the predictions' name in tables and pictures.
        predictions: None for a question that the file lacks; it scores 0.
        exact_match, f1: float64 `(questions,)`, in percent.
    """

    name: str
    predictions: tuple[Prediction | None, ...]
    exact_match: np.ndarray
    f1: np.ndarray

    @functools.cached_property
    def probabilities(self) -> np.ndarray | None:
        """Float64 `(questions,)`, 0 for a question that the file lacks; None if an answer has none."""
        values = [found.probability if found else 0.0 for found in self.predictions]
        return None if None in values or not any(self.predictions) else np.array(values, np.float64)


def judge(name: str, data: SquadData, predictions: Mapping[str, Prediction]) -> Judged:
    """Scores every prediction on its own; the means are the official scores.

    Args:
        name: the predictions' name.
        data: the questions; if some are unanswerable, the metrics are those of SQuAD 2.0.
        predictions: by question id; unknown ids are ignored.

    Raises:
        UserError: the predictions answer no question of the data.
    """
    found = tuple(predictions.get(question.id) for question in data.questions)
    if not any(found):
        raise UserError(f"{name}: answers no question of {data.name}, expected predictions for its question ids")
    overlap = functools.partial(f1, empty_equals_empty=data.has_unanswerable)
    scores = np.zeros((2, len(found)))
    for index, (question, prediction) in enumerate(zip(data.questions, found, strict=True)):
        if prediction:
            truths = [answer.text for answer in question.answers] or [""]
            scores[:, index] = [best_over_references(of, prediction.text, truths) for of in (exact_match, overlap)]
    return Judged(name, found, *(100.0 * scores))


def read_answers(path: str | os.PathLike) -> dict[str, Prediction]:
    """Reads predictions in the official form, or the JSON lines of `fabir-predict`.

    Args:
        path: a JSON object from question ids to texts; or one JSON line per question with `id`, `answer` and optionally
            `start` and `probability`. Lines with `error` instead of an answer count as missing.

    Returns:
        The predictions by question id.

    Raises:
        UserError: the file has neither form.
    """
    with open_json(path) as file:
        content = file.read()
    lines = [line for line in content.split(b"\n") if line.strip()]
    if lines and _is_answer_line(lines[0]):
        return dict(_from_lines(str(path), lines))
    predictions = check_predictions(parse_json(content, str(path)), path)
    return {identifier: Prediction(text) for identifier, text in predictions.items()}


def _is_answer_line(line: bytes) -> bool:
    try:
        first = parse_json(line, "")
    except UserError:
        return False
    return isinstance(first, dict) and "id" in first and bool({"answer", "error"} & set(first))


def _from_lines(path: str, lines: list[bytes]):
    for number, line in enumerate(lines, 1):
        where = f"{path}, answer {number}"
        row = parse_json(line, where)
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise UserError(f"{where}: found {shown(row)}, expected an object with a text id and an answer")
        if "error" in row:
            continue
        if not isinstance(row.get("answer"), str):
            raise UserError(f"{where}: found {shown(row.get('answer'))} for answer, expected a text")
        yield row["id"], Prediction(row["answer"], _start(where, row), _probability(where, row))


def _start(where: str, row: dict[str, Any]) -> int | None:
    start = row.get("start")
    if start is None or (isinstance(start, int) and not isinstance(start, bool) and start >= 0):
        return start
    raise UserError(f"{where}: found {shown(start)} for start, expected an offset in the passage")


def _probability(where: str, row: dict[str, Any]) -> float | None:
    value = row.get("probability")
    if value is None or (isinstance(value, Real) and not isinstance(value, bool) and 0 <= value <= 1):
        return value
    raise UserError(f"{where}: found {shown(value)} for probability, expected a number from 0 to 1")
