"""CSV with a header: the columns are the fields of a row, and `answers` holds JSON or what Python prints for it."""

import ast
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from fabir_tf.pipelines.datasets.rows import Row, rows_of
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import csv_text
from fabir_tf.pipelines.json_files import decode, loads, quoted

DELIMITERS = ",;\t"
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# What its cell holds, by column; the other columns hold text.
NUMBERS = ("answer_start", "start", "probability")


def read_rows(raw: bytes, name: str, faults: list[str] | None = None) -> Iterator[Row]:
    """Reads the rows of a CSV file.

    Args:
        raw: the file, in UTF-8; the header shows whether commas, semicolons or tabs separate its columns.
        name: its name, for messages.
        faults: collects mistakes after which reading can go on; None raises the first.

    Raises:
        UserError: it is not UTF-8 or has no usable header.
    """
    text = decode(raw, name, "CSV in UTF-8", faults)
    if not text.strip():
        raise UserError(f"{name}: the file is empty, expected CSV with a header.")
    first = text.lstrip().partition("\n")[0]
    # Line ends inside of a cell belong to its text, so none are translated.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count), strict=True)
    header: list[str] = []
    for number, cells, error in _records(reader):
        place = f"line {number}"
        if error:
            yield Row(place, number, error=f"{name}: {place} is no valid CSV ({error}).")
        elif not header and any(cells):
            header = _header([cell.strip() for cell in cells], f"{name}: {place}")
        elif any(cells):
            yield _row(place, number, header, cells, name)


def write_rows(data: SquadData) -> bytes:
    """Questions as CSV in Hugging Face's fields; the column `answers` holds JSON."""
    rows = rows_of(data)
    for row in rows:
        row["answers"] = json.dumps(row["answers"], ensure_ascii=False)
    return csv_text(tuple(rows[0]), rows, "\r\n").encode()


def _records(reader: Any) -> Iterator[tuple[int, list[str], str]]:
    """The first line of each record, its cells, and what is wrong with it."""
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        while True:
            number = reader.line_num + 1
            try:
                yield number, next(reader), ""
            except StopIteration:
                return
            except csv.Error as error:
                yield number, [], str(error)
    finally:
        csv.field_size_limit(limit)


def _header(names: list[str], location: str) -> list[str]:
    repeated = [column for column in names if names.count(column) > 1]
    if repeated:
        raise UserError(f"{location} names the column {quoted(repeated[0])} twice, expected each column once.")
    if "id" not in names and "question" not in names:
        raise UserError(f"{location} is {quoted(', '.join(names))}, expected a header such as id, context, question.")
    return names


def _row(place: str, number: int, header: Sequence[str], cells: list[str], name: str) -> Row:
    if len(cells) != len(header):
        found = f"{len(cells)} cells, expected {len(header)} as in the header"
        return Row(place, number, error=f"{name}: {place} has {found}.")
    try:
        values = {column: _value(column, cell) for column, cell in zip(header, cells, strict=True)}
    except UserError as error:
        return Row(place, number, error=f"{name}: {place}: {error}.")
    return Row(place, number, {column: value for column, value in values.items() if value is not None})


def _value(column: str, cell: str) -> Any:
    """The value of a cell; None for an empty cell of a column that may lack it."""
    if column == "answers":
        return _answers(cell)
    if column == "is_impossible":
        if cell.strip() and cell.strip().lower() not in BOOLEANS:
            raise UserError(f"{column} is the text {quoted(cell)}, expected true or false")
        return BOOLEANS.get(cell.strip().lower())
    if column in NUMBERS:
        return _number(column, cell)
    return None if column == "id" and not cell else cell


def _number(column: str, cell: str) -> int | float | None:
    if not cell.strip():
        return None
    try:
        number = float(cell)
    except ValueError:
        raise UserError(f"{column} is the text {quoted(cell)}, expected a number") from None
    # A column with empty cells is written by pandas as 12.0.
    return int(number) if column != "probability" and number.is_integer() else number


def _answers(cell: str) -> Any:
    if not cell.strip():
        return []
    try:
        return loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(_WithoutArrays().visit(ast.parse(cell.strip(), mode="eval")))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        expected = "JSON such as {'text': [...], 'answer_start': [...]}"
        raise UserError(f"answers is the text {quoted(cell)}, expected {expected}") from None


class _WithoutArrays(ast.NodeTransformer):
    """Replaces `array([...], dtype=...)`, as pandas writes NumPy arrays, by the list."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Of a call of `array`, the first argument."""
        is_array = isinstance(node.func, ast.Name) and node.func.id == "array" and node.args
        return self.visit(node.args[0]) if is_array else node
