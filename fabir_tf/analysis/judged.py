"""Predictions for a dataset's questions, each scored by the official metrics."""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from fabir_tf.pipelines.datasets.predictions import Prediction
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match, f1, references_v2
from fabir_tf.pipelines.errors import UserError


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """Predictions and their scores, question by question in the order of the data.

    Attributes:
        name: the predictions' name in tables and pictures.
        predictions: None for a question that the file lacks; it scores 0.
        exact_match, f1: float64 `(questions,)`, in percent.
        first_match: the same as exact match, but with each question's first reference alone.
        is_unanswerable: boolean `(questions,)`.
    """

    name: str
    predictions: tuple[Prediction | None, ...]
    exact_match: np.ndarray
    f1: np.ndarray
    first_match: np.ndarray
    is_unanswerable: np.ndarray

    @functools.cached_property
    def predicted(self) -> "Judged":
        """The same without the questions that the file lacks."""
        kept = np.array([prediction is not None for prediction in self.predictions])
        arrays = (self.exact_match, self.f1, self.first_match, self.is_unanswerable)
        return Judged(self.name, tuple(filter(None, self.predictions)), *(array[kept] for array in arrays))

    @functools.cached_property
    def probabilities(self) -> np.ndarray | None:
        """Float64 `(questions,)`, 0 for a question that the file lacks; None if an answer has none."""
        return self._numbers("probability")

    @functools.cached_property
    def no_answer_probabilities(self) -> np.ndarray | None:
        """Float64 `(questions,)`, 0 for a question that the file lacks; None if an answer has none."""
        return self._numbers("no_answer_probability")

    def _numbers(self, name: str) -> np.ndarray | None:
        values = [getattr(found, name) if found else 0.0 for found in self.predictions]
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
    is_v2 = data.has_unanswerable
    overlap = functools.partial(f1, empty_equals_empty=is_v2)
    scores = np.zeros((3, len(found)))
    for index, (question, prediction) in enumerate(zip(data.questions, found, strict=True)):
        if prediction:
            truths = references_v2(question) if is_v2 else [answer.text for answer in question.answers]
            scores[:2, index] = [best_over_references(of, prediction.text, truths) for of in (exact_match, overlap)]
            scores[2, index] = exact_match(prediction.text, truths[0])
    is_unanswerable = np.array([not question.answers for question in data.questions])
    return Judged(name, found, *(100.0 * scores), is_unanswerable)
