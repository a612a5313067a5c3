"""Reads questions to answer, one at a time, from a file or a pipe; a bad one is reported, and reading continues."""

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

from fabir_tf.pipelines.datasets import csv_rows, json_rows
from fabir_tf.pipelines.datasets.formats import EXPECTED, FORMATS, Format, format_of, read_rows, recognized
from fabir_tf.pipelines.datasets.json_rows import Document
from fabir_tf.pipelines.datasets.places import PlacesOnDisk
from fabir_tf.pipelines.datasets.rows import PASSAGE_KEYS, Row, RowReader, is_question_row
from fabir_tf.pipelines.datasets.squad import SquadData, squad_from_json
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import GZIP, Position, file_lines, reading_errors
from fabir_tf.pipelines.text.readable import blank_texts

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Record:
    """One question to answer, or the reason why it cannot be answered.

    Args:
        id: the question's id in the type that the file gives it in; the line number as a text where it gives none.
        question: the question's text, "" in a bad record.
        passage: the passage's text, "" in a bad record.
        error: "" in a good record, else one sentence that names the file and the line.
    """

    id: str | int
    question: str
    passage: str
    error: str = ""


def read_records(
    path: str | os.PathLike[str], position: Position | None = None, has_passages: bool = True
) -> Iterator[Record]:
    """Reads questions one at a time from a file in any of the formats; answers in it are not looked at.

    A JSON line is an object with the texts `question` and `passage` (or `context`) and an optional `id`. Each line
    is yielded as it arrives, so a pipe can be answered line by line. Blank lines are skipped but counted. A line that
    repeats the id of an earlier line is a bad line. The memory does not grow with a file of JSON lines or CSV; one of
    another format is read at once.

    Args:
        path: a file, or "-" for JSON, JSON lines or CSV on standard input.
        position: is kept up to date where the file is not read at once.
        has_passages: whether passages are read; without, a row needs none, and its record has an empty one.

    Returns:
        An iterator of records; a bad line or row gives a record with an `error`, and reading continues.

    Raises:
        UserError: the file cannot be read, or is a single JSON document in an unknown form.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return records_of_lines(_standard_input(), "standard input", None, has_passages)
    named = format_of(path)
    if named in (None, FORMATS[".jsonl"], FORMATS[".csv"]):
        return records_of_lines(file_lines(path, EXPECTED, position or Position()), str(path), named, has_passages)
    return _records(read_rows(path, _row_test(has_passages)), str(path), has_passages)


# === Files and lines ===


def _standard_input() -> Iterator[bytes]:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is not None:
        # readline returns a line as soon as it is complete; iteration over some streams does not.
        yield from iter(partial(_read_line, stream), b"")
    else:
        yield from (line.encode("utf-8", "surrogatepass") for line in sys.stdin)


def _read_line(stream: BinaryIO) -> bytes:
    with reading_errors("standard input", "JSON or JSON lines"):
        line = stream.readline()
    if line.startswith(GZIP):
        raise UserError("standard input: found gzip, expected JSON or JSON lines: unpack it with gunzip.")
    return line


# === Records ===


def records_of_lines(lines: Iterable[bytes], name: str, named: Format | None, has_passages: bool) -> Iterator[Record]:
    """Reads questions from the lines of a file or pipe; see `read_records`.

    Args:
        lines: its lines.
        name: its name, for messages.
        named: the format that its name tells, which its first line may contradict; None for JSON.
        has_passages: whether passages are read.
    """
    # A function of its own, because a file that cannot be opened is reported before the first record.
    lines = iter(lines)
    first = next(lines, b"")
    found = recognized(first) or named
    if found is FORMATS[".csv"]:
        rows = csv_rows.stream_rows(itertools.chain([first], lines), name)
        yield from _row_records(rows, name, has_passages)
    elif found and found.rows:
        yield from _row_records(found.rows(b"".join([first, *lines]), name, (), None), name, has_passages)
    else:
        source = json_rows.read_stream(itertools.chain([first], lines), name, _row_test(has_passages))
        yield from _records(source, name, has_passages)


def _records(source: Document | Iterator[Row], name: str, has_passages: bool) -> Iterator[Record]:
    if not isinstance(source, Document):
        yield from _row_records(source, name, has_passages)
        return
    rows = json_rows.rows_of_document(source.content, name, _row_test(has_passages))
    if rows is None:
        yield from _squad_records(squad_from_json(source.content, name, judge_answers=False), has_passages)
    else:
        yield from _row_records(rows, name, has_passages)


def _squad_records(data: SquadData, has_passages: bool) -> Iterator[Record]:
    for question in data.questions:
        texts = {"question": question.text} | ({"passage": data.passages[question.passage]} if has_passages else {})
        yield _record(f"{data.name}: question {question.id!r}", question.given_id, texts)


def _row_records(rows: Iterable[Row], name: str, has_passages: bool) -> Iterator[Record]:
    reader = RowReader(name, judge_answers=False, place_of_id=PlacesOnDisk())
    for row in rows:
        # Of all rows before it, only the ids are needed.
        reader.places.clear()
        reader.broken.clear()
        passages: dict[tuple[str, str], int] = {}
        try:
            question = reader.row(row if has_passages else _without_passage(row), passages)
        except UserError as mistake:
            yield Record(_id_of(row), "", "", str(mistake))
            continue
        ((_, passage),) = passages
        texts = {"question": question.text} | ({"passage": passage} if has_passages else {})
        yield _record(f"{name}: {row.place}", question.given_id, texts)


def _row_test(has_passages: bool) -> Callable[[Any], bool]:
    """Tells whether parsed JSON is a row for sure; where passages are not read, a question is enough."""
    return is_question_row if has_passages else _holds_question


def _holds_question(content: Any) -> bool:
    return isinstance(content, dict) and "question" in content


def _without_passage(row: Row) -> Row:
    """A row whose passage is empty, whatever it is in the file."""
    if not isinstance(row.fields, dict):
        return row
    fields = {name: value for name, value in row.fields.items() if name not in PASSAGE_KEYS}
    return replace(row, fields=fields | {PASSAGE_KEYS[0]: ""})


def _record(location: str, identifier: str | int, texts: dict[str, str]) -> Record:
    faults = blank_texts(**texts)
    if faults:
        return Record(identifier, "", "", f"{location}: {faults[0]}")
    return Record(identifier, texts["question"], texts.get("passage", ""))


def _id_of(row: Row) -> str | int:
    """The id of a bad row, if it has one."""
    given: Any = row.fields.get("id") if isinstance(row.fields, dict) else None
    is_id = isinstance(given, str | int) and not isinstance(given, bool) and given != ""
    return given if is_id else str(row.number)
