"""Shows what a reader gets right and wrong: scores by kind of question with intervals, pictures, and errors.

    fabir-analyze --dataset=dev.json --predictions_files=fabir=answers.jsonl,bidaf=predictions.json --output=analysis
    fabir-analyze --dataset=dev.json --run_dir=runs/base --question_id=56be4db0acb8001400a502ec --output=analysis

Predictions are files of fabir-evaluate (question id to text) or of fabir-predict (JSON lines with probabilities), each
optionally with a name in front of its path. Writes scores.csv, error_classes.csv (wrong answers counted by rule),
to_judge_NAME.csv (100 of them drawn at random, with a column to fill in by hand), report.html (one file without
external resources), and the pictures as files of their own. With --run_dir and --question_id it writes question.html,
which shows how a reader answers that question: start and end probabilities and all attention weights.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("analyze")

from pathlib import Path

from absl import flags

from fabir_tf.analysis.judged import judge
from fabir_tf.analysis.plotting import NO_PICTURES, has_pictures
from fabir_tf.commands import cli, entry, reader_flags
from fabir_tf.pipelines.datasets.predictions import read_predictions
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData, question_with
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import removed_on_failure, validate_writable
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer


def define_flags() -> None:
    """Flags of the command."""
    flags.DEFINE_string("dataset", None, "The questions: a file of questions, a TFDS name, sample or auto.")
    text = "Predictions, comma-separated, each a file or NAME=FILE; all others are compared with the first."
    flags.DEFINE_list("predictions_files", [], text)
    flags.DEFINE_string("output", None, "Folder for the results.")
    flags.DEFINE_integer("errors", 50, "Most errors of each kind in the report.", lower_bound=0)
    flags.DEFINE_string("question_id", None, "Id of a question of the dataset; shows how a reader answers it.")
    reader_flags.define_reader_flags("is inspected, with question_id")
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the predictions, scores them and writes the results."""
    reader_folder = reader_flags.reader_folder(values)
    _validate_flags(values, reader_folder)
    folder = Path(values.output)
    validate_writable(folder / "report.html")
    named = dict(_named(text) for text in values.predictions_files)
    if len(named) < len(values.predictions_files):
        raise UserError("--predictions_files: found the same name twice, expected different names, as in NAME=FILE")
    answers = {name: read_predictions(path) for name, path in named.items()}
    options = cli.data_options(values)
    data = load_dataset(values.dataset, "dev", **options.tfds_folders, log=cli.to_stderr)
    if values.question_id:
        # Before the analysis, which may take minutes.
        question_with(data, values.question_id)
    with removed_on_failure(folder):
        _write(values, folder, data, answers, reader_folder)


def _write(values: flags.FlagValues, folder: Path, data: SquadData, answers: dict, reader_folder: str | None) -> None:
    # After mistakes in the flags are reported.
    with entry.importing():
        from fabir_tf.analysis.write import write_analysis, write_inspection

    options = cli.data_options(values)
    if answers:
        if not has_pictures():
            cli.to_stderr(NO_PICTURES)
        judged = [judge(name, data, found) for name, found in answers.items()]
        tokenized = tokenize_dataset(data, WordTokenizer(), options.cache_dir, cli.to_stderr)
        rows = write_analysis(folder, tokenized, judged, values.errors, cli.to_stderr)
        for row in rows[: len(judged)]:
            print(f"{row['predictions']}: EM {row['exact_match']:.2f}  F1 {row['f1']:.2f}", flush=True)
    if values.question_id:
        reader = reader_flags.load_reader(values, reader_folder)
        write_inspection(folder, data, reader, values.question_id)


def _validate_flags(values: flags.FlagValues, reader_folder: str | None) -> None:
    cli.validate_given(values, dataset="the questions", output="a folder")
    if bool(reader_folder) != bool(values.question_id):
        raise UserError("--run_dir (or --model) and --question_id: found one of them, expected both or neither")
    if not values.predictions_files and not values.question_id:
        raise UserError("expected --predictions_files, or --run_dir (or --model) with --question_id, found neither")
    if not reader_folder:
        cli.refuse_given(
            values, reader_flags.READING_FLAGS, "belongs to --run_dir or --model, found it without a reader"
        )
    if not values.predictions_files:
        cli.refuse_given(values, ("errors",), "belongs to --predictions_files, found it without them")
    if values.question_id and not has_pictures():
        raise UserError(f"--question_id: {NO_PICTURES}")


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return Path(text).stem, text
    if not name or not path or Path(name).name != name:
        raise UserError(f"--predictions_files: found {text!r}, expected FILE or NAME=FILE, with a name without slashes")
    return name, path


def run() -> None:
    """Entry point of `fabir-analyze`."""
    define_flags()
    cli.run_command(main, __doc__)
