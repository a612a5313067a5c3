"""How often answers of a given probability are right."""

import dataclasses

import numpy as np

BINS = 10


@dataclasses.dataclass(frozen=True)
class CertaintyBin:
    """Answers of similar probability.

    Attributes:
        questions: the number of answers.
        probability: their mean probability, in percent.
        exact_match: the fraction that is right, in percent.
        weight: of the answers, as a fraction of that of all answers.
    """

    questions: int
    probability: float
    exact_match: float
    weight: float


def certainty_bins(
    probabilities: np.ndarray, exact_match: np.ndarray, weights: np.ndarray | None = None
) -> list[CertaintyBin]:
    """Sorts answers into bins of equal width by their probability.

    Args:
        probabilities: float `(questions,)`, of each answer, from 0 to 1.
        exact_match: float `(questions,)`, of each answer, in percent.
        weights: float `(questions,)`, of each answer; None for equal ones.

    Returns:
        The bins with at least one answer, the least probable first.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 2.
    """
    weights = np.ones(len(probabilities)) if weights is None else weights
    bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    groups = (np.flatnonzero(bins == number) for number in range(BINS))
    return [
        CertaintyBin(
            len(group),
            100.0 * float(np.average(probabilities[group], weights=weights[group])),
            float(np.average(exact_match[group], weights=weights[group])),
            float(weights[group].sum() / weights.sum()),
        )
        for group in groups
        if weights[group].sum() > 0
    ]


def calibration_error(bins: list[CertaintyBin]) -> float:
    """The mean distance between probability and exact match, weighted by the answers in each bin.

    Args:
        bins: from `certainty_bins`.

    Returns:
        Percentage points.

    Reference: Guo et al. 2017, eq. 3.
    """
    return sum(one.weight * abs(one.probability - one.exact_match) for one in bins)


def auroc(probabilities: np.ndarray, is_true: np.ndarray) -> float:
    """How often something true has a higher probability than something false; equal ones count half.

    It is the area under the receiver operating characteristic.

    Args:
        probabilities: float `(questions,)`.
        is_true: boolean `(questions,)`.

    Returns:
        From 0 to 1; 0.5 by chance, and where all are true or none is.

    Reference: Hanley and McNeil 1982, The meaning and use of the area under a ROC curve.
    """
    _, level, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    # The mean rank of equal probabilities.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[level]
    true = int(np.sum(is_true))
    pairs = true * (len(probabilities) - true)
    return float((ranks[is_true].sum() - true * (true + 1) / 2) / pairs) if pairs else 0.5
