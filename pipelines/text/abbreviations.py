"""Abbreviations, whose period belongs to their token: the closed list, and letters with periods such as `p.m.`."""

import re

_TITLES = "adm brig capt cmdr col cpl dr gen gov hon lt maj messrs mr mrs ms pres prof rev sen sgt supt"
_NAMES = "bros co corp dept dist est esq ft inc jr ltd mt mts sr st ste univ"
_COMMON_WORDS = "al approx cf eds etc viz vs"
_DEGREES = "b.sc d.phil m.phil m.sc ph.d"
_MONTHS = "jan feb mar apr jun jul aug sep sept oct nov dec"
_NUMBERED = "art bk c ca ch chap eq fig figs no nos op p pp pt pts sec sect vol vols"

ABBREVIATIONS = frozenset(f"{_TITLES} {_NAMES} {_COMMON_WORDS} {_DEGREES}".split())
"""Lower case and without the last period. Words that also end sentences (ed, no, sat, sun) are left out."""

BEFORE_NUMBERS = frozenset(f"{_MONTHS} {_NUMBERED}".split())
"""These keep their period only where the next token begins with a digit: No. 5, Fig. 2, p. 7, Sept. 11."""

LETTERS_WITH_PERIODS = r"[A-Za-z](?:\.[A-Za-z]){1,5}"
"""Without the last period: p.m, U.S, U.S.S.R."""

DIGITS = "0123456789"

_LETTERS_WITH_PERIODS = re.compile(LETTERS_WITH_PERIODS)


def keeps_period(word: str, following: str) -> bool:
    """Whether the period behind a word belongs to it.

    Args:
        word: the token before the period.
        following: the token after it, or "" at the end of the text.
    """
    if not word.isascii():
        return False
    lower = word.lower()
    if lower in ABBREVIATIONS or _LETTERS_WITH_PERIODS.fullmatch(word):
        return True
    return lower in BEFORE_NUMBERS and bool(following) and following[0] in DIGITS


def with_periods(words: list[str], starts: list[int], ends: list[int]) -> tuple[list[str], list[int], list[int]]:
    """Joins each abbreviation with the period that follows it.

    Args:
        words: the tokens of a text.
        starts, ends: their offsets.

    Returns:
        Tokens and offsets, in which no abbreviation is followed by a period of its own.
    """
    joined = [index for index in _periods(words) if _is_joined(index, words, starts, ends)]
    if not joined:
        return words, starts, ends
    for index in joined:
        words[index - 1] += "."
        ends[index - 1] += 1
    gone = set(joined)
    kept = [index for index in range(len(words)) if index not in gone]
    return [words[i] for i in kept], [starts[i] for i in kept], [ends[i] for i in kept]


def _periods(words: list[str]) -> list[int]:
    found, index = [], -1
    for _ in range(words.count(".")):
        index = words.index(".", index + 1)
        found.append(index)
    return found


def _is_joined(index: int, words: list[str], starts: list[int], ends: list[int]) -> bool:
    if not index or ends[index - 1] != starts[index]:
        return False
    following = words[index + 1] if index + 1 < len(words) else ""
    return keeps_period(words[index - 1], following)
