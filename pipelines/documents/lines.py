"""Lines of a document: cutting, indentation, and the ends of what is indented."""

import re
from collections.abc import Iterable, Iterator

from fabir_tf.pipelines.documents.mapped_text import MappedText, joined

_LINE_END = re.compile(r"\r\n|\n|\r")
_INDENTATION = re.compile(r"[ \t]*")
TAB = 4

LONGEST = 500
"""Words of a paragraph that has no end, such as that of a log: from so many on, it ends with its line."""


def lines_of(content: MappedText) -> list[MappedText]:
    """The lines of a text, without their ends."""
    lines, start = [], 0
    for match in _LINE_END.finditer(content.text):
        lines.append(content.part(start, match.start()))
        start = match.end()
    return [*lines, content.part(start)]


def in_parts(lines: Iterable[MappedText]) -> Iterator[list[MappedText]]:
    """The lines of a paragraph, in parts of `LONGEST` words and the rest of a line."""
    part: list[MappedText] = []
    words = 0
    for line in lines:
        part.append(line)
        words += len(line.text.split())
        if words >= LONGEST:
            yield part
            part, words = [], 0
    if part:
        yield part


def is_blank(line: MappedText) -> bool:
    """Whether a line shows nothing."""
    return not line.text.strip()


def indentation(line: MappedText) -> int:
    """The columns of white space in front of a line."""
    space = _INDENTATION.match(line.text)[0]  # type: ignore[index]
    return len(space) if "\t" not in space else len(space.expandtabs(TAB))


def outdented(line: MappedText, columns: int) -> MappedText:
    """A line with that many columns of white space less, or with all that it has."""
    position = column = 0
    while column < columns and line.text[position : position + 1] in (" ", "\t"):
        column += TAB - column % TAB if line.text[position] == "\t" else 1
        position += 1
    return line.part(position)


def indented_end(lines: list[MappedText], start: int, columns: int) -> int:
    """The end of the lines from `start` that are blank or indented by that many columns; not after a blank one."""
    end = start
    for index in range(start, len(lines)):
        if is_blank(lines[index]):
            continue
        if indentation(lines[index]) < columns:
            break
        end = index + 1
    return end


def code_of(lines: Iterable[MappedText]) -> MappedText:
    """The text of a piece of code: as it is, without the blank lines at its ends and what all lines are indented by."""
    lines = list(lines)
    full = [line for line in lines if not is_blank(line)]
    if not full:
        return MappedText()
    columns = min(map(indentation, full))
    kept = lines[lines.index(full[0]) : len(lines) - lines[::-1].index(full[-1])]
    return joined((_without_end(outdented(line, columns)) for line in kept), "\n")


def _without_end(line: MappedText) -> MappedText:
    return line.part(0, len(line.text.rstrip()))
