"""fastText's binary models (.bin): vectors of known words and, from n-grams, of unknown words.

The file format and the hash are those of fastText 0.9.2 (dictionary.cc, fasttext.cc). A word's vector is the mean of
its own row and of the rows of its character n-grams (Bojanowski et al. 2017, arXiv 1607.04606, section 3.2).
"""

import mmap
import os
import struct
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError

MAGIC = struct.pack("<i", 793712314)

_VERSIONS = (11, 12)
_SETTINGS = struct.Struct("<ii12id")
_DICTIONARY = struct.Struct("<iiiqq")
_ENTRY = struct.Struct("<qb")
_MATRIX = struct.Struct("<?qq")
_FNV_START, _FNV_FACTOR = 2166136261, 16777619
_END_OF_SENTENCE = "</s>"


class FastTextBinary:
    """A fastText model whose vectors are read from disk on demand.

    Args:
        path: a .bin file written by fastText; not a quantized .ftz file.

    Raises:
        UserError: the file is damaged, quantized or of another version.
    """

    def __init__(self, path: Path):
        try:
            with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self._read(path, content)
        except (struct.error, ValueError) as error:
            # A UserError is a ValueError too; its message is already complete.
            if isinstance(error, UserError):
                raise
            raise UserError(f"{path}: found a damaged file ({error}), expected a fastText model (.bin).") from None

    def _read(self, path: Path, content: mmap.mmap) -> None:
        _, version, *settings = _SETTINGS.unpack_from(content)
        if version not in _VERSIONS:
            raise UserError(f"{path}: found version {version} of fastText's format, expected 11 or 12.")
        self.dimension, buckets, self._shortest, self._longest = settings[0], *settings[8:11]
        entries, words, _, _, pruned = _DICTIONARY.unpack_from(content, _SETTINGS.size)
        self.words, offset = _read_words(content, _SETTINGS.size + _DICTIONARY.size, entries, words)
        quantized, rows, columns = _MATRIX.unpack_from(content, offset)
        if quantized or pruned > 0:
            raise UserError(f"{path}: found a quantized model (.ftz), expected an unquantized one (.bin).")
        if columns != self.dimension or rows < words:
            raise ValueError(f"{words} words of {self.dimension} numbers, a table of {rows} x {columns}")
        self._buckets = min(buckets, rows - words)
        self._table = np.memmap(path, "<f4", "r", offset + _MATRIX.size, (rows, columns))

    def vector(self, row: int) -> np.ndarray:
        """Returns the vector of a known word.

        Args:
            row: the word's index in `words`.

        Returns:
            float32 `(dimension,)`.
        """
        return self._mean([row, *self._ngram_rows(self.words[row])])

    def can_make(self, word: str) -> bool:
        """Whether the model has n-grams for a word.

        Args:
            word: any word.
        """
        return bool(self._ngram_rows(word))

    def vector_of_unseen(self, word: str) -> np.ndarray:
        """Computes the vector of an unknown word from its n-grams.

        Args:
            word: a word outside `words` for which `can_make` is true.

        Returns:
            float32 `(dimension,)`.
        """
        return self._mean(self._ngram_rows(word))

    def _mean(self, rows: list[int]) -> np.ndarray:
        return self._table[rows].mean(axis=0)

    def _ngram_rows(self, word: str | None) -> list[int]:
        if not self._buckets or word == _END_OF_SENTENCE:
            return []
        text = f"<{word}>"
        rows = []
        for begin in range(len(text)):
            value = _FNV_START
            for end in range(begin + 1, min(begin + self._longest, len(text)) + 1):
                for byte in text[end - 1].encode("utf-8", "surrogatepass"):
                    # fastText treats a byte as signed and extends its sign to 32 bits.
                    value = (value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * _FNV_FACTOR & 0xFFFFFFFF
                is_bracket = end - begin == 1 and (begin == 0 or end == len(text))
                if end - begin >= self._shortest and not is_bracket:
                    rows.append(len(self.words) + value % self._buckets)
        return rows


def is_fasttext_binary(path: str | os.PathLike) -> bool:
    """Whether a file starts with the magic number of a fastText model.

    Args:
        path: an existing file.
    """
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _read_words(content: mmap.mmap, offset: int, entries: int, words: int) -> tuple[list[str | None], int]:
    """Returns the words of the dictionary, None for each that is not UTF-8, and the offset of its end."""
    if not 0 < words <= entries:
        raise ValueError(f"{words} words among {entries} entries")
    found = []
    for entry in range(entries):
        end = content.find(b"\0", offset)
        if end < 0:
            raise ValueError(f"the dictionary ends at entry {entry} of {entries}")
        # The words come first; the labels of a classifier follow.
        if entry < words:
            found.append(_decoded(content[offset:end]))
        offset = end + 1 + _ENTRY.size
    return found, offset


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
