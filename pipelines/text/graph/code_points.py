"""Texts as one flat array of code points and their classes, with TensorFlow operations only, for use inside a graph.

The classes of a character (space, letter, lower case, ...) are those of Python and of NLTK's regular expressions. They
are computed once for every Unicode code point and are part of the graph as a constant of about 150 kB.
"""

import functools
import re
import string
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

try:
    # NLTK's own regular expressions; a few of their character classes differ from those of `re`.
    from nltk import redos

    nltk_re: Any = redos
except ImportError:
    nltk_re = re

CODE_POINTS = 0x110000
PAGE = 128

LETTER_BITS = 5
"""The lowest bits of a class are 1 to 26 for what `re` matches as a to z ignoring case, and 27 for the apostrophe."""

Matches = Callable[[str], np.ndarray]
Classes = dict[str, Iterable[str] | Matches]


class CodePoints(NamedTuple):
    """The characters of a batch of texts, one text after the other.

    Attributes:
        values: int32 `(total,)`, the code points.
        byte_offsets: int64 `(total + 1,)`, the start of each code point in the concatenated bytes of all texts; the
            last entry is the number of bytes.
        splits: int64 `(batch + 1,)`, text i holds the code points `splits[i]` to `splits[i + 1]`.
    """

    values: tf.Tensor
    byte_offsets: tf.Tensor
    splits: tf.Tensor


def decode(texts: tf.Tensor) -> CodePoints:
    """Decodes UTF-8 like Python's `bytes.decode("utf-8", errors="replace")`; never fails.

    Args:
        texts: string `(batch,)`; any bytes.

    Returns:
        The code points; bytes that are not UTF-8 become U+FFFD, as many times as in Python.
    """
    values, offsets = tf.strings.unicode_decode_with_offsets(
        texts, "UTF-8", errors="replace", replacement_char=0xFFFD, replace_control_characters=False
    )
    text_ends = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64))
    text_starts = tf.concat([tf.zeros([1], tf.int64), text_ends], 0)
    byte_offsets = offsets.flat_values + tf.repeat(text_starts[:-1], values.row_lengths())
    return CodePoints(values.flat_values, tf.concat([byte_offsets, text_starts[-1:]], 0), values.row_splits)


class PagedTable:
    """A table of one integer per code point, stored as a small constant: equal pages are stored once.

    Args:
        table: integers `(CODE_POINTS,)`.
    """

    def __init__(self, table: np.ndarray):
        pages = table.astype(np.int32).reshape(-1, PAGE)
        # By their bytes; np.unique would sort them, which takes a hundred times as long.
        numbers: dict[bytes, int] = {}
        self._page_of = np.array([numbers.setdefault(page.tobytes(), len(numbers)) for page in pages], np.int32)
        self._pages = np.frombuffer(b"".join(numbers), np.int32)

    @property
    def size(self) -> int:
        """The size of the table in a graph, in bytes."""
        return self._pages.nbytes + self._page_of.nbytes

    def __call__(self, code_points: tf.Tensor) -> tf.Tensor:
        """Looks up code points, int32 of any shape to int32 of the same shape."""
        page = tf.gather(self._page_of, code_points // PAGE)
        return tf.gather(self._pages, page * PAGE + code_points % PAGE)


class CharacterTable(PagedTable):
    """The classes of every code point, one bit per class, with its letter in the lowest bits.

    Args:
        classes: for each class name its characters, or a function that marks them in a string of all code points.
        spaces: characters that get the classes of a space instead of their own.

    Attributes:
        space: the classes of a space, which no character of other classes has.
    """

    def __init__(self, classes: Classes, spaces: str = ""):
        self.bits = {name: 1 << (LETTER_BITS + index) for index, name in enumerate(classes)}
        table = _letters()
        for name, members in classes.items():
            table |= np.where(_membership(members), self.bits[name], 0).astype(np.int32)
        table[[ord(character) for character in spaces]] = table[ord(" ")]
        self.space = int(table[ord(" ")])
        super().__init__(table)

    def contains(self, name: str, classes: tf.Tensor) -> tf.Tensor:
        """Whether characters are in a class, int32 classes of any shape to boolean of the same shape."""
        return tf.not_equal(tf.bitwise.bitwise_and(classes, self.bits[name]), 0)


def matching(pattern: str, engine=re) -> Matches:
    """Marks the characters that a one-character pattern matches in `re` or in NLTK's engine."""
    compiled = engine.compile(f"(?:{pattern})+")

    def find(characters: str) -> np.ndarray:
        found = np.zeros(len(characters), bool)
        for match in compiled.finditer(characters):
            found[match.start() : match.end()] = True
        return found

    return find


def being(predicate: Callable[[str], bool]) -> Matches:
    """Marks the characters for which a method of `str` returns true."""
    return lambda characters: np.fromiter(map(predicate, characters), bool, len(characters))


def letter_code(text: str) -> list[int]:
    """The table's numbers of the letters of a text of a to z and apostrophes."""
    return [string.ascii_lowercase.find(letter) + 1 or 27 for letter in text]


COMMON_CLASSES: Classes = {
    "space": being(str.isspace),
    "nltk space": matching(r"\s", nltk_re),
    "nltk digit": matching(r"\d", nltk_re),
}


@functools.cache
def all_characters() -> str:
    """Every Unicode code point, in order."""
    return "".join(map(chr, range(CODE_POINTS)))


def _membership(members: Iterable[str] | Matches) -> np.ndarray:
    if callable(members):
        return members(all_characters())
    found = np.zeros(CODE_POINTS, bool)
    found[[ord(member) for member in members]] = True
    return found


def _letters() -> np.ndarray:
    letters = np.zeros(CODE_POINTS, np.int32)
    # Ignoring case, `re` matches more than two characters as i, k and s.
    for match in re.finditer("(?i:[a-z])", all_characters()):
        letter = next(letter for letter in string.ascii_lowercase if re.match(f"(?i:{letter})", match.group()))
        letters[match.start()] = letter_code(letter)[0]
    letters[ord("'")] = letter_code("'")[0]
    return letters


def last_index(flags: tf.Tensor) -> tf.Tensor:
    """For each index the last true index up to and including it, or -1; boolean `(n,)` to int64 `(n,)`."""
    indices = tf.concat([[tf.constant(-1, tf.int64)], positions(flags)], 0)
    return tf.gather(indices, tf.cumsum(tf.cast(flags, tf.int64)))


def last_before(indices: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """For each limit the last of the ascending indices below it, or -1; int64 `(p,)` and `(k,)` to `(k,)`."""
    padded = tf.concat([[tf.constant(-1, tf.int64)], indices], 0)
    return tf.gather(padded, tf.searchsorted(indices, limits, out_type=tf.int64))


def first_from(indices: tf.Tensor, limits: tf.Tensor, missing: tf.Tensor) -> tf.Tensor:
    """For each limit the first of the ascending indices not below it, or `missing`; int64 `(p,)`, `(k,)` to `(k,)`."""
    padded = tf.concat([indices, [missing]], 0)
    return tf.gather(padded, tf.searchsorted(indices, limits, out_type=tf.int64))


def positions(flags: tf.Tensor) -> tf.Tensor:
    """The ascending indices of the true values of a boolean `(n,)`, int64."""
    return tf.where(flags)[:, 0]


def flags_at(indices: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Boolean `(count,)`, true at the indices; an index equal to `count` is ignored."""
    ones = tf.ones(tf.shape(indices), tf.int32)
    return tf.scatter_nd(indices[:, None], ones, [count + 1])[:-1] > 0
