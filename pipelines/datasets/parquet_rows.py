"""Parquet, as Hugging Face keeps its datasets; it needs the package pyarrow (the extra `parquet`)."""

import contextlib
import io
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from fabir_tf.pipelines.datasets.rows import Row, rows_of
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError

_ANSWERS = ("answer", "answers", "prediction_text")


def read_rows(raw: bytes, name: str, parsed: Collection[str], faults: list[str] | None = None) -> Iterator[Row]:
    """Reads the rows of a Parquet file.

    Args:
        raw: the file.
        name: its name, for messages.
        parsed: not needed, because every column has a type.
        faults: not needed, because a damaged file cannot be read any further.

    Raises:
        UserError: pyarrow is missing, or the file is damaged.
    """
    with _damage(name) as parquet:
        rows = parquet.read_table(io.BytesIO(raw)).to_pylist()
    yield from _rows(rows, 1)


def count_rows(file: BinaryIO, name: str) -> list[int]:
    """The number of rows in each row group of a Parquet file, which are read separately.

    Args:
        file: the open file.
        name: its name, for messages.

    Raises:
        UserError: as `read_rows`.
    """
    with _damage(name) as parquet:
        metadata = parquet.ParquetFile(file).metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def read_range(file: BinaryIO, name: str, begin: int, end: int) -> Iterator[Row]:
    """Reads some rows of a Parquet file, and of the others at most those in the same row groups.

    Args:
        file: the open file.
        name: its name, for messages.
        begin, end: the first row, from 0, and the first one behind the last.

    Raises:
        UserError: as `read_rows`.
    """
    with _damage(name) as parquet:
        opened = parquet.ParquetFile(file)
        before = 0
        for group in range(opened.num_row_groups):
            after = before + opened.metadata.row_group(group).num_rows
            first, last = max(begin, before), min(end, after)
            if first < last:
                table = opened.read_row_group(group).slice(first - before, last - first)
                yield from _rows(table.to_pylist(), first + 1)
            before = after


def _rows(rows: list[dict[str, Any]], first: int) -> Iterator[Row]:
    for number, values in enumerate(rows, first):
        # A missing value of a column that other rows fill; a missing answer is the answer that there is none.
        fields = {key: value for key, value in values.items() if value is not None or key in _ANSWERS}
        yield Row(f"row {number}", number, fields)


@contextlib.contextmanager
def _damage(name: str) -> Iterator[Any]:
    """The module of Parquet; a damaged file is reported in one sentence."""
    pyarrow, parquet = _pyarrow(name)
    try:
        yield parquet
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{name}: cannot be read ({reason}), expected a Parquet file.") from None


def write_rows(data: SquadData) -> bytes:
    """Questions as Parquet in Hugging Face's fields; ids are texts."""
    pyarrow, parquet = _pyarrow("--output_file")
    rows = rows_of(data)
    for row in rows:
        row["id"] = str(row["id"])
    texts = {name: pyarrow.string() for name in ("id", "title", "context", "question", "reason")}
    answers = {"text": pyarrow.list_(pyarrow.string()), "answer_start": pyarrow.list_(pyarrow.int64())}
    types = texts | {"answers": pyarrow.struct(answers), "is_impossible": pyarrow.bool_()}
    stream = io.BytesIO()
    try:
        table = pyarrow.Table.from_pylist(rows, pyarrow.schema([(name, types[name]) for name in rows[0]]))
    except (pyarrow.ArrowException, OverflowError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{data.name}: cannot be written as Parquet ({reason}), expected offsets of 64 bits") from None
    parquet.write_table(table, stream)
    return stream.getvalue()


def _pyarrow(name: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        found = "Parquet needs the package pyarrow, which is not installed"
        raise UserError(f"{name}: {found}: pip install 'fabir_tf[parquet]'.") from None
    return pyarrow, parquet
