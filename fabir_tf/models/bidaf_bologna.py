"""BiDAF and four variants of it: Amorosa, Espis, Orlandi and Pinardi 2021, University of Bologna."""

import dataclasses

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.configuration import ConfigError, setting
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import KERAS_ADAM, SQUAD, Published
from fabir_tf.models.reader_config import CharacterReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs

# Dropout rate of variants 0 to 2; the others have none.
DROPOUT = 0.2


@dataclasses.dataclass(frozen=True)
class BidafBolognaConfig(CharacterReaderConfig):
    """Its configuration; the defaults are variant 4's, and bi-att-flow's where the report does not say.

    Raises:
        ConfigError: a value is out of its range.
    """

    word_dim: int = setting(50, "Length of a word vector", low=1)
    units: int = setting(100, "Features of the state of each recurrent network", low=1)
    variant: int = setting(
        4,
        "0: the baseline; 1: convolutional highway, GRU, and an end that sees the start probabilities; 2: also "
        "characters as unit vectors; 3: also no dropout; 4: also no end before its start",
        low=0,
        high=4,
    )

    def __post_init__(self):
        super().__post_init__()
        self.validate_characters()
        # The convolution slides over the features of a sum of characters.
        if self.variant < 2 and self.character_kernel > self.character_dim:
            raise ConfigError(
                f"character_kernel must be at most character_dim={self.character_dim} with variant={self.variant}, "
                f"found {self.character_kernel}"
            )

    @property
    def width(self) -> int:
        """The features of a recurrent layer's output."""
        return 2 * self.units

    @property
    def answer_limit(self) -> int | None:
        """See `ReaderConfig.answer_limit`."""
        return None if self._is_independent else self.max_answer

    def decoder(self, n_best: int) -> keras.layers.Layer:
        """Variants 0 to 3 choose start and end independently, unless there is a null head."""
        return layers.IndependentDecoder(n_best) if self._is_independent else super().decoder(n_best)

    @property
    def _is_independent(self) -> bool:
        return self.variant < 4 and not self.null_head


BOLOGNA_AS_PUBLISHED = Published(
    "Amorosa, Espis, Orlandi and Pinardi 2021, University of Bologna",
    lambda given: (
        KERAS_ADAM
        | {
            # As long as the vector of the characters, which is 100 with the baseline's and 50, say, with unit vectors.
            "word_dim": 100 if given.get("variant", BidafBolognaConfig.variant) <= 1 else 50,
            "max_answer": None,
            # The 99 commonest characters, whatever their count.
            "min_character_count": 0,
            "learning_rate": 0.005,
            "batch_size": 8,
            "length_buckets": 1,
            "epochs": 10,
            "smoothing": "none",
        }
    ),
    f"{SQUAD}, less a test split of its own",
    "GloVe 6B, with 100 dimensions for variants 0 and 1 and with 50 for the others",
    (
        "the convolutional highway's gate is each question's own, there that of the whole batch",
        "10 epochs, because the report does not say how many",
    ),
)


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
    join_flow = keras.layers.Concatenate(name="flow_and_modelled")
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
    start = start_logits(join_flow([flow, modelled]), passage_mask=mask)
    to_end = modelled if config.variant == 0 else _with_start(modelled, start)
    end = end_logits(join_flow([flow, end_encoder(drop(to_end), mask)]), passage_mask=mask)
    null = layers.TrainedNullLogits(name="null_logits")(modelled) if config.null_head else None
    return keras.Model(texts.inputs, reader_outputs(start, end, null), name="bidaf_bologna")


def _character_embedding(config: BidafBolognaConfig, dropout: float) -> keras.layers.Layer:
    name = "character_embedding"
    kernel, filters = config.character_kernel, config.character_filters
    if config.variant <= 1:
        return layers.SummedCharacterEmbedding(
            config.characters, config.character_dim, kernel, filters, dropout, name=name
        )
    # As long as the word vector, so that both have the same weight (section 2.2).
    return layers.OneHotCharacterEmbedding(kernel_size=kernel, filters=filters, units=config.word_dim, name=name)


def _highway(config: BidafBolognaConfig, words: dict, masks: dict) -> dict:
    if config.variant == 0:
        highway = layers.Highway(config.highway_layers, name="highway")
        return {text: highway(words[text]) for text in TEXTS}
    highway = layers.ConvolutionalHighway(config.highway_layers, name="highway")
    return {text: highway(words[text], masks[f"{text}_mask"]) for text in TEXTS}


def _with_start(modelled: keras.KerasTensor, start: keras.KerasTensor) -> keras.KerasTensor:
    """Adds each token's start probability as a feature."""
    probability = ops.cast(ops.softmax(start, axis=-1), modelled.dtype)
    return ops.concatenate([modelled, probability[..., None]], axis=-1)
