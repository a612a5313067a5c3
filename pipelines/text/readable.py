"""Whether a text can be read at all: it holds a letter or digit, in a script that puts spaces between words."""

import re

from fabir_tf.pipelines.json_files import shown

SCRIPTS_WITHOUT_SPACES = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1780", "\u17ff"),  # Khmer
    ("\u2e80", "\u2fdf"),  # Han radicals
    ("\u3005", "\u3007"),  # Han iteration mark, closing mark, zero
    ("\u3021", "\u3029"),  # Han numerals
    ("\u3038", "\u303b"),
    ("\u3041", "\u30ff"),  # Kana
    ("\u31f0", "\u31ff"),
    ("\u3400", "\u4dbf"),  # Han
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\uff66", "\uff9f"),  # Kana of half width
    ("\U0001aff0", "\U0001b16f"),  # Kana
    ("\U00020000", "\U000323af"),  # Han
)
"""First and last characters of the ranges of Han, kana, Thai, Lao and Khmer."""

READS_ENGLISH = (
    "a passage is mostly in Han, kana, Thai, Lao or Khmer letters and gets an empty answer: this reader reads English"
)
"""The sentence for a passage that `is_without_spaces`."""

# Hangul fillers count as letters and show nothing.
LETTER_OR_DIGIT = r"[^\W_\u115f\u1160\u3164\uffa0]"
LETTERS_WITHOUT_SPACES = "[" + "".join(f"{first}-{last}" for first, last in SCRIPTS_WITHOUT_SPACES) + "]"

_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_LETTER_OR_DIGIT = re.compile(LETTER_OR_DIGIT)
_LETTERS_WITHOUT_SPACES = re.compile(LETTERS_WITHOUT_SPACES + "+")


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no half of a surrogate pair, which JSON may hold."""
    return not _HALF_OF_A_PAIR.search(text)


def is_blank(text: str) -> bool:
    """Whether a text holds no letter and no digit."""
    return not _LETTER_OR_DIGIT.search(text)


def blank_texts(**texts: str) -> list[str]:
    """What is wrong with texts that are blank, by name: a part of a sentence for each."""
    return [
        f"{name} is {shown(text) if text.strip() else 'empty'}, expected a text with a letter or digit."
        for name, text in texts.items()
        if is_blank(text)
    ]


def is_without_spaces(text: str) -> bool:
    """Whether most letters of a text are of a script that puts no spaces between words."""
    if text.isascii():
        return False
    found = "".join(_LETTERS_WITHOUT_SPACES.findall(text))
    return bool(found) and 2 * _letters(found) > _letters(text)


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))
