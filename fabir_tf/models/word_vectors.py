"""The vectors of words that a reader starts from: of a table, or of a word model that reads the whole text."""

from typing import NamedTuple

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.models.bert_vectors import BertSizes
from fabir_tf.models.bilm import BilmSizes
from fabir_tf.models.reader_config import WordReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs
from fabir_tf.pipelines.text.bilm_characters import WIDTH


class TextVectors(NamedTuple):
    """A model's inputs, and what it reads of them.

    Attributes:
        inputs: by name.
        vectors: symbolic float `(batch, length, features)`, by text.
        masks: symbolic booleans `(batch, length)`, true on real tokens: `passage_mask` and `question_mask`.
    """

    inputs: dict[str, keras.KerasTensor]
    vectors: dict[str, keras.KerasTensor]
    masks: dict[str, keras.KerasTensor]


def table_vectors(config: WordReaderConfig) -> TextVectors:
    """A vector for each word, the same in every text.

    Args:
        config: the reader's; its tables' sizes count.
    """
    table = layers.WordTable(config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding")
    texts = text_inputs(config.max_word_characters)
    return TextVectors(texts.inputs, {text: table(texts.words[text]) for text in TEXTS}, texts.masks)


def elmo_vectors(sizes: BilmSizes) -> TextVectors:
    """A trained mix of the layers of a frozen biLM, which starts each text from a state of zeros.

    Args:
        sizes: those of the biLM.
    """
    characters, language_model = sizes.character_layer(), sizes.language_model()
    mix = layers.LayerMix(name="layer_mix")
    found = TextVectors({}, {}, {})
    for text in TEXTS:
        ids = keras.Input((None, WIDTH), dtype="int32", name=f"{text}_characters")
        found.inputs[ids.name] = ids
        found.masks[f"{text}_mask"] = mask = ops.not_equal(ids[:, :, 0], 0)
        layered, _ = language_model(characters(ids), mask)
        found.vectors[text] = mix(layered)
    # Now, because the weights of a layer are trained that are made after it was frozen.
    characters.trainable = language_model.trainable = False
    return found


def bert_vectors(sizes: BertSizes, tuned: bool) -> TextVectors:
    """The last hidden states of a BERT, which reads each text by itself; its pieces take the place of words.

    Args:
        sizes: those of the BERT.
        tuned: whether it is trained.
    """
    encoder = sizes.layer(tuned)
    found = TextVectors({}, {}, {})
    for text in TEXTS:
        ids = keras.Input((None,), dtype="int32", name=f"{text}_ids")
        found.inputs[ids.name] = ids
        found.masks[f"{text}_mask"] = ops.not_equal(ids, 0)
        found.vectors[text] = encoder(ids)
    # Now, because the weights of a layer are trained that are made after it was frozen.
    encoder.trainable = tuned
    return found
