"""When a reader abstains, and how probable what it then says is: fitted on questions with and without an answer."""

import dataclasses
from typing import Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import shown
from fabir_tf.reading.certainty import auroc, calibration_error, certainty_bins

UNREAD_SCORE = -1e9
"""The score where a question or its passage cannot be read."""


def no_answer_probability(scores: np.ndarray | np.float64, scale: float = 1.0, bias: float = 0.0) -> np.ndarray:
    """How probable it is that passages hold no answer.

        p = sigmoid(scale * (null_start + null_end - best_start - best_end) + bias) = sigmoid(bias - scale * score)

    Args:
        scores: `Answer.score` of each question.
        scale, bias: those of `NoAnswerCalibration`.

    Returns:
        Float64, as many numbers.

    Reference: Platt 1999, Probabilistic outputs for support vector machines, eq. 1.
    """
    # Half of a hyperbolic tangent: an exponential would overflow.
    return 0.5 * (1.0 + np.tanh(0.5 * (bias - scale * np.asarray(scores, np.float64))))


def answer_share(score: float, scale: float = 1.0, bias: float = 0.0) -> float:
    """How probable it is that a passage holds an answer: what its spans have together.

    It is more than 0 also where `no_answer_probability` is next to 1.

    Args:
        score: `Answer.score` of the question.
        scale, bias: those of `NoAnswerCalibration`.
    """
    return float(np.exp(-np.logaddexp(0.0, bias - scale * np.float64(score))))


@dataclasses.dataclass(frozen=True)
class NoAnswerCalibration:
    """What was chosen and measured on questions with and without an answer; fractions are from 0 to 1.

    Attributes:
        threshold: the reader abstains above this no-answer probability.
        scale, bias: see `no_answer_probability`.
        temperature: what logits are divided by for the probabilities of spans, where the reader may abstain.
        questions, unanswerable: how many questions there were, and how many of them without an answer.
        unanswerable_share: the share of questions without an answer that the figures below and the choices are for.
        f1: official F1 at the threshold.
        auroc: how often an unanswerable question has a higher no-answer probability than an answerable one.
        expected_calibration_error: of the probability of what the reader says, "no answer" included.
    """

    threshold: float
    scale: float = 1.0
    bias: float = 0.0
    temperature: float = 1.0
    questions: int = 0
    unanswerable: int = 0
    unanswerable_share: float = 0.0
    f1: float = 0.0
    auroc: float = 0.0
    expected_calibration_error: float = 0.0

    @classmethod
    def from_json(cls, content: Any, place: str) -> "NoAnswerCalibration":
        """Reads the attributes.

        Args:
            content: an object of all attributes.
            place: the file, for messages.

        Raises:
            UserError: another object, or a number out of its range.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        is_whole = isinstance(content, dict) and sorted(content) == sorted(names)
        if not is_whole or not all(type(content[name]) in (int, float) for name in names):
            raise UserError(f"{place}: found {shown(content)} as 'no_answer', expected the numbers {', '.join(names)}")
        found = cls(**content)
        for name, fits in (
            ("threshold", 0 <= found.threshold <= 1),
            ("scale", 0 <= found.scale < np.inf),
            ("bias", abs(found.bias) < np.inf),
            ("temperature", 0 < found.temperature < np.inf),
        ):
            if not fits:
                value = shown(getattr(found, name))
                expected = {"threshold": "a number from 0 to 1", "bias": "a number"}.get(name, "a number above 0")
                raise UserError(f"{place}: found the {name} {value} in 'no_answer', expected {expected}")
        return found

    def summary(self) -> str:
        """The figures in one line."""
        return (
            f"{self.questions:,} held-out questions, {self.unanswerable:,} without an answer: abstains above "
            f"{self.threshold:.2f}, F1 {100 * self.f1:.1f}, AUROC {self.auroc:.3f}, expected calibration error "
            f"{self.expected_calibration_error:.3f}"
        )


@dataclasses.dataclass(frozen=True)
class JudgedSpans:
    """A reader's best spans of held-out questions.

    Attributes:
        scores: float `(questions,)`, `Answer.score`.
        is_unanswerable: boolean `(questions,)`.
        is_right: float `(questions,)`, 1 where the span equals a reference; 0 where there is none.
        f1: float `(questions,)`, of the span, from 0 to 1; 0 where there is no reference.
        probabilities: float `(temperatures, questions)`, of the spans, given that there is an answer.
    """

    scores: np.ndarray
    is_unanswerable: np.ndarray
    is_right: np.ndarray
    f1: np.ndarray
    probabilities: np.ndarray


def calibrate_no_answer(
    spans: JudgedSpans, temperatures: np.ndarray, unanswerable_share: float | None = None
) -> NoAnswerCalibration:
    """Fits scale and bias, then chooses the threshold with the best F1, then the temperature of what is answered.

    Args:
        spans: both kinds of questions are among them.
        temperatures: those of `spans.probabilities`.
        unanswerable_share: the share of questions without an answer to choose for; None for that of the questions.

    Returns:
        The calibration.
    """
    weights = question_weights(spans.is_unanswerable, unanswerable_share)
    scale, bias = fit_scale_and_bias(spans.scores, spans.is_unanswerable, weights)
    none = no_answer_probability(spans.scores, scale, bias)
    threshold = best_threshold(none, spans.f1, spans.is_unanswerable, weights)
    is_answered = none <= threshold
    of_answers = (1.0 - none) * spans.probabilities
    losses = [np.sum((weights * log_losses(spans.is_right, row))[is_answered]) for row in of_answers]
    chosen = int(np.argmin(losses)) if is_answered.any() else int(np.argmin(abs(temperatures - 1)))
    probability = np.where(is_answered, of_answers[chosen], none)
    is_right = np.where(is_answered, spans.is_right, spans.is_unanswerable)
    f1 = np.where(is_answered, spans.f1, spans.is_unanswerable)
    return NoAnswerCalibration(
        threshold,
        scale,
        bias,
        float(temperatures[chosen]),
        len(none),
        int(spans.is_unanswerable.sum()),
        float(np.sum(weights * spans.is_unanswerable)),
        float(np.sum(weights * f1)),
        auroc(none, spans.is_unanswerable),
        calibration_error(certainty_bins(probability, 100.0 * is_right, weights)) / 100,
    )


def matched_no_answer(
    calibration: NoAnswerCalibration, start_scores: np.ndarray, scores: np.ndarray
) -> NoAnswerCalibration:
    """The calibration under which a reader says of questions what the one that it was trained from said of them.

    Training moves and stretches scores, also of questions whose answers stay. A line through both readers' scores of
    the same questions, by least squares, tells how much.

    Args:
        calibration: that of the reader before it was trained further.
        start_scores, scores: float `(questions,)`, `Answer.score` of both; `UNREAD_SCORE` is left out.

    Returns:
        The calibration with another scale and bias; as it is where the scores do not rise together.
    """
    is_read = (start_scores > UNREAD_SCORE) & (scores > UNREAD_SCORE)
    before, now = (np.asarray(values, np.float64)[is_read] for values in (start_scores, scores))
    if len(now) < 2 or not now.std():
        return calibration
    slope = float(np.mean((now - now.mean()) * (before - before.mean())) / now.var())
    if slope <= 0:
        return calibration
    shift = float(before.mean() - slope * now.mean())
    scale, bias = calibration.scale * slope, calibration.bias - calibration.scale * shift
    return dataclasses.replace(calibration, scale=scale, bias=bias)


def fit_scale_and_bias(scores: np.ndarray, is_unanswerable: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The scale and bias of `no_answer_probability` with the lowest log loss.

    Args:
        scores: float `(questions,)`.
        is_unanswerable: boolean `(questions,)`; both kinds occur.
        weights: float `(questions,)`, of the questions.

    Returns:
        Scale and bias. The scale is 0, and the probability that of all questions, where unanswerable questions have
        the higher scores.

    Reference: Platt 1999; its targets, short of 0 and 1, keep the scale finite where one score separates the kinds.
    """
    read = scores > UNREAD_SCORE / 2
    scores, is_unanswerable, weights = scores[read], is_unanswerable[read], weights[read]
    counts = np.array([np.sum(~is_unanswerable), np.sum(is_unanswerable)])
    targets = np.where(is_unanswerable, (counts[1] + 1) / (counts[1] + 2), 1 / (counts[0] + 2))
    mean, deviation = scores.mean(), scores.std() or 1.0
    inputs = np.stack([(mean - scores) / deviation, np.ones_like(scores)], axis=1)
    # Newton's method; the log loss is convex, and the steps are halved where one would overshoot.
    found = np.array([0.0, 0.0])
    loss = _fitted_loss(found, inputs, targets, weights)
    for _ in range(100):
        probability = no_answer_probability(-(inputs @ found))
        gradient = inputs.T @ (weights * (probability - targets))
        curvature = (inputs * (weights * probability * (1 - probability))[:, None]).T @ inputs
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        while (new := _fitted_loss(found - step, inputs, targets, weights)) > loss and np.abs(step).max() > 1e-12:
            step /= 2
        found, loss, has_converged = found - step, new, loss - new < 1e-14
        if has_converged:
            break
    if found[0] <= 0:
        share = np.sum(weights * targets) / np.sum(weights)
        return 0.0, float(np.log(share / (1 - share)))
    return float(found[0] / deviation), float(found[1] + found[0] * mean / deviation)


def _fitted_loss(found: np.ndarray, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    logits = inputs @ found
    return float(np.sum(weights * (np.logaddexp(0.0, logits) - targets * logits)))


def best_threshold(none: np.ndarray, f1: np.ndarray, is_unanswerable: np.ndarray, weights: np.ndarray) -> float:
    """The no-answer probability above which abstaining has the best F1.

    Args:
        none: float `(questions,)`, no-answer probabilities.
        f1: float `(questions,)`, of the best spans; not used where a question is unanswerable.
        is_unanswerable: boolean `(questions,)`.
        weights: float `(questions,)`, of the questions.

    Returns:
        A number halfway between two probabilities, so that rounding changes no decision; 0 or 1 beyond all.
    """
    order = np.argsort(none, kind="stable")
    levels = none[order]
    gains = (weights * np.where(is_unanswerable, -1.0, f1))[order]
    # Entry k answers the k questions with the lowest probabilities. Equal ones are answered together.
    values = np.concatenate([[0.0], np.cumsum(gains)])
    allowed = np.concatenate([[True], levels[1:] > levels[:-1], [True]])
    best = int(np.argmax(np.where(allowed, values, -np.inf)))
    bounds = np.concatenate([[0.0], levels, [1.0]])
    return float(bounds[best] + bounds[best + 1]) / 2


def log_losses(is_right: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """The log loss of each answer.

    Args:
        is_right: `(questions,)`, 1 for a right answer, else 0.
        probability: `(questions,)`.
    """
    probability = np.clip(probability.astype(np.float64), 1e-7, 1 - 1e-7)
    return -np.where(is_right > 0, np.log(probability), np.log1p(-probability))


def question_weights(is_unanswerable: np.ndarray, share: float | None) -> np.ndarray:
    """Weights of questions, of which those without an answer have the given share of the whole, 1.

    Args:
        is_unanswerable: boolean `(questions,)`.
        share: from 0 to 1; None for that of the questions.

    Returns:
        Float64 `(questions,)`.
    """
    unanswerable = int(is_unanswerable.sum())
    answerable = len(is_unanswerable) - unanswerable
    share = unanswerable / len(is_unanswerable) if share is None else share
    return np.where(is_unanswerable, share / max(unanswerable, 1), (1 - share) / max(answerable, 1))
