"""Opens and parses JSON files with a clear message for every mistake, and formats JSON values for messages."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from fabir_tf.pipelines.errors import UserError

LONGEST_QUOTE = 60


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a UTF-8 JSON file.

    Args:
        path: the file; a byte order mark is skipped.

    Returns:
        The parsed value, as from `json.loads`.

    Raises:
        UserError: the file cannot be opened, or it is not UTF-8 or not JSON; the message gives the position.
    """
    with open_json(path) as file:
        return parse_json(file.read(), str(path))


def open_json(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file for reading bytes.

    Args:
        path: the file.

    Returns:
        The open binary file.

    Raises:
        UserError: the file does not exist or cannot be opened.
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
        raw: the encoded text; a byte order mark is skipped.
        name: the file's name, for messages.

    Returns:
        The parsed value, as from `json.loads`.

    Raises:
        UserError: it is not UTF-8 or not JSON; the message gives the position.
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
