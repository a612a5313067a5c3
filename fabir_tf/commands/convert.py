"""Converts a file of questions into another format, checks it, and mends shifted answers.

    fabir-convert --input_file=questions.csv --output_file=questions.json.gz
    fabir-convert --input_file=questions.jsonl --check
    fabir-convert --input_file=questions.json --mend --output_file=mended.json

The formats are SQuAD's JSON (.json), JSON lines in Hugging Face's fields (.jsonl), CSV with a header (.csv) and Parquet
(.parquet); .gz behind the ending packs the file. With --check every fault is listed with its place, and nothing is
written if there is one. --mend first moves answers to where their text is: to the only place near their answer_start,
else to the only one in the passage.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("convert")

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.checking import check_file, list_faults, mend
from fabir_tf.pipelines.datasets.formats import FORMATS, format_of, read_questions, validate_ending, write_questions
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, validate_writable


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_string("input_file", None, "The questions: SQuAD's JSON, JSON lines, CSV, Parquet, or gzip of it.")
    flags.DEFINE_string("output_file", None, "File to write; its ending names the format.")
    flags.DEFINE_bool("check", False, "List every fault of the file; with one, the status is 2 and nothing is written.")
    flags.DEFINE_bool("mend", False, "Check the file, after moving shifted answers to where their text is.")


def main(values: flags.FlagValues) -> None:
    """Reads the file, perhaps checks it, and writes it."""
    cli.validate_given(values, input_file="the file of questions")
    output = values.output_file
    if values.mend or not values.check:
        cli.validate_given(values, output_file="the file to write")
    if output:
        validate_ending(output, "output_file")
        cli.validate_other_file("output_file", output, {"input_file": values.input_file})
        validate_writable(output)
    is_checked = values.check or values.mend
    data = _checked(values.input_file, values.mend) if is_checked else read_questions(values.input_file)
    if output:
        write_questions(data, output)
    counts = f"{counted(len(data.questions), 'question')} about {counted(len(data.passages), 'passage')}"
    unasked = len(data.passages) - len({question.passage for question in data.questions})
    if output and unasked and format_of(output) is not FORMATS[".json"]:
        counts += f", {unasked:,} of them without a question and so left out of a file of rows"
    with named_errors("standard output"):
        print(f"{output or values.input_file}: {counts}{', no fault' if is_checked else ''}", flush=True)


def _checked(path: str, has_to_mend: bool) -> SquadData:
    checked, lines = check_file(path), []
    if has_to_mend:
        checked, lines = mend(checked)
    faults = list_faults(checked)
    with named_errors("standard output"):
        for line in [*lines, *faults]:
            print(line, flush=True)
    if faults:
        raise UserError(f"{path}: found {counted(len(faults), 'fault')}, listed above; nothing is written")
    return checked.data


def run() -> None:
    """Entry point of `fabir-convert`."""
    define_flags()
    cli.run_command(main, __doc__)
