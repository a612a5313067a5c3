"""CSV with a header: the columns are the fields of a row, and `answers` holds JSON or what Python prints for it."""

import ast
import csv
import io
import itertools
import json
import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from fabir_tf.pipelines.datasets.rows import Row, rows_of
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import csv_text
from fabir_tf.pipelines.json_files import RepeatedKeyError, decode, loads, quoted

DELIMITERS = ",;\t"
# A header is looked for in so many bytes, because JSON may be one line of many megabytes.
LONGEST_HEADER = 4096
# What spreadsheets take as the first line: the character that separates the columns below it.
SEPARATOR = re.compile(r"""[ \r\n]*("?)sep=([!#-/:-@[-`{-~\t])\1[ \r\n]*""", re.IGNORECASE)
_LIMIT_LOCK = threading.Lock()
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def read_rows(raw: bytes, name: str, parsed: Collection[str], faults: list[str] | None = None) -> Iterator[Row]:
    """Reads the rows of a CSV file.

    Args:
        raw: the file, in UTF-8; a first line such as `sep=;`, or else the header, shows what separates its columns.
        name: its name, for messages.
        parsed: the columns, of those that hold no text, whose cells are needed and must be good.
        faults: collects mistakes after which reading can go on; None raises the first.

    Raises:
        UserError: it is not UTF-8 or has no usable header.
    """
    return _rows(_lines(decode(raw, name, "CSV in UTF-8", faults)), name, parsed)


def stream_rows(lines: Iterable[bytes], name: str, before: int | None = None) -> Iterator[Row]:
    """Reads the rows of a CSV file as it arrives; no column is parsed.

    Args:
        lines: the lines of the file or pipe.
        name: its name, for messages.
        before: where lines behind the header are left out, how many lines stand before the others.

    Returns:
        The rows; one that is not UTF-8 has an error.

    Raises:
        UserError: it has no usable header.
    """
    return _rows(itertools.chain.from_iterable(_lines(text) for _, text in _decoded(lines)), name, (), before)


def record_starts(lines: Iterable[bytes], name: str) -> Iterator[tuple[int, int]]:
    """Finds where the records of a CSV file begin, so that it can be read in parts.

    Args:
        lines: those of the file.
        name: its name, for messages.

    Yields:
        The bytes and the lines before each record behind the header; not for one behind a carriage return alone, which
        begins inside a line.

    Raises:
        UserError: it is empty.
    """
    taken = _Taken(lines)
    records, has_header = _records(_reader(iter(taken), name)), False
    while True:
        taken.begin = None
        found = next(records, None)
        if found is None:
            return
        number, cells, error = found
        if not has_header:
            has_header = not error and any(cells)
        elif taken.begin is not None and taken.begin != _Taken.INSIDE:
            yield taken.begin, number - 1


class _Taken:
    """The decoded lines of a file, which are counted as they are taken.

    Attributes:
        begin: the bytes before the first line that was taken since this was None; `INSIDE` where a carriage return
            alone stands before it.
    """

    INSIDE = -1

    def __init__(self, lines: Iterable[bytes]):
        self._lines = lines
        self.begin: int | None = None

    def __iter__(self) -> Iterator[str]:
        size = 0
        for line, text in _decoded(self._lines):
            for number, part in enumerate(_lines(text)):
                if self.begin is None:
                    self.begin = self.INSIDE if number else size
                yield part
            size += len(line)


def _decoded(lines: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
    """The lines, also as texts; each byte that is not UTF-8 is a lone surrogate."""
    for number, line in enumerate(lines, 1):
        yield line, line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _lines(text: str) -> Iterator[str]:
    """The lines of a text with their ends; those inside of a cell belong to its text, so none are translated."""
    return iter(io.StringIO(text, newline=""))


def _rows(lines: Iterator[str], name: str, parsed: Collection[str], before: int | None = None) -> Iterator[Row]:
    reader = _reader(lines, name)
    header: list[str] = []
    left_out = 0
    for number, cells, error in _records(reader):
        number += left_out
        place = f"line {number}"
        if error:
            yield Row(place, number, error=f"{name}: {place} is no valid CSV ({error}).")
        elif _is_undecoded(cells):
            message = f"{name}: {place} is not UTF-8, expected CSV in UTF-8."
            if not header:
                raise UserError(message)
            yield Row(place, number, error=message)
        elif not header and any(cells):
            header = _header([cell.strip() for cell in cells], f"{name}: {place}")
            left_out = 0 if before is None else before - reader.line_num
        elif any(cells):
            yield _row(place, number, header, cells, parsed, name)


def _reader(lines: Iterator[str], name: str) -> Any:
    blank: list[str] = []
    separator = ""
    for line in lines:
        named = None if separator else SEPARATOR.fullmatch(line)
        if named:
            separator = named[2]
        elif line.strip():
            delimiter = separator or _delimiter(line)
            return csv.reader(itertools.chain(blank, [line], lines), delimiter=delimiter, strict=True)
        # Its end alone, so that lines are counted as they are in the file.
        blank.append(line[len(line.rstrip("\r\n")) :])
    raise UserError(f"{name}: the file is empty, expected CSV with a header.")


def has_header(raw: bytes) -> bool:
    """Whether the first line of a file is the header of CSV, whatever the file's ending.

    Args:
        raw: the file, or its first line.
    """
    line = raw[:LONGEST_HEADER].partition(b"\n")[0].decode("utf-8-sig", "replace")
    if SEPARATOR.fullmatch(line):
        return True
    line = line.strip()
    names = [cell.strip().strip('"') for cell in line.split(_delimiter(line))]
    return not line.startswith(("{", "[")) and len(names) > 1 and _names_columns(names)


def write_rows(data: SquadData) -> bytes:
    """Questions as CSV in Hugging Face's fields; the column `answers` holds JSON."""
    rows = rows_of(data)
    for row in rows:
        row["answers"] = json.dumps(row["answers"], ensure_ascii=False)
    return csv_text(tuple(rows[0]), rows, "\r\n").encode()


def csv_records(text: str) -> Iterator[list[str]]:
    """The cells of each record of CSV with commas, which may have any length.

    Raises:
        csv.Error: it is no CSV.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            yield _next_cells(reader)
        except StopIteration:
            return


def _is_undecoded(cells: list[str]) -> bool:
    """Whether a cell has bytes that are not UTF-8; each is a lone surrogate then."""
    return any(not cell.isascii() and re.search("[\udc80-\udcff]", cell) for cell in cells)


def _delimiter(text: str) -> str:
    return max(DELIMITERS, key=text.partition("\n")[0].count)


def _names_columns(names: list[str]) -> bool:
    return "id" in names or "question" in names


def _records(reader: Any) -> Iterator[tuple[int, list[str], str]]:
    """The first line of each record, its cells, and what is wrong with it."""
    while True:
        number = reader.line_num + 1
        try:
            cells, fault = _next_cells(reader), ""
        except StopIteration:
            return
        except csv.Error as error:
            cells, fault = [], str(error)
        yield number, cells, fault


def _next_cells(reader: Any) -> list[str]:
    """The cells of the next record, of any length: the limit is the whole process's, so that it is lifted only here."""
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        try:
            return next(reader)
        finally:
            csv.field_size_limit(limit)


def _header(names: list[str], location: str) -> list[str]:
    # Spreadsheets add columns without a name.
    repeated = [column for column in names if column and names.count(column) > 1]
    if repeated:
        raise UserError(f"{location} names the column {quoted(repeated[0])} twice, expected each column once.")
    if not _names_columns(names):
        raise UserError(f"{location} is {quoted(', '.join(names))}, expected a header such as id, context, question.")
    return names


def _row(place: str, number: int, header: Sequence[str], cells: list[str], parsed: Collection[str], name: str) -> Row:
    if len(cells) != len(header):
        found = f"{len(cells)} cells, expected {len(header)} as in the header"
        return Row(place, number, error=f"{name}: {place} has {found}.")
    try:
        values = {column: _value(column, cell, column in parsed) for column, cell in zip(header, cells, strict=True)}
    except UserError as error:
        return Row(place, number, error=f"{name}: {place}: {error}.")
    return Row(place, number, {column: value for column, value in values.items() if value is not None})


def _value(column: str, cell: str, is_parsed: bool) -> Any:
    """The value of a cell; None for an empty cell of a column that may lack it."""
    if not is_parsed:
        return None if column == "id" and not cell else cell
    if column == "answers":
        return _answers(cell)
    return _boolean(column, cell) if column == "is_impossible" else _number(column, cell)


def _boolean(column: str, cell: str) -> bool | None:
    if cell.strip() and cell.strip().lower() not in BOOLEANS:
        raise UserError(f"{column} is the text {quoted(cell)}, expected true or false")
    return BOOLEANS.get(cell.strip().lower())


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
        return _parsed(cell)
    except RepeatedKeyError as error:
        raise UserError(f"answers: {error}") from None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        expected = "JSON such as {'text': [...], 'answer_start': [...]}"
        raise UserError(f"answers is the text {quoted(cell)}, expected {expected}") from None


def _parsed(cell: str) -> Any:
    try:
        return loads(cell)
    except json.JSONDecodeError:
        return ast.literal_eval(_AsJson().visit(ast.parse(cell.strip(), mode="eval")))


class _AsJson(ast.NodeTransformer):
    """Replaces what pandas prints and JSON lacks: `array([...], dtype=...)`, `np.int64(...)` and tuples."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Of a NumPy array or number, the first argument."""
        is_array = isinstance(node.func, ast.Name) and node.func.id == "array"
        is_numpy = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "np"
        return self.visit(node.args[0]) if (is_array or is_numpy) and node.args else node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """A list of the same values."""
        return ast.List([self.visit(value) for value in node.elts], node.ctx)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """The same, with each key once."""
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        repeated = [key for key in keys if keys.count(key) > 1]
        if repeated:
            raise RepeatedKeyError(f"{repeated[0]} is given twice, expected each key once")
        return self.generic_visit(node)
