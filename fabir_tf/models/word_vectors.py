"""The vectors of words that a reader starts from: of a table, or of a word model that reads the whole text."""

from typing import NamedTuple

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.models.bert_vectors import ENCODER, BertSizes
from fabir_tf.models.bilm import CHARACTERS, LANGUAGE_MODEL, BilmSizes
from fabir_tf.models.reader_config import WordReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs
from fabir_tf.pipelines.text.bilm_characters import WIDTH

MIX = "layer_mix"
"""The name of the layer that mixes those of a biLM."""

POOL = "pool_words"
"""The name of the layer that makes words of BERT's pieces."""


class Pieces(NamedTuple):
    """The pieces of the passage, where the vectors are of words.

    Attributes:
        begins: symbolic int `(batch, passage)`, 1 where a piece begins a word.
        mask: symbolic boolean `(batch, passage)`, true on real pieces.
    """

    begins: keras.KerasTensor
    mask: keras.KerasTensor


class TextVectors(NamedTuple):
    """A model's inputs, and what it reads of them.

    Attributes:
        inputs: by name.
        vectors: symbolic float `(batch, length, features)`, by text.
        masks: symbolic booleans `(batch, length)`, true on real tokens: `passage_mask` and `question_mask`.
        pieces: of the passage, if the vectors are of words and logits are those of their pieces.
    """

    inputs: dict[str, keras.KerasTensor]
    vectors: dict[str, keras.KerasTensor]
    masks: dict[str, keras.KerasTensor]
    pieces: Pieces | None = None

    def pooled(self, pool: keras.layers.Layer) -> "TextVectors":
        """The vectors of words, by a layer `PoolWords`; each text has one more input, `{text}_begins`."""
        found = TextVectors(dict(self.inputs), {}, {})
        begins = {text: keras.Input((None,), dtype="int32", name=f"{text}_begins") for text in TEXTS}
        for text in TEXTS:
            mask = f"{text}_mask"
            found.inputs[begins[text].name] = begins[text]
            found.vectors[text], found.masks[mask] = pool(self.vectors[text], begins[text], self.masks[mask])
        return found._replace(pieces=Pieces(begins["passage"], self.masks["passage_mask"]))


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
    mix = layers.LayerMix(name=MIX)
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


def bert_vectors(sizes: BertSizes, tuned: bool, pooled: bool) -> TextVectors:
    """The last hidden states of a BERT, which reads each text by itself; its pieces take the place of words.

    Args:
        sizes: those of the BERT.
        tuned: whether it is trained.
        pooled: whether the vectors are those of words, the means of their pieces'.
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
    return found.pooled(layers.PoolWords(name=POOL)) if pooled else found


def frozen_text_model(model: keras.Model, sizes: BilmSizes | BertSizes) -> keras.Model:
    """What a frozen word model computes of one text, with the layers of a reader.

    Args:
        model: a reader with `elmo_vectors` or `bert_vectors`.
        sizes: those of its word model.

    Returns:
        A model of one input, whose name is the part of a text that it reads (`characters` or `ids`); it returns float
        `(batch, length, layers, features)` of a biLM and `(batch, length, features)` of a BERT.
    """
    if isinstance(sizes, BertSizes):
        ids = keras.Input((None,), dtype="int32", name="ids")
        return keras.Model(ids, model.get_layer(ENCODER)(ids))
    ids = keras.Input((None, WIDTH), dtype="int32", name="characters")
    words = model.get_layer(CHARACTERS)(ids)
    layered, _ = model.get_layer(LANGUAGE_MODEL)(words, ops.not_equal(ids[:, :, 0], 0))
    return keras.Model(ids, layered)


def kept_vectors(model: keras.Model, text_model: keras.Model) -> TextVectors:
    """The inputs of a reader that is given what `frozen_text_model` computed, and the vectors of their words.

    Args:
        model: the reader whose layers it shares.
        text_model: from `frozen_text_model`.

    Returns:
        The inputs `{text}_vectors`, float16, and `{text}_mask`; those of a pooling layer, too.
    """
    shape, dtype = text_model.output.shape[1:], text_model.output.dtype
    found = TextVectors({}, {}, {})
    for text in TEXTS:
        kept = keras.Input(shape, dtype="float16", name=f"{text}_vectors")
        mask = keras.Input((None,), dtype="bool", name=f"{text}_mask")
        found.inputs.update({kept.name: kept, mask.name: mask})
        found.masks[mask.name] = mask
        vectors = ops.cast(kept, dtype)
        # Only a biLM has several layers to mix.
        found.vectors[text] = model.get_layer(MIX)(vectors) if len(shape) == 3 else vectors
    is_pooled = any(layer.name == POOL for layer in model.layers)
    return found.pooled(model.get_layer(POOL)) if is_pooled else found
