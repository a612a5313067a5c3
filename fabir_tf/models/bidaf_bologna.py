"""BiDAF and four variants of it: Amorosa, Espis, Orlandi and Pinardi 2021, University of Bologna."""

import dataclasses

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.configuration import setting
from fabir_tf.models.reader_config import CharacterReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs

# Of variants 0 to 2; the others have none.
DROPOUT = 0.2


@dataclasses.dataclass(frozen=True)
class BidafBolognaConfig(CharacterReaderConfig):
    """Its configuration; the defaults are variant 4, and where the report is silent bi-att-flow's.

    Raises:
        ConfigError: a value is out of its range.
    """

    word_dim: int = setting(50, "Length of a word vector", low=1)
    units: int = setting(100, "Features of the state of each recurrent network", low=1)
    variant: int = setting(
        4,
        "0: the baseline; 1: convolutional highway, GRU, and the end knows how probable each start is; "
        "2: characters as unit vectors, too; 3: no dropout, too; 4: no end before its start, too",
        low=0,
        high=4,
    )

    def __post_init__(self):
        super().__post_init__()
        self.validate_characters()

    @property
    def width(self) -> int:
        """The features of a recurrent layer's output."""
        return 2 * self.units

    def decoder(self, n_best: int) -> keras.layers.Layer:
        """Before variant 4 each border is sought by itself."""
        return super().decoder(n_best) if self.variant == 4 else layers.IndependentDecoder(n_best)


def build_bidaf_bologna(config: BidafBolognaConfig) -> keras.Model:
    """Builds the model; see `fabir_tf.build_model` for its inputs and outputs."""
    dropout = DROPOUT if config.variant <= 2 else 0.0
    # === Layers ===
    word_table = layers.WordTable(config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding")
    character_embedding = _character_embedding(config, dropout)
    join = keras.layers.Concatenate(name="word_and_characters")
    drop = layers.Dropout(dropout, name="drop")
    cell = "lstm" if config.variant == 0 else "gru"
    contextual_encoder = layers.RecurrentEncoder(config.units, cell, name="contextual_encoder")
    attention_flow = layers.AttentionFlow(name="attention_flow")
    modelling_encoders = [
        layers.RecurrentEncoder(config.units, name=f"modelling_encoder_{number}") for number in (1, 2)
    ]
    end_encoder = layers.RecurrentEncoder(config.units, name="end_encoder")
    beside = keras.layers.Concatenate(name="flow_and_modelled")
    start_logits, end_logits = (layers.TokenLogits(dropout, name=name) for name in ("start", "end"))

    # === Functional model ===
    texts = text_inputs(config.max_word_characters)
    words = {text: join([word_table(texts.words[text]), character_embedding(texts.characters[text])]) for text in TEXTS}
    carried = _highway(config, words, texts.masks)
    encoded = {text: contextual_encoder(drop(carried[text]), texts.masks[f"{text}_mask"]) for text in TEXTS}
    mask = texts.masks["passage_mask"]
    flow = modelled = attention_flow(**encoded, **texts.masks)
    for encoder in modelling_encoders:
        modelled = encoder(drop(modelled), mask)
    start = start_logits(beside([flow, modelled]), passage_mask=mask)
    to_end = modelled if config.variant == 0 else _with_start(modelled, start)
    end = end_logits(beside([flow, end_encoder(drop(to_end), mask)]), passage_mask=mask)
    return keras.Model(texts.inputs, {"start_logits": start, "end_logits": end}, name="bidaf_bologna")


def _character_embedding(config: BidafBolognaConfig, dropout: float) -> keras.layers.Layer:
    name = "character_embedding"
    kernel, filters = config.character_kernel, config.character_filters
    if config.variant <= 1:
        return layers.SummedCharacterEmbedding(
            config.characters, config.character_dim, kernel, filters, dropout, name=name
        )
    # As long as the word's own vector, so that neither is less represented (section 2.2).
    return layers.OneHotCharacterEmbedding(kernel_size=kernel, filters=filters, units=config.word_dim, name=name)


def _highway(config: BidafBolognaConfig, words: dict, masks: dict) -> dict:
    if config.variant == 0:
        highway = layers.Highway(config.highway_layers, name="highway")
        return {text: highway(words[text]) for text in TEXTS}
    highway = layers.ConvolutionalHighway(config.highway_layers, name="highway")
    return {text: highway(words[text], masks[f"{text}_mask"]) for text in TEXTS}


def _with_start(modelled: keras.KerasTensor, start: keras.KerasTensor) -> keras.KerasTensor:
    """Each token's probability to be the start as one more feature."""
    probability = ops.cast(ops.softmax(start, axis=-1), modelled.dtype)
    return ops.concatenate([modelled, probability[..., None]], axis=-1)
