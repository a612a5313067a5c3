"""Answers questions with a trained reader.

    fabir-predict --run_dir=runs/base --question="Who built the mill?" --passage="The mill was built by Anna Keld."
    fabir-predict --run_dir=runs/base --input_file=questions.jsonl --output_file=answers.jsonl
    fabir-predict --run_dir=runs/base --question="Who built the mill?" --document=notes

The input is a file of questions in any format of fabir-convert, or JSON lines with the fields question, passage (or
context) and optionally id; "-" is standard input. Answers in it are not looked at. Each answer is one JSON line with
id, answer, start, end (characters), probability, no_answer_probability, is_answer, score and n_best. A record that
cannot be read gets a line with id and error; the others are answered. (A mistake in SQuAD's own JSON, which is read as
a whole, ends the command before the first answer.) Where the command was interrupted, the same with
--resume goes on: what is finished stays beside the output file until that is complete.

With --document, all questions are answered from a file or a folder of text, Markdown, reStructuredText, HTML or PDF.
The input then is one question a line, or a file of questions, whose passages are not looked at. A line also has the
source, its heading, the numbers of paragraph and page, the sentence with start_in_sentence, and rank_score.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("predict")

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from fabir_tf.commands import answering, cli, reader_flags
from fabir_tf.pipelines.datasets.records import STANDARD_INPUT, Record, read_records
from fabir_tf.pipelines.documents.collection import Collection
from fabir_tf.pipelines.documents.folder import FORMATS, read_documents
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position


def define_flags() -> None:
    """Flags of the command."""
    reader_flags.define_reader_flags("answers")
    flags.DEFINE_string("question", None, "The question, with --passage or --document.")
    flags.DEFINE_string("passage", None, "The text to answer from, with --question.")
    text = "File or folder to answer from: text, Markdown, reStructuredText, HTML, PDF, or documents as JSON lines."
    flags.DEFINE_string("document", None, text)
    flags.DEFINE_string(
        "input_file",
        None,
        "File of questions instead: SQuAD JSON, JSON lines, CSV or Parquet; - is standard input.",
    )
    answering.define_paragraphs_flag()
    answering.define_output_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the questions, answers them and writes the answers."""
    folder = reader_flags.needed_reader_folder(values)
    if values.document is not None:
        _answer_from_documents(values, folder)
        return
    if values["paragraphs"].present:
        raise UserError(f"--paragraphs={values.paragraphs}: found no --document, whose paragraphs it counts")
    asked = values.question is not None or values.passage is not None
    if asked == (values.input_file is not None):
        raise UserError("--question with --passage, and --input_file: found both or neither, expected one of them")
    if asked and (values.question is None or values.passage is None):
        missing = "--question" if values.question is None else "--passage"
        raise UserError(f"{missing} is missing: --question and --passage go together")
    answering.validate_output(values, "input_file")
    position = Position()
    records = iter([_asked_record(values)]) if asked else _input_records(values.input_file, position)
    reader = reader_flags.load_reader(values, folder)

    def answer(chunk):
        return reader.answer_batch([one.question for one in chunk], [one.passage for one in chunk], values.n_best)

    answering.write_answers(values, records, answer, answering.CHUNK, position, {})


def _answer_from_documents(values: flags.FlagValues, folder: str) -> None:
    if values.passage is not None:
        raise UserError("--passage and --document: found both, expected one text to answer from")
    position = Position()
    records = answering.asked_records(values, position)
    answering.validate_output(values, "input_file", "document")
    _validate_outside(values)
    collection = Collection(read_documents(values.document, cli.to_stderr), skipped=cli.to_stderr)
    if not len(collection):
        raise UserError(f"--document={values.document}: found no text to answer from")
    answering.write_document_answers(values, records, reader_flags.load_reader(values, folder), collection, position)


def _validate_outside(values: flags.FlagValues) -> None:
    """Refuses an output that would be one of the folder's documents, now or the next time."""
    folder, output = Path(os.path.realpath(values.document)), Path(os.path.realpath(values.output_file or ""))
    if folder.is_dir() and folder in output.parents and output.suffix.lower() in FORMATS:
        raise UserError(
            f"--output_file={values.output_file} would be a document of --document={values.document}, expected a file "
            "outside of it or one with another ending"
        )


def _asked_record(values: flags.FlagValues) -> Record:
    answering.validate_not_blank(values, "question", "passage")
    return Record("1", values.question, values.passage)


def _input_records(path: str, position: Position) -> Iterator[Record]:
    records = read_records(path, position)
    first = next(records, None)
    if first is None:
        name = "standard input" if path == STANDARD_INPUT else path
        raise UserError(f"{name}: found no question, expected rows with question and passage, or SQuAD JSON")
    return itertools.chain([first], records)


def run() -> None:
    """Entry point of `fabir-predict`."""
    define_flags()
    cli.run_command(main, __doc__)
