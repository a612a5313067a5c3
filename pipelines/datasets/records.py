"""Reads questions one at a time from a file or a pipe; a bad one is reported, and reading continues."""

import codecs
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from fabir_tf.pipelines.datasets.squad import squad_from_json
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import open_json, parse_json, quoted, shown

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Record:
    """One question to answer, or the reason why it cannot be answered.

    Args:
        id: the question's id; the line number where the file gives none.
        question: the question's text, "" in a bad record.
        passage: the passage's text, "" in a bad record.
        error: "" in a good record, else one sentence that names the file and the line.
    """

    id: str
    question: str
    passage: str
    error: str = ""


def read_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    """Reads questions one at a time from SQuAD JSON or from JSON lines.

    A JSON line is an object with the texts `question` and `passage` (or `context`) and an optional `id`. Each line
    is yielded as it arrives, so a pipe can be answered line by line. Blank lines are skipped but counted. A line that
    repeats the id of an earlier line is a bad line.

    Args:
        path: a UTF-8 file, or "-" for standard input. The format is detected from the content.

    Returns:
        An iterator of records; a bad line gives a record with an `error`, and reading continues.

    Raises:
        UserError: the file cannot be read, or is a single JSON document in another format than SQuAD's.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return _records(_standard_input(), "standard input")
    return _records(_file_lines(open_json(path)), str(path))


# === Files and lines ===


def _file_lines(file: Any) -> Iterator[bytes]:
    with file:
        yield from file


def _standard_input() -> Iterator[bytes]:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is not None:
        # readline returns a line as soon as it is complete; iteration over some streams does not.
        yield from iter(partial(_read_line, stream), b"")
    else:
        yield from (line.encode("utf-8", "surrogatepass") for line in sys.stdin)


def _read_line(stream: BinaryIO) -> bytes:
    try:
        return stream.readline()
    except OSError as error:
        raise UserError(f"standard input: cannot be read ({error.strerror}), expected JSON or JSON lines.") from None


def _records(lines: Iterator[bytes], name: str) -> Iterator[Record]:
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    number, first = next(numbered, (0, b""))
    if not number:
        return
    if not _may_open_squad(first):
        yield from _line_records(itertools.chain([(number, first)], numbered), name)
        return
    everything = [(number, first), *numbered]
    if _is_one_text(everything):
        yield from _squad_records(everything, name)
    else:
        yield from _line_records(everything, name)


def _line_records(numbered: Iterable[tuple[int, bytes]], name: str) -> Iterator[Record]:
    lines: dict[str, int] = {}
    for number, line in numbered:
        record = _record(line, number, name)
        first = lines.setdefault(record.id, number)
        if first != number and not record.error:
            error = f"{name}: line {number}: id is {quoted(record.id)}, the id of line {first} too, expected a new id."
            record = Record(record.id, "", "", error)
        yield record


def _may_open_squad(line: bytes) -> bool:
    """Whether the first line is a whole SQuAD file, or starts an object that continues on the next line."""
    content = _loads_or_none(line)
    if content is not None:
        return isinstance(content, dict) and "data" in content and not _is_record(content)
    # A broken JSON line contains "question". Reading to the end of a pipe because of it would block the answers.
    opens = line.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    return opens and (b'"data"' in line or b'"question"' not in line)


def _is_one_text(numbered: list[tuple[int, bytes]]) -> bool:
    if any(_is_record(_loads_or_none(line)) for _, line in numbered[1:]):
        return False
    return any(b'"data"' in line for _, line in numbered)


def _squad_records(numbered: list[tuple[int, bytes]], name: str) -> Iterator[Record]:
    lines = [b"\n"] * numbered[-1][0]
    for number, line in numbered:
        lines[number - 1] = line
    data = squad_from_json(parse_json(b"".join(lines), name), name, need_answers=False)
    for question in data.questions:
        fields = {"question": question.text, "passage": data.passages[question.passage]}
        empty = [key for key, value in fields.items() if not value.strip()]
        if empty:
            error = f"{name}: question {question.id!r}: {empty[0]} is empty, expected a text."
            yield Record(question.id, "", "", error)
        else:
            yield Record(question.id, **fields)


def _loads_or_none(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and "question" in content and ("passage" in content or "context" in content)


def _record(line: bytes, number: int, name: str) -> Record:
    location = f"{name}: line {number}"
    content: Any = None
    try:
        content = _parse_line(line, location)
        key = "passage" if "passage" in content or "context" not in content else "context"
        return Record(
            _line_id(content, number, location),
            _line_text(content, "question", location),
            _line_text(content, key, location),
        )
    except UserError as error:
        given = content.get("id") if isinstance(content, dict) else None
        return Record(given if isinstance(given, str) and given else str(number), "", "", str(error))


def _parse_line(line: bytes, location: str) -> dict[str, Any]:
    try:
        content = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{location} is not UTF-8 at byte {error.start}, expected a JSON object.") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{location} is no valid JSON at column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{location} is no valid JSON ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{location} is {shown(content)}, expected an object with the fields question and passage.")
    return content


def _line_id(content: dict[str, Any], number: int, location: str) -> str:
    value = content.get("id", number)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UserError(f"{location}: id is {shown(value)}, expected a text or a whole number.")
    return str(value)


def _line_text(content: dict[str, Any], key: str, location: str) -> str:
    if key not in content:
        named = "passage (or context)" if key == "passage" else key
        raise UserError(f"{location}: {named} is missing, expected a text.")
    value = content[key]
    if not isinstance(value, str):
        raise UserError(f"{location}: {key} is {shown(value)}, expected a text.")
    if not value.strip():
        raise UserError(f"{location}: {key} is empty, expected a text.")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise UserError(f"{location}: {key} has half of a surrogate pair, expected Unicode text.")
    return value
