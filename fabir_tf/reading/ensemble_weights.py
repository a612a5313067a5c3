"""What the members of an ensemble count: given weights, or those with the best score on held-out questions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import answer_scores, exact_match, f1
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.no_answer import best_threshold, question_weights

if TYPE_CHECKING:
    from fabir_tf.reading.ensemble import Ensemble

EQUAL = "equal"
"""Members that count the same."""

METRICS = {"f1": f1, "em": exact_match}
"""What weights can be chosen by."""

STEPS = 20
"""A member's weight is tried at 1/20 to 19/20 of the whole."""

LEAST = 1e-300
"""What a probability counts at least in a logarithm."""


class _Proposed(NamedTuple):
    """What the members propose for each question; the last axis is the members.

    Attributes:
        probabilities: `(questions, spans, members)`, 0 where a member does not propose a span.
        values: `(questions, spans)`, the metric of each span, from 0 to 1; -1 where there is none.
        odds: `(questions, members)`, log odds of an answer.
        reads: boolean `(questions, members)`, whether the member can read the question.
        is_unanswerable: boolean `(questions,)`.
        counts: `(questions,)`, what each question counts, 1 in sum.
    """

    probabilities: np.ndarray
    values: np.ndarray
    odds: np.ndarray
    reads: np.ndarray
    is_unanswerable: np.ndarray
    counts: np.ndarray

    def score(self, weights: np.ndarray) -> float:
        """The mean metric with these weights; where members may abstain, at the best threshold."""
        # A question that no member can read has nothing to weigh.
        own = np.where(self.reads.any(axis=1, keepdims=True), weights * self.reads, weights)
        shares, log_odds = shares_and_log_odds(own, self.odds)
        summed = any_order_sum(self.probabilities * shares[:, None])
        summed = np.where(self.values < 0, -1.0, summed)
        best = np.maximum(np.take_along_axis(self.values, summed.argmax(axis=1)[:, None], axis=1)[:, 0], 0.0)
        if not self.is_unanswerable.any() or not np.isfinite(self.odds).any():
            return float(np.sum(self.counts * best))
        none = 1.0 / (1.0 + np.exp(log_odds))
        threshold = best_threshold(none, best, self.is_unanswerable, self.counts)
        return float(np.sum(self.counts * np.where(none > threshold, self.is_unanswerable, best)))


def choose_weights(
    ensemble: "Ensemble",
    data: SquadData,
    metric: str = "f1",
    progress: Callable[[int, int], None] | None = None,
    unanswerable_share: float | None = None,
) -> np.ndarray:
    """The weights with the best score on held-out questions.

    The search begins with equal weights. In each round every member is given each of 19 parts of the whole in turn,
    while the others keep their ratios; the best change is kept, until none is better. It needs no random numbers. If
    the data has unanswerable questions and a member has a null head, each score is that at its best threshold.

    Args:
        ensemble: its own weights and calibration make no difference.
        data: questions that no member was trained on, and not those that the ensemble is measured on.
        metric: "f1" or "em".
        progress: called with (questions done, questions in total).
        unanswerable_share: as for `calibrate`.

    Returns:
        Float64 `(members,)`, which add up to 1.

    Raises:
        UserError: the metric is unknown.
    """
    if metric not in METRICS:
        raise UserError(f"found the metric {metric!r}, expected {' or '.join(METRICS)}")
    proposed = _proposed(ensemble, data, metric, progress, unanswerable_share)
    count = len(ensemble.members)
    weights = np.full(count, 1.0 / count)
    best = proposed.score(weights)
    while True:
        changed = [] if count == 1 else _changes(weights)
        scores = [proposed.score(one) for one in changed]
        if not scores or max(scores) <= best:
            return weights
        best = max(scores)
        # Of equal scores the one with the most equal weights.
        weights = min((changed[i] for i, score in enumerate(scores) if score == best), key=lambda one: one.max())


def _changes(weights: np.ndarray) -> list[np.ndarray]:
    """The weights with one member's part replaced."""
    found = []
    for member in range(len(weights)):
        others = np.where(np.arange(len(weights)) == member, 0.0, weights)
        for step in range(1, STEPS):
            changed = others * ((1 - step / STEPS) / others.sum())
            changed[member] = step / STEPS
            found.append(changed)
    return found


def _proposed(
    ensemble: "Ensemble",
    data: SquadData,
    metric: str,
    progress: Callable[[int, int], None] | None,
    unanswerable_share: float | None,
) -> _Proposed:
    questions, members = len(data.questions), len(ensemble.members)
    odds, reads = np.zeros((questions, members)), np.zeros((questions, members), bool)
    spans: list[dict[tuple[int, int], np.ndarray]] = [{} for _ in range(questions)]
    texts: list[dict[tuple[int, int], str]] = [{} for _ in range(questions)]
    for question, proposals in ensemble.proposals(data, progress):
        for member, found, score in proposals:
            reads[question, member] = True
            odds[question, member] = ensemble.log_odds(member, score)
            for span in found:
                key = span.start, span.end
                spans[question].setdefault(key, np.zeros(members))[member] += span.probability
                texts[question][key] = span.text
    most = max([1, *map(len, spans)])
    probabilities, values = np.zeros((questions, most, members)), np.full((questions, most), -1.0)
    # By offsets, as equal sums are ordered.
    keys = [sorted(found) for found in spans]
    for column in range(most):
        rows = [row for row in range(questions) if column < len(keys[row])]
        for row in rows:
            probabilities[row, column] = spans[row][keys[row][column]]
        said = [texts[row][keys[row][column]] if column < len(keys[row]) else "" for row in range(questions)]
        values[rows, column] = np.array(answer_scores(METRICS[metric], data, said))[rows]
    is_unanswerable = np.array([not question.answers for question in data.questions])
    # Data of one kind of questions has its own share.
    share = unanswerable_share if 0 < is_unanswerable.sum() < questions else None
    return _Proposed(probabilities, values, odds, reads, is_unanswerable, question_weights(is_unanswerable, share))


def normalised_weights(weights: Sequence[float] | np.ndarray | None, count: int) -> np.ndarray:
    """Weights that add up to 1, float64 `(members,)`.

    Args:
        weights: numbers above 0; None for equal ones.
        count: of the members.

    Raises:
        UserError: there is another count of numbers, or one is not above 0.
    """
    if weights is None:
        return np.full(count, 1.0 / count)
    if len(weights) != count:
        raise UserError(f"found {len(weights)} weights for {count} members, expected one for each")
    for weight in weights:
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not is_number or not 0 < weight < np.inf:
            raise UserError(f"found the weight {weight!r}, expected a number above 0")
    values = np.array(weights, np.float64)
    values = values / values.max()
    return values / any_order_sum(values)


def shares_and_log_odds(weights: np.ndarray, odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each member counts among the spans, and the ensemble's log odds of an answer.

        p(answer) = sum_m w_m sigmoid(odds_m)        share_m = w_m sigmoid(odds_m) / p(answer)

    Args:
        weights: float `(..., members)`, of those that can read a question; 0 for others, not for all.
        odds: float `(..., members)`, log odds of an answer; infinite for a member without a null head.

    Returns:
        Shares `(..., members)` and log odds `(...,)`.
    """
    weights = weights / any_order_sum(weights)[..., None]
    answered = weights / (1.0 + np.exp(-odds))
    none = weights / (1.0 + np.exp(odds))
    total = np.maximum(any_order_sum(answered), LEAST)
    return answered / total[..., None], np.log(total) - np.log(np.maximum(any_order_sum(none), LEAST))


def any_order_sum(values: np.ndarray) -> np.ndarray:
    """The sum over the last axis; the order of the values makes no difference."""
    return np.sort(values, axis=-1).sum(axis=-1)
