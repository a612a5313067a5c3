"""How far a reader's probabilities can be believed, and the temperature that makes them more so."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from fabir_tf.analysis.certainty import calibration_error, certainty_bins
from fabir_tf.export.raw_text import TEXT_SPECS, RawTextReader
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.squad import SquadData
from fabir_tf.pipelines.squad_metrics import best_over_references, exact_match
from fabir_tf.reader import Reader

TEMPERATURES = 2.0 ** np.linspace(-2.0, 3.0, 41)
"""Those that are tried: 1/4 to 8, neighbours 9 % apart."""

COVERAGES = range(5, 101, 5)
"""In percent."""

CHUNK = 256


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What was measured on held-out questions; shares are from 0 to 1.

    Attributes:
        temperature: what logits are divided by.
        questions: how many there were.
        exact_match: share of right answers.
        before, after: with temperature 1 and with the chosen one: `mean_probability`, `expected_calibration_error` (in
            bins of equal width) and `log_loss`.
        risk_coverage: `coverage`, a share of the questions, the surest ones, and `risk`, the share of wrong answers.
    """

    temperature: float
    questions: int
    exact_match: float
    before: dict[str, float]
    after: dict[str, float]
    risk_coverage: list[dict[str, float]]


def calibrate(reader: Reader, data: SquadData, progress: Callable[[int, int], None] | None = None) -> Calibration:
    """Finds the temperature with which an answer's probability says best how often such answers are right.

    An answer is right if it equals one of the references in the official normalisation. The temperature is the one,
    of `TEMPERATURES`, with the lowest log loss; which span is the best does not depend on it.

    Args:
        reader: a trained reader.
        data: questions that the reader has not been trained on; those without an answer are left out.
        progress: told (questions done, questions in all).

    Returns:
        The temperature, and what it changes.

    Raises:
        UserError: no question has an answer.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2 (temperature); El-Yaniv and
        Wiener 2010, On the Foundations of Noise-free Selective Classification (risk and coverage).
    """
    asked = [question for question in data.questions if question.answers]
    if not asked:
        raise UserError(f"{data.name}: found no question with an answer, expected some to calibrate on")
    module = RawTextReader(reader, n_best=1)
    answer = tf.function(module.probabilities, input_signature=[*TEXT_SPECS, tf.TensorSpec([None])], autograph=False)
    is_right, probabilities = [], []
    for begin in range(0, len(asked), CHUNK):
        chunk = asked[begin : begin + CHUNK]
        passages = [data.passages[question.passage] for question in chunk]
        texts, found = answer([question.text for question in chunk], passages, TEMPERATURES.astype(np.float32))
        probabilities.append(found.numpy())
        for question, text in zip(chunk, texts.numpy(), strict=True):
            references = [reference.text for reference in question.answers]
            is_right.append(best_over_references(exact_match, text.decode("utf-8", "replace"), references))
        if progress:
            progress(len(is_right), len(asked))
    return summarise(np.array(is_right), np.concatenate(probabilities, axis=1))


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
    return {
        "mean_probability": float(probability.mean()),
        "expected_calibration_error": calibration_error(certainty_bins(probability, 100 * is_right)) / 100,
        "log_loss": _log_loss(is_right, probability),
    }


def _log_loss(is_right: np.ndarray, probability: np.ndarray) -> float:
    probability = np.clip(probability.astype(np.float64), 1e-7, 1 - 1e-7)
    return float(-np.mean(np.where(is_right > 0, np.log(probability), np.log1p(-probability))))
