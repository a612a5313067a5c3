"""Splits any Unicode text into tokens with exact character offsets.

The method is that of the FABIR paper: NLTK's sentence and word tokenizers, then every token is split further at
hyphens, dashes, slashes, quotes, `~` and the degree sign. The sentence tokenizer is untrained, so nothing has to be
downloaded.

NLTK returns strings and rewrites quotes. Each of its tokens is therefore searched in the source by a cursor that only
moves forward, so a token cannot be placed inside an earlier word.

Rules of version 2 add what `invisible` and `abbreviations` say. A reader keeps the version that it was trained with.

NLTK scans each sentence some thirty times. Except for the final period of a sentence, its word tokenizer looks no
further than one space. Each chunk between two spaces is therefore tokenized on its own and its tokens are cached,
because most chunks of a text have occurred before. Plain words, also with a punctuation mark behind, need no NLTK.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from fabir_tf.pipelines.text.abbreviations import with_periods
from fabir_tf.pipelines.text.invisible import separators_as_spaces, without_joiners_at_edges

NEWEST_RULES = 2
"""The version of the rules for new readers. Rules that change the tokens of any text are a new version."""

HYPHENS_AND_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
SLASHES = "/\\\u2044\u2215"
QUOTES = '"`\u00b4\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a'
TILDE_AND_DEGREE = "~\u00b0"
SPLIT_CHARACTERS = HYPHENS_AND_DASHES + SLASHES + QUOTES + TILDE_AND_DEGREE
"""Each of these characters is always a token of its own; so is an apostrophe outside a contraction."""

CONTRACTION = r"[nN]'[tT]|'[sSdDmM]|'[rR][eE]|'[vV][eE]|'[lL][lL]"
"""Word endings that are one token including the apostrophe, because GloVe has a vector for each of them."""

FALLBACK_TOKEN = r"\w+|[^\w\s]"
"""Tokens of a sentence in which NLTK's tokens cannot be found: runs of letters and digits, other single characters."""

MAX_BLOCK = 10_000
"""The most code points that NLTK gets at once, to keep the time linear; texts are cut at white space if possible."""

MAX_REMEMBERED, LONGEST_REMEMBERED = 1 << 16, 32
"""The most chunks whose tokens are cached, and the most code points of a cached chunk with its context."""

_SPLIT_CLASS = re.escape(SPLIT_CHARACTERS)
_SPLIT_OR_APOSTROPHE = re.compile(f"['{_SPLIT_CLASS}]")
_PIECE = re.compile(f"[{_SPLIT_CLASS}]|[^{_SPLIT_CLASS}]+")
_APOSTROPHE_PIECE = re.compile("'|[^']+")
_FINAL_CONTRACTION = re.compile(rf"(?:{CONTRACTION})\Z")
_FALLBACK_TOKEN = re.compile(FALLBACK_TOKEN)
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
_WORD_CHARACTER = re.compile(r"\w")
# Context on either side of a chunk that does not change NLTK's tokens.
_BEFORE, _AFTER = "a ", " a"
_PLAIN = re.compile(r"([A-Za-z0-9]+)([.,:;?!)]?)")
# NLTK splits each of these into two words, for example `can not`.
_TWO_WORDS = frozenset({"cannot", "gimme", "gonna", "gotta", "lemme", "wanna"})

Span = tuple[int, int]


class Tokens(NamedTuple):
    """The tokens of one text: `words[i] == text[starts[i]:ends[i]]`, offsets in code points.

    Tokens are in order, not empty, do not overlap, and together contain every character that is not white space; from
    version 2 of the rules on, all but invisible marks (`invisible`).
    """

    words: list[str]
    starts: list[int]
    ends: list[int]


def tokenize(text: str, rules: int = NEWEST_RULES) -> Tokens:
    """Splits a text into tokens with exact offsets; never fails and never changes the text.

    Args:
        text: any string; lone surrogates, control characters and texts without spaces are allowed.
        rules: the version of the rules, from 1 to `NEWEST_RULES`.

    Returns:
        The tokens in their original spelling: three lists of the same length, empty for a blank text.

    Source:
        FABIR paper §IV (NLTK) and the rules above (further splitting).
    """
    if rules == 1:
        return Tokens(*_words(text, _spans(text)))
    spans = without_joiners_at_edges(text, _spans(separators_as_spaces(text)))
    return Tokens(*with_periods(*_words(text, spans)))


def clear_cache() -> None:
    """Empties the cache of chunks, for timings and tests."""
    _remembered_spans.cache_clear()


def _words(text: str, spans: list[Span]) -> tuple[list[str], list[int], list[int]]:
    return [text[start:end] for start, end in spans], [start for start, _ in spans], [end for _, end in spans]


def _spans(text: str) -> list[Span]:
    """The tokens of version 1."""
    return [
        (start + first, start + last)
        for start, end in nltk_sentence_spans(text)
        for first, last in _token_spans(text[start:end])
    ]


def _nltk():
    # Imported for the first text only, because data that is already tokenized can be read without NLTK.
    from fabir_tf.pipelines.text import nltk_tokenizers

    return nltk_tokenizers


def _block_spans(text: str) -> list[Span]:
    spans, start = [], 0
    while len(text) - start > MAX_BLOCK:
        space = _LAST_SPACE.search(text[start : start + MAX_BLOCK])
        end = start + (space.end() if space else MAX_BLOCK)
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def nltk_sentence_spans(text: str) -> list[Span]:
    """The sentences of a text as NLTK finds them, which also breaks after abbreviations; see `sentences`.

    Args:
        text: any string.

    Returns:
        Start and end of each; the first starts at 0, and each of them ends where the next one starts.
    """
    # Only the starts are from NLTK. A sentence extends to the next one, so no character between two is lost.
    limits = {0, len(text)}
    for block_start, block_end in _block_spans(text):
        limits.add(block_start)
        limits.update(block_start + start for start, _ in _nltk().SENTENCES.span_tokenize(text[block_start:block_end]))
    return list(pairwise(sorted(limits)))


def _token_spans(sentence: str) -> list[Span]:
    body = sentence.rstrip()
    first, *inner = body.split(" ")
    # Quotes, brackets and spaces may follow the final period. NLTK's rule for it then spans several chunks.
    if not inner or not _WORD_CHARACTER.search(inner[-1]):
        return _uncut_spans(sentence)
    ending = sentence[len(body) :]
    found: list[Any] = [_chunk_spans("", first, _AFTER)]
    found += [_chunk_spans(_BEFORE, chunk, _AFTER) for chunk in inner[:-1]]
    found += [_chunk_spans(_BEFORE, inner[-1], ending)]
    if None in found:
        return _pieces(sentence, _fallback_spans(sentence))
    spans, offset = [], 0
    for chunk, pieces in zip((first, *inner), found, strict=True):
        spans += [(offset + start, offset + end) for start, end in pieces]
        offset += len(chunk) + 1
    return spans


def _uncut_spans(sentence: str) -> list[Span]:
    words = _word_spans(sentence)
    return _pieces(sentence, _fallback_spans(sentence) if words is None else words)


def _chunk_spans(before: str, chunk: str, after: str) -> tuple[Span, ...] | None:
    """The tokens of a chunk; None if NLTK's tokens cannot be found in it."""
    is_short = len(before + chunk + after) <= LONGEST_REMEMBERED
    return (_remembered_spans if is_short else _remembered_spans.__wrapped__)(before, chunk, after)


@lru_cache(MAX_REMEMBERED)
def _remembered_spans(before: str, chunk: str, after: str) -> tuple[Span, ...] | None:
    plain = _PLAIN.fullmatch(chunk)
    if plain and after in ("", " ", _AFTER) and plain[1].lower() not in _TWO_WORDS:
        is_abbreviation = plain[2] == "." and after == _AFTER
        return (plain.span(),) if is_abbreviation or not plain[2] else (plain.span(1), plain.span(2))
    words = _word_spans(before + chunk + after)
    if words is None:
        return None
    start, end = len(before), len(before) + len(chunk)
    inside = [(first - start, last - start) for first, last in words if first >= start and last <= end]
    return tuple(_pieces(chunk, inside))


def _word_spans(text: str) -> list[Span] | None:
    """The spans of NLTK's tokens in a text; None if they cannot be found."""
    spans, cursor = [], 0
    for word in _nltk().WORDS.tokenize(text):
        cursor = _skip_space(text, cursor)
        length = _source_length(text, cursor, word)
        if not length:
            return None
        spans.append((cursor, cursor + length))
        cursor += length
    return None if text[cursor:].strip() else spans


def _fallback_spans(sentence: str) -> list[Span]:
    return [match.span() for match in _FALLBACK_TOKEN.finditer(sentence)]


def _skip_space(sentence: str, cursor: int) -> int:
    while cursor < len(sentence) and sentence[cursor].isspace():
        cursor += 1
    return cursor


def _source_length(sentence: str, cursor: int, word: str) -> int:
    """The length in the source of an NLTK token at the cursor; 0 if it is not there."""
    if sentence.startswith(word, cursor):
        return len(word)
    # NLTK writes `` for an opening and '' for a closing quote, whichever form the text has.
    if word not in ("``", "''"):
        return 0
    if sentence.startswith('"', cursor):
        return 1
    return 2 if sentence.startswith("''", cursor) else 0


def _pieces(text: str, words: list[Span]) -> list[Span]:
    return [piece for word in words for piece in _piece_spans(text, word)]


def _piece_spans(text: str, word: Span) -> list[Span]:
    start, end = word
    if not _SPLIT_OR_APOSTROPHE.search(text, start, end):
        return [word]
    pieces = (match.span() for match in _PIECE.finditer(text, start, end))
    return [span for piece in pieces for span in _apostrophe_spans(text, piece)]


def _apostrophe_spans(text: str, piece: Span) -> list[Span]:
    start, end = piece
    contraction = _FINAL_CONTRACTION.search(text, start, end)
    stem_end = contraction.start() if contraction else end
    spans = [match.span() for match in _APOSTROPHE_PIECE.finditer(text, start, stem_end)]
    return [*spans, (stem_end, end)] if contraction else spans
