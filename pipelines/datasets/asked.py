"""Questions without passages: one a line, or those of a file of questions, whose passages are then not looked at."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator

from fabir_tf.pipelines.datasets.formats import FORMATS, format_of, recognized
from fabir_tf.pipelines.datasets.places import PlacesOnDisk
from fabir_tf.pipelines.datasets.records import STANDARD_INPUT, Record, read_records, records_of_lines
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position, file_lines, reading_errors
from fabir_tf.pipelines.json_files import loads, quoted, shown
from fabir_tf.pipelines.text.readable import blank_texts, is_unicode

_EXPECTED = "a file of questions"


def read_asked(path: str | os.PathLike[str], position: Position | None = None) -> Iterator[Record]:
    """Reads questions that are not about a passage of their own.

    Args:
        path: a file with one question a line, each as it is or as a JSON object with `question` and perhaps `id`; a
            file of questions in SQuAD JSON, CSV or Parquet; "-" for lines or CSV on standard input. CSV is recognized
            by its header.
        position: is kept up to date where the file is not read at once.

    Returns:
        Records without passages; the id is the number of the line where none is given. A line that cannot be read gives
        a record with an `error`.

    Raises:
        UserError: the file cannot be read, or holds no question.
    """
    name = "standard input" if os.fspath(path) == STANDARD_INPUT else str(path)
    position = position or Position()
    has_lines = format_of(path) in (None, FORMATS[".jsonl"])
    records = _recognized(path, name, position) if has_lines else read_records(path, position, has_passages=False)
    first = next(records, None)
    if first is None:
        raise UserError(f"{name}: found no question, expected one a line.")
    return itertools.chain([first], records)


def _recognized(path: str | os.PathLike[str], name: str, position: Position) -> Iterator[Record]:
    lines = iter(_bytes_of(path, name, position))
    first = next(lines, b"")
    lines = itertools.chain([first], lines)
    found = recognized(first)
    return records_of_lines(lines, name, found, has_passages=False) if found else _lines(lines, name)


def _lines(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    places = PlacesOnDisk()
    for number, line in enumerate(lines, 1):
        place = f"line {number}"
        record = _record(line, number, f"{name}: {place}")
        if record:
            # The number 7 and the text "7" are two ids.
            if places.setdefault(f"{type(record.id).__name__} {record.id}", place) != place:
                error = f"{name}: line {number} repeats the id {quoted(record.id)}, expected another."
                record = Record(record.id, "", "", error)
            yield record


def _bytes_of(path: str | os.PathLike[str], name: str, position: Position) -> Iterable[bytes]:
    if os.fspath(path) != STANDARD_INPUT:
        yield from file_lines(path, _EXPECTED, position)
        return
    with reading_errors(name, _EXPECTED):
        # readline returns a line as soon as it is complete.
        yield from iter(sys.stdin.buffer.readline, b"")


def _record(line: bytes, number: int, place: str) -> Record | None:
    """What a line asks; None of an empty one."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError:
        return Record(str(number), "", "", f"{place} is not UTF-8, expected a question.")
    if not text:
        return None
    if not text.startswith("{"):
        faults = blank_texts(question=text)
        return Record(str(number), "", "", f"{place}: {faults[0]}") if faults else Record(str(number), text, "")
    try:
        fields = loads(text)
    except (ValueError, RecursionError) as error:
        return Record(str(number), "", "", f"{place} is no valid JSON ({error}).")
    identifier, question = fields.get("id", str(number)), fields.get("question")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        return Record(str(number), "", "", f"{place}: id is {shown(identifier)}, expected a text or a whole number.")
    if not is_unicode(str(identifier)):
        return Record(str(number), "", "", f"{place}: id has half of a surrogate pair, expected Unicode text.")
    if not isinstance(question, str):
        return Record(identifier, "", "", f"{place}: question is {shown(question)}, expected a text.")
    if not is_unicode(question):
        return Record(identifier, "", "", f"{place}: question has half of a surrogate pair, expected Unicode text.")
    faults = blank_texts(question=question)
    return Record(identifier, "", "", f"{place}: {faults[0]}") if faults else Record(identifier, question, "")
