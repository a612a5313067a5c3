"""Table 4 of Cheung's report: readers of SQuAD 2.0, the best of three runs each, and ensembles of the three."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fabir_tf.experiments.compare import markdown_row
from fabir_tf.experiments.published import IMPROVED, PublishedRun
from fabir_tf.reading.run_directory import RunDirectory

HEAD = ("", "model", "trained here", "F1", "EM", "published F1", "published EM", "published ensemble F1, EM, weights")
NOTE = (
    "Of several seeds the one with the best F1 is shown, as in the report. On data with unanswerable questions, F1 and "
    "EM are each at the best threshold of the no-answer probability."
)


def vectors_of(run: RunDirectory) -> str:
    """The word vectors that a run was trained with, and their dimensions.

    Args:
        run: a trained run.
    """
    config = run.read_config()
    files = [Path(file).name for file in config["training"]["vectors"].split(",")]
    return f"--vectors={','.join(files)} with {config['model']['word_dim']} dimensions"


def results_table(rows: Sequence[PublishedRun], runs: Sequence[Mapping[str, str]], vectors: Mapping[str, str]) -> str:
    """The table in Markdown, ours beside the published figures.

    Args:
        rows: all rows of the table.
        runs: what was trained, by `compare.RUN_COLUMNS`.
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
                best = max(of_name, key=lambda run: float(run["f1"]))
                about = f"{name}, {vectors[name]}, seed {best['seed']} of {','.join(run['seed'] for run in of_name)}"
                scores = (_number(float(best[score])) for score in ("f1", "exact_match"))
                lines.append(markdown_row((number, row.row, about, *scores, *published)))
    return "\n".join([*lines, "", NOTE])


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def _ensemble(row: PublishedRun) -> str:
    if row.ensemble is None:
        return ""
    f1, exact_match, weights = row.ensemble
    return f"{f1:.3f}, {exact_match:.3f}, {weights}"
