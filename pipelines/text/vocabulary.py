"""Words and characters to ids: a few trainable words, the characters, and every word that has a frozen vector."""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.text.word_vectors import load_saved_words

VOCABULARY_FILE = "vocabulary.json"
PADDING = 0
UNKNOWN = 1

_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Vocabulary:
    """The ids of words (looked up in lower case) and of characters (case kept, one per code point).

    Word ids: 0 padding, 1 unknown, then `trainable_words`, then `frozen_words`; a word in both has its trainable row.
    Character ids: 0 padding, 1 unknown, then `characters`. Padding owns no row in the counts below.

    Args:
        trainable_words: lower-case words that have a trained row each.
        characters: characters that have a trained row each.
        frozen_words: lower-case words of the frozen vectors, in the order of the table's rows.

    Raises:
        UserError: if a trainable word or a character is repeated, a word is not in lower case, or a character is not
            one code point.

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
        """W of the parameter count: the unknown word and the trainable words."""
        return 1 + len(self.trainable_words)

    @property
    def character_rows(self) -> int:
        """C of the parameter count: the unknown character and the characters."""
        return 1 + len(self.characters)

    @property
    def frozen_rows(self) -> int:
        """Examples of the frozen table; the ids after the trainable ones."""
        return len(self.frozen_words)

    def word_ids(self, words: Sequence[str]) -> np.ndarray:
        """Looks words up in lower case.

        Args:
            words: n words as they stand in the text.

        Returns:
            int32 (n,), never the id of padding.
        """
        index = self.word_index
        return np.fromiter((index.get(word.lower(), UNKNOWN) for word in words), np.int32, len(words))

    def character_ids(self, words: Sequence[str], width: int) -> np.ndarray:
        """Looks the characters of words up, case kept.

        Args:
            words: n words as they stand in the text.
            width: characters per word: longer words are cut, shorter ones padded with 0.

        Returns:
            int32 (n, width).

        Raises:
            ValueError: if the width is not positive.
        """
        if width < 1:
            raise ValueError(f"width must be positive. Received: {width}.")
        # NumPy cuts and pads the words itself, with code point 0; the lengths tell that from a true NUL.
        codes = np.array(words, dtype=f"U{width}").view(np.uint32).reshape(len(words), width)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return np.where(np.arange(width) < lengths[:, None], self.character_table[codes], PADDING)

    def to_json(self) -> str:
        """Writes the trained part as ASCII JSON; the frozen words are stored with their vectors."""
        return json.dumps(
            {"trainable_words": self.trainable_words, "characters": self.characters}, ensure_ascii=True, indent=1
        )

    @classmethod
    def from_json(cls, text: str, frozen_words: Sequence[str], name: str = VOCABULARY_FILE) -> "Vocabulary":
        """Reads what `to_json` wrote.

        Args:
            text: the JSON text.
            frozen_words: words of the frozen vectors, in the order of the table's rows.
            name: the file, for messages.

        Returns:
            The vocabulary.

        Raises:
            UserError: if the text is not such JSON.
        """
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise UserError(f"{name}: found broken JSON ({error}), expected a vocabulary.") from None
        lists = [fields.get(key) if isinstance(fields, dict) else None for key in ("trainable_words", "characters")]
        if not all(isinstance(value, list) and all(isinstance(item, str) for item in value) for value in lists):
            raise UserError(f"{name}: expected the fields trainable_words and characters, each a list of strings.")
        try:
            return cls(tuple(lists[0]), tuple(lists[1]), frozen_words)
        except UserError as error:
            raise UserError(f"{name}, {error}") from None

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the trained part into a run's folder, whole or not at all.

        Args:
            folder: made if it does not exist; `save_vectors` writes the frozen words into the same one.
        """
        write_text(Path(folder) / VOCABULARY_FILE, self.to_json())

    @classmethod
    def load(cls, folder: str | os.PathLike, frozen_words: Sequence[str] | None = None) -> "Vocabulary":
        """Reads the vocabulary of a run's folder.

        Args:
            folder: where `save` and `save_vectors` wrote.
            frozen_words: words of the frozen vectors, if they are loaded already.

        Returns:
            The vocabulary.

        Raises:
            UserError: if a file is missing or damaged.
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
        """The id of every word but the unknown one."""
        words = self.frozen_words
        last = self.trainable_rows + len(words)
        # Backwards, so that of a repeated word the first row stays.
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
    """Chooses the words and characters that get a trained row, commonest first and then in the order of the text.

    Args:
        counts: how often each token, as it stands in the text, occurs in the training set.
        frozen_words: lower-case words of the frozen vectors, in the order of the table's rows; none gets a second row.
        min_word_count: a word without a vector needs more occurrences than this, all its spellings in upper and lower
            case together.
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
