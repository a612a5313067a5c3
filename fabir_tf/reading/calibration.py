"""How well a reader's probabilities can be trusted, and the temperature and threshold that improve them."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData, data_without_unanswerable
from fabir_tf.pipelines.datasets.squad_metrics import answer_scores, exact_match, f1
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import Dataset, validate_dataset, validate_reader
from fabir_tf.reading.certainty import calibration_error, certainty_bins
from fabir_tf.reading.no_answer import (
    UNREAD_SCORE,
    JudgedSpans,
    NoAnswerCalibration,
    calibrate_no_answer,
    log_losses,
)

if TYPE_CHECKING:
    from fabir_tf.reading.answers import QuestionAnswerer

TEMPERATURES = 2.0 ** np.linspace(-2.0, 3.0, 41)
"""The temperatures that are tried: 1/4 to 8, in steps of 9 %."""

FIGURES = ("mean_probability", "expected_calibration_error", "log_loss")
"""What is measured at a temperature."""

COVERAGES = range(5, 101, 5)
"""In percent."""

# The field of earlier versions, which chose a threshold alone.
_EARLIER = "no_answer_threshold"


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
        no_answer: when the reader abstains; None if it always answers. All other attributes are about questions that
            have an answer, and about a reader that always answers.
    """

    temperature: float
    questions: int
    exact_match: float
    before: dict[str, float]
    after: dict[str, float]
    risk_coverage: list[dict[str, float]]
    no_answer: NoAnswerCalibration | None = None

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
        if not isinstance(content, dict) or names - set(content) - {"no_answer"} or set(content) - names - {_EARLIER}:
            raise UserError(f"{path}: found other fields, expected those of a calibration: {', '.join(sorted(names))}")
        temperature = content["temperature"]
        if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
            raise UserError(f"{path}: found the temperature {shown(temperature)}, expected a number above 0")
        content = _with_earlier_threshold(content, path)
        if content["no_answer"] is not None:
            content["no_answer"] = NoAnswerCalibration.from_json(content["no_answer"], str(path))
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
        abstaining = f"; {self.no_answer.summary()}" if self.no_answer else ""
        return (
            f"{self.questions:,} held-out questions, {100 * self.exact_match:.1f} % answered exactly: temperature "
            f"{self.temperature:.2f}, expected calibration error {self.before[error]:.3f} before and "
            f"{self.after[error]:.3f} after{abstaining}"
        )


def _with_earlier_threshold(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The fields of today; earlier files had a threshold alone, or nothing, about questions without an answer."""
    threshold = content.pop(_EARLIER, None)
    if threshold is not None and (not isinstance(threshold, float) or not 0 <= threshold <= 1):
        raise UserError(f"{path}: found the threshold {shown(threshold)}, expected a number from 0 to 1 or null")
    if threshold is None:
        return {"no_answer": None} | content
    earlier = NoAnswerCalibration(threshold, temperature=content["temperature"])
    return {"no_answer": dataclasses.asdict(earlier)} | content


def calibrate(
    answerer: "QuestionAnswerer",
    data: Dataset,
    progress: Callable[[int, int], None] | None = None,
    unanswerable_share: float | None = None,
) -> Calibration:
    """Finds the temperature at which an answer's probability best says how often such answers are right.

    An answer is right if it equals one of the references after the official normalization. Of `TEMPERATURES`, the one
    with the lowest log loss is chosen; it does not change which span is the best. If the reader has a null head and the
    data has unanswerable questions, `calibrate_no_answer` also chooses when the reader abstains. The answerer uses both
    once they are its `calibration`.

    Args:
        answerer: a trained reader; the calibration that it has makes no difference.
        data: questions that it was not trained on, or what a reader's `tokenize` returned for them.
        progress: called with (examples done, examples in total) after each batch; a long passage is read in several.
        unanswerable_share: the share of questions without an answer that the reader will be asked; None for that of
            the data.

    Returns:
        The calibration.

    Raises:
        UserError: no question has an answer, an argument is something else, or the share is not between 0 and 1.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2 (temperature); El-Yaniv and
        Wiener 2010, On the Foundations of Noise-free Selective Classification (risk and coverage).
    """
    validate_reader("answerer", answerer)
    validate_dataset("data", data)
    data = data.data if isinstance(data, TokenizedDataset) else data
    validate_answerable(data)
    is_share = isinstance(unanswerable_share, int | float | np.number) and 0 < unanswerable_share < 1
    if unanswerable_share is not None and not is_share:
        raise UserError(f"unanswerable_share must be a number between 0 and 1, found {unanswerable_share!r}")
    found = predict_at_temperatures(answerer, data, TEMPERATURES, progress)
    is_answerable = np.array([bool(question.answers) for question in data.questions])
    is_right, overlap = (np.array(answer_scores(metric, data, found.texts)) for metric in (exact_match, f1))
    calibration = summarize(is_right[is_answerable], found.probabilities[:, is_answerable])
    if found.scores is None or is_answerable.all():
        return calibration
    spans = JudgedSpans(found.scores, ~is_answerable, is_right, overlap, found.probabilities)
    return dataclasses.replace(calibration, no_answer=calibrate_no_answer(spans, TEMPERATURES, unanswerable_share))


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
        probabilities: float64 `(temperatures, questions)`, those of the spans, given that there is an answer; 0 where
            there is none.
        scores: float64 `(questions,)`, `Answer.score`; None without a null head.
    """

    texts: list[str]
    probabilities: np.ndarray
    scores: np.ndarray | None


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
    scores = np.full(len(texts), UNREAD_SCORE)
    has_null = False
    for found in answerer.scores(data, progress):
        number = found.question
        passage = data.passages[data.questions[number].passage]
        start, end = found.best
        texts[number] = passage[start:end]
        probabilities[:, number] = found.best_probabilities(temperatures)
        scores[number] = found.score
        has_null = has_null or found.has_null
    return PredictedAtTemperatures(texts, probabilities, scores if has_null else None)


def summarize(is_right: np.ndarray, probabilities: np.ndarray) -> Calibration:
    """Chooses the temperature.

    Args:
        is_right: `(questions,)`, 1 for a right answer, else 0.
        probabilities: `(temperatures, questions)`, one row for each of `TEMPERATURES`.

    Returns:
        The calibration of a reader that always answers.
    """
    chosen = int(np.argmin([log_losses(is_right, row).mean() for row in probabilities]))
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
    figures = (float(probability.mean()), error, float(log_losses(is_right, probability).mean()))
    return dict(zip(FIGURES, figures, strict=True))
