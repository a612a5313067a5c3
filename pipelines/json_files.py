"""JSON files, opened and parsed with a clear sentence for every mistake; and JSON values as messages show them."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from fabir_tf.pipelines.errors import UserError

LONGEST_QUOTE = 60


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a UTF-8 JSON file of any form.

    Args:
        path: the file; a byte order mark is skipped.

    Returns:
        What `json.loads` makes of it.

    Raises:
        UserError: the file cannot be opened, is not UTF-8 or no JSON; the sentence names the place.
    """
    with open_json(path) as file:
        return parse_json(file.read(), str(path))


def open_json(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file for reading.

    Args:
        path: the file.

    Returns:
        The open file, in bytes.

    Raises:
        UserError: there is no such file, or it cannot be opened.
    """
    if Path(path).is_dir():
        raise UserError(f"{path}: found a folder, expected a JSON file.")
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: found no such file, expected a JSON file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be opened ({reason}), expected a JSON file.") from None


def parse_json(raw: bytes, name: str) -> Any:
    """Parses UTF-8 JSON.

    Args:
        raw: the text; a byte order mark is skipped.
        name: where it came from, for messages.

    Returns:
        What `json.loads` makes of it.

    Raises:
        UserError: it is not UTF-8 or no JSON; the sentence names the place.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: byte {error.start} is not UTF-8, expected JSON in UTF-8.") from None
    if not text.strip():
        raise UserError(f"{name}: the file is empty, expected JSON.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{name}: no valid JSON at line {error.lineno}, column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: no valid JSON ({error}).") from None


def shown(value: Any) -> str:
    """Shows a JSON value in a message, shortened, after the word for its type.

    Args:
        value: what `json.loads` can return.

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
        Its `repr`, cut to a length that leaves a sentence readable.
    """
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."
