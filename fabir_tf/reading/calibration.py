"""How far a reader's probabilities can be believed, and the temperature that makes them more so."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.reading.certainty import calibration_error, certainty_bins

if TYPE_CHECKING:
    from fabir_tf.reading.reader import Reader

TEMPERATURES = 2.0 ** np.linspace(-2.0, 3.0, 41)
"""Those that are tried: 1/4 to 8, neighbours 9 % apart."""

FIGURES = ("mean_probability", "expected_calibration_error", "log_loss")
"""What is measured with a temperature."""

COVERAGES = range(5, 101, 5)
"""In percent."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What was measured on held-out questions; shares are from 0 to 1.

    Attributes:
        temperature: what logits are divided by.
        questions: how many there were.
        exact_match: share of right answers.
        before, after: `FIGURES` with temperature 1 and with the chosen one; bins are of equal width.
        risk_coverage: `coverage`, a share of the questions, the surest ones, and `risk`, the share of wrong answers.
    """

    temperature: float
    questions: int
    exact_match: float
    before: dict[str, float]
    after: dict[str, float]
    risk_coverage: list[dict[str, float]]

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
        if not isinstance(content, dict) or set(content) != names:
            raise UserError(f"{path}: found other fields, expected those of a calibration: {', '.join(sorted(names))}")
        temperature = content["temperature"]
        if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
            raise UserError(f"{path}: found the temperature {shown(temperature)}, expected a number above 0")
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


def calibrate(reader: "Reader", data: SquadData, progress: Callable[[int, int], None] | None = None) -> Calibration:
    """Finds the temperature with which an answer's probability says best how often such answers are right.

    An answer is right if it equals one of the references in the official normalisation. The temperature is the one,
    of `TEMPERATURES`, with the lowest log loss; which span is the best does not depend on it. A reader keeps to it once
    it is its `calibration`.

    Args:
        reader: a trained reader; the temperature that it has already makes no difference.
        data: questions that the reader has not been trained on; those without an answer are left out.
        progress: told (rows done, rows in all) after each batch; a long passage is read in several.

    Returns:
        The temperature, and what it changes.

    Raises:
        UserError: no question has an answer.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2 (temperature); El-Yaniv and
        Wiener 2010, On the Foundations of Noise-free Selective Classification (risk and coverage).
    """
    data = answerable(data)
    encoded = reader.encode(tokenize_dataset(data, None))
    answers, probabilities = reader.predict_at_temperatures(encoded, TEMPERATURES, progress)
    is_right = [
        best_over_references(exact_match, answer, [reference.text for reference in question.answers])
        for answer, question in zip(answers, data.questions, strict=True)
    ]
    return summarise(np.array(is_right), probabilities)


def answerable(data: SquadData) -> SquadData:
    """The questions that have an answer.

    Raises:
        UserError: there are none.
    """
    asked = tuple(question for question in data.questions if question.answers)
    if not asked:
        raise UserError(f"{data.name}: found no question with an answer, expected some to calibrate on")
    return dataclasses.replace(data, questions=asked)


def summarise(is_right: np.ndarray, probabilities: np.ndarray) -> Calibration:
    """Chooses the temperature.

    Args:
        is_right: `(questions,)`, 1 for a right answer, else 0.
        probabilities: `(temperatures, questions)`, one row for each of `TEMPERATURES`.

    Returns:
        The temperature, and what it changes.
    """
    chosen = int(np.argmin([_log_loss(is_right, row) for row in probabilities]))
    surest = np.argsort(-probabilities[chosen], kind="stable")
    wrong = np.cumsum(1 - is_right[surest])
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
