"""What the commands that answer questions share: from records to lines of JSON."""

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from absl import flags

from fabir_tf.commands import cli, reader_flags
from fabir_tf.commands.progress import Progress
from fabir_tf.pipelines.datasets.asked import read_asked
from fabir_tf.pipelines.datasets.records import STANDARD_INPUT, Record
from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.pipelines.files import Position, atomic_write, file_digest, named_errors, user_path, validate_writable
from fabir_tf.pipelines.partial_file import partial_file
from fabir_tf.pipelines.text.readable import is_blank
from fabir_tf.reading.answers import Answer, QuestionAnswerer
from fabir_tf.reading.halves import answer_in_halves

if TYPE_CHECKING:
    from fabir_tf.pipelines.documents.collection import Searched
    from fabir_tf.reading.document_reader import DocumentAnswer

# Records answered at once: enough to fill batches of similar length, few enough for answers to appear early, and for an
# interruption to cost little.
CHUNK = 8192
# Questions answered at once from documents: several paragraphs are read for each.
DOCUMENT_CHUNK = 256

# The flags that decide about answers; those of reader, input and documents are compared by their content.
DECIDING_FLAGS = ("n_best", "max_passage", "max_answer", "precision", "no_answer_threshold", "paragraphs", "import")

AnswerRecords = Callable[[Sequence[Record]], Iterable[Answer]]


def define_output_flags() -> None:
    """Defines --output_file, --n_best and --resume."""
    flags.DEFINE_string("output_file", None, "File for the answers; by default standard output.")
    flags.DEFINE_integer("n_best", 1, "Spans per question.", lower_bound=1, upper_bound=1000)
    text = "Go on with the --output_file of an --input_file where the same command was interrupted."
    flags.DEFINE_boolean("resume", False, text)


def define_paragraphs_flag() -> None:
    """Defines --paragraphs of the commands that answer from documents."""
    text = "Paragraphs of the documents that are read for each question."
    flags.DEFINE_integer("paragraphs", 5, text, lower_bound=1, upper_bound=1000)


def validate_output(values: flags.FlagValues, *sources: str) -> None:
    """Checks that --output_file can be written, and gone on with if that is asked for.

    Args:
        values: the flags.
        *sources: the flags of the files that are read.

    Raises:
        UserError: it is one of these files, or cannot be gone on with.
        WriteError: it cannot be written.
    """
    if values.resume and not _is_resumable(values):
        raise UserError(
            f"--resume: found --input_file={values.input_file or ''} and --output_file={values.output_file or ''}, "
            "expected two files: what comes through a pipe cannot be read again"
        )
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
        if is_blank(values[name].value):
            raise UserError(f"--{name} is blank, expected a text with at least one word")


def asked_records(values: flags.FlagValues, position: Position) -> Iterator[Record]:
    """The questions of --question or --input_file, without passages.

    Args:
        values: the flags.
        position: is kept up to date in the input file.

    Raises:
        UserError: both or neither are given, or there is no question.
    """
    if (values.question is None) == (values.input_file is None):
        raise UserError("--question and --input_file: found both or neither, expected one of them")
    if values.question is None:
        return read_asked(values.input_file, position)
    validate_not_blank(values, "question")
    return iter([Record("1", values.question, "")])


def write_answers(
    values: flags.FlagValues,
    records: Iterable[Record],
    answer: AnswerRecords,
    chunk: int,
    position: Position,
    origin: Mapping[str, str],
) -> None:
    """Writes a line for each record: its id, and its answer or what is wrong with it.

    Answers from an input file to an output file stay, chunk by chunk, if the command is interrupted; see
    `partial_file`.

    Args:
        values: the flags of `define_output_flags`.
        records: the questions.
        answer: answers several good records.
        chunk: how many of them at once.
        position: of the records in the input file.
        origin: what else decides about the answers, as `partial_file` takes it.

    Raises:
        UserError: no question could be answered.
    """
    written, failed = 0, 0
    is_shown = bool(values.output_file) or not sys.stdout.isatty()
    records = iter(records)
    with _output(values, origin) as output, Progress("questions", position, is_shown) as progress:
        while part := list(itertools.islice(records, chunk)):
            lines = output.kept([record.id for record in part])
            written += len(part)
            if lines is None:
                lines = _lines(part, answer)
                output.write([_encoded(line) for line in lines])
                progress.show(written)
            else:
                progress.skip(written)
            failed += sum("error" in line for line in lines)
    message = f"{failed:,} of {written:,} questions could not be answered: the field error of their lines says why"
    if failed == written:
        raise UserError(message)
    if failed:
        cli.to_stderr(message)


def write_document_answers(
    values: flags.FlagValues,
    records: Iterable[Record],
    reader: QuestionAnswerer,
    searched: "Searched",
    position: Position,
) -> None:
    """Writes a line for each record, answered from documents; see `write_answers`.

    Args:
        values: the flags of `define_output_flags` and `define_paragraphs_flag`.
        records: the questions.
        reader: what reads the paragraphs.
        searched: the documents.
        position: of the records in the input file.
    """
    from fabir_tf.reading.document_reader import DocumentReader

    documents = DocumentReader(reader, values.paragraphs, searched=searched)

    def answer(chunk: Sequence[Record]) -> list["DocumentAnswer"]:
        return documents.answer_batch([record.question for record in chunk], n_best=values.n_best)

    origin = {"documents": f"documents with the SHA-256 {searched.digest()[:16]}"}
    write_answers(values, records, answer, DOCUMENT_CHUNK, position, origin)


def _lines(records: Sequence[Record], answer: AnswerRecords) -> list[dict[str, Any]]:
    good = [record for record in records if not record.error]
    found = iter(answer_in_halves(good, lambda part: _values(answer(part)), QuestionError, _reason))
    return [{"id": record.id} | ({"error": record.error} if record.error else next(found)) for record in records]


def _values(answers: Iterable[Answer]) -> Iterator[dict[str, Any]]:
    return (answer.to_dict() for answer in answers)


def _reason(record: Record, error: QuestionError) -> dict[str, Any]:
    return {"error": error.reason}


def _encoded(line: dict[str, Any]) -> bytes:
    # A passage may contain lone surrogates.
    return (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


# === Where the lines go ===


class _Output(Protocol):
    """A `PartialFile`, or a `_Stream`."""

    def kept(self, ids: Sequence[str | int]) -> list[dict[str, Any]] | None: ...

    def write(self, lines: Sequence[bytes]) -> None: ...


class _Stream:
    """Lines that go to a stream, of which none have been kept."""

    def __init__(self, file: BinaryIO):
        self._file = file

    def kept(self, ids: Sequence[str | int]) -> None:
        """Nothing."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Writes lines at once."""
        self._file.writelines(lines)
        self._file.flush()


@contextlib.contextmanager
def _output(values: flags.FlagValues, origin: Mapping[str, str]) -> Iterator[_Output]:
    path = values.output_file
    if not path:
        with named_errors("standard output"):
            yield _Stream(sys.stdout.buffer)
    elif not _is_resumable(values):
        with atomic_write(path) as file:
            yield _Stream(file)
    else:
        with _kept_output(path, _origin(values) | origin, values.resume) as partial:
            yield partial


@contextlib.contextmanager
def _kept_output(path: str, origin: Mapping[str, str], resume: bool) -> Iterator[_Output]:
    """A `PartialFile`; where it is interrupted, the user is told how to go on."""
    with partial_file(path, origin, resume) as partial:
        if resume and not partial.is_behind_former:
            cli.to_stderr(f"{path}: going on with {partial.path}")
        try:
            yield partial
        except BaseException:
            if partial.lines or not partial.is_behind_former:
                cli.to_stderr(f"{partial.path} holds what is finished: add --resume to go on")
            raise


def _is_resumable(values: flags.FlagValues) -> bool:
    """Whether input and output are files, and not pipes or devices."""
    source, target = values.input_file, values.output_file
    if not source or not target or source == STANDARD_INPUT or not user_path(source).is_file():
        return False
    return user_path(target).is_file() or not user_path(target).exists()


def _origin(values: flags.FlagValues) -> dict[str, str]:
    """What decides about the answers, but for documents."""
    # Imports Keras, as the reader did that answers.
    from fabir_tf.reading.run_directory import reader_digest, versions

    size = user_path(values.input_file).stat().st_size
    texts = {name: f"{name} {version}" for name, version in versions().items()}
    texts["input"] = f"an input of {size:,} bytes with the SHA-256 {file_digest([values.input_file])[:16]}"
    texts["reader"] = f"a reader with the SHA-256 {reader_digest(reader_flags.needed_reader_folder(values))[:16]}"
    for name in DECIDING_FLAGS:
        if name in values:
            value = values[name].value
            text = ",".join(value) if isinstance(value, list) else value
            texts[f"--{name}"] = f"--{name}={'' if text is None else text}"
    return texts
