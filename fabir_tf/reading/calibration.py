"""How well a reader's probabilities can be trusted, and the temperature and threshold that improve them."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData, data_without_unanswerable
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match, score_v2
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.reading.certainty import calibration_error, certainty_bins

if TYPE_CHECKING:
    from fabir_tf.reading.answers import QuestionAnswerer

TEMPERATURES = 2.0 ** np.linspace(-2.0, 3.0, 41)
"""The temperatures that are tried: 1/4 to 8, in steps of 9 %."""

FIGURES = ("mean_probability", "expected_calibration_error", "log_loss")
"""What is measured at a temperature."""

COVERAGES = range(5, 101, 5)
"""In percent."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What was measured on held-out questions; fractions are from 0 to 1.

    Attributes:
        temperature: what logits are divided by.
        questions: how many questions have an answer.
        exact_match: the fraction of these that was answered exactly.
        before, after: `FIGURES` at temperature 1 and at the chosen one; bins have equal width.
        risk_coverage: `coverage`, a fraction of the questions, the most certain ones, and `risk`, their fraction of
            wrong answers.
        no_answer_threshold: the reader abstains above this no-answer probability; None if it always answers.
    """

    temperature: float
    questions: int
    exact_match: float
    before: dict[str, float]
    after: dict[str, float]
    risk_coverage: list[dict[str, float]]
    no_answer_threshold: float | None = None

    def save(self, path: Path) -> None:
        """Writes a JSON file of the attributes."""
        write_text(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Calibration":
        """Reads what `save` wrote.

        Raises:
            UserError: the file is damaged.
        """
        content = read_json(path)
        names = {field.name for field in dataclasses.fields(cls)}
        # Files of version 0.1 have no threshold.
        if not isinstance(content, dict) or names - set(content) - {"no_answer_threshold"} or set(content) - names:
            raise UserError(f"{path}: found other fields, expected those of a calibration: {', '.join(sorted(names))}")
        temperature = content["temperature"]
        if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
            raise UserError(f"{path}: found the temperature {shown(temperature)}, expected a number above 0")
        threshold = content.get("no_answer_threshold")
        if threshold is not None and (not isinstance(threshold, float) or not 0 <= threshold <= 1):
            raise UserError(f"{path}: found the threshold {shown(threshold)}, expected a number from 0 to 1 or null")
        for part in ("before", "after"):
            figures = content[part]
            if not isinstance(figures, dict) or not all(isinstance(figures.get(name), float) for name in FIGURES):
                raise UserError(
                    f"{path}: found {shown(figures)} as {part!r}, expected the numbers {', '.join(FIGURES)}"
                )
        return cls(**content)

    def summary(self) -> str:
        """The figures in one line."""
        error = "expected_calibration_error"
        return (
            f"{self.questions:,} held-out questions, {100 * self.exact_match:.1f} % answered exactly: temperature "
            f"{self.temperature:.2f}, expected calibration error {self.before[error]:.3f} before and "
            f"{self.after[error]:.3f} after"
        )


def calibrate(
    answerer: "QuestionAnswerer", data: SquadData, progress: Callable[[int, int], None] | None = None
) -> Calibration:
    """Finds the temperature at which an answer's probability best says how often such answers are right.

    An answer is right if it equals one of the references after the official normalization. Of `TEMPERATURES`, the one
    with the lowest log loss is chosen; it does not change which span is the best. If the reader has a null head and the
    data has unanswerable questions, the threshold with the best official F1 is chosen, too. The answerer uses both once
    they are its `calibration`.

    Args:
        answerer: a trained reader; the calibration that it has makes no difference.
        data: questions that it was not trained on. The temperature is chosen on those with an answer.
        progress: called with (examples done, examples in total) after each batch; a long passage is read in several.

    Returns:
        The calibration.

    Raises:
        UserError: no question has an answer.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2 (temperature); El-Yaniv and
        Wiener 2010, On the Foundations of Noise-free Selective Classification (risk and coverage).
    """
    validate_answerable(data)
    found = predict_at_temperatures(answerer, data, TEMPERATURES, progress)
    answered = [number for number, question in enumerate(data.questions) if question.answers]
    is_right = [
        best_over_references(exact_match, found.texts[number], [reference.text for reference in question.answers])
        for number, question in ((number, data.questions[number]) for number in answered)
    ]
    calibration = summarize(np.array(is_right), found.probabilities[:, answered])
    if found.no_answer is None or len(answered) == len(data.questions):
        return calibration
    chosen = int(np.argmin(abs(TEMPERATURES - calibration.temperature)))
    threshold = _best_threshold(data, found.texts, found.no_answer[chosen])
    return dataclasses.replace(calibration, no_answer_threshold=threshold)


def validate_answerable(data: SquadData) -> None:
    """Checks that a reader can be calibrated on some data.

    Raises:
        UserError: no question has an answer.
    """
    if not data_without_unanswerable(data).questions:
        raise UserError(f"{data.name}: found no question with an answer, expected some to calibrate on")


@dataclasses.dataclass(frozen=True)
class PredictedAtTemperatures:
    """Answers and how probable they are at several temperatures.

    Attributes:
        texts: the best span of each question, "" where question or passage holds no token.
        probabilities: float64 `(temperatures, questions)`, those of the spans; 0 where there is none.
        no_answer: float64 `(temperatures, questions)`, the no-answer probabilities; None without a null head.
    """

    texts: list[str]
    probabilities: np.ndarray
    no_answer: np.ndarray | None


def predict_at_temperatures(
    answerer: "QuestionAnswerer",
    data: SquadData,
    temperatures: np.ndarray,
    progress: Callable[[int, int], None] | None = None,
) -> PredictedAtTemperatures:
    """Answers every question, and computes how probable the answers are at given temperatures.

    Args:
        answerer: a trained reader.
        data: the questions.
        temperatures: float `(temperatures,)`, used instead of the answerer's own.
        progress: called with (examples done, examples in total) after each batch.
    """
    texts = [""] * len(data.questions)
    probabilities = np.zeros((len(temperatures), len(texts)))
    no_answer = np.ones_like(probabilities)
    has_null = False
    own = answerer.calibration.temperature if answerer.calibration else 1.0
    scales = (own / temperatures)[:, None, None]
    for scores in answerer.scores(data, progress):
        number = scores.question
        passage = data.passages[data.questions[number].passage]
        start, end = int(scores.starts[scores.first]), int(scores.ends[scores.last])
        texts[number] = passage[start : max(start, end)]
        both = scores.probabilities(scales)
        probabilities[:, number] = both[:, 0, scores.first] * both[:, 1, scores.last]
        if scores.null_logits is not None:
            has_null = True
            no_answer[:, number] = both[:, 0, -1] * both[:, 1, -1]
    return PredictedAtTemperatures(texts, probabilities, no_answer if has_null else None)


def _best_threshold(data: SquadData, texts: list[str], no_answer: np.ndarray) -> float:
    """A threshold with the best F1, which the official script of SQuAD 2.0 finds."""
    ids = [question.id for question in data.questions]
    probabilities = dict(zip(ids, map(float, no_answer), strict=True))
    best = score_v2(data, dict(zip(ids, texts, strict=True)), probabilities)["best_f1_thresh"]
    # The official threshold is a question's own probability. Halfway to the next one, rounding changes no decision.
    return float(best + no_answer[no_answer > best].min(initial=1.0)) / 2


def summarize(is_right: np.ndarray, probabilities: np.ndarray) -> Calibration:
    """Chooses the temperature.

    Args:
        is_right: `(questions,)`, 1 for a right answer, else 0.
        probabilities: `(temperatures, questions)`, one row for each of `TEMPERATURES`.

    Returns:
        The calibration, without a threshold.
    """
    chosen = int(np.argmin([_log_loss(is_right, row) for row in probabilities]))
    most_certain = np.argsort(-probabilities[chosen], kind="stable")
    wrong = np.cumsum(1 - is_right[most_certain])
    counts = [-(-percent * len(is_right) // 100) for percent in COVERAGES]
    curve = [
        {"coverage": percent / 100, "risk": float(wrong[count - 1] / count)}
        for percent, count in zip(COVERAGES, counts, strict=True)
    ]
    before, after = (_figures(is_right, probabilities[row]) for row in (np.argmin(abs(TEMPERATURES - 1)), chosen))
    return Calibration(float(TEMPERATURES[chosen]), len(is_right), float(is_right.mean()), before, after, curve)


def _figures(is_right: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    error = calibration_error(certainty_bins(probability, 100 * is_right)) / 100
    return dict(zip(FIGURES, (float(probability.mean()), error, _log_loss(is_right, probability)), strict=True))


def _log_loss(is_right: np.ndarray, probability: np.ndarray) -> float:
    probability = np.clip(probability.astype(np.float64), 1e-7, 1 - 1e-7)
    return float(-np.mean(np.where(is_right > 0, np.log(probability), np.log1p(-probability))))
