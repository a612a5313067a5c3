"""What the commands that answer questions share: from records to lines of JSON."""

import contextlib
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.asked import read_asked
from fabir_tf.pipelines.datasets.records import Record
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, named_errors, validate_writable
from fabir_tf.reading.answers import Answer

if TYPE_CHECKING:
    from fabir_tf.reading.document_reader import DocumentReader

# Records answered at once: enough to fill batches of similar length, few enough for answers to appear early.
CHUNK = 8192
# Questions answered at once from documents: several paragraphs are read for each.
DOCUMENT_CHUNK = 256

AnswerRecords = Callable[[Sequence[Record]], Iterable[Answer]]


def define_output_flags() -> None:
    """Defines --output_file and --n_best."""
    flags.DEFINE_string("output_file", None, "File for the answers; by default standard output.")
    flags.DEFINE_integer("n_best", 1, "Spans per question.", lower_bound=1, upper_bound=1000)


def define_paragraphs_flag() -> None:
    """Defines --paragraphs of the commands that answer from documents."""
    text = "Paragraphs of the documents that are read for each question."
    flags.DEFINE_integer("paragraphs", 5, text, lower_bound=1, upper_bound=1000)


def validate_output(values: flags.FlagValues, *sources: str) -> None:
    """Checks that --output_file can be written.

    Args:
        values: the flags.
        *sources: the flags of the files that are read.

    Raises:
        UserError: it is one of these files.
        WriteError: it cannot be written.
    """
    if values.output_file:
        named = {name: values[name].value for name in sources}
        cli.validate_other_file("output_file", values.output_file, named)
        validate_writable(values.output_file)


def validate_not_blank(values: flags.FlagValues, *names: str) -> None:
    """Checks the texts of flags.

    Raises:
        UserError: one has no word.
    """
    for name in names:
        if not values[name].value.strip():
            raise UserError(f"--{name} is blank, expected a text with at least one word")


def asked_records(values: flags.FlagValues) -> Iterator[Record]:
    """The questions of --question or --input_file, without passages.

    Raises:
        UserError: both or neither are given, or there is no question.
    """
    if (values.question is None) == (values.input_file is None):
        raise UserError("--question and --input_file: found both or neither, expected one of them")
    if values.question is None:
        return read_asked(values.input_file)
    validate_not_blank(values, "question")
    return iter([Record("1", values.question, "")])


def write_answers(values: flags.FlagValues, records: Iterable[Record], answer: AnswerRecords, chunk: int) -> None:
    """Writes a line for each record: its id, and its answer or what is wrong with it.

    Args:
        values: the flags of `define_output_flags`.
        records: the questions.
        answer: answers several good records.
        chunk: how many of them at once.

    Raises:
        UserError: no question could be answered.
    """
    written, failed = 0, 0
    with _output(values.output_file) as file:
        for line in _lines(records, answer, chunk):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            written += 1
            failed += "error" in line
    message = f"{failed:,} of {written:,} questions could not be answered: the field error of their lines says why"
    if failed == written:
        raise UserError(message)
    if failed:
        cli.to_stderr(message)


def from_documents(reader: "DocumentReader", n_best: int) -> AnswerRecords:
    """What answers records from documents.

    Args:
        reader: with the documents.
        n_best: spans per question.
    """
    return lambda records: reader.answer_batch([record.question for record in records], n_best=n_best)


def _lines(records: Iterable[Record], answer: AnswerRecords, size: int) -> Iterator[dict[str, Any]]:
    records = iter(records)
    while chunk := list(itertools.islice(records, size)):
        found = iter(answer([record for record in chunk if not record.error]))
        for record in chunk:
            yield {"id": record.id} | ({"error": record.error} if record.error else next(found).to_dict())


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
