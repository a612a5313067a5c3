"""Maps words and characters to ids: a few trainable words, the characters, and every word that has a frozen vector."""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import loads
from fabir_tf.pipelines.text.ids import PADDING, UNKNOWN
from fabir_tf.pipelines.text.word_vectors import load_saved_words

VOCABULARY_FILE = "vocabulary.json"

_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Vocabulary:
    """The ids of words (looked up in lower case) and of characters (case kept, one per code point).

    Word ids: 0 padding, 1 unknown, then `trainable_words`, then `frozen_words`; a word in both has its trainable id.
    Character ids: 0 padding, 1 unknown, then `characters`. Padding has no row in the counts below.

    Args:
        trainable_words: lower-case words with one trained row each.
        characters: characters with one trained row each.
        frozen_words: lower-case words of the frozen vectors, in the order of the table's rows.

    Raises:
        UserError: a trainable word or a character is repeated, a word is not in lower case, or a character is not one
            code point.

    Reference: FABIR, arXiv 1810.09580, section III-A.
    """

    trainable_words: tuple[str, ...]
    characters: tuple[str, ...]
    frozen_words: Sequence[str] = field(repr=False)

    def __post_init__(self):
        _validate_distinct("trainable_words", self.trainable_words)
        _validate_distinct("characters", self.characters)
        cased = next((word for word in self.trainable_words if word != word.lower()), None)
        if cased is not None:
            raise UserError(f"trainable_words: found {cased!r}, expected words in lower case.")
        long = next((character for character in self.characters if len(character) != 1), None)
        if long is not None:
            raise UserError(f"characters: found {long!r}, expected single characters.")

    @property
    def trainable_rows(self) -> int:
        """W in the parameter count: the unknown word and the trainable words."""
        return 1 + len(self.trainable_words)

    @property
    def character_rows(self) -> int:
        """C in the parameter count: the unknown character and the characters."""
        return 1 + len(self.characters)

    @property
    def frozen_rows(self) -> int:
        """The number of rows of the frozen table, whose ids follow the trainable ones."""
        return len(self.frozen_words)

    def word_ids(self, words: Sequence[str]) -> np.ndarray:
        """Looks up words in lower case.

        Args:
            words: n words in their original spelling.

        Returns:
            int32 (n,); never the padding id.
        """
        index = self.word_index
        return np.fromiter((index.get(word.lower(), UNKNOWN) for word in words), np.int32, len(words))

    def character_ids(self, words: Sequence[str], width: int) -> np.ndarray:
        """Looks up the characters of words; their case matters.

        Args:
            words: n words in their original spelling.
            width: characters per word; longer words are truncated, shorter ones padded with 0.

        Returns:
            int32 (n, width).

        Raises:
            ValueError: the width is not positive.
        """
        if width < 1:
            raise ValueError(f"width must be positive. Received: {width}.")
        # NumPy truncates the words and pads them with code point 0. The lengths tell padding from a real NUL.
        codes = np.array(words, dtype=f"U{width}").view(np.uint32).reshape(len(words), width)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return np.where(np.arange(width) < lengths[:, None], self.character_table[codes], PADDING)

    def to_json(self) -> str:
        """Returns the trained part as ASCII JSON; the frozen words are stored with their vectors."""
        return json.dumps(
            {"trainable_words": self.trainable_words, "characters": self.characters}, ensure_ascii=True, indent=1
        )

    @classmethod
    def from_json(cls, text: str, frozen_words: Sequence[str], name: str = VOCABULARY_FILE) -> "Vocabulary":
        """Parses the text from `to_json`.

        Args:
            text: the JSON text.
            frozen_words: words of the frozen vectors, in the order of the table's rows.
            name: the file's name, for messages.

        Returns:
            The vocabulary.

        Raises:
            UserError: the text is not such JSON.
        """
        try:
            fields = loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{name}: found broken JSON ({error}), expected a vocabulary.") from None
        names = ("trainable_words", "characters")
        lists: list[Any] = [fields.get(name) if isinstance(fields, dict) else None for name in names]
        if not all(isinstance(value, list) and all(isinstance(item, str) for item in value) for value in lists):
            raise UserError(f"{name}: expected the fields trainable_words and characters, each a list of strings.")
        try:
            return cls(tuple(lists[0]), tuple(lists[1]), frozen_words)
        except UserError as error:
            raise UserError(f"{name}, {error}") from None

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the trained part to a run's folder atomically.

        Args:
            folder: created if it does not exist; `save_vectors` writes the frozen words to the same folder.
        """
        write_text(Path(folder) / VOCABULARY_FILE, self.to_json())

    @classmethod
    def load(cls, folder: str | os.PathLike, frozen_words: Sequence[str] | None = None) -> "Vocabulary":
        """Reads the vocabulary from a run's folder.

        Args:
            folder: the folder that `save` and `save_vectors` wrote to.
            frozen_words: words of the frozen vectors, if they are loaded already.

        Returns:
            The vocabulary.

        Raises:
            UserError: a file is missing or damaged.
        """
        path = Path(folder) / VOCABULARY_FILE
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{path}: no such file, expected the vocabulary of a run.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: found bytes that are not UTF-8 at {error.start}, expected JSON.") from None
        return cls.from_json(text, load_saved_words(folder) if frozen_words is None else frozen_words, str(path))

    @cached_property
    def word_index(self) -> dict[str, int]:
        """The ids of all words except the unknown word."""
        words = self.frozen_words
        last = self.trainable_rows + len(words)
        # In reverse order, so that a repeated word gets its first row.
        index = dict(zip(reversed(words), range(last, self.trainable_rows, -1), strict=True))
        index.update(zip(self.trainable_words, range(UNKNOWN + 1, self.trainable_rows + 1), strict=True))
        return index

    @cached_property
    def character_table(self) -> np.ndarray:
        """The id of every code point, int32 `(0x110000,)`."""
        table = np.full(_CODE_POINTS, UNKNOWN, np.int32)
        table[[ord(character) for character in self.characters]] = np.arange(len(self.characters)) + UNKNOWN + 1
        return table


def build_vocabulary(
    counts: Mapping[str, int],
    frozen_words: Sequence[str],
    min_word_count: int = 100,
    min_character_count: int = 50,
) -> Vocabulary:
    """Chooses the words and characters that get a trained row, by falling count and then in alphabetical order.

    Args:
        counts: the number of occurrences in the training set of each token in its original spelling.
        frozen_words: lower-case words of the frozen vectors, in the order of the table's rows; they get no trained row.
        min_word_count: a word without a vector needs more occurrences than this; its spellings in upper and lower case
            count as one word.
        min_character_count: a character needs more occurrences than this.

    Returns:
        The vocabulary.

    Reference: FABIR, arXiv 1810.09580, section IV-A.
    """
    words: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for token, count in counts.items():
        words[token.lower()] += count
        for character in token:
            characters[character] += count
    frozen = frozenset(frozen_words)
    return Vocabulary(
        _above(words, min_word_count, excluded=frozen),
        _above(characters, min_character_count),
        frozen_words,
    )


def _above(counts: Counter[str], threshold: int, excluded: Collection[str] = frozenset()) -> tuple[str, ...]:
    chosen = [text for text, count in counts.items() if count > threshold and text not in excluded]
    return tuple(sorted(chosen, key=lambda text: (-counts[text], text)))


def _validate_distinct(name: str, items: Sequence[str]) -> None:
    repeated = next((item for item, count in Counter(items).items() if count > 1), None)
    if repeated is not None:
        raise UserError(f"{name}: found {repeated!r} more than once, expected distinct entries.")
