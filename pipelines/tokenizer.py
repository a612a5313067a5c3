"""Text to tokens whose character offsets are exact, for any Unicode text.

The method of the FABIR paper: NLTK's sentence and word tokenizers, then every token is split further at hyphens,
dashes, slashes, quotes, `~` and the degree sign. Nothing has to be downloaded: the sentence tokenizer is untrained.

NLTK returns strings and rewrites quotes, so each of its tokens is found again in the source by a cursor that only moves
forward; a token can therefore never land inside an earlier word.
"""

import re
from itertools import pairwise
from typing import NamedTuple

HYPHENS_AND_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
SLASHES = "/\\\u2044\u2215"
QUOTES = '"`\u00b4\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a'
TILDE_AND_DEGREE = "~\u00b0"
SPLIT_CHARACTERS = HYPHENS_AND_DASHES + SLASHES + QUOTES + TILDE_AND_DEGREE
"""Each of these is a token of its own, wherever it stands; so is an apostrophe outside a contraction."""

CONTRACTION = r"[nN]'[tT]|'[sSdDmM]|'[rR][eE]|'[vV][eE]|'[lL][lL]"
"""Word endings that are one token, apostrophe included, because GloVe has a vector for each of them."""

FALLBACK_TOKEN = r"\w+|[^\w\s]"
"""Tokens of a sentence whose NLTK tokens cannot be found in it: runs of letters and digits, single other characters."""

MAX_BLOCK = 10_000
"""Code points that NLTK sees at once, to keep the time linear; a longer text is cut, at white space if there is any."""

_SPLIT_CLASS = re.escape(SPLIT_CHARACTERS)
_SPLIT_OR_APOSTROPHE = re.compile(f"['{_SPLIT_CLASS}]")
_PIECE = re.compile(f"[{_SPLIT_CLASS}]|[^{_SPLIT_CLASS}]+")
_APOSTROPHE_PIECE = re.compile("'|[^']+")
_FINAL_CONTRACTION = re.compile(rf"(?:{CONTRACTION})\Z")
_FALLBACK_TOKEN = re.compile(FALLBACK_TOKEN)
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")

Span = tuple[int, int]


class Tokens(NamedTuple):
    """The tokens of one text: `words[i] == text[starts[i]:ends[i]]`, offsets in code points.

    Tokens are in order, never empty, never overlap, and together hold every character that is not white space.
    """

    words: list[str]
    starts: list[int]
    ends: list[int]


def tokenize(text: str) -> Tokens:
    """Splits a text into tokens with exact offsets; never fails, and never rewrites the text.

    Args:
        text: any string, also with lone surrogates, control characters or no spaces at all.

    Returns:
        Tokens in their original spelling; three lists of the same length, empty for a blank text.

    Source:
        FABIR paper §IV (NLTK) and the rules above (further splitting).
    """
    spans = [
        piece
        for start, end in _sentence_spans(text)
        for word in _word_spans(text[start:end], start)
        for piece in _piece_spans(text, word)
    ]
    return Tokens(
        words=[text[start:end] for start, end in spans],
        starts=[start for start, _ in spans],
        ends=[end for _, end in spans],
    )


def _nltk():
    # Not before the first text: what is tokenised already is also read where NLTK is not installed.
    from fabir_tf.pipelines import nltk_tokenizers

    return nltk_tokenizers


def _block_spans(text: str) -> list[Span]:
    spans, start = [], 0
    while len(text) - start > MAX_BLOCK:
        space = _LAST_SPACE.search(text[start : start + MAX_BLOCK])
        end = start + (space.end() if space else MAX_BLOCK)
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def _sentence_spans(text: str) -> list[Span]:
    # Only the starts are NLTK's: a sentence reaches to the next one, so that no character can get lost between two.
    borders = {0, len(text)}
    for block_start, block_end in _block_spans(text):
        borders.add(block_start)
        borders.update(block_start + start for start, _ in _nltk().SENTENCES.span_tokenize(text[block_start:block_end]))
    return list(pairwise(sorted(borders)))


def _word_spans(sentence: str, offset: int) -> list[Span]:
    spans, cursor = [], 0
    for word in _nltk().WORDS.tokenize(sentence):
        cursor = _skip_space(sentence, cursor)
        length = _source_length(sentence, cursor, word)
        if not length:
            return _fallback_spans(sentence, offset)
        spans.append((offset + cursor, offset + cursor + length))
        cursor += length
    return _fallback_spans(sentence, offset) if sentence[cursor:].strip() else spans


def _fallback_spans(sentence: str, offset: int) -> list[Span]:
    return [(offset + match.start(), offset + match.end()) for match in _FALLBACK_TOKEN.finditer(sentence)]


def _skip_space(sentence: str, cursor: int) -> int:
    while cursor < len(sentence) and sentence[cursor].isspace():
        cursor += 1
    return cursor


def _source_length(sentence: str, cursor: int, word: str) -> int:
    """Code points that the NLTK token takes at the cursor; 0 if it does not stand there."""
    if sentence.startswith(word, cursor):
        return len(word)
    # NLTK writes `` for an opening quote and '' for a closing one, whichever the text had.
    if word not in ("``", "''"):
        return 0
    if sentence.startswith('"', cursor):
        return 1
    return 2 if sentence.startswith("''", cursor) else 0


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
