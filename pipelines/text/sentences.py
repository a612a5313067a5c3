"""Cuts a text into whole sentences, which do not end behind an abbreviation."""

import re

from fabir_tf.pipelines.text.abbreviations import keeps_period
from fabir_tf.pipelines.text.tokenizer import Span, nltk_sentence_spans

# What stands before the final period of a sentence that may be an abbreviation.
_LAST_WORD = re.compile(r"([A-Za-z][A-Za-z.]*)\.\W*\Z")
_FIRST_WORD = re.compile(r"\w+")
_LONGEST_WORD = 40


def sentence_spans(text: str) -> list[Span]:
    """The sentences of a text.

    Args:
        text: any string.

    Returns:
        Start and end of each, in order; the white space behind a sentence belongs to it, so together they are the text.
    """
    has_capitals = text != text.lower()
    spans: list[Span] = []
    for start, end in nltk_sentence_spans(text):
        if spans and _continues(text[spans[-1][0] : start], text[start:end], has_capitals):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _continues(before: str, after: str, has_capitals: bool) -> bool:
    """Whether a sentence goes on after what was taken for its end."""
    if has_capitals and after[:1].islower():
        return True
    word = _LAST_WORD.search(before[-_LONGEST_WORD:])
    if not word:
        return False
    # A single letter is an initial, as in J. K. Rowling.
    following = _FIRST_WORD.search(after)
    return len(word[1]) == 1 or keeps_period(word[1], following[0] if following else "")
