"""What the configurations of all readers have in common."""

import dataclasses
from typing import ClassVar, NamedTuple

import keras

from fabir_tf import layers
from fabir_tf.configuration import Config, ConfigError, setting
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE


class FrozenPart(NamedTuple):
    """A reader in two parts that share its variables.

    Attributes:
        text_model: what is never trained; its input is named after the part of a text that it reads, such as `ids`.
        rest: the others, which reads `{text}_vectors`, what `text_model` computed, and `{text}_mask`.
    """

    text_model: keras.Model
    rest: keras.Model


@dataclasses.dataclass(frozen=True)
class ReaderConfig(Config):
    """The fields that training, reading and export use, whatever the model.

    Raises:
        ConfigError: a value is out of its range.
    """

    processor: ClassVar[str] = "words"
    """The kind of the text processor that makes the model's inputs, from `fabir_tf.pipelines.text.registry`."""
    folder_setting: ClassVar[str] = ""
    """The setting that names a folder of trained weights, if any."""

    max_answer: int | None = setting(15, "Longest predicted answer, in tokens; none for no limit", low=1)
    null_head: bool = setting(
        False, "Learn to say that the passage holds no answer, from questions without one; the reader gets null logits"
    )

    @property
    def width(self) -> int:
        """Features of a token inside the model, which scale the learning rate schedule."""
        raise NotImplementedError

    @property
    def longest_sequence(self) -> int:
        """Most tokens of question and passage that the model reads at once."""
        return LONGEST_PASSAGE

    def completed(self) -> "ReaderConfig":
        """The configuration with the sizes that its files decide, before a training: none here."""
        return self

    def initialize(self, model: keras.Model) -> None:
        """Gives a new model the weights of its files: none here.

        Args:
            model: one that was built with this configuration.
        """

    @property
    def takes_smoothing(self) -> bool:
        """Whether any token may be the start or the end of an answer, so that targets can be smoothed."""
        return True

    @property
    def has_frozen_part(self) -> bool:
        """Whether a training may compute a part of the model once instead of in every step."""
        return False

    def frozen_part(self, model: keras.Model) -> FrozenPart:
        """The model in two parts, if `has_frozen_part`.

        Args:
            model: one that was built with this configuration.
        """
        raise NotImplementedError

    def rate_factor(self, path: str) -> float:
        """What the learning rate of a weight is multiplied with.

        Args:
            path: the weight's, such as "layer_0/attention/query/kernel".
        """
        return 1.0

    @property
    def answer_limit(self) -> int | None:
        """The longest answer that the decoder may choose, in tokens; None for no limit."""
        return self.max_answer

    def decoder(self, n_best: int) -> keras.layers.Layer:
        """The layer that chooses the first and last tokens of the answers from the logits.

        Args:
            n_best: answers per question.
        """
        return layers.SpanDecoder(self.max_answer, n_best)


@dataclasses.dataclass(frozen=True)
class WordReaderConfig(ReaderConfig):
    """A reader of words, each with a vector of its own.

    Raises:
        ConfigError: a value is out of its range.
    """

    trainable_words: int = setting(50, "Rows of the trainable word table, UNK included", low=1, derived=True)
    characters: int = setting(306, "Rows of the character table, UNK included", low=1, derived=True)
    frozen_words: int = setting(400_000, "Rows of the frozen word table", low=0, derived=True)
    word_dim: int = setting(100, "Length of a word vector", low=1)
    max_word_characters: int = setting(20, "Characters of a word that are read; the rest is cut off", low=1)


@dataclasses.dataclass(frozen=True)
class CharacterReaderConfig(WordReaderConfig):
    """A reader of words whose vectors are joined with vectors of their characters, and pass highway layers.

    Raises:
        ConfigError: a value is out of its range.
    """

    character_dim: int = setting(8, "Length of a character vector", low=1)
    character_kernel: int = setting(5, "Characters seen at once by the character convolution", low=1)
    character_filters: int = setting(
        100, "Length of the vector that a word gets from its characters; 0 for none", low=0
    )
    highway_layers: int = setting(2, "Highway layers on each word's vector", low=0)

    def validate_characters(self) -> None:
        """Refuses words without characters, for a model that has no such variant."""
        if not self.character_filters:
            raise ConfigError(f"character_filters must be at least 1 for {type(self).__name__}, found 0")
