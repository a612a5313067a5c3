"""Table 4 of Cheung's report: readers of SQuAD 2.0, the best of three runs each, and ensembles of the three."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fabir_tf.experiments.compare import REPORT, Plan, evaluate, markdown_row, run_command
from fabir_tf.experiments.published import FOLDERS, IMPROVED, PublishedRun
from fabir_tf.models.bert_span import BertSpanConfig
from fabir_tf.models.bidaf_cheung import BidafCheungConfig
from fabir_tf.pipelines.datasets.sources import names_file
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.reading.run_directory import MEMBERS, EnsembleDirectory, RunDirectory

NO_ANSWER_THRESHOLD = 0.5
"""Where "no answer" is as likely as the best span, before any calibration."""

HEAD = ("", "model", "trained here", "F1", "EM", "published F1", "published EM", "published ensemble F1, EM, weights")
NOTE = (
    'As in the report, of several seeds the one with the best F1 is shown, and a question has no answer where "no '
    'answer" is likelier than the best span.'
)


def about(run: RunDirectory) -> str:
    """The encoder or the word vectors that a run was trained with, their width, and its data.

    Args:
        run: a trained run.
    """
    config, training = run.read_model_config(), run.read_config()["training"]
    files = training["dataset"].split(",")
    data = ",".join(Path(file).name if names_file(file) else file for file in files)
    if isinstance(config, BertSpanConfig):
        return f"{Path(config.encoder).name} with {config.d_model} dimensions, on {data}"
    assert isinstance(config, BidafCheungConfig), "The table has no other readers."
    sizes = config.word_sizes()
    if sizes:
        return f"{Path(config.word_model).name} with {sizes.dim} dimensions, on {data}"
    vectors = ",".join(Path(file).name for file in training["vectors"].split(","))
    return f"--vectors={vectors} with {config.word_dim} dimensions, on {data}"


def train_ensemble(row: PublishedRun, plan: Plan) -> dict[str, Any]:
    """The scores of the runs of other rows that answer together with equal weights, which are packed unless they are.

    Args:
        row: a row with members.
        plan: of a comparison that has their runs.

    Returns:
        The report, with the keys `configuration` and `seed` besides; `seed` names all seeds.
    """
    folder, flags = EnsembleDirectory(_ensemble_folder(row, plan)), _ensemble_flags(row, plan)
    if not folder.is_started:
        # What an interrupted command has left.
        shutil.rmtree(folder.path / MEMBERS, ignore_errors=True)
        run_command("pack", flags, Path(row.name))
    if not (folder.path / REPORT).exists():
        evaluate(plan, folder.path, folder.member(0).read_model_config().null_head, Path(row.name))
    return {"configuration": row.name, "seed": _seeds(plan)} | read_json(folder.path / REPORT)


def command(row: PublishedRun, plan: Plan, folder: str) -> str:
    """The command of a row, with the plan's first seed.

    Args:
        row: the row.
        plan: the plan of the table.
        folder: that of what the row begins with.
    """
    if row.members:
        return shlex.join(["fabir-pack", *_ensemble_flags(row, plan)])
    run = plan.folder / row.name / f"seed_{plan.seeds[0]}"
    flags = [*row.flags(folder=folder), *plan.flags_of(row.name), f"--seed={plan.seeds[0]}", f"--run_dir={run}"]
    return shlex.join(["fabir-train", *flags])


def _seeds(plan: Plan) -> str:
    return ",".join(map(str, plan.seeds))


def _ensemble_folder(row: PublishedRun, plan: Plan) -> Path:
    return plan.folder / row.name / f"seeds_{_seeds(plan)}"


def _ensemble_flags(row: PublishedRun, plan: Plan) -> list[str]:
    runs = [str(plan.folder / name / f"seed_{seed}") for name in row.members for seed in plan.seeds]
    return [f"--ensemble={','.join(runs)}", f"--output={_ensemble_folder(row, plan)}"]


def results_table(
    rows: Sequence[PublishedRun],
    runs: Sequence[Mapping[str, Any]],
    trained: Mapping[str, str],
    commands: Mapping[str, str],
) -> str:
    """The table in Markdown, ours beside the published figures, and the command of each row.

    Args:
        rows: all rows of the table.
        runs: what was trained, from `compare.read_reports` and `train_ensemble`.
        trained: what each trained configuration is, by its name.
        commands: the command of each row, by its name.
    """
    lines = [markdown_row(HEAD), markdown_row(["---"] * len(HEAD))]
    for number, row in enumerate(rows, 1):
        published = (_number(row.f1), _number(row.exact_match), _ensemble(row))
        if row.name not in trained:
            needs = f"no: needs --{row.folder}, the folder of {FOLDERS[row.folder]}"
            lines.append(markdown_row((number, row.row, needs, "", "", *published)))
        for name in (row.name, row.name + IMPROVED):
            of_name = [run for run in runs if run["configuration"] == name]
            if of_name:
                best = max(of_name, key=lambda run: run["f1"])
                seeds = ",".join(str(run["seed"]) for run in of_name)
                seed = f"seed {best['seed']} of {seeds}" if not row.members else f"seeds {seeds}"
                here = f"{name}, {trained[name]}, {seed}"
                scores = (_number(best[score]) for score in ("f1", "exact_match"))
                lines.append(markdown_row((number, row.row, here, *scores, *published)))
    numbered = [f"{number}. `{commands[row.name]}`" for number, row in enumerate(rows, 1)]
    return "\n".join([*lines, "", NOTE, "", *numbered])


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def _ensemble(row: PublishedRun) -> str:
    if row.ensemble is None:
        return ""
    f1, exact_match, weights = row.ensemble
    return f"{f1:.3f}, {exact_match:.3f}, {weights}"
