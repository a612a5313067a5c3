"""Shards: one file of answers a part, beside it one of the records that were rejected, and the best of all."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fabir_tf.beam.records import Asked, Rejected
from fabir_tf.beam.storage import files_below, open_file, write_file
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import Answer

JSON_LINES, PARQUET = "jsonl", "parquet"
FORMATS = (JSON_LINES, PARQUET)


@dataclass(frozen=True)
class Shards:
    """The files of a collection that is read.

    Attributes:
        folder: where they are.
        count: of the parts.
        format: one of `FORMATS`, of the answers; rejected records are JSON lines.
    """

    folder: str
    count: int
    format: str = JSON_LINES

    def path(self, kind: str, number: int | str, format: str) -> str:
        """The path of one file of a shard."""
        name = f"{number:05d}" if isinstance(number, int) else number
        return f"{self.folder.rstrip('/')}/{kind}-{name}-of-{self.count:05d}.{format}"

    def answers_path(self, number: int) -> str:
        """The path of a shard's answers."""
        return self.path("answers", number, self.format)

    @property
    def best_path(self) -> str:
        """The path of the best answers of all shards."""
        return f"{self.folder.rstrip('/')}/best.{self.format}"

    def finished(self) -> set[int]:
        """The numbers of the shards that are there."""
        found = set(self.files("answers", self.format))
        return {number for number in range(self.count) if self.answers_path(number) in found}

    def files(self, kind: str, format: str) -> list[str]:
        """The files of a kind that are there, of all shards.

        Args:
            kind: the beginning of their names.
            format: their ending; `*` is any.
        """
        folder, _, name = self.path(kind, "*", format).rpartition("/")
        return files_below(folder, name)

    def write(self, number: int, rows: Sequence[dict[str, Any]], rejected: Sequence[Rejected]) -> None:
        """Writes a shard; its answers last, because they say that it is finished.

        Raises:
            WriteError: it cannot be written.
        """
        if rejected:
            lines = [vars(one) for one in rejected]
            write_file(self.path("rejected", number, JSON_LINES), _json_lines(lines))
        write_file(self.answers_path(number), encoded(rows, self.format))

    def read(self, number: int) -> Iterator[dict[str, Any]]:
        """The rows of a finished shard.

        Raises:
            UserError: it is damaged.
        """
        path = self.answers_path(number)
        with open_file(path) as file:
            content = file.read()
        try:
            if self.format == PARQUET:
                yield from _parquet().read_table(io.BytesIO(content)).to_pylist()
            else:
                lines = content.decode("utf-8", "surrogatepass").split("\n")
                yield from (json.loads(line) for line in lines if line)
        except (ValueError, OSError) as error:
            raise UserError(f"{path}: the shard is damaged ({error}): delete it, and it is made again") from None


def row_of(asked: Asked, answer: Answer) -> dict[str, Any]:
    """An answer as a row of a shard."""
    row = {"id": asked.id, "source": asked.source, "number": asked.number, "question": asked.question}
    if asked.question_id is not None:
        row["question_id"] = asked.question_id
    return row | answer.to_dict()


def encoded(rows: Sequence[dict[str, Any]], format: str) -> bytes:
    """Rows as a file.

    Args:
        rows: all of the same fields.
        format: one of `FORMATS`.
    """
    return _json_lines(rows) if format == JSON_LINES else _as_parquet(rows)


def _json_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    # A passage may contain lone surrogates.
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogatepass")


def _as_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow

    text, whole, real = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    span = pyarrow.struct({"answer": text, "start": whole, "end": whole, "probability": real})
    types = {
        "id": text,
        "source": text,
        "number": whole,
        "question": text,
        "question_id": text,
        "rank": whole,
        "answer": text,
        "start": whole,
        "end": whole,
        "probability": real,
        "no_answer_probability": real,
        "is_answer": pyarrow.bool_(),
        "score": real,
        "n_best": pyarrow.list_(span),
    }
    # Ids may be numbers in one file and texts in another; a column has one type.
    rows = [row | {name: str(row[name]) for name in ("id", "question_id") if name in row} for row in rows]
    names = [name for name in types if any(name in row for row in rows)] or list(types)
    rows = [_in_utf8(row) for row in rows]
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema([(name, types[name]) for name in names]))
    stream = io.BytesIO()
    _parquet().write_table(table, stream)
    return stream.getvalue()


def _in_utf8(value: Any) -> Any:
    """The value without lone surrogates, which Parquet's texts cannot hold; offsets stay the same."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_in_utf8(item) for item in value]
    return {name: _in_utf8(item) for name, item in value.items()} if isinstance(value, dict) else value


def _parquet() -> Any:
    from pyarrow import parquet

    return parquet
