"""The character ids of ELMo's biLM: the bytes of a word between two borders, 50 ids a word.

    0         a padding token, all of whose ids are 0
    1-256     the bytes 0 to 255
    257-258   the borders of a sentence, words of their own
    259-260   the borders of a word
    261       fills a word up

Reference: Peters et al. 2018, arXiv 1802.05365, and the published program (bilm-tf).
"""

from collections.abc import Sequence

import numpy as np

WIDTH = 50
"""Ids of a word; the bytes of a longer one are cut off after the 48th."""

ROWS = 261
"""Ids without that of padding tokens."""

FIRST_BYTE, WORD_BEGIN, WORD_END, FILL = 1, 259, 260, 261
BYTES = WIDTH - 2


def character_ids(words: Sequence[bytes]) -> np.ndarray:
    """The ids of words.

    Args:
        words: n words in UTF-8.

    Returns:
        int32 `(n, 50)`.
    """
    ids = np.full((len(words), WIDTH), FILL, np.int32)
    ids[:, 0] = WORD_BEGIN
    for row, word in enumerate(words):
        read = np.frombuffer(word[:BYTES], np.uint8)
        ids[row, 1 : 1 + len(read)] = read.astype(np.int32) + FIRST_BYTE
        ids[row, 1 + len(read)] = WORD_END
    return ids


def _sentence_borders() -> np.ndarray:
    ids = np.full((2, WIDTH), FILL, np.int32)
    ids[:, :3] = [[WORD_BEGIN, border, WORD_END] for border in (257, 258)]
    return ids


SENTENCE_BORDERS = _sentence_borders()
"""The ids of the words that stand before and after each text, int32 `(2, 50)`."""
