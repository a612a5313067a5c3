"""The pictures of an analysis, as PNG, and the figure of one attention."""

import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.certainty import CertaintyBin, calibration_error
from fabir_tf.reading.inspection import Inspection

_DPI = 110
_LONGEST_SIDE = 8_000
_WIDTH_OF_BARS = 0.8


def draw_scores(title: str, rows: Sequence[dict]) -> bytes:
    """F1 and EM of each group with 95 % intervals, the predictions side by side.

    Args:
        title: the grouping's title.
        rows: the rows of one grouping, from `score_groups`.
    """
    names = list(dict.fromkeys(row["predictions"] for row in rows))
    counts = {row["group"]: row["questions"] for row in rows}
    figure = Figure(figsize=(max(6.0, 0.9 * len(counts) * (1 + 0.25 * len(names))), 7), layout="constrained")
    for axes, (metric, label) in zip(figure.subplots(2, 1), (("f1", "F1"), ("exact_match", "EM")), strict=True):
        for number, name in enumerate(names):
            _bars(axes, [row for row in rows if row["predictions"] == name], metric, number, len(names))
        labels = [f"{group}\n{count:,}" for group, count in counts.items()]
        # A dollar is no formula.
        axes.set_xticks(range(len(counts)), labels, parse_math=False)
        axes.set_ylabel(label)
        axes.set_ylim(0, 100)
        axes.grid(axis="y", alpha=0.3)
    axes.set_xlabel(f"{title}; below, the number of questions")
    if len(names) > 1:
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(names))
    return _png(figure)


def _bars(axes, rows: Sequence[dict], metric: str, number: int, of: int) -> None:
    width = _WIDTH_OF_BARS / of
    heights = np.array([row[metric] for row in rows])
    errors = [
        np.maximum(0.0, heights - [row[f"{metric}_low"] for row in rows]),
        np.maximum(0.0, np.array([row[f"{metric}_high"] for row in rows]) - heights),
    ]
    positions = np.arange(len(rows)) + (number - (of - 1) / 2) * width
    axes.bar(positions, heights, width, yerr=errors, capsize=2, label=_plain(rows[0]["predictions"]))


def draw_losses(title: str, histories: Mapping[str, Sequence[Mapping[str, str]]], published: float) -> bytes:
    """The loss on training and on held-out data after each epoch.

    Args:
        title: what was trained.
        histories: the rows of history.csv, by the run's name.
        published: a published loss, drawn as a line.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, rows) in enumerate(histories.items()):
        for column, label, style in (("loss", "training", "-"), ("held_out_loss", "held out", "--")):
            points = [(int(row["epoch"]), float(row[column])) for row in rows if row[column]]
            axes.plot(*zip(*points, strict=True), style, color=f"C{number}", marker=".", label=f"{name}, {label}")
    axes.axhline(published, color="black", linestyle=":", label="published, test")
    axes.set(title=title, xlabel="epoch", ylabel="loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def draw_positional_attention(curves: Mapping[str, np.ndarray]) -> bytes:
    """The attention of the first position to the others.

    Args:
        curves: from `positional_attention`, by name.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, values in curves.items():
        axes.plot(np.arange(1, len(values) + 1), values, label=name)
    axes.set(xlabel="position x", ylabel="attention from position 1 to x, 1 at itself", xlim=(1, None))
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def draw_certainty(bins: dict[str, list[CertaintyBin]]) -> bytes:
    """The fraction of right answers against their probability.

    Args:
        bins: from `certainty_bins`, by the predictions' name.
    """
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="grey", linestyle=":", label="perfectly calibrated")
    for name, found in bins.items():
        label = f"{_plain(name)}: calibration error {calibration_error(found):.1f} points"
        axes.plot([one.probability for one in found], [one.exact_match for one in found], marker="o", label=label)
    axes.set_xlabel("probability of the answer, %")
    axes.set_ylabel("EM, %")
    axes.set_aspect("equal")
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def draw_roc(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> bytes:
    """How many unanswerable questions are declined at the price of how many answerable ones.

    Args:
        curves: from `roc`, by the predictions' name; the areas stand in the legend.
    """
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="grey", linestyle=":", label="by chance")
    for name, (answerable, unanswerable) in curves.items():
        area = -np.sum(np.diff(answerable) * (unanswerable[1:] + unanswerable[:-1])) / 2
        axes.plot(100 * answerable, 100 * unanswerable, label=f"{_plain(name)}: area {area:.3f}")
    axes.set(xlabel="answerable questions declined, %", ylabel="unanswerable questions declined, %")
    axes.set_aspect("equal")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    return _png(figure)


def draw_risk_coverage(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> bytes:
    """The share of wrong answers among the most probable ones.

    Args:
        curves: from `risk_coverage`, by the predictions' name.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, (coverage, risk) in curves.items():
        axes.plot(100 * coverage, 100 * risk, label=_plain(name))
    axes.set(xlabel="questions, the most probable answers first, %", ylabel="wrong among them, %", xlim=(0, 100))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def draw_boundaries(inspection: Inspection) -> bytes:
    """The probability of each passage token to be the first and the last token of the answer.

    Args:
        inspection: from `fabir_tf.reading.inspection.look_inside`.
    """
    words = inspection.passage.words
    figure = Figure(figsize=(max(6.0, 0.16 * len(words)), 3.2), layout="constrained")
    axes = figure.subplots()
    positions = np.arange(len(words))
    axes.bar(positions - 0.2, inspection.start, 0.4, label="start")
    axes.bar(positions + 0.2, inspection.end, 0.4, label="end")
    _name(axes.set_xticks, words, rotation=90)
    axes.set_ylabel("probability")
    axes.legend()
    return _png(figure)


def draw_attention(inspection: Inspection, kind: str, head: int | None = None) -> bytes:
    """The weights of one attention.

    Args:
        inspection: from `fabir_tf.reading.inspection.look_inside`.
        kind: a key of its `attention`.
        head: the number of a head, from 0; None averages all.
    """
    queries, keys = inspection.tokens_of(kind)
    return _png(attention_figure(inspection.attention[kind], queries.words, keys.words, head, kind))


def attention_figure(
    weights: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    head: int | None = None,
    title: str = "",
) -> Figure:
    """The weights of one attention as a figure, which a notebook shows and `savefig` writes.

    Args:
        weights: `(heads, queries, keys)`, a value of `Inspection.attention` or a row of one of `attention_weights`.
        queries, keys: the tokens along these axes. The longer text runs along the horizontal axis.
        head: the number of a head, from 0; None averages all.
        title: stands above, with the head's number.

    Raises:
        UserError: the weights do not fit the tokens, or there is no such head.
    """
    weights = np.asarray(weights)
    if weights.ndim != 3 or weights.shape[1:] != (len(queries), len(keys)):
        raise UserError(
            f"weights: found the shape {weights.shape}, expected (heads, {len(queries)}, {len(keys)}), one row for "
            "each query and one column for each key"
        )
    if head is not None and not 0 <= head < len(weights):
        raise UserError(f"head: found {head}, expected a number from 0 to {len(weights) - 1}, or None for the mean")
    shown = weights.mean(axis=0) if head is None else weights[head]
    if len(queries) > len(keys):
        queries, keys, shown = keys, queries, shown.T
    size = (max(5.0, 0.14 * len(keys)), max(2.4, 0.14 * len(queries) + 1.2))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shown, aspect="auto", cmap="Blues", vmin=0)
    _name(axes.set_xticks, keys, rotation=90)
    _name(axes.set_yticks, queries)
    axes.set_title(title if head is None else f"{title}, head {head}".removeprefix(", "), fontsize=8)
    figure.colorbar(image, ax=axes)
    return figure


def _name(set_ticks: Callable, words: Sequence[str], **options) -> None:
    # matplotlib would read text between dollar signs as a formula.
    set_ticks(range(len(words)), words, fontsize=6, parse_math=False, **options)


def _plain(name: str) -> str:
    """A name without formulas, which begin with a dollar, and without `_` in front, which matplotlib hides."""
    return (f" {name}" if name.startswith("_") else name).replace("$", r"\$")


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    # One attention of 1,500 tokens would otherwise take gigabytes.
    figure.savefig(content, format="png", dpi=min(_DPI, _LONGEST_SIDE / max(figure.get_size_inches())))
    return content.getvalue()
