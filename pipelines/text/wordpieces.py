"""Word pieces: a vocabulary of BERT's, and the greedy longest-match cut of a word into pieces."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.readable import is_unicode

PAD, UNK, CLS, SEP = "[PAD]", "[UNK]", "[CLS]", "[SEP]"

CONTINUES = "##"
"""Marks the pieces that continue a word."""

LONGEST_WORD = 100
"""Words of more characters are unknown."""

MAX_REMEMBERED = 1 << 16
"""The most words whose pieces are cached."""


class Piece(NamedTuple):
    """A piece of a word: its text in the vocabulary, and its offsets in the word."""

    text: str
    start: int
    end: int


class WordPieceVocabulary:
    """The pieces of a BERT model, numbered by their place.

    Args:
        pieces: the text of each piece; if one stands there twice, the last place counts.
        name: where they come from, for messages.

    Raises:
        UserError: a special piece is missing, `[PAD]` is not the first, or a piece cannot be one line of a file.
    """

    def __init__(self, pieces: Sequence[str], name: str = "the vocabulary"):
        self.pieces = list(pieces)
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        for special in (PAD, UNK, CLS, SEP):
            if special not in self.ids:
                raise UserError(f"{name}: found no piece {special}, expected the vocabulary of a BERT model")
        if self.ids[PAD] != PADDING:
            raise UserError(f"{name}: found {PAD} as piece {self.ids[PAD]}, expected it as piece {PADDING}")
        for number, piece in enumerate(self.pieces):
            if "\n" in piece or not is_unicode(piece):
                raise UserError(f"{name}: piece {number} is {piece!r}, expected one line of Unicode text")
        self._longest = max(map(len, self.pieces))
        self.cut = lru_cache(MAX_REMEMBERED)(self._cut)

    def __len__(self) -> int:
        return len(self.pieces)

    def _cut(self, word: str) -> tuple[Piece, ...]:
        """Takes the longest piece that the rest of the word begins with, until nothing is left.

        Args:
            word: a cleaned word, not empty.

        Returns:
            Its pieces; the unknown piece alone if some of it is in no piece, or if it is longer than `LONGEST_WORD`.
        """
        unknown = (Piece(UNK, 0, len(word)),)
        if len(word) > LONGEST_WORD:
            return unknown
        found: list[Piece] = []
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                return unknown
            found.append(piece)
            start = piece.end
        return tuple(found)

    def _longest_piece(self, word: str, start: int) -> Piece | None:
        prefix = CONTINUES if start else ""
        for end in range(min(len(word), start + self._longest), start, -1):
            text = prefix + word[start:end]
            if text in self.ids:
                return Piece(text, start, end)
        return None
