"""The words by which texts are searched: lower-cased, without accents, and cut to their stems.

Every part of the search takes them from here, so what is indexed and what is asked for agree.
"""

import re
import unicodedata
from functools import lru_cache

from fabir_tf.pipelines.text.readable import LETTERS_WITHOUT_SPACES

VERSION = 1
"""Rules that change the words of any text are a new version; an index keeps the version that it was made with."""

LONGEST_WORD = 64
"""Longer words are cut off: a hash or an encoded picture is no word."""

QUESTION_WORDS = frozenset(
    {
        *("what", "who", "whom", "whose", "which", "when", "where", "why", "how", "do", "does", "did", "has", "have"),
        *("had", "were", "been", "can", "could", "would", "should"),
    }
)
"""Words that make a sentence a question and say nothing of its subject. Left out of questions only."""

_WORD = re.compile(r"[^\W_]+")
_WITHOUT_SPACES = re.compile(LETTERS_WITHOUT_SPACES)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3
_MAX_REMEMBERED = 1 << 16


def text_words(text: str) -> list[str]:
    """The words of a text.

    Args:
        text: any string. In scripts without spaces, each letter is a word.

    Returns:
        Letters and digits only, in order.
    """
    return [_stem(word) for word in _words(text)]


def question_words(question: str) -> list[str]:
    """The distinct words that a question is searched by, in order.

    Args:
        question: any string.

    Returns:
        Without `QUESTION_WORDS`, unless it has no others.
    """
    words = _words(question)
    telling = [word for word in words if word not in QUESTION_WORDS] or words
    return list(dict.fromkeys(map(_stem, telling)))


def _words(text: str) -> list[str]:
    """The words before they are cut to their stems."""
    if text.isascii():
        return [word[:LONGEST_WORD] for word in _WORD.findall(text.lower())]
    # Twice, because some letters have a case only once they are decomposed, such as a double-struck C.
    text = unicodedata.normalize("NFKD", text.casefold()).casefold()
    text = _NOT_ASCII.sub(_without_accent, text)
    text = _WITHOUT_SPACES.sub(r" \g<0> ", text)
    return [word[:LONGEST_WORD] for word in _WORD.findall(text)]


def _without_accent(match: re.Match[str]) -> str:
    return "" if unicodedata.combining(match[0]) else match[0]


@lru_cache(_MAX_REMEMBERED)
def _stem(word: str) -> str:
    """An English word without the endings of plural, tense and adverb."""
    if len(word) <= _SHORTEST_STEM or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST_STEM and _VOWEL.search(stem):
            word = stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("e") and len(word) > _SHORTEST_STEM:
        return word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") and len(word) > _SHORTEST_STEM else word


def _singular(word: str) -> str:
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word[:-1] if word.endswith("s") and not word.endswith(("us", "ss")) else word
