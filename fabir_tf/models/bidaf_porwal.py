"""Porwal's BiDAF: wide, without characters, and with an end as simple as the start (thesis, 2021, TensorFlow 2)."""

import dataclasses

import keras

from fabir_tf import layers
from fabir_tf.configuration import setting
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import KERAS_ADAM, SQUAD, Published
from fabir_tf.models.reader_config import WordReaderConfig
from fabir_tf.models.texts import TEXTS, text_inputs


@dataclasses.dataclass(frozen=True)
class BidafPorwalConfig(WordReaderConfig):
    """Its configuration; the defaults are the published model, except for `max_answer` and `keras_initializers`. A word
    vector is GloVe's (100) and fastText's (300).

    Raises:
        ConfigError: a value is out of its range.
    """

    word_dim: int = setting(400, "Length of a word vector", low=1)
    highway_layers: int = setting(1, "Highway layers on each word's vector", low=0)
    units: int = setting(400, "Features of the state of each recurrent network", low=1)
    keras_initializers: bool = setting(
        False,
        "Initialize the weights of the similarity and of start and end by Keras' uniform, and the similarity's bias as "
        "1, as published, instead of by Xavier and 0",
    )

    @property
    def width(self) -> int:
        """The features of a recurrent layer's output."""
        return 2 * self.units

    def decoder(self, n_best: int) -> keras.layers.Layer:
        """Without a limit, start and end are chosen independently, as published, unless there is a null head."""
        if self.max_answer is None and not self.null_head:
            return layers.IndependentDecoder(n_best)
        return super().decoder(n_best)


PORWAL_AS_PUBLISHED = Published(
    "Porwal 2021, Question answering using deep learning",
    lambda given: (
        KERAS_ADAM
        | {
            "keras_initializers": True,
            "max_answer": None,
            "max_passage": 200,
            "max_question": 50,
            "limit_evaluation": True,
            "random_vectors": True,
            "batch_size": 16,
            "length_buckets": 1,
            "epochs": 6,
            "smoothing": "none",
        }
    ),
    f"{SQUAD}, of which its limits leave 75,000",
    "GloVe 6B with 100 dimensions and fastText with 300",
    ("words are cut by NLTK's rules, there at spaces", "batches are as long as their longest text, there 200 and 50"),
)


def build_bidaf_porwal(config: BidafPorwalConfig) -> keras.Model:
    """Builds the model; see `fabir_tf.build_model` for its inputs and outputs."""
    # === Layers ===
    word_table = layers.WordTable(config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding")
    highway = layers.Highway(config.highway_layers, name="highway")
    contextual_encoder = layers.RecurrentEncoder(config.units, name="contextual_encoder")
    attention_flow = layers.AttentionFlow(True, config.keras_initializers, name="attention_flow")
    modelling_encoders = [
        layers.RecurrentEncoder(config.units, name=f"modelling_encoder_{number}") for number in (1, 2)
    ]
    join = keras.layers.Concatenate(name="flow_and_modelled")
    start_logits, end_logits = (
        layers.TokenLogits(keras_initializers=config.keras_initializers, name=name) for name in ("start", "end")
    )

    # === Functional model ===
    texts = text_inputs(config.max_word_characters)
    encoded = {
        text: contextual_encoder(highway(word_table(texts.words[text])), texts.masks[f"{text}_mask"]) for text in TEXTS
    }
    mask = texts.masks["passage_mask"]
    flow = attention_flow(**encoded, **texts.masks)
    modelled = modelling_encoders[0](flow, mask)
    start = start_logits(join([flow, modelled]), passage_mask=mask)
    end = end_logits(join([flow, modelling_encoders[1](modelled, mask)]), passage_mask=mask)
    null = layers.TrainedNullLogits(name="null_logits")(modelled) if config.null_head else None
    return keras.Model(texts.inputs, reader_outputs(start, end, null), name="bidaf_porwal")
