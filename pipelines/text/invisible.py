"""Invisible marks: those that separate tokens, and those that may stand inside one but not at its edge."""

import re

SEPARATORS = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Zero-width space, word joiner, byte order mark and the marks of writing direction: read as spaces."""

JOINERS = "\u00ad\u200c\u200d"
"""Soft hyphen, zero-width non-joiner and joiner: part of a word, and cut off at the edge of a token."""

_SEPARATOR = re.compile(f"[{SEPARATORS}]")
_JOINER = re.compile(f"[{JOINERS}]")

Span = tuple[int, int]


def separators_as_spaces(text: str) -> str:
    """Replaces each separating mark by a space, so that offsets stay."""
    return text if text.isascii() else _SEPARATOR.sub(" ", text)


def without_joiners_at_edges(text: str, spans: list[Span]) -> list[Span]:
    """Cuts joiners off the beginning and the end of tokens; a token of joiners only is left out.

    Args:
        text: the text.
        spans: start and end of each token.

    Returns:
        The spans of the tokens that are left.
    """
    if text.isascii() or not _JOINER.search(text):
        return spans
    cut = []
    for start, end in spans:
        word = text[start:end]
        start += len(word) - len(word.lstrip(JOINERS))
        end -= len(word) - len(word.rstrip(JOINERS))
        cut.append((start, end))
    return [(start, end) for start, end in cut if start < end]
