"""The table of an analysis: EM and F1 with their intervals, for each group of questions and each predictions file."""

from collections.abc import Iterator, Sequence

import numpy as np

from fabir_tf.analysis.groupings import Grouping
from fabir_tf.analysis.intervals import interval, resampled_means
from fabir_tf.analysis.judged import Judged

METRICS = ("exact_match", "f1")
ALL = "all"
_OF_METRIC = ("", "_low", "_high", "_above_first", "_above_first_low", "_above_first_high")
COLUMNS = ("grouping", "group", "predictions", "questions", *(m + part for m in METRICS for part in _OF_METRIC))


def score_groups(judged: Sequence[Judged], groupings: Sequence[Grouping]) -> list[dict]:
    """Scores every group of questions, and all questions.

    Args:
        judged: the predictions; all others are compared with the first on the same resampled questions.
        groupings: ways to sort the questions; groups without a question are left out.

    Returns:
        Rows by `COLUMNS`: percentages and the bounds of their 95 % intervals. `..._above_first` is the difference from
        the first predictions, None for the first themselves.
    """
    everything = Grouping(ALL, ALL, (ALL,), np.zeros(len(judged[0].f1), np.int64))
    return [row for grouping in (everything, *groupings) for row in _rows(judged, grouping)]


def _rows(judged: Sequence[Judged], grouping: Grouping) -> Iterator[dict]:
    for index, label in enumerate(grouping.labels):
        chosen = np.flatnonzero(grouping.groups == index)
        if not len(chosen):
            continue
        rows = [
            {"grouping": grouping.name, "group": label, "predictions": one.name, "questions": len(chosen)}
            for one in judged
        ]
        for metric in METRICS:
            values = np.stack([getattr(one, metric)[chosen] for one in judged])
            for row, figures in zip(rows, _figures(values), strict=True):
                row |= {metric + part: figure for part, figure in zip(_OF_METRIC, figures, strict=True)}
        yield from rows


def _figures(values: np.ndarray) -> Iterator[tuple]:
    means, drawn = values.mean(axis=1), resampled_means(values)
    for row, mean in enumerate(means):
        above = (None, None, None) if row == 0 else (mean - means[0], *interval(drawn[:, row] - drawn[:, 0]))
        yield (mean, *interval(drawn[:, row]), *above)
