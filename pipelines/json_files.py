"""Parses JSON files with a clear message for every mistake, and formats JSON values for messages."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import read_input

LONGEST_QUOTE = 60
EXPECTED = "a JSON file"
TOP_LEVEL = "the top level"
_BAD_BYTES = re.compile("[\udc80-\udcff]+")


class RepeatedKeyError(ValueError):
    """A JSON object gives a key twice, which most parsers hide by dropping the first value."""


class _Repeating(dict):
    """An object with a key that is given twice.

    Attributes:
        repeated: its keys that are given twice or more.
    """

    repeated: list[str]


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a UTF-8 JSON file.

    Args:
        path: the file, perhaps packed with gzip; a byte order mark is skipped.

    Returns:
        The parsed value, as from `json.loads`.

    Raises:
        UserError: the file cannot be opened, is not UTF-8 or not JSON, or an object gives a key twice; the message
            gives the position.
    """
    return parse_json(read_input(path, EXPECTED), str(path))


def parse_json(raw: bytes, name: str, faults: list[str] | None = None) -> Any:
    """Parses UTF-8 JSON.

    Args:
        raw: the encoded text; a byte order mark is skipped.
        name: the file's name, for messages.
        faults: collects the messages about bytes and keys, after which parsing can go on; None raises the first.

    Returns:
        The parsed value, as from `json.loads`.

    Raises:
        UserError: it is not UTF-8 or not JSON, or an object gives a key twice; the message gives the position.
    """
    text = decode(raw, name, "JSON in UTF-8", faults)
    if not text.strip():
        raise UserError(f"{name}: the file is empty, expected JSON.")
    try:
        content, repeated = _parsed(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{name}: no valid JSON at line {error.lineno}, column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: no valid JSON ({error}).") from None
    for sentence in repeated:
        if faults is None:
            raise UserError(f"{name}: {sentence}.")
        faults.append(f"{name}: {sentence}.")
    return content


def loads(text: str) -> Any:
    """Parses JSON; a key given twice is an error, too.

    Raises:
        ValueError: it is not JSON (`json.JSONDecodeError`), or an object gives a key twice (`RepeatedKeyError`).
        RecursionError: it is nested too deeply.
    """
    content, repeated = _parsed(text)
    if repeated:
        raise RepeatedKeyError(repeated[0])
    return content


def decode(raw: bytes, name: str, expected: str, faults: list[str] | None = None) -> str:
    """Decodes UTF-8 text.

    Args:
        raw: the text; a byte order mark is skipped.
        name: the file's name, for messages.
        expected: what the file should be, for messages.
        faults: collects the messages, one per place, and U+FFFD replaces the bytes; None raises the first.

    Raises:
        UserError: it is not UTF-8.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if faults is None:
            raise UserError(f"{name}: byte {error.start} is not UTF-8, expected {expected}.") from None
    # Each byte that is not UTF-8 becomes a lone surrogate, which UTF-8 itself cannot hold.
    text = raw.decode("utf-8", "surrogateescape")
    position, end = 0, 0
    for bad in _BAD_BYTES.finditer(text):
        position += len(text[end : bad.start()].encode())
        faults.append(f"{name}: byte {position} is not UTF-8, expected {expected}.")
        position, end = position + len(bad[0]), bad.end()
    return _BAD_BYTES.sub("\N{REPLACEMENT CHARACTER}", text).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def join_path(parent: str, key: str) -> str:
    """The JSON path of a field.

    Args:
        parent: the path of its object.
        key: the field's name.
    """
    return key if parent == TOP_LEVEL else f"{parent}.{key}"


def shown(value: Any) -> str:
    """Formats a JSON value for a message: its type and its shortened value.

    Args:
        value: a value from `json.loads`.

    Returns:
        For example `the text 'abc'`, `the number 1.5`, `a list`, `null`.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {quoted(value)}"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return "a list" if isinstance(value, list) else "an object"


def quoted(value: Any) -> str:
    """Quotes a value for a message.

    Args:
        value: anything with a `repr`.

    Returns:
        Its `repr`, cut to `LONGEST_QUOTE` characters.
    """
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


def _parsed(text: str) -> tuple[Any, list[str]]:
    """The value, and a sentence for each key that is given twice."""
    found: list[_Repeating] = []

    def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) == len(pairs):
            return values
        marked = _Repeating(values)
        marked.repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        found.append(marked)
        return marked

    content = json.loads(text, object_pairs_hook=from_pairs)
    return content, list(_repetitions(content, TOP_LEVEL)) if found else []


def _repetitions(value: Any, path: str) -> Iterator[str]:
    # The parser does not tell where an object is, but the finished value does.
    if isinstance(value, _Repeating):
        for key in value.repeated:
            yield f"{join_path(path, key)} is given twice, expected each key once"
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _repetitions(inner, join_path(path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _repetitions(inner, f"{'' if path == TOP_LEVEL else path}[{index}]")
