"""How far the probabilities of predictions can be trusted: calibration errors, and how well they tell "no answer"."""

from collections.abc import Iterator, Sequence

import numpy as np

from fabir_tf.analysis.judged import Judged
from fabir_tf.reading.certainty import auroc, calibration_error, certainty_bins

COLUMNS = (
    "predictions", "questions", "mean_probability", "exact_match", "calibration_error", "exact_match_first_reference",
    "calibration_error_first_reference", "no_answer_auroc",
)  # fmt: skip


def certainty_rows(judged: Sequence[Judged]) -> Iterator[dict]:
    """The table of all predictions with probabilities.

    Args:
        judged: the predictions; questions that their files lack have no probability and do not count.

    Yields:
        Rows by `COLUMNS`: percentages and percentage points; `no_answer_auroc` from 0 to 1, None without unanswerable
        questions or their probabilities.
    """
    for one in (each.predicted for each in judged):
        if one.probabilities is None:
            continue
        row = {
            "predictions": one.name,
            "questions": len(one.f1),
            "mean_probability": 100.0 * float(one.probabilities.mean()),
        }
        for suffix, right in (("", one.exact_match), ("_first_reference", one.first_match)):
            row[f"exact_match{suffix}"] = float(right.mean())
            row[f"calibration_error{suffix}"] = calibration_error(certainty_bins(one.probabilities, right))
        yield row | {"no_answer_auroc": no_answer_auroc(one)}


def no_answer_auroc(judged: Judged) -> float | None:
    """How well no-answer probabilities tell unanswerable questions; None if there is nothing to tell."""
    judged = judged.predicted
    if judged.no_answer_probabilities is None or not _has_both_kinds(judged):
        return None
    return auroc(judged.no_answer_probabilities, judged.is_unanswerable)


def roc(judged: Judged) -> tuple[np.ndarray, np.ndarray] | None:
    """The receiver operating characteristic of the no-answer probability.

    Args:
        judged: the predictions.

    Returns:
        Shares of the answerable and of the unanswerable questions with at least a probability, both falling from 1 to
        0, float `(probabilities + 1,)`; None if there is nothing to tell.
    """
    judged = judged.predicted
    if judged.no_answer_probabilities is None or not _has_both_kinds(judged):
        return None
    none, is_unanswerable = judged.no_answer_probabilities, judged.is_unanswerable
    levels = np.unique(none)
    kinds = (np.sort(none[kind]) for kind in (~is_unanswerable, is_unanswerable))
    shares = (1.0 - np.searchsorted(kind, levels) / len(kind) for kind in kinds)
    answerable, unanswerable = (np.append(share, 0.0) for share in shares)
    return answerable, unanswerable


def risk_coverage(judged: Judged) -> tuple[np.ndarray, np.ndarray] | None:
    """The share of wrong answers among the most probable ones.

    Args:
        judged: the predictions.

    Returns:
        Coverage and risk, float `(questions,)` from 0 to 1; None without probabilities.

    Reference: El-Yaniv and Wiener 2010, On the Foundations of Noise-free Selective Classification.
    """
    judged = judged.predicted
    if judged.probabilities is None:
        return None
    order = np.argsort(-judged.probabilities, kind="stable")
    counts = np.arange(1, len(order) + 1)
    return counts / len(order), np.cumsum(judged.exact_match[order] < 100) / counts


def _has_both_kinds(judged: Judged) -> bool:
    return bool(judged.is_unanswerable.any() and not judged.is_unanswerable.all())
