"""The inputs of every reader of words: two texts, as ids of words and of characters."""

from typing import NamedTuple

import keras
from keras import ops

TEXTS = ("passage", "question")


class TextInputs(NamedTuple):
    """A model's inputs by their names, and masks that are true on real tokens.

    Attributes:
        inputs: `passage_words`, `passage_characters`, `question_words` and `question_characters`.
        words, characters: symbolic int32 `(batch, length)` and `(batch, length, width)`, by text.
        masks: symbolic booleans `(batch, length)`: `passage_mask` and `question_mask`.
    """

    inputs: dict[str, keras.KerasTensor]
    words: dict[str, keras.KerasTensor]
    characters: dict[str, keras.KerasTensor]
    masks: dict[str, keras.KerasTensor]


def text_inputs(max_word_characters: int) -> TextInputs:
    """The inputs of a functional reader.

    Args:
        max_word_characters: characters of a word that are read.
    """
    texts = TextInputs({}, {}, {}, {})
    for text in TEXTS:
        texts.words[text] = words = keras.Input((None,), dtype="int32", name=f"{text}_words")
        texts.characters[text] = characters = keras.Input(
            (None, max_word_characters), dtype="int32", name=f"{text}_characters"
        )
        texts.inputs.update({words.name: words, characters.name: characters})
        texts.masks[f"{text}_mask"] = ops.not_equal(words, 0)
    return texts
