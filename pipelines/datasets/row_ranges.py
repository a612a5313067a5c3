"""Files of rows in ranges that are read by themselves, so that several processes share a long file."""

import io
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from fabir_tf.pipelines.datasets import csv_rows, json_rows, parquet_rows
from fabir_tf.pipelines.datasets.rows import Row
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import GZIP

EXPECTED = "JSON lines, CSV with a header, or Parquet"


@dataclass(frozen=True)
class RowRange:
    """Some rows of a file, one after the other.

    Attributes:
        path: the file.
        begin, end: the first and the one behind the last: bytes of lines, rows of Parquet, both from 0.
        before: the lines before them.
        header: the bytes of CSV before its first record.
    """

    path: str
    begin: int
    end: int
    before: int = 0
    header: bytes = b""


@dataclass(frozen=True)
class _Kind:
    """How one format is cut and read: both take an open file."""

    cut: Callable[[BinaryIO, str, int], Iterator[RowRange]]
    rows: Callable[[BinaryIO, RowRange], Iterator[Row]]


def is_rows(path: str) -> bool:
    """Whether the ending of a file's name is that of a format which is read in ranges."""
    return _ending(path) in _KINDS


def row_ranges(file: BinaryIO, path: str, rows: int) -> Iterator[RowRange]:
    """Cuts a file into ranges.

    Args:
        file: the open file, which is read from its beginning to its end.
        path: its name.
        rows: of a range.

    Yields:
        The ranges, which hold every row once; none for a file without rows. A record of CSV that begins inside a line
        belongs to the range of the one before.

    Raises:
        UserError: its ending or its header is none that is read, or it is packed.
    """
    if not is_rows(path):
        raise UserError(f"{path}: found the ending {_ending(path) or 'of no format'!r}, expected {EXPECTED}.")
    if file.read(len(GZIP)) == GZIP:
        raise UserError(f"{path}: found gzip, which cannot be read from its middle: unpack it with gunzip.")
    file.seek(0)
    yield from _KINDS[_ending(path)].cut(file, path, rows)


def rows_of_range(file: BinaryIO, part: RowRange) -> Iterator[Row]:
    """Reads the rows of a range.

    Args:
        file: the open file.
        part: the range.

    Returns:
        What reading the whole file gives for these rows, with the same places and numbers.
    """
    return _KINDS[_ending(part.path)].rows(file, part)


def _ending(path: str) -> str:
    return os.path.splitext(path.lower())[1]


# === Lines ===


def _ranges(starts: list[tuple[int, int]], end: int, path: str, header: bytes = b"") -> Iterator[RowRange]:
    """Ranges between starts, which are bytes and lines before a row."""
    for (begin, before), (following, _) in itertools.pairwise([*starts, (end, 0)]):
        yield RowRange(path, begin, following, before, header)


def _lines_of(file: BinaryIO, part: RowRange) -> io.BytesIO:
    file.seek(part.begin)
    return io.BytesIO(file.read(part.end - part.begin))


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _cut_json(file: BinaryIO, path: str, rows: int) -> Iterator[RowRange]:
    starts = list(itertools.islice(_json_starts(file), 0, None, rows))
    return _ranges(starts, _size(file), path)


def _json_starts(file: BinaryIO) -> Iterator[tuple[int, int]]:
    size = 0
    for number, line in enumerate(file):
        if line.strip():
            yield size, number
        size += len(line)


def _json_range(file: BinaryIO, part: RowRange) -> Iterator[Row]:
    numbered = json_rows.numbered_lines(_lines_of(file, part), part.before)
    return json_rows.rows_of_lines(numbered, part.path)


def _cut_csv(file: BinaryIO, path: str, rows: int) -> Iterator[RowRange]:
    # A wrong header is told before anything is read.
    next(csv_rows.stream_rows(file, path), None)
    file.seek(0)
    starts = list(itertools.islice(csv_rows.record_starts(file, path), 0, None, rows))
    size = _size(file)
    file.seek(0)
    header = file.read(starts[0][0]) if starts else b""
    return _ranges(starts, size, path, header)


def _csv_range(file: BinaryIO, part: RowRange) -> Iterator[Row]:
    header = io.BytesIO(part.header)
    return csv_rows.stream_rows(itertools.chain(header, _lines_of(file, part)), part.path, part.before)


# === Parquet ===


def _cut_parquet(file: BinaryIO, path: str, rows: int) -> Iterator[RowRange]:
    begin = 0
    for count in parquet_rows.count_rows(file, path):
        end = begin + count
        for first in range(begin, end, rows):
            yield RowRange(path, first, min(first + rows, end))
        begin = end


def _parquet_range(file: BinaryIO, part: RowRange) -> Iterator[Row]:
    return parquet_rows.read_range(file, part.path, part.begin, part.end)


_JSON = _Kind(_cut_json, _json_range)
_KINDS = {
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".csv": _Kind(_cut_csv, _csv_range),
    ".parquet": _Kind(_cut_parquet, _parquet_range),
}
