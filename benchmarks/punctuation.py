"""Texts without punctuation: what `roughen_texts.py` makes of some passages."""

import re

# Punctuation, unless it stands inside a word or number, as in "1,000", "don't" and "well-known".
_PUNCTUATION = re.compile(r"(?<![^\W_])[^\w\s]|[^\w\s](?![^\W_])")


def without_punctuation(text: str) -> tuple[str, list[int]]:
    """The text without punctuation, and for each offset of the old text, its end included, the new one."""
    gone = {found.start() for found in _PUNCTUATION.finditer(text)}
    offsets, kept = [], []
    for place, letter in enumerate(text):
        offsets.append(len(kept))
        if place not in gone:
            kept.append(letter)
    return "".join(kept), [*offsets, len(kept)]
