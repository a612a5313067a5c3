"""The formats of files of questions: recognizes, reads and writes them."""

import gzip
import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from fabir_tf.pipelines.datasets import csv_rows, json_rows, parquet_rows
from fabir_tf.pipelines.datasets.json_rows import Document
from fabir_tf.pipelines.datasets.rows import Row, RowReader, is_question_row
from fabir_tf.pipelines.datasets.squad import SquadData, read_squad_json, squad_to_json
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, read_input

GZIP_ENDING = ".gz"
EXPECTED = "a file of questions"
_PARQUET = b"PAR1"
# Of the columns of CSV, those that hold no text and are needed to train and score.
_ANSWER_COLUMNS = ("answers", "answer_start", "is_impossible")


@dataclass(frozen=True)
class Format:
    """One format of files of questions.

    Attributes:
        write: the bytes of a file of questions.
        rows: the rows of a file, from its bytes, its name, the columns to parse and a list that collects mistakes or
            None; None for JSON, which is recognized by its content.
    """

    write: Callable[[SquadData], bytes]
    rows: Callable[[bytes, str, Collection[str], list[str] | None], Iterator[Row]] | None = None


# By the ending of the file; `.gz` may follow each of them.
FORMATS = {
    ".json": Format(lambda data: json.dumps(squad_to_json(data), ensure_ascii=False).encode()),
    ".jsonl": Format(json_rows.write_lines),
    ".csv": Format(csv_rows.write_rows, csv_rows.read_rows),
    ".parquet": Format(parquet_rows.write_rows, parquet_rows.read_rows),
}


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of a file names; None if it names none."""
    ending = os.path.splitext(os.fspath(path).lower().removesuffix(GZIP_ENDING))[1]
    return FORMATS.get(ending)


def recognized(raw: bytes) -> Format | None:
    """The format of a file of rows that shows in its first line, whatever its name; None for any other.

    Args:
        raw: the file, or its first line.
    """
    if raw.startswith(_PARQUET):
        return FORMATS[".parquet"]
    return FORMATS[".csv"] if csv_rows.has_header(raw) else None


def read_questions(path: str | os.PathLike[str]) -> SquadData:
    """Reads a file of questions in any of the formats.

    Args:
        path: a file of SQuAD JSON, JSON lines, a JSON list of rows, CSV with a header, or Parquet; each perhaps packed
            with gzip. JSON of every form, and CSV with its header, is recognized by its content.

    Returns:
        The unchanged texts of the file. In all formats but SQuAD's, questions about the same text share a passage.

    Raises:
        UserError: the file cannot be read, or a field is not as expected; the message gives its place.
    """
    return read_with(RowReader(str(path)), path)


def read_with(reader: RowReader, path: str | os.PathLike[str]) -> SquadData:
    """Reads a file of questions; see `read_questions`.

    Args:
        reader: reads the questions, and perhaps collects mistakes.
        path: the file.
    """
    source = read_rows(path, is_question_row, _ANSWER_COLUMNS, reader.faults)
    if isinstance(source, Document):
        rows = json_rows.rows_of_document(source.content, reader.name)
        return read_squad_json(reader, source.content) if rows is None else reader.read(rows)
    return reader.read(source)


def read_rows(
    path: str | os.PathLike[str],
    is_row: Callable[[Any], bool],
    parsed: Collection[str] = (),
    faults: list[str] | None = None,
) -> Document | Iterator[Row]:
    """Reads a file as rows, or as the JSON document that it is.

    Args:
        path: the file.
        is_row: whether a parsed JSON line is a row for sure.
        parsed: of the columns of CSV, those that hold no text and are needed.
        faults: collects mistakes after which reading can go on; None raises the first.

    Raises:
        UserError: the file cannot be read.
    """
    raw, name = read_input(path, EXPECTED), str(path)
    named = recognized(raw) or format_of(path)
    if named and named.rows:
        return named.rows(raw, name, parsed, faults)
    return json_rows.read_whole(raw, name, is_row, faults)


def validate_ending(path: str | os.PathLike[str], flag: str) -> None:
    """Checks that the ending of a file names a format.

    Args:
        path: the file.
        flag: the flag that names it, for the message.

    Raises:
        UserError: it names none.
    """
    if format_of(path) is None:
        expected = f"a file that ends in {', '.join(FORMATS)}, each perhaps with {GZIP_ENDING}"
        raise UserError(f"--{flag}={path}: found another ending, expected {expected}")


def write_questions(data: SquadData, path: str | os.PathLike[str]) -> None:
    """Writes questions in the format that the ending of the file names.

    Args:
        data: the questions, at least one.
        path: the file; with `.gz` at its end it is packed.

    Raises:
        UserError: the ending names no format.
        WriteError: the file cannot be written.
    """
    validate_ending(path, "output_file")
    named = format_of(path) or FORMATS[".json"]
    raw = named.write(data)
    if os.fspath(path).lower().endswith(GZIP_ENDING):
        # Without a date, so that the same questions give the same bytes.
        raw = gzip.compress(raw, mtime=0)
    with atomic_write(path) as file:
        file.write(raw)
