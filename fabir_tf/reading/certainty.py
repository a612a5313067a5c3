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
    """

    questions: int
    probability: float
    exact_match: float


def certainty_bins(probabilities: np.ndarray, exact_match: np.ndarray) -> list[CertaintyBin]:
    """Sorts answers into bins of equal width by their probability.

    Args:
        probabilities: float `(questions,)`, of each answer, from 0 to 1.
        exact_match: float `(questions,)`, of each answer, in percent.

    Returns:
        The bins with at least one answer, the least probable first.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 2.
    """
    bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    groups = (np.flatnonzero(bins == number) for number in range(BINS))
    return [
        CertaintyBin(len(group), 100.0 * probabilities[group].mean(), exact_match[group].mean())
        for group in groups
        if len(group)
    ]


def calibration_error(bins: list[CertaintyBin]) -> float:
    """The mean distance between probability and exact match, weighted by the number of answers in each bin.

    Args:
        bins: from `certainty_bins`.

    Returns:
        Percentage points.

    Reference: Guo et al. 2017, eq. 3.
    """
    total = sum(one.questions for one in bins)
    return sum(one.questions * abs(one.probability - one.exact_match) for one in bins) / total
