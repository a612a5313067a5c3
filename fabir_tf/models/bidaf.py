"""BiDAF as in its authors' program (bi-att-flow): Seo, Kembhavi, Farhadi and Hajishirzi 2017, arXiv 1611.01603."""

import dataclasses

import keras

from fabir_tf import layers
from fabir_tf.configuration import setting
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import SQUAD, Published
from fabir_tf.models.reader_config import CharacterReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs


@dataclasses.dataclass(frozen=True)
class BidafConfig(CharacterReaderConfig):
    """BiDAF's configuration; the defaults are the published model, except for `max_answer`, `max_word_characters` and
    `logit_biases`.

    Raises:
        ConfigError: a value is out of its range.
    """

    units: int = setting(100, "Features of the state of each recurrent network", low=1)
    modelling_layers: int = setting(2, "Recurrent layers after the attention flow", low=1)
    dropout: float = setting(
        0.2,
        "Dropout rate of the inputs of recurrent layers and heads, and of character vectors where the reader has them",
        low=0.0,
        high=0.95,
    )
    logit_biases: bool = setting(
        False,
        "Add a trained number to the similarity, the start and the end logits, as in the authors' program; it "
        "changes no probability",
    )

    def __post_init__(self):
        super().__post_init__()
        self.validate_characters()

    @property
    def width(self) -> int:
        """The features of a recurrent layer's output."""
        return 2 * self.units


BIDAF_AS_PUBLISHED = Published(
    "Seo, Kembhavi, Farhadi and Hajishirzi 2017, arXiv 1611.01603, as their program (bi-att-flow) trains it",
    lambda given: {
        "logit_biases": True,
        "max_answer": None,
        "max_word_characters": 16,
        "max_question": 30,
        "min_word_count": 10,
        "optimizer": "adadelta",
        "learning_rate": 0.5,
        "ema_decay": 0.999,
        "batch_size": 60,
        # 18,000 steps are 12.3 epochs of SQuAD's training questions.
        "epochs": 13,
        "max_steps": 18_000,
        "smoothing": "none",
    },
    SQUAD,
    "GloVe 6B with 100 dimensions",
)


def build_bidaf(config: BidafConfig) -> keras.Model:
    """Builds BiDAF; see `fabir_tf.build_model` for its inputs and outputs."""
    # === Layers ===
    word_table = layers.WordTable(config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding")
    character_embedding = layers.CharacterEmbedding(
        config.characters,
        config.character_dim,
        config.character_kernel,
        config.character_filters,
        dropout=config.dropout,
        activation="relu",
        name="character_embedding",
    )
    join = keras.layers.Concatenate(name="word_and_characters")
    highway = layers.Highway(config.highway_layers, name="highway")
    drop = layers.Dropout(config.dropout, name="drop")
    contextual_encoder = layers.RecurrentEncoder(config.units, name="contextual_encoder")
    attention_flow = layers.AttentionFlow(config.logit_biases, name="attention_flow")
    modelling_encoders = [
        layers.RecurrentEncoder(config.units, name=f"modelling_encoder_{number}")
        for number in range(1, config.modelling_layers + 1)
    ]
    selector = layers.StartConditionedSelector(
        config.units, dropout=config.dropout, use_bias=config.logit_biases, name="selector"
    )

    # === Functional model ===
    texts = text_inputs(config.max_word_characters)
    encoded = {}
    for text in TEXTS:
        word = join([word_table(texts.words[text]), character_embedding(texts.characters[text])])
        encoded[text] = contextual_encoder(drop(highway(word)), texts.masks[f"{text}_mask"])
    flow = attention_flow(**encoded, **texts.masks)
    passage_mask = texts.masks["passage_mask"]
    modelled = flow
    for encoder in modelling_encoders:
        modelled = encoder(drop(modelled), passage_mask)
    start, end = selector(flow, modelled, passage_mask=passage_mask)
    null = layers.TrainedNullLogits(name="null_logits")(modelled) if config.null_head else None
    return keras.Model(texts.inputs, reader_outputs(start, end, null), name="bidaf")
