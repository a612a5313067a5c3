"""Answers questions with a trained reader.

    fabir-predict --run_dir=runs/base --question="Who built the mill?" --passage="The mill was built by Anna Keld."
    fabir-predict --run_dir=runs/base --input_file=questions.jsonl --output_file=answers.jsonl

The input is a file of questions in any format of fabir-convert, or JSON lines with the fields question, passage (or
context) and optionally id; "-" is standard input. Answers in it are not looked at. Each answer is one JSON line with
id, answer, start, end (characters), probability, no_answer_probability, is_answer and n_best. A record that cannot be
read gets a line with id and error; the others are answered.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("predict")

import contextlib
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.records import STANDARD_INPUT, Record, read_records
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, named_errors, validate_writable

# Records answered at once: enough to fill batches of similar length, few enough for answers to appear early.
CHUNK = 8192


def define_flags() -> None:
    """Flags of the command."""
    cli.define_reader_flags("answers")
    flags.DEFINE_string("question", None, "The question, with --passage.")
    flags.DEFINE_string("passage", None, "The text to answer from, with --question.")
    flags.DEFINE_string(
        "input_file",
        None,
        "File of questions instead: SQuAD JSON, JSON lines, CSV or Parquet; - is standard input.",
    )
    flags.DEFINE_string("output_file", None, "File for the answers; by default standard output.")
    flags.DEFINE_integer("n_best", 1, "Spans per question.", lower_bound=1, upper_bound=1000)


def main(values: flags.FlagValues) -> None:
    """Reads the questions, answers them and writes the answers."""
    folder = cli.needed_reader_folder(values)
    asked = values.question is not None or values.passage is not None
    if asked == (values.input_file is not None):
        raise UserError("--question with --passage, and --input_file: found both or neither, expected one of them")
    if asked and (values.question is None or values.passage is None):
        missing = "--question" if values.question is None else "--passage"
        raise UserError(f"{missing} is missing: --question and --passage go together")
    if values.output_file:
        cli.validate_other_file("output_file", values.output_file, {"input_file": values.input_file})
        validate_writable(values.output_file)
    records = [_asked_record(values)] if asked else _input_records(values.input_file)
    reader = cli.load_reader(values, folder)
    written, failed = 0, 0
    with _output(values.output_file) as file:
        for line in _answers(reader, records, values.n_best):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            written += 1
            failed += "error" in line
    message = f"{failed:,} of {written:,} questions could not be answered: the field error of their lines says why"
    if failed == written:
        raise UserError(message)
    if failed:
        cli.to_stderr(message)


def _asked_record(values: flags.FlagValues) -> Record:
    for name in ("question", "passage"):
        if not values[name].value.strip():
            raise UserError(f"--{name} is blank, expected a text with at least one word")
    return Record("1", values.question, values.passage)


def _input_records(path: str) -> Iterator[Record]:
    records = read_records(path)
    first = next(records, None)
    if first is None:
        name = "standard input" if path == STANDARD_INPUT else path
        raise UserError(f"{name}: found no question, expected rows with question and passage, or SQuAD JSON")
    return itertools.chain([first], records)


def _answers(reader, records: Iterable[Record], n_best: int) -> Iterator[dict]:
    records = iter(records)
    while chunk := list(itertools.islice(records, CHUNK)):
        good = [record for record in chunk if not record.error]
        found = iter(reader.answer_batch([r.question for r in good], [r.passage for r in good], n_best))
        for record in chunk:
            if record.error:
                yield {"id": record.id, "error": record.error}
            else:
                yield {"id": record.id} | next(found).to_dict()


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[io.TextIOBase]:
    if path is None:
        # A passage may contain characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogatepass")
        with named_errors("standard output"):
            yield sys.stdout
        return
    with atomic_write(path) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="surrogatepass", write_through=True)
        yield file
        # The wrapper would otherwise close the file, which belongs to `atomic_write`.
        file.detach()


def run() -> None:
    """Entry point of `fabir-predict`."""
    define_flags()
    cli.run_command(main, __doc__)
