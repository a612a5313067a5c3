"""Trains the readers of a table or figure of the papers, and compares the results with the published ones.

    fabir-reproduce --table=6 --output=reproduced --vectors=glove.6B.100d.txt
    fabir-reproduce --figure=5 --output=reproduced --dataset=sample --epochs=2
    fabir-reproduce --paper=porwal --table=6.1 --output=porwal --vectors=glove.6B.100d.txt,wiki.en.vec
    fabir-reproduce --paper=cheung --table=4 --output=cheung --vectors=glove.6B.300d.txt --seeds=1,2,3 \\
        --dataset=squad/v2.0 --bert_base=bert-base-uncased

Of the papers, "fabir" has tables 1 and 2 and figures 3 to 6, and of the thesis table 6 and figures 11 and 12, which
need no training; "porwal" has tables 6.1 and 6.2; "bologna" has table 1 and the loss curves 4, 6, 8, 10 and 12, and
word vectors of 100 dimensions (--vectors) for its first two rows and of 50 (--vectors_50) for the others;
"cheung" has table 4, whose rows with ELMo and BERT need the folders of --elmo, --bert_base and --bert_large: a row
without its folder is listed, and not trained. Every row is trained as its paper has it (--as_published); with
--improved each is trained with our defaults, too. Settings of fabir-train on this command line hold for every run whose
reader has them. Type the same command to resume; tables and figures of a paper share their runs.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("reproduce")

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from fabir_tf.analysis import positional_attention
from fabir_tf.analysis.groupings import groupings
from fabir_tf.analysis.judged import judge
from fabir_tf.analysis.plotting import NO_PICTURES, write_picture
from fabir_tf.analysis.scores import COLUMNS, score_groups
from fabir_tf.commands import cli, setting_flags
from fabir_tf.commands.compare import refuse_single_run, shared_flags, training_seeds
from fabir_tf.configuration import as_flag
from fabir_tf.experiments import cheung, porwal
from fabir_tf.experiments.compare import (
    Plan,
    as_markdown,
    check_plan,
    compare,
    read_history,
    read_reports,
    run_command,
)
from fabir_tf.experiments.published import FIGURES, FOLDERS, GROUPINGS, IMPROVED, LOSS_CURVES, TABLES, PublishedRun
from fabir_tf.models import MODELS
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.datasets.predictions import read_predictions
from fabir_tf.pipelines.datasets.sources import AUTO, load_dataset, names_file
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import csv_text, validate_writable, write_text
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.reading.run_directory import RunDirectory

_LOSS_COLUMNS = ("epoch", "loss", "held_out_loss", "f1", "exact_match")
# The table whose rows a figure shows.
_TABLE_OF_FIGURES = {"fabir": "2", "bologna": "1"}


def define_flags() -> None:
    """Flags of the command, including those of fabir-train."""
    flags.DEFINE_enum("paper", "fabir", list(TABLES), "The paper.")
    flags.DEFINE_string("table", None, "Table to reproduce.")
    flags.DEFINE_string("figure", None, "Figure to reproduce.")
    flags.DEFINE_bool("improved", False, "Train each row with our defaults, too.")
    flags.DEFINE_list("seeds", ["1"], "Seeds, comma-separated; each row is trained once with each seed.")
    flags.DEFINE_string("output", None, "Folder for the runs, the table and the figure.")
    for name, what in FOLDERS.items():
        flags.DEFINE_string(name, None, f"Folder of {what}, which rows of --paper=cheung begin with.")
    text = "Word vectors of 50 dimensions, for the rows of --paper=bologna that have such; --vectors is of the others."
    flags.DEFINE_string("vectors_50", None, text)
    setting_flags.define_setting_flags()


def main(values: flags.FlagValues) -> None:
    """Trains and compares the runs, and writes the table or the figure."""
    _validate_flags(values)
    folder = Path(values.output)
    if values.paper == "fabir" and values.figure in positional_attention.FIGURES:
        _draw_positions(folder, values.figure)
        return
    table = values.table or _TABLE_OF_FIGURES[values.paper]
    runs = folder / _runs_folder(values.paper, table)
    validate_writable(runs / "plan.json")
    unused = _unused_flags(values, TABLES[values.paper][table], _rows(values, table))
    configs = _write_configs(values, runs, table, unused)
    threshold = cheung.NO_ANSWER_THRESHOLD if values.paper == "cheung" else None
    scored = (_scored_data(values), runs, threshold)
    plan = Plan(tuple(configs), training_seeds(values.seeds), shared_flags(values), *scored, unused)
    if table == "6.2":
        check_plan(plan)
        parts = [f"## {config.stem}\n\n{porwal.answers_table(_answers(plan, config))}" for config in configs]
        _write_table(folder / "table_6.2.md", "\n\n".join(parts))
        return
    rows = compare(plan, lambda line: print(line, flush=True))
    trained = {config.stem: RunDirectory(runs / config.stem / f"seed_{plan.seeds[0]}") for config in configs}
    if table == "6.1":
        parts = [f"## {name}\n\n{porwal.epochs_table(read_history(run))}" for name, run in trained.items()]
        _write_table(folder / "table_6.1.md", "\n\n".join(parts))
    elif values.paper == "cheung":
        _write_table(folder / "table_4.md", _cheungs_table(values, plan, trained))
    elif values.paper == "fabir" or values.table:
        write_text(folder / f"table_{table}.md", as_markdown(rows) + "\n")
    if values.figure and values.paper == "bologna":
        _draw_losses(folder, values.figure, trained)
    elif values.figure:
        _draw_groups(values, plan, values.figure, trained)


def _validate_flags(values: flags.FlagValues) -> None:
    if bool(values.table) == bool(values.figure):
        raise UserError("--table and --figure: found both or neither, expected one of them")
    for flag, known in (("table", tuple(TABLES[values.paper])), ("figure", FIGURES[values.paper])):
        found = values[flag].value
        if found and found not in known:
            expected = f"one of {', '.join(known)}" if known else f"--table, because it has no {flag} here"
            raise UserError(f"--{flag}={found}: not of --paper={values.paper}, expected {expected}")
    cli.validate_given(values, output="the folder for the runs, the table and the figure")
    refuse_single_run(values, "the papers' rows and --seeds set it")
    if values.table == "6.2":
        if len(values.seeds) > 1:
            raise UserError(f"--seeds={','.join(values.seeds)}: table 6.2 is of one reader, expected one seed")
        if values["epochs"].present:
            epochs = " and ".join(map(str, porwal.STAGES))
            raise UserError(f"--epochs={values.epochs}: table 6.2 is of {epochs} epochs, expected none here")
    if values.figure in GROUPINGS and values.paper == "fabir" and values.limit_evaluation:
        raise UserError("--limit_evaluation leaves out questions that the figure counts, expected none here")
    if values["as_published"].present:
        raise UserError("--as_published is what fabir-reproduce does; --improved trains our defaults beside it")
    if values.figure in positional_attention.FIGURES and values.paper == "fabir":
        return
    if values.paper == "cheung" and not values.dataset:
        raise UserError("--dataset is missing: the table is of SQuAD 2.0, expected squad/v2.0, its file, or sample")
    for name in FOLDERS:
        if values[name].value and values.paper != "cheung":
            raise UserError(f"--{name} is for --paper=cheung, found --paper={values.paper}")
    if values.paper == "cheung":
        for name in ("encoder", "word_model"):
            if values[name].present:
                flag_names = ", ".join(f"--{flag}" for flag in FOLDERS)
                raise UserError(f"--{name}: rows begin with different folders, expected them in {flag_names}")
        _validate_folders(values)
    in_config = {"dataset", "eval_dataset"} & (
        setting_flags.settings_in(values.config).keys() if values.config else set()
    )
    if in_config:
        name = min(in_config)
        raise UserError(f"--config={values.config}: found {name}, expected it as --{name}, which holds for all runs")
    if names_file(_scored_data(values)) and not values.eval_dataset:
        raise UserError("--eval_dataset is missing: name the data that all runs are scored on")


def _scored_data(values: flags.FlagValues) -> str:
    return values.eval_dataset or values.dataset or AUTO


def _runs_folder(paper: str, table: str) -> str:
    """Where runs lie that several tables and figures share."""
    if paper == "fabir":
        # Those of table 2 are longer.
        return "table_2" if table == "2" else "ablations"
    # A run that has trained further can't give the answers of its first epochs.
    return "porwal_answers" if table == "6.2" else paper


def _rows(values: flags.FlagValues, table: str) -> tuple[PublishedRun, ...]:
    """The rows to train."""
    if values.figure and values.paper == "bologna":
        return (LOSS_CURVES[values.figure][0],)
    rows = TABLES[values.paper][table]
    return tuple(row for row in rows if not row.members and (not row.folder or _folder(values, row)))


def _config_class(row: PublishedRun) -> type[ReaderConfig]:
    return MODELS[row.settings.get("model", setting_flags.DEFAULT_MODEL)].config


def _validate_folders(values: flags.FlagValues) -> None:
    """Reports a folder that does not fit before hours of training."""
    # The rows of one reader begin with the same.
    rows = {(row.folder, row.settings["model"]): row for row in TABLES["cheung"]["4"] if row.folder and not row.members}
    for row in rows.values():
        if folder := _folder(values, row):
            cls = _config_class(row)
            settings = {name: value for name, value in row.settings.items() if name != "model"}
            cls(**settings | {row.folder_setting: folder} | cls.given_flags(values)).completed()


def _folder(values: flags.FlagValues, row: PublishedRun) -> str:
    """The folder of what a row begins with; empty if it needs none, or if none is given."""
    return (values[row.folder].value or "") if row.folder else ""


def _unused_flags(
    values: flags.FlagValues, rows: Sequence[PublishedRun], trained: Sequence[PublishedRun]
) -> dict[str, frozenset[str]]:
    """The given settings of models that the reader of a row does not have, by the names of the row's configurations.

    Args:
        values: the flags.
        rows: those of the table; the commands of those that are not trained are told.
        trained: those of them that are trained.

    Raises:
        UserError: no reader that is trained has a setting, or rows have their own.
    """
    given = {name for spec in MODELS.values() for name in spec.config.given_flags(values)}
    own = given & {name for row in rows for name in row.settings}
    if own:
        raise UserError(f"--{min(own)}: rows of the table have their own, expected none here")
    unused: dict[str, frozenset[str]] = {}
    for row in (row for row in rows if not row.members):
        fields = dataclasses.fields(_config_class(row))
        known = {field.name for field in fields if not field.metadata["derived"]}
        unused[row.name] = unused[row.name + IMPROVED] = frozenset(given - known)
    everywhere = frozenset.intersection(*(unused[row.name] for row in trained))
    if everywhere:
        raise UserError(f"--{min(everywhere)}: no reader that is trained has such a setting")
    return unused


def _cheungs_table(values: flags.FlagValues, plan: Plan, trained: dict[str, RunDirectory]) -> str:
    rows, reports = TABLES["cheung"]["4"], read_reports(plan)
    about = {name: cheung.about(run) for name, run in trained.items()}
    for row in rows:
        if row.members and set(row.members) <= about.keys():
            reports.append(cheung.train_ensemble(row, plan))
            about[row.name] = f"{' and '.join(row.members)}, {about[row.members[0]]}, equal weights"
    commands = {row.name: cheung.command(row, plan, _folder(values, row) or "FOLDER") for row in rows}
    return cheung.results_table(rows, reports, about, commands)


def _ways(values: flags.FlagValues) -> tuple[bool, ...]:
    return (False, True) if values.improved else (False,)


def _write_configs(values: flags.FlagValues, runs: Path, table: str, unused: dict[str, frozenset[str]]) -> list[Path]:
    """Writes a flag file of `fabir-train` for each row and way; a row with vectors of its own does not use others."""
    trainings = [
        (row, improved)
        for improved in _ways(values)
        for row in _rows(values, table)
        if row.as_published or not improved
    ]
    narrow = [_has_narrow_vectors(values, row, improved) for row, improved in trainings]
    _validate_narrow_vectors(values, any(narrow))
    paths = []
    for (row, improved), is_narrow in zip(trainings, narrow, strict=True):
        name, text = row.name + (IMPROVED if improved else ""), row.as_flags(improved, _folder(values, row))
        if is_narrow:
            unused[name] |= {"vectors"}
            text += as_flag("vectors", values.vectors_50) + "\n"
        paths.append(runs / "configs" / f"{name}.flags")
        write_text(paths[-1], text)
    return paths


def _has_narrow_vectors(values: flags.FlagValues, row: PublishedRun, improved: bool) -> bool:
    """Whether a row of Bologna's has word vectors of 50 dimensions; as published, the first two have 100."""
    if values.paper != "bologna" or values["word_dim"].present or values.vectors == "none":
        return False
    return improved or row.settings["variant"] > 1


def _validate_narrow_vectors(values: flags.FlagValues, are_needed: bool) -> None:
    """Reports a missing file before hours of training."""
    if are_needed and not values.vectors_50:
        raise UserError(
            "--vectors_50 is missing: rows have word vectors of 50 dimensions, expected their file, such as "
            "glove.6B.50d.txt, beside that of 100 in --vectors; or --word_dim for all rows"
        )
    if values.vectors_50 and not are_needed:
        raise UserError(f"--vectors_50={values.vectors_50}: no row here has word vectors of 50 dimensions")


def _write_table(path: Path, text: str) -> None:
    write_text(path, text + "\n")
    print(text, flush=True)


def _answers(plan: Plan, config: Path) -> dict[int, list[str]]:
    """The answers to Porwal's examples after each of `porwal.STAGES`, by epochs; what was answered before is kept."""
    run = RunDirectory(plan.folder / config.stem / f"seed_{plan.seeds[0]}")
    examples = run.path / "examples.jsonl"
    found = {}
    for epochs in porwal.STAGES:
        answers = run.path / f"answers_{epochs}.jsonl"
        if not answers.exists():
            again = ["--resume"] if run.is_started else []
            flags = [f"--flagfile={config}", *plan.flags, f"--seed={plan.seeds[0]}", f"--epochs={epochs}"]
            run_command("train", [*flags, f"--run_dir={run.path}", *again], config)
            write_text(examples, "".join(json.dumps(example) + "\n" for example in porwal.questions()))
            files = [f"--input_file={examples}", f"--output_file={answers}"]
            run_command("predict", [f"--run_dir={_last_epoch(run).path}", *files], config)
        lines = answers.read_text(encoding="utf-8").splitlines()
        found[epochs] = [json.loads(line)["answer"] for line in lines]
    return found


def _last_epoch(run: RunDirectory) -> RunDirectory:
    """A copy of a run that reads with the weights of its last epoch, and not with its best."""
    copy = RunDirectory(run.path / "last_epoch")
    shutil.rmtree(copy.path, ignore_errors=True)
    shutil.copytree(run.processor, copy.processor)
    copy.best.parent.mkdir()
    shutil.copy(run.last, copy.best)
    shutil.copy(run.config, copy.config)
    return copy


def _draw_positions(folder: Path, number: str) -> None:
    """Writes a figure of the thesis about position encodings, and its numbers."""
    curves = {
        name: positional_attention.positional_attention(*settings)
        for name, settings in positional_attention.FIGURES[number].items()
    }
    rows = [
        {"position": position} | dict(zip(curves, values, strict=True))
        for position, values in enumerate(zip(*curves.values(), strict=True), 1)
    ]
    path = folder / f"figure_{number}.csv"
    write_text(path, csv_text(("position", *curves), rows))
    _write_picture(path.with_suffix(".png"), "draw_positional_attention", curves)


def _draw_losses(folder: Path, number: str, trained: dict[str, RunDirectory]) -> None:
    """Writes a loss curve of Bologna's report, and its numbers."""
    row, published = LOSS_CURVES[number]
    histories = {name: read_history(run) for name, run in trained.items()}
    numbers = [
        {"configuration": name} | {column: epoch[column] for column in _LOSS_COLUMNS}
        for name, epochs in histories.items()
        for epoch in epochs
    ]
    path = folder / f"figure_{number}.csv"
    write_text(path, csv_text(("configuration", *_LOSS_COLUMNS), numbers))
    _write_picture(path.with_suffix(".png"), "draw_losses", row.row, histories, published)


def _draw_groups(values: flags.FlagValues, plan: Plan, number: str, trained: dict[str, RunDirectory]) -> None:
    """Writes a figure of the first seed's readers, and its numbers."""
    options = cli.data_options(values)
    data = load_dataset(plan.dataset, "dev", **options.tfds_folders, log=cli.to_stderr)
    tokenized = tokenize_dataset(data, WordTokenizer(), options.cache_dir, cli.to_stderr)
    judged = [judge(name, data, read_predictions(run.predictions)) for name, run in trained.items()]
    way = next(way for way in groupings(tokenized) if way.name == GROUPINGS[number])
    rows = [row for row in score_groups(judged, [way]) if row["grouping"] == way.name]
    path = plan.folder.parent / f"figure_{number}.csv"
    write_text(path, csv_text(COLUMNS, rows))
    _write_picture(path.with_suffix(".png"), "draw_scores", way.title, rows)


def _write_picture(path: Path, draw: str, *what: Any) -> None:
    if write_picture(path, draw, *what) is None:
        cli.to_stderr(NO_PICTURES)


def run() -> None:
    """Entry point of `fabir-reproduce`."""
    define_flags()
    cli.run_command(main, __doc__)
