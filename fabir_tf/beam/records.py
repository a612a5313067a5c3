"""What is read: inputs, cut into parts that become one shard each, and the questions about the records of a part."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fabir_tf.beam.questions import GivenQuestion
from fabir_tf.beam.storage import files_below, files_like, is_file, is_folder, open_file
from fabir_tf.pipelines.datasets.row_ranges import EXPECTED, RowRange, is_rows, row_ranges, rows_of_range
from fabir_tf.pipelines.datasets.rows import PASSAGE_KEYS, Row, RowReader
from fabir_tf.pipelines.documents.documents import PDF, PLAIN, Document
from fabir_tf.pipelines.documents.folder import FORMATS, document_of
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.readable import blank_texts

TEXT_KEY = "text"
"""The field of a passage beside `PASSAGE_KEYS`, where the questions are given apart from the records."""


@dataclass(frozen=True)
class Part:
    """Records that are read together and become one shard.

    Attributes:
        number: from 0.
        rows: some rows of a file; None for documents.
        documents: the paths of whole documents.
    """

    number: int
    rows: RowRange | None = None
    documents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A question about a record.

    Attributes:
        id: the record's; of one without an id, its file and its number there.
        source: the record's file.
        number: of its line or row, from 1.
        question: the text.
        passage: the record's text.
        question_id: of a given question; None for the record's own.
    """

    id: str | int
    source: str
    number: int
    question: str
    passage: str
    question_id: str | int | None = None


@dataclass(frozen=True)
class Rejected:
    """A record that cannot be read.

    Attributes:
        id: the record's, as far as it has one.
        source: its file.
        number: of its line or row, from 1.
        reason: one sentence.
    """

    id: str | int
    source: str
    number: int
    reason: str


@dataclass
class ReadPart:
    """The records of a part.

    Attributes:
        part: the part.
        asked: the questions about its good records.
        rejected: the others.
    """

    part: Part
    asked: list[Asked] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def input_files(inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that are read.

    Args:
        inputs: files, patterns with `*`, and folders of documents.

    Returns:
        The files of rows, and the documents; those of a folder in the order of their names, hidden ones left out.

    Raises:
        UserError: one is nothing that is read, or nothing is there.
    """
    rows: list[str] = []
    documents: list[str] = []
    for name in inputs:
        # A name may hold what stands for other letters in a pattern.
        found = _documents_in(name) if is_folder(name) else [name] if is_file(name) else files_like(name)
        if not found:
            expected = f"files that end in {', '.join(FORMATS)}" if is_folder(name) else "a file"
            raise UserError(f"--input={name}: found nothing, expected {expected}")
        for path in found:
            (rows if is_rows(path) else documents).append(path)
            if not is_rows(path) and not _is_document(path):
                raise UserError(f"{path}: found no format that is read, expected {EXPECTED}, or a document")
    return rows, documents


def cut_parts(rows: Sequence[str], documents: Sequence[str], records: int) -> Iterator[Part]:
    """Cuts files into parts.

    Args:
        rows: files of rows.
        documents: paths of documents.
        records: of a part.

    Raises:
        UserError: a file cannot be read.
    """
    number = 0
    for path in rows:
        with open_file(path) as file:
            for part in row_ranges(file, path, records):
                yield Part(number, rows=part)
                number += 1
    for begin in range(0, len(documents), records):
        yield Part(number, documents=tuple(documents[begin : begin + records]))
        number += 1


def digest_of_files(paths: Sequence[str]) -> str:
    """The SHA-256 of what files hold."""
    digest = hashlib.sha256()
    for path in paths:
        with open_file(path) as file:
            while content := file.read(1 << 20):
                digest.update(content)
    return digest.hexdigest()


def digest_of_names(paths: Sequence[str]) -> str:
    """The SHA-256 of files' names, from which ids are made."""
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogatepass")).hexdigest()


def read_part(part: Part, questions: Sequence[GivenQuestion]) -> ReadPart:
    """Reads the records of a part.

    Args:
        part: the part.
        questions: those about every record; without any, each record has its own.

    Raises:
        UserError: its file is gone.
    """
    read = ReadPart(part)
    for path, row in _rows_of(part):
        try:
            read.asked += _asked(path, row, questions)
        except UserError as error:
            read.rejected.append(Rejected(_id_of(path, row), path, row.number, str(error)))
    return read


def _asked(path: str, row: Row, questions: Sequence[GivenQuestion]) -> list[Asked]:
    reader = RowReader(path, judge_answers=False)
    if row.error:
        raise UserError(row.error)
    fields = dict(reader.as_object(row.fields, row.place, "question"))
    fields.setdefault("id", _made_id(path, row))
    if questions:
        fields["question"] = questions[0].text
        if TEXT_KEY in fields and not any(key in fields for key in PASSAGE_KEYS):
            fields[PASSAGE_KEYS[0]] = fields[TEXT_KEY]
    passages: dict[tuple[str, str], int] = {}
    own = reader.row(Row(row.place, row.number, fields), passages)
    ((_, passage),) = passages
    for fault in blank_texts(question=own.text, passage=passage):
        raise UserError(f"{path}: {row.place}: {fault}")
    about = (own.given_id, path, row.number)
    if not questions:
        return [Asked(*about, own.text, passage)]
    return [Asked(*about, question.text, passage, question.id) for question in questions]


def _rows_of(part: Part) -> Iterator[tuple[str, Row]]:
    if part.rows is not None:
        with open_file(part.rows.path) as file:
            for row in rows_of_range(file, part.rows):
                yield part.rows.path, row
    for path in part.documents:
        yield path, _document(path)


def _document(path: str) -> Row:
    with open_file(path) as file:
        content = file.read()
    try:
        return Row(path, 1, {"id": path, TEXT_KEY: _shown(document_of(content, path, path))})
    except UserError as error:
        return Row(path, 1, {"id": path}, error=str(error))


def _shown(document: Document) -> str:
    """A document as a person sees it: without the markup of HTML, Markdown and reStructuredText."""
    if document.format in (PLAIN, PDF):
        return document.text
    return "\n\n".join(paragraph.text for paragraph in document.paragraphs())


def _made_id(path: str, row: Row) -> str:
    return f"{path}:{row.number}"


def _id_of(path: str, row: Row) -> str | int:
    """The id of a bad row, if it has one."""
    given = row.fields.get("id") if isinstance(row.fields, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        return _made_id(path, row)
    return given


def _documents_in(folder: str) -> list[str]:
    below = folder.rstrip("/") + "/"
    return [path for path in files_below(folder, "**") if _is_document(path) and not _is_hidden(path[len(below) :])]


def _is_hidden(path: str) -> bool:
    return any(name.startswith(".") for name in path.split("/"))


def _is_document(path: str) -> bool:
    return any(path.lower().endswith(ending) for ending in FORMATS)
