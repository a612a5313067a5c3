"""Words: NLTK tokens with frozen and trained word vectors and with characters."""

import dataclasses
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples, Features
from fabir_tf.pipelines.text.processor import InputSpecs, TextProcessor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, TokenizedTexts
from fabir_tf.pipelines.text.tokenizer import NEWEST_RULES, Tokens, tokenize
from fabir_tf.pipelines.text.two_texts import TEXTS, two_text_features
from fabir_tf.pipelines.text.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.pipelines.text.word_vectors import (
    WordVectors,
    load_saved_vectors,
    load_vectors,
    save_packed_vectors,
    save_vectors,
    validate_dimension,
    with_random_vectors,
)

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.graph.word_processor import GraphWordProcessor


class WordTokenizer:
    """The tokenizer of `WordProcessor`, for those who count words and need no ids.

    Attributes:
        rules: the version of the rules in `fabir_tf.pipelines.text.tokenizer`.
        needs_spaces: words are what stands between spaces.
    """

    rules = NEWEST_RULES
    needs_spaces = True

    @property
    def tokenizer_version(self) -> str:
        """The version of the splitting rules and of NLTK."""
        try:
            nltk = importlib.metadata.version("nltk")
        except importlib.metadata.PackageNotFoundError:
            nltk = "none"
        return f"{self.rules}+nltk-{nltk}"

    def tokenize_text(self, text: str) -> Tokens:
        """The words of a text; see `tokenize`."""
        return tokenize(text, self.rules)


@dataclasses.dataclass(frozen=True)
class WordSettings:
    """What `WordProcessor` reads of the training's and of the model's settings.

    Attributes:
        vectors, max_vectors: which word vectors are read; see `load_vectors`.
        random_vectors: whether the other words of the data get random vectors; see `with_random_vectors`.
        min_word_count, min_character_count: see `build_vocabulary`.
        word_dim: length of the vectors that the model expects.
        max_word_characters: characters of a word that are read.
    """

    vectors: str = "bundled"
    max_vectors: int = 400_000
    random_vectors: bool = False
    min_word_count: int = 100
    min_character_count: int = 50
    word_dim: int = 100
    max_word_characters: int = 20

    @classmethod
    def select(cls, settings: Mapping[str, Any]) -> "WordSettings":
        """Takes its fields out of more settings."""
        return cls(**{field.name: settings[field.name] for field in dataclasses.fields(cls) if field.name in settings})


class WordProcessor(WordTokenizer, TextProcessor):
    """Reads a text as words: an id of the word in lower case, and the ids of its characters.

    Passage and question are separate inputs with a length budget each: `max_passage` of the reader, and
    `LONGEST_QUESTION`.

    Args:
        vocabulary: ids of words and characters.
        vectors: the frozen word vectors, in the order of the vocabulary's frozen words.
        max_word_characters: characters of a word that are read; the rest is cut off.
        settings: what `fit` needs; of no effect afterwards.

    Reference: FABIR, arXiv 1810.09580, section III-A.
    """

    kind = "words"

    def __init__(
        self,
        vocabulary: Vocabulary | None,
        vectors: WordVectors | None = None,
        max_word_characters: int = 20,
        settings: WordSettings | None = None,
    ):
        self._vocabulary = vocabulary
        self.vectors = vectors or WordVectors([], np.zeros((0, 0), np.float16), "none")
        self.max_word_characters = max_word_characters
        self._settings = settings or WordSettings()
        self._last_ids: tuple[TokenizedTexts, np.ndarray, np.ndarray] | None = None

    @classmethod
    def create(cls, settings: Mapping[str, Any]) -> "WordProcessor":
        """See `TextProcessor.create`."""
        chosen = WordSettings.select(settings)
        return cls(None, None, chosen.max_word_characters, chosen)

    def fit(self, datasets: Sequence[TokenizedDataset]) -> "WordProcessor":
        """Reads the word vectors, and builds the vocabulary from the first dataset.

        Raises:
            UserError: the vectors cannot be read or do not fit the model.
        """
        settings = self._settings
        needed = {word.lower() for part in datasets for word in part.texts.unique}
        vectors = load_vectors(settings.vectors, needed, settings.max_vectors)
        validate_dimension(vectors, settings.word_dim)
        if settings.random_vectors:
            vectors = with_random_vectors(vectors, needed)
        counts = datasets[0].token_counts()
        thresholds = (settings.min_word_count, settings.min_character_count)
        vocabulary = build_vocabulary(counts, vectors.words, *thresholds)
        fitted = WordProcessor(vocabulary, vectors, self.max_word_characters, settings)
        fitted.rules = self.rules
        return fitted

    @property
    def vocabulary(self) -> Vocabulary:
        """The ids of words and characters.

        Raises:
            ValueError: the processor has none yet; `fit` makes one.
        """
        if self._vocabulary is None:
            raise ValueError("The processor has no vocabulary yet: call fit with tokenized datasets.")
        return self._vocabulary

    @property
    def input_specs(self) -> InputSpecs:
        """Word ids `(batch, length)` and character ids `(batch, length, max_word_characters)` of both texts."""
        shapes = {"words": (None, None), "characters": (None, None, self.max_word_characters)}
        return {f"{text}_{part}": (shape, "int32") for text in TEXTS for part, shape in shapes.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of the model's tables."""
        return {
            "trainable_words": self.vocabulary.trainable_rows,
            "characters": self.vocabulary.character_rows,
            "frozen_words": self.vocabulary.frozen_rows,
        }

    @property
    def frozen_tables(self) -> dict[str, np.ndarray]:
        """The frozen word vectors."""
        return {"word_embedding": self.vectors.table} if self.vectors.table.size else {}

    def without_tables(self) -> "WordProcessor":
        """Keeps the words, whose ids it needs; see `TextProcessor.without_tables`."""
        table = np.zeros((len(self.vectors.words), 0), np.float16)
        other = WordProcessor(self.vocabulary, WordVectors(self.vectors.words, table, "none"), self.max_word_characters)
        other.rules, other.saved_tokenizer_version = self.rules, self.saved_tokenizer_version
        return other

    def features(self, tokenized: TokenizedDataset, examples: Examples) -> Features:
        """Looks up every distinct word once; see `TextProcessor.features`."""
        words, characters = self._ids(tokenized.texts)
        return two_text_features(tokenized, examples, {"words": words, "characters": characters})

    def _ids(self, texts: TokenizedTexts) -> tuple[np.ndarray, np.ndarray]:
        """Word ids `(unique + 1,)` and character ids `(unique + 1, max_word_characters)` of the unique tokens."""
        # The last result is kept, because training scores the same dataset after every epoch. Other threads may replace
        # it at any moment, so it is read once.
        last = self._last_ids
        if last is None or last[0] is not texts:
            words = np.concatenate([np.zeros(1, np.int32), self.vocabulary.word_ids(texts.unique)])
            characters = np.zeros((1 + len(texts.unique), self.max_word_characters), np.int32)
            if texts.unique:
                characters[1:] = self.vocabulary.character_ids(texts.unique, self.max_word_characters)
            last = self._last_ids = texts, words, characters
        return last[1:]

    def in_graph(self) -> "GraphWordProcessor":
        """See `TextProcessor.in_graph`."""
        from fabir_tf.pipelines.text.graph.word_processor import GraphWordProcessor

        return GraphWordProcessor(self)

    def packed(self, max_words: int) -> "PackedWordProcessor":
        """A copy with fewer frozen words, which is saved with 8 bits per number.

        Args:
            max_words: frozen vectors to keep, the first ones.
        """
        vectors = WordVectors(self.vectors.words[:max_words], self.vectors.table[:max_words], self.vectors.source)
        vocabulary = dataclasses.replace(self.vocabulary, frozen_words=vectors.words)
        packed = PackedWordProcessor(vocabulary, vectors, self.max_word_characters)
        packed.rules, packed.saved_tokenizer_version = self.rules, self.saved_tokenizer_version
        return packed

    def save_assets(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabulary and the frozen vectors."""
        self.save_vectors(folder)
        self.vocabulary.save(folder)
        return {"max_word_characters": self.max_word_characters}

    def save_vectors(self, folder: Path) -> None:
        """Writes the frozen vectors, each number in 16 bits."""
        save_vectors(self.vectors, folder)

    @classmethod
    def load_assets(cls, folder: Path, values: Mapping[str, Any]) -> "WordProcessor":
        """Reads what `save_assets` wrote."""
        characters = values.get("max_word_characters")
        if not isinstance(characters, int) or characters < 1:
            raise UserError(f"{folder}: found max_word_characters={characters!r}, expected a positive number")
        vectors = load_saved_vectors(folder)
        return cls(Vocabulary.load(folder, vectors.words), vectors, characters)


class PackedWordProcessor(WordProcessor):
    """A `WordProcessor` that saves its frozen vectors as one small file."""

    def save_vectors(self, folder: Path) -> None:
        """Writes the frozen vectors, each number in 8 bits."""
        save_packed_vectors(self.vectors, folder)
