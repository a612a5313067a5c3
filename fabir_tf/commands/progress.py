"""How far a long command is: one line that overwrites itself on a terminal, and a line a minute elsewhere."""

import math
import sys
import time
from typing import Any

from fabir_tf.pipelines.files import Position

SECONDS_ON_TERMINAL, SECONDS_IN_LOG = 1.0, 60.0
"""Shortest time between two lines."""


class Progress:
    """Prints to standard error how many items are done, how many a second, and how long the rest takes.

    Args:
        unit: what is counted, as in "questions".
        position: in the file that is read; it tells how long the rest takes.
        is_shown: whether anything is printed.
    """

    def __init__(self, unit: str, position: Position | None = None, is_shown: bool = True):
        self._unit, self._position, self._is_shown = unit, position or Position(), is_shown
        self._on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._done_before, self._bytes_before = 0, 0
        self._is_open = False

    def __enter__(self) -> "Progress":
        """Itself."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Leaves the last line on the terminal."""
        if self._is_open:
            print(file=sys.stderr, flush=True)

    def skip(self, done: int) -> None:
        """Takes note of items that were done by another process, which say nothing about the speed.

        Args:
            done: the items so far.
        """
        self._began = self._last = time.monotonic()
        self._done_before, self._bytes_before = done, self._position.done

    def show(self, done: int) -> None:
        """Prints the progress, unless it has just been printed.

        Args:
            done: the items so far.
        """
        now = time.monotonic()
        if now - self._last < (SECONDS_ON_TERMINAL if self._on_terminal else SECONDS_IN_LOG) or not self._is_shown:
            return
        self._last = now
        self._print(self.line(done, now - self._began))

    def line(self, done: int, seconds: float) -> str:
        """The text of the progress.

        Args:
            done: the items so far.
            seconds: that those without the skipped ones took.
        """
        speed = (done - self._done_before) / seconds
        parts = [f"{done:,} {self._unit}", f"{speed:,.{0 if speed >= 10 else 1}f} a second"]
        read, total = self._position.done, self._position.total
        if total and read > self._bytes_before:
            left = seconds * (total - read) / (read - self._bytes_before)
            parts += [f"{read / total:.0%} of the file", f"{duration(left)} left"]
        return ", ".join(parts)

    def _print(self, text: str) -> None:
        # Without the rest of a longer line before it.
        begin, end = ("\r\x1b[K", "") if self._on_terminal else ("", "\n")
        print(f"{begin}{text}", end=end, file=sys.stderr, flush=True)
        self._is_open = self._on_terminal


def duration(seconds: float) -> str:
    """A time as a person says it: "40 s", "12 min", "3 h 20 min"."""
    if seconds < 100:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
