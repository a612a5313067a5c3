"""Text whose characters know which characters of an original they stand for.

A parser cuts pieces out of the original, leaves markup out, replaces an entity by its character, and joins the rest.
Slices, replacements and joins keep the map, so no parser computes an offset.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_LINE_BREAK = re.compile(r"[\t\n\v\f\r]")
_LONG_SPACE = re.compile(r"  +")


class Run(NamedTuple):
    """Neighbouring characters with one rule for their offsets.

    Attributes:
        position: of the first character in the text.
        start: of the first character in the original.
        width: 0 where each character is a copy of one character of the original; otherwise every character of the run
            stands for the same `width` characters of the original, from `start` on.
    """

    position: int
    start: int
    width: int


@dataclass(frozen=True)
class MappedText:
    """A text and where it comes from.

    Attributes:
        text: the characters.
        runs: their offsets; the first run begins at position 0. An empty text has none.
    """

    text: str = ""
    runs: tuple[Run, ...] = ()

    @classmethod
    def copy(cls, original: str, start: int = 0, end: int | None = None) -> "MappedText":
        """A part of the original, unchanged.

        Args:
            original: the whole text.
            start, end: the part; the end is exclusive.
        """
        text = original[start:end]
        return cls(text, (Run(0, start, 0),)) if text else cls()

    def __len__(self) -> int:
        return len(self.text)

    def part(self, start: int, end: int | None = None) -> "MappedText":
        """The characters from `start` to `end`, both within the text."""
        text = self.text[start:end]
        if not text:
            return MappedText()
        if len(self.runs) == 1:
            # The most frequent case by far, and the only one for a line of the original.
            return MappedText(text, (_moved(self.runs[0], start),))
        first, last = self._run(start), self._run(start + len(text) - 1)
        runs = [_moved(run, start) for run in self.runs[first : last + 1]]
        return MappedText(text, tuple(runs))

    def replaced(self, start: int, end: int, text: str) -> "MappedText":
        """Another text for the characters from `start` to `end`, of which there is at least one."""
        if not text:
            return MappedText()
        first, last = self.span(start, end)
        return MappedText(text, (Run(0, first, last - first),))

    def recased(self, text: str) -> "MappedText":
        """A text of the same length, character for character."""
        return MappedText(text, self.runs)

    def stripped(self, characters: str | None = None) -> "MappedText":
        """Without white space, or some other characters, at both ends."""
        end = len(self.text.rstrip(characters))
        start = len(self.text) - len(self.text.lstrip(characters))
        return self.part(min(start, end), end)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The offsets in the original of a span's first and last character, the end exclusive.

        Args:
            start, end: the span in the text. An empty one has the offset of the character at `start`, or the end of
                the last character.
        """
        if start >= end:
            place = self._start(start) if start < len(self.text) else self._end(len(self.text) - 1)
            return place, place
        return self._start(start), self._end(end - 1)

    def offsets(self) -> np.ndarray:
        """The offset of each character in the original, int64."""
        borders = [*(run.position for run in self.runs), len(self.text)]
        lengths = np.diff(borders)
        starts = np.repeat([run.start for run in self.runs], lengths).astype(np.int64)
        steps = np.arange(len(self.text)) - np.repeat(borders[:-1], lengths)
        return starts + steps * np.repeat([run.width == 0 for run in self.runs], lengths)

    def _run(self, index: int) -> int:
        return bisect_right(self.runs, index, key=lambda run: run.position) - 1

    def _start(self, index: int) -> int:
        run = self.runs[self._run(index)]
        return run.start if run.width else run.start + index - run.position

    def _end(self, index: int) -> int:
        if index < 0:
            return 0
        run = self.runs[self._run(index)]
        return run.start + (run.width or index - run.position + 1)


def joined(parts: Iterable[MappedText], separator: str = "") -> MappedText:
    """Texts one after the other.

    Args:
        parts: in the order of the original; empty ones are left out.
        separator: put between two parts; it stands for what lies between them in the original.
    """
    texts: list[str] = []
    runs: list[Run] = []
    length = 0
    for part in parts:
        if not part.text:
            continue
        if separator and texts:
            runs.append(_gap(_end_of(runs[-1], length), part.runs[0].start, length, len(separator)))
            texts.append(separator)
            length += len(separator)
        runs += [Run(length + run.position, run.start, run.width) for run in part.runs]
        texts.append(part.text)
        length += len(part.text)
    return MappedText("".join(texts), _merged(runs))


def spaced(content: MappedText) -> MappedText:
    """A text in one line: each run of white space with a line break, and each longer one, as one space."""
    content = content.recased(_LINE_BREAK.sub(" ", content.text))
    parts, end = [], 0
    for match in _LONG_SPACE.finditer(content.text):
        parts += [content.part(end, match.start()), content.replaced(*match.span(), " ")]
        end = match.end()
    return joined([*parts, content.part(end)]).stripped() if parts else content.stripped()


def _moved(run: Run, start: int) -> Run:
    """A run of a text from whose front `start` characters are cut off."""
    if run.position >= start:
        return Run(run.position - start, run.start, run.width)
    return Run(0, run.start if run.width else run.start + start - run.position, run.width)


def _end_of(run: Run, length: int) -> int:
    """The end in the original of the last run of a text of `length` characters."""
    return run.start + (run.width or length - run.position)


def _gap(end: int, start: int, position: int, length: int) -> Run:
    """What stands for the characters of the original between two parts."""
    if length == 1 and start == end + 1:
        return Run(position, end, 0)
    return Run(position, min(end, start), max(1, start - end))


def _merged(runs: list[Run]) -> tuple[Run, ...]:
    """Runs without those that only continue the one before."""
    found: list[Run] = []
    for run in runs:
        is_more = found and not run.width and not found[-1].width
        if not (is_more and found[-1].start + run.position - found[-1].position == run.start):
            found.append(run)
    return tuple(found)
