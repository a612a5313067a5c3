"""BERT's text cleaning: which words a text has before they are cut into pieces, and where each character comes from.

The rules are those of Hugging Face's `BertNormalizer` and `BertPreTokenizer`, in this order:

1. control characters, U+0000 and U+FFFD are removed; every white space becomes a space.
2. Chinese characters are words of their own.
3. accents: each character is decomposed (NFD), and non-spacing marks are removed.
4. lower case, character by character.
5. words end at spaces, and every punctuation mark is a word of its own.

What a character becomes is one row of a table, which the graph reads too.

Offsets differ from Hugging Face's in one case. NFD puts neighboring combining marks in order, and Hugging Face then
gives a spacing mark (such as U+302E) the place of another mark. Here it keeps its own.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from fabir_tf.pipelines.text.unicode_tables import (
    CODE_POINTS,
    CONTROL,
    MARK,
    PUNCTUATION,
    SPACE,
    UnicodeTables,
    unicode_tables,
)

CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    # Hugging Face writes 2B920 where BERT has 2B820; the checkpoints of today were trained with it.
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""First and last code points of the characters that are words of their own."""

ALONE_BEFORE, ALONE_AFTER, BREAK = 1, 2, 4
"""Bits of a character's role: it is a word of its own for what it was in the text, or for what it became; its
decomposition has a character that is no combining mark."""


@dataclasses.dataclass(frozen=True)
class BertCleaning:
    """The settings of the cleaning, named as in Hugging Face's files.

    Attributes:
        do_lower_case: whether text is read in lower case.
        strip_accents: whether accents are removed; None does what `do_lower_case` does.
        tokenize_chinese_chars: whether each Chinese character is a word.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True

    @property
    def strips(self) -> bool:
        """Whether accents are removed."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents


class CleaningTables(NamedTuple):
    """What every character becomes.

    Attributes:
        rows: int32 `(CODE_POINTS,)`, the row of each character; characters of row 0 stay as they are.
        starts, lengths: int32 `(rows,)`, where the row's code points are in `values`.
        values: int32, the code points of all rows.
        roles: int32 `(CODE_POINTS,)`, the bits above.
        combining: int32 `(CODE_POINTS,)`, the combining class of each character that accents leave; 0 for others.
    """

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    values: np.ndarray
    roles: np.ndarray
    combining: np.ndarray


class CleanedText(NamedTuple):
    """The words of a text.

    Attributes:
        text: the cleaned characters; words need no spaces between them.
        sources: the character of the original text that each of them comes from, rising.
        starts, ends: the offsets of each word in `text`.
    """

    text: str
    sources: list[int]
    starts: list[int]
    ends: list[int]


def clean(text: str, cleaning: BertCleaning) -> CleanedText:
    """Cleans a text and finds its words.

    Args:
        text: any string; lone surrogates are removed like control characters.
        cleaning: the settings.

    Returns:
        The words.
    """
    tables = cleaning_tables(cleaning)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4")
    rows = tables.rows[codes]
    lengths = tables.lengths[rows]
    sources = np.repeat(np.arange(len(codes)), lengths)
    within = np.arange(len(sources)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    changed = tables.values[tables.starts[rows[sources]] + within]
    values = np.where(rows[sources] == 0, codes[sources], changed)
    values = _in_canonical_order(values, sources, codes, tables)
    space = values == ord(" ")
    alone = (tables.roles[codes[sources]] & ALONE_BEFORE | tables.roles[values] & ALONE_AFTER) > 0
    apart = np.concatenate([[True], space | alone, [True]])
    starts = np.flatnonzero(~space & (alone | apart[:-2]))
    ends = np.flatnonzero(~space & (alone | apart[2:])) + 1
    cleaned = values.astype("<i4").tobytes().decode("utf-32-le")
    return CleanedText(cleaned, sources.tolist(), starts.tolist(), ends.tolist())


def _in_canonical_order(
    values: np.ndarray, sources: np.ndarray, codes: np.ndarray, tables: CleaningTables
) -> np.ndarray:
    """Sorts neighboring combining marks by their class, the last step of NFD; nearly no text has two that are left."""
    classes = tables.combining[values]
    marks = np.flatnonzero(classes)
    if len(marks) < 2:
        return values
    groups = np.cumsum((tables.roles[codes] & BREAK) > 0)[sources[marks]]
    order = np.argsort(groups * 256 + classes[marks], kind="stable")
    values[marks] = values[marks[order]]
    return values


@functools.cache
def cleaning_tables(cleaning: BertCleaning) -> CleaningTables:
    """The tables of some settings, computed once.

    Args:
        cleaning: the settings.
    """
    unicode = unicode_tables()
    numbers: dict[tuple[int, ...], int] = {}
    rows = np.zeros(CODE_POINTS, np.int32)
    for code, becomes in _changes(cleaning, unicode).items():
        rows[code] = numbers.setdefault(becomes, len(numbers) + 1)
    # A place is filled for row 0, whose character stays as it is.
    outputs = [(0,), *numbers]
    lengths = np.array([len(output) for output in outputs], np.int32)
    values = np.array([code for output in outputs for code in output] + [0], np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    combining = unicode.combining.astype(np.int32) if cleaning.strips else np.zeros(CODE_POINTS, np.int32)
    combining[(unicode.kinds & MARK) > 0] = 0
    return CleaningTables(rows, starts, lengths, values, _roles(cleaning, unicode), combining)


def _changes(cleaning: BertCleaning, unicode: UnicodeTables) -> dict[int, tuple[int, ...]]:
    """What each character becomes, for those that do not stay as they are."""
    kinds = unicode.kinds
    changes = {code: _letters(code, cleaning, unicode) for code in {*unicode.lower, *unicode.decomposed}}
    if cleaning.strips:
        changes |= dict.fromkeys(np.flatnonzero(kinds & MARK).tolist(), ())
    changes |= dict.fromkeys(np.flatnonzero(kinds & SPACE).tolist(), (ord(" "),))
    changes |= dict.fromkeys(np.flatnonzero(kinds & CONTROL).tolist(), ())
    return {code: becomes for code, becomes in changes.items() if becomes != (code,)}


def _letters(code: int, cleaning: BertCleaning, unicode: UnicodeTables) -> tuple[int, ...]:
    letters: tuple[int, ...] = (code,)
    if cleaning.strips:
        letters = tuple(part for part in unicode.decomposed.get(code, letters) if not unicode.kinds[part] & MARK)
    if cleaning.do_lower_case:
        letters = tuple(lower for letter in letters for lower in unicode.lower.get(letter, (letter,)))
    return letters


def _roles(cleaning: BertCleaning, unicode: UnicodeTables) -> np.ndarray:
    kinds, combining = unicode.kinds, unicode.combining
    roles = np.where(kinds & PUNCTUATION, ALONE_AFTER, 0).astype(np.int32)
    for first, last in CHINESE if cleaning.tokenize_chinese_chars else ():
        roles[first : last + 1] |= ALONE_BEFORE
    # Removed before the decomposition, control characters part no marks.
    breaks = (combining == 0) & (kinds & CONTROL == 0)
    for code, parts in unicode.decomposed.items():
        breaks[code] = not combining[list(parts)].all()
    roles[breaks] |= BREAK
    return roles
