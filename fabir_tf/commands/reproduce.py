"""Trains the readers of a table or figure of the papers, and compares the results with the published ones.

    fabir-reproduce --table=6 --output=reproduced --vectors=glove.6B.100d.txt
    fabir-reproduce --figure=5 --output=reproduced --dataset=sample --epochs=2

Tables 1 and 2 and figures 3 to 6 are those of the paper, table 6 is that of the thesis. Settings of fabir-train on this
command line hold for every run; all others are the published ones, for example 18 or 54 epochs on all of SQuAD. Type
the same command to resume; tables and figures share their runs.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("reproduce")

from pathlib import Path

from absl import flags

from fabir_tf.analysis.groupings import groupings
from fabir_tf.analysis.judged import judge
from fabir_tf.analysis.plotting import NO_PICTURES, has_pictures
from fabir_tf.analysis.scores import COLUMNS, score_groups
from fabir_tf.commands import cli
from fabir_tf.commands.compare import refuse_single_run, shared_flags, training_seeds
from fabir_tf.experiments.compare import Plan, as_markdown, compare
from fabir_tf.experiments.published import FIGURES, TABLES
from fabir_tf.pipelines.datasets.predictions import read_predictions
from fabir_tf.pipelines.datasets.sources import AUTO, load_dataset, names_file
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, csv_text, validate_writable, write_text
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.reading.run_directory import RunDirectory


def define_flags() -> None:
    """Flags of the command, including those of fabir-train."""
    flags.DEFINE_enum("table", None, [str(number) for number in TABLES], "Table to reproduce.")
    flags.DEFINE_enum("figure", None, [str(number) for number in FIGURES], "Figure to reproduce.")
    flags.DEFINE_list("seeds", ["1"], "Seeds, comma-separated; each row is trained once with each seed.")
    flags.DEFINE_string("output", None, "Folder for the runs, the table and the figure.")
    cli.define_setting_flags()


def main(values: flags.FlagValues) -> None:
    """Trains and compares the runs, and draws the figure."""
    if bool(values.table) == bool(values.figure):
        raise UserError("--table and --figure: found both or neither, expected one of them")
    cli.validate_given(values, output="the folder for the runs, the table and the figure")
    refuse_single_run(values, "the papers' rows and --seeds set it")
    dataset = values.eval_dataset or values.dataset or AUTO
    if names_file(dataset) and not values.eval_dataset:
        raise UserError("--eval_dataset is missing: name the data that all runs are scored on")
    number = int(values.table or 2)
    folder = Path(values.output)
    # Tables 1 and 6 share their runs; those of table 2 are longer.
    runs = folder / ("table_2" if number == 2 else "ablations")
    validate_writable(runs / "plan.json")
    configs = []
    for run in TABLES[number]:
        configs.append(runs / "configs" / f"{run.name}.flags")
        write_text(configs[-1], run.as_flags())
    plan = Plan(tuple(configs), training_seeds(values.seeds), shared_flags(values), dataset, runs)
    rows = compare(plan, lambda line: print(line, flush=True))
    write_text(folder / f"table_{number}.md", as_markdown(rows) + "\n")
    if values.figure:
        _draw(values, plan, int(values.figure))


def _draw(values: flags.FlagValues, plan: Plan, number: int) -> None:
    """Writes a figure of the first seed's readers, and its numbers."""
    options = cli.data_options(values)
    data = load_dataset(plan.dataset, "dev", **options.tfds_folders, log=cli.to_stderr)
    tokenized = tokenize_dataset(data, WordTokenizer(), options.cache_dir, cli.to_stderr)
    runs = {config.stem: RunDirectory(plan.folder / config.stem / f"seed_{plan.seeds[0]}") for config in plan.configs}
    judged = [judge(name, data, read_predictions(run.predictions)) for name, run in runs.items()]
    way = next(way for way in groupings(tokenized) if way.name == FIGURES[number])
    rows = [row for row in score_groups(judged, [way]) if row["grouping"] == way.name]
    path = plan.folder.parent / f"figure_{number}.csv"
    write_text(path, csv_text(COLUMNS, rows))
    if not has_pictures():
        cli.to_stderr(NO_PICTURES)
        return
    from fabir_tf.analysis.pictures import draw_scores

    with atomic_write(path.with_suffix(".png")) as file:
        file.write(draw_scores(way.title, rows))


def run() -> None:
    """Entry point of `fabir-reproduce`."""
    define_flags()
    cli.run_command(main, __doc__)
