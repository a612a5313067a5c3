"""JSON lines, and JSON documents with rows: a list of objects, such a list under `data`, or an object of columns.

A file is recognized by its content, because all of them, and SQuAD's own format, also end in .json.
"""

import codecs
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fabir_tf.pipelines.datasets.rows import PASSAGE_KEYS, Row, is_question_row, rows_of, rows_of_list
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import RepeatedKeyError, loads, parse_json, shown

ONE_A_LINE = "expected one object a line, or a JSON list of objects"
Numbered = tuple[int, bytes]


@dataclass(frozen=True)
class Document:
    """One JSON value that fills a file.

    Attributes:
        content: the value.
    """

    content: Any


def read_whole(
    raw: bytes, name: str, is_row: Callable[[Any], bool], faults: list[str] | None = None
) -> Document | Iterator[Row]:
    """Reads a JSON file of any form.

    Args:
        raw: the file.
        name: its name, for messages.
        is_row: whether a parsed line is a row for sure.
        faults: collects mistakes after which reading can go on; None raises the first.

    Returns:
        The document, or the rows of JSON lines.

    Raises:
        UserError: it is a document that is not JSON.
    """
    numbered = list(numbered_lines(raw.split(b"\n")))
    if _has_lines(numbered, is_row):
        return rows_of_lines(numbered, name)
    return Document(parse_json(raw, name, faults))


def read_stream(
    lines: Iterable[bytes], name: str, is_row: Callable[[Any], bool] = is_question_row
) -> Document | Iterator[Row]:
    """Reads JSON as it arrives: JSON lines one at a time, a document to its end.

    Args:
        lines: the lines of a file or pipe.
        name: its name, for messages.
        is_row: whether a parsed line is a row for sure.

    Raises:
        UserError: it is a document that is not JSON.
    """
    numbered = numbered_lines(lines)
    first = next(numbered, None)
    if first is None:
        return iter(())
    if not _may_open_document(first[1], is_row):
        return rows_of_lines(itertools.chain([first], numbered), name)
    everything = [first, *numbered]
    if _has_rows_behind(everything, is_row):
        return rows_of_lines(everything, name)
    # Blank lines count in the positions of messages.
    parts = [b"\n"] * everything[-1][0]
    for number, line in everything:
        parts[number - 1] = line
    return Document(parse_json(b"".join(parts), name))


def rows_of_lines(numbered: Iterable[Numbered], name: str) -> Iterator[Row]:
    """The rows of JSON lines; a line that is no JSON gives a row with an error."""
    for number, line in numbered:
        place = f"line {number}"
        try:
            yield Row(place, number, _parse_line(line, f"{name}: {place}"))
        except UserError as error:
            yield Row(place, number, error=str(error))


def rows_of_document(content: Any, name: str, is_row: Callable[[Any], bool] = is_question_row) -> Iterator[Row] | None:
    """The rows of a JSON document; None if it is to be read as SQuAD's own format.

    Args:
        content: the document.
        name: of its file, for messages.
        is_row: whether a part of it is a row for sure.

    Raises:
        UserError: it is a single row.
    """
    if is_columns(content):
        return _rows_of_columns(content, name)
    if is_row(content):
        raise UserError(f"{name}: found a single object, {ONE_A_LINE}.")
    if isinstance(content, list):
        # A list of articles is SQuAD's own format without its top level, which gets its message there.
        is_articles = any(isinstance(entry, dict) and "paragraphs" in entry for entry in content)
        return None if is_articles else rows_of_list(content)
    values = content.get("data") if isinstance(content, dict) else None
    if isinstance(values, list) and any(map(is_row, values)):
        return rows_of_list(values, "data")
    return None


def is_columns(content: Any) -> bool:
    """Whether parsed JSON is an object of columns, as `Dataset.to_dict` of Hugging Face gives it."""
    if not isinstance(content, dict):
        return False
    return any(isinstance(content.get("question"), list) and isinstance(content.get(key), list) for key in PASSAGE_KEYS)


def write_lines(data: SquadData) -> bytes:
    """Questions as JSON lines in Hugging Face's fields."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(data))
    return "".join(lines).encode()


def numbered_lines(lines: Iterable[bytes], before: int = 0) -> Iterator[Numbered]:
    """The lines that are not blank with their numbers, without the byte order mark at the beginning of a file.

    Args:
        lines: lines of a file.
        before: how many of its lines stand before them.
    """
    for number, line in enumerate(lines, before + 1):
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if content.strip():
            yield number, content


def _has_lines(numbered: list[Numbered], is_row: Callable[[Any], bool]) -> bool:
    """Whether a file holds JSON lines, and not one document."""
    if not numbered:
        return False
    first = _loads_or_none(numbered[0][1])
    if isinstance(first, dict) and not is_columns(first) and (is_row(first) or "data" not in first):
        return len(numbered) > 1 or is_row(first)
    return _has_rows_behind(numbered, is_row)


def _has_rows_behind(numbered: list[Numbered], is_row: Callable[[Any], bool]) -> bool:
    """Whether a line behind the first is a row, and not the last one of a list that has one row a line."""
    if not any(is_row(_loads_or_none(line)) for _, line in numbered[1:]):
        return False
    first = numbered[0][1]
    opens_list = first.lstrip().startswith(b"[") and _loads_or_none(first) is None
    return not opens_list and _loads_or_none(b"\n".join(line for _, line in numbered)) is None


def _may_open_document(line: bytes, is_row: Callable[[Any], bool]) -> bool:
    """Whether a first line is a whole document, or starts one that continues on the next line."""
    content = _loads_or_none(line)
    if isinstance(content, list) or is_columns(content):
        return True
    if content is not None:
        return isinstance(content, dict) and "data" in content and not is_row(content)
    # A broken JSON line contains "question". Reading to the end of a pipe because of it would block the answers.
    opens = line.lstrip()[:1]
    return opens == b"[" or (opens == b"{" and (b'"data"' in line or b'"question"' not in line))


def _loads_or_none(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _parse_line(line: bytes, location: str) -> dict[str, Any]:
    try:
        content = loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{location} is not UTF-8 at byte {error.start}, expected a JSON object.") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{location} is no valid JSON at column {error.colno} ({error.msg}).") from None
    except RepeatedKeyError as error:
        raise UserError(f"{location}: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{location} is no valid JSON ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{location} is {shown(content)}, expected an object with the fields question and passage.")
    return content


def _rows_of_columns(columns: dict[str, Any], name: str) -> Iterator[Row]:
    lengths = {key: len(values) for key, values in columns.items() if isinstance(values, list)}
    others = [key for key in columns if key not in lengths]
    if others:
        raise UserError(f"{name}: {others[0]} is {shown(columns[others[0]])}, expected a list like the other columns.")
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} of {key}" for key, count in lengths.items())
        raise UserError(f"{name}: found columns of different lengths ({counts}), expected as many values of each.")
    for number, values in enumerate(zip(*columns.values(), strict=True), 1):
        yield Row(f"row {number}", number, dict(zip(columns, values, strict=True)))
