"""Table 4 of Cheung's report: readers of SQuAD 2.0, the best of three runs each, and ensembles of the three."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fabir_tf.experiments.compare import markdown_row
from fabir_tf.experiments.published import IMPROVED, PublishedRun
from fabir_tf.reading.run_directory import RunDirectory

NO_ANSWER_THRESHOLD = 0.5
"""Where "no answer" is as likely as the best span, before any calibration."""

HEAD = ("", "model", "trained here", "F1", "EM", "published F1", "published EM", "published ensemble F1, EM, weights")
NOTE = (
    'As in the report, of several seeds the one with the best F1 is shown, and a question has no answer where "no '
    'answer" is likelier than the best span.'
)


def vectors_of(run: RunDirectory) -> str:
    """The word vectors that a run was trained with, and their dimensions.

    Args:
        run: a trained run.
    """
    config = run.read_config()
    files = [Path(file).name for file in config["training"]["vectors"].split(",")]
    return f"--vectors={','.join(files)} with {config['model']['word_dim']} dimensions"


def results_table(rows: Sequence[PublishedRun], runs: Sequence[Mapping[str, Any]], vectors: Mapping[str, str]) -> str:
    """The table in Markdown, ours beside the published figures.

    Args:
        rows: all rows of the table.
        runs: what was trained, from `compare.read_reports`.
        vectors: the word vectors of each trained configuration, by its name.
    """
    lines = [markdown_row(HEAD), markdown_row(["---"] * len(HEAD))]
    for number, row in enumerate(rows, 1):
        published = (_number(row.f1), _number(row.exact_match), _ensemble(row))
        if row.needs:
            lines.append(markdown_row((number, row.row, f"no: needs {row.needs}", "", "", *published)))
        for name in (row.name, row.name + IMPROVED):
            of_name = [run for run in runs if run["configuration"] == name]
            if of_name:
                best = max(of_name, key=lambda run: run["f1"])
                seeds = ",".join(str(run["seed"]) for run in of_name)
                about = f"{name}, {vectors[name]}, seed {best['seed']} of {seeds}"
                scores = (_number(best[score]) for score in ("f1", "exact_match"))
                lines.append(markdown_row((number, row.row, about, *scores, *published)))
    return "\n".join([*lines, "", NOTE])


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def _ensemble(row: PublishedRun) -> str:
    if row.ensemble is None:
        return ""
    f1, exact_match, weights = row.ensemble
    return f"{f1:.3f}, {exact_match:.3f}, {weights}"
