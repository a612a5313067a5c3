"""Texts as one flat array of code points and their classes, with TensorFlow operations only: for use inside a graph.

What Python and NLTK's regular expressions know of a character (is it a space, a letter, in lower case, ...) is asked of
them once for every code point there is, and travels with the graph as a constant of some 150 kB.
"""

import functools
import re
import string
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

try:
    # NLTK's regular expressions; their classes are not quite those of `re`.
    from nltk import redos as nltk_re
except ImportError:
    nltk_re = re

CODE_POINTS = 0x110000
PAGE = 128

LETTER_BITS = 5
"""The lowest bits of a class hold 1 to 26 for what `re` takes for a to z regardless of case, 27 for the apostrophe."""

Matches = Callable[[str], np.ndarray]


class CodePoints(NamedTuple):
    """The characters of a batch of texts, one text after the other.

    Attributes:
        values: int32 `(total,)`, the code points.
        byte_offsets: int64 `(total + 1,)`, where each begins in the UTF-8 bytes of all texts put together; the last
            entry is the number of those bytes.
        splits: int64 `(batch + 1,)`, text i holds the code points `splits[i]` to `splits[i + 1]`.
    """

    values: tf.Tensor
    byte_offsets: tf.Tensor
    splits: tf.Tensor


def decode(texts: tf.Tensor) -> CodePoints:
    """Decodes UTF-8 as Python's `bytes.decode("utf-8", errors="replace")` does; never fails.

    Args:
        texts: string `(batch,)`, any bytes.

    Returns:
        The code points; U+FFFD for bytes that are not UTF-8, one for as many bytes as Python gives one.
    """
    values, offsets = tf.strings.unicode_decode_with_offsets(
        texts, "UTF-8", errors="replace", replacement_char=0xFFFD, replace_control_characters=False
    )
    text_ends = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64))
    text_starts = tf.concat([tf.zeros([1], tf.int64), text_ends], 0)
    byte_offsets = offsets.flat_values + tf.repeat(text_starts[:-1], values.row_lengths())
    return CodePoints(values.flat_values, tf.concat([byte_offsets, text_starts[-1:]], 0), values.row_splits)


class PagedTable:
    """A number for every code point, as a small constant: equal pages are kept once.

    Args:
        table: integers `(CODE_POINTS,)`.
    """

    def __init__(self, table: np.ndarray):
        pages, page_of = np.unique(table.astype(np.int32).reshape(-1, PAGE), axis=0, return_inverse=True)
        self._pages, self._page_of = pages.reshape(-1), page_of.reshape(-1).astype(np.int32)

    @property
    def size(self) -> int:
        """Bytes that the table takes in a graph."""
        return self._pages.nbytes + self._page_of.nbytes

    def __call__(self, code_points: tf.Tensor) -> tf.Tensor:
        """Looks numbers up, int32 of any shape to int32 of that shape."""
        page = tf.gather(self._page_of, code_points // PAGE)
        return tf.gather(self._pages, page * PAGE + code_points % PAGE)


class CharacterTable(PagedTable):
    """The classes of every code point, one bit each, and in the lowest bits its letter.

    Args:
        classes: for each name the characters of the class, or what finds them in a string of all code points.
    """

    def __init__(self, classes: dict[str, Iterable[str] | Matches]):
        self.bits = {name: 1 << (LETTER_BITS + place) for place, name in enumerate(classes)}
        table = _letters()
        for name, members in classes.items():
            table |= np.where(_membership(members), self.bits[name], 0).astype(np.int32)
        super().__init__(table)

    def contains(self, name: str, classes: tf.Tensor) -> tf.Tensor:
        """Whether characters are in a class, int32 classes of any shape to boolean of that shape."""
        return tf.not_equal(tf.bitwise.bitwise_and(classes, self.bits[name]), 0)


def matching(pattern: str, engine=re) -> Matches:
    """The characters that a pattern for one character matches, by `re` or by NLTK's engine."""
    compiled = engine.compile(f"(?:{pattern})+")

    def find(characters: str) -> np.ndarray:
        found = np.zeros(len(characters), bool)
        for match in compiled.finditer(characters):
            found[match.start() : match.end()] = True
        return found

    return find


def being(predicate: Callable[[str], bool]) -> Matches:
    """The characters of which a method of `str` is true."""
    return lambda characters: np.fromiter(map(predicate, characters), bool, len(characters))


def letter_code(text: str) -> list[int]:
    """The letters' numbers in the table, for a text of a to z and apostrophes."""
    return [string.ascii_lowercase.find(letter) + 1 or 27 for letter in text]


COMMON_CLASSES = {
    "space": being(str.isspace),
    "nltk space": matching(r"\s", nltk_re),
    "nltk digit": matching(r"\d", nltk_re),
}


@functools.cache
def _all_characters() -> str:
    return "".join(map(chr, range(CODE_POINTS)))


def _membership(members: Iterable[str] | Matches) -> np.ndarray:
    if callable(members):
        return members(_all_characters())
    found = np.zeros(CODE_POINTS, bool)
    found[[ord(member) for member in members]] = True
    return found


def _letters() -> np.ndarray:
    letters = np.zeros(CODE_POINTS, np.int32)
    # Regardless of case, `re` takes more than two characters for i, k and s.
    for match in re.finditer("(?i:[a-z])", _all_characters()):
        letter = next(letter for letter in string.ascii_lowercase if re.match(f"(?i:{letter})", match.group()))
        letters[match.start()] = letter_code(letter)[0]
    letters[ord("'")] = letter_code("'")[0]
    return letters


def last_index(flags: tf.Tensor) -> tf.Tensor:
    """For each place the last true one up to and including it, or -1; boolean `(n,)` to int64 `(n,)`."""
    places = tf.concat([[tf.constant(-1, tf.int64)], positions(flags)], 0)
    return tf.gather(places, tf.cumsum(tf.cast(flags, tf.int64)))


def last_before(places: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """For each limit the last of the ascending places below it, or -1; int64 `(p,)` and `(k,)` to `(k,)`."""
    padded = tf.concat([[tf.constant(-1, tf.int64)], places], 0)
    return tf.gather(padded, tf.searchsorted(places, limits, out_type=tf.int64))


def first_from(places: tf.Tensor, limits: tf.Tensor, missing: tf.Tensor) -> tf.Tensor:
    """For each limit the first of the ascending places not below it, or `missing`; int64 `(p,)`, `(k,)` to `(k,)`."""
    padded = tf.concat([places, [missing]], 0)
    return tf.gather(padded, tf.searchsorted(places, limits, out_type=tf.int64))


def positions(flags: tf.Tensor) -> tf.Tensor:
    """Where a boolean `(n,)` is true, ascending, int64."""
    return tf.where(flags)[:, 0]


def flags_at(places: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Boolean `(count,)`, true at the places; those at `count` are left out."""
    ones = tf.ones(tf.shape(places), tf.int32)
    return tf.scatter_nd(places[:, None], ones, [count + 1])[:-1] > 0
