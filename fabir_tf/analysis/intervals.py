"""How much a mean over questions would vary with other questions, by the bootstrap."""

import numpy as np

RESAMPLES = 1000
SEED = 0
# Percentiles of the resampled means.
BETWEEN = (2.5, 97.5)
_AT_ONCE = 1 << 20


def resampled_means(values: np.ndarray) -> np.ndarray:
    """Means of samples that are drawn with replacement and are as large as the data; every row has the same draws.

    Args:
        values: float `(rows, questions)`, at least one question.

    Returns:
        Float64 `(RESAMPLES, rows)`.

    Reference: Efron 1979, Bootstrap methods: another look at the jackknife.
    """
    random = np.random.default_rng(SEED)
    questions = values.shape[1]
    at_once = max(1, _AT_ONCE // questions)
    parts = []
    for begin in range(0, RESAMPLES, at_once):
        drawn = random.integers(questions, size=(min(at_once, RESAMPLES - begin), questions))
        parts.append(values[:, drawn].mean(axis=-1).T)
    return np.concatenate(parts)


def interval(means: np.ndarray) -> tuple[float, float]:
    """The bounds between which 95 % of the resampled means lie.

    Args:
        means: float `(RESAMPLES,)`, a column of `resampled_means`, or the difference of two.
    """
    low, high = np.percentile(means, BETWEEN)
    return float(low), float(high)
