"""Cheung's BiDAF, for SQuAD 2.0: GRUs, and a trained null start and end (University of Hong Kong)."""

import dataclasses
from collections.abc import Mapping

import keras

from fabir_tf import layers
from fabir_tf.configuration import ConfigError, setting
from fabir_tf.models.bert_vectors import BertSizes, read_bert, set_bert_weights
from fabir_tf.models.bilm import BilmSizes, read_bilm, read_sizes
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import KERAS_ADAM, SQUAD_2, Published
from fabir_tf.models.reader_config import FrozenPart, WordReaderConfig
from fabir_tf.models.texts import TEXTS
from fabir_tf.models.word_vectors import (
    TextVectors,
    bert_vectors,
    elmo_vectors,
    frozen_text_model,
    kept_vectors,
    table_vectors,
)
from fabir_tf.pipelines.errors import UserError

# The kind of the text processor by `word_vectors`.
_PROCESSORS = {"table": "words", "elmo": "bilm", "bert": "separate-wordpieces"}
# Table 3.
_OF_BERT = {
    "tune_word_model": True,
    "max_passage": 320,
    "max_question": 40,
    "learning_rate": 3e-5,
}
_BATCH_SIZES = {"table": 60, "elmo": 32, "bert": 16}


@dataclasses.dataclass(frozen=True)
class BidafCheungConfig(WordReaderConfig):
    """Its configuration; the defaults are the published model, which has a null head, except for `null_pairs`, and for
    `tune_word_model` with BERT's vectors.

    Raises:
        ConfigError: a value is out of its range, or there are null pairs without a null head.
    """

    folder_setting = "word_model"

    max_answer: int | None = setting(16, "Longest predicted answer, in tokens; none for no limit", low=1)
    null_head: bool = setting(
        True, "Learn to say that the passage holds no answer, from questions without one; the reader gets null logits"
    )
    word_dim: int = setting(300, "Length of a word vector", low=1)
    word_vectors: str = setting(
        "table",
        "Where the vectors of words come from: a table of --vectors, or the frozen ELMo or the BERT of --word_model",
        choices=_PROCESSORS,
    )
    word_model: str = setting(
        "",
        "Folder of the model of --word_vectors: of ELMo, options.json and weights.hdf5; of a BERT or DistilBERT, "
        "Hugging Face's layout",
    )
    word_model_sizes: str = setting(
        "", "Sizes of that model, as JSON; empty for those of ELMo small or BERT-Base", derived=True
    )
    tune_word_model: bool = setting(False, "Train the BERT of --word_model, too, which is frozen otherwise")
    pool_words: bool = setting(
        False,
        "Take the mean of the BERT vectors of a word's pieces, so that words are read and answers are whole words",
    )
    max_sequence: int = setting(
        512, "Longest sequence that BERT reads, in word pieces; longer passages are read in windows", low=8
    )
    units: int = setting(150, "Features of the state of each recurrent network", low=1)
    dropout: float = setting(
        0.0,
        "Dropout rate of the inputs of recurrent layers and heads, and of character vectors where the reader has them",
        low=0.0,
        high=0.95,
    )
    null_pairs: bool = setting(
        False,
        'Score "no answer" by the likeliest pair in which the start, the end or both are the null, as published, '
        "instead of by the pair of both nulls",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.null_pairs and not self.null_head:
            raise ConfigError("null_pairs needs a null head, found null_head=False")
        if self.word_model and self.word_vectors == "table":
            raise ConfigError(
                f"word_model needs word_vectors=elmo or bert, found word_model={self.word_model!r} without it"
            )
        if self.tune_word_model and self.word_vectors != "bert":
            raise ConfigError(f"tune_word_model needs word_vectors=bert, found word_vectors={self.word_vectors}")
        if self.pool_words and self.word_vectors != "bert":
            raise ConfigError(f"pool_words needs word_vectors=bert, found word_vectors={self.word_vectors}")
        # It follows from a field here, in other configurations from the class.
        object.__setattr__(self, "processor", _PROCESSORS[self.word_vectors])

    @property
    def width(self) -> int:
        """The features of a recurrent layer's output."""
        return 2 * self.units

    def completed(self) -> "BidafCheungConfig":
        """With the sizes of the word model's folder.

        Raises:
            UserError: there is no folder, or it does not fit.
            ConfigError: `max_sequence` is more than its BERT can read.
        """
        if self.word_vectors == "table":
            return self
        if not self.word_model:
            raise UserError(
                f"word_model: found no folder, expected that of the model of --word_vectors={self.word_vectors}"
            )
        if self.word_vectors == "elmo":
            return self.replace(word_model_sizes=read_sizes(self.word_model).to_json())
        sizes, _ = read_bert(self.word_model)
        if self.max_sequence > sizes.max_positions:
            raise ConfigError(
                f"max_sequence must be at most the word model's max_positions={sizes.max_positions}, found "
                f"{self.max_sequence}"
            )
        return self.replace(word_model_sizes=sizes.to_json())

    def initialize(self, model: keras.Model) -> None:
        """With the weights of the word model's folder."""
        if self.word_vectors == "elmo":
            read_bilm(self.word_model).set_weights(model)
        elif self.word_vectors == "bert":
            set_bert_weights(model, read_bert(self.word_model)[1])

    def word_sizes(self) -> BilmSizes | BertSizes | None:
        """The sizes of the word model; None where there is a table."""
        if self.word_vectors == "table":
            return None
        return (BilmSizes if self.word_vectors == "elmo" else BertSizes).from_json(self.word_model_sizes)

    def given_vectors(self) -> TextVectors:
        """The inputs of a model with this configuration, and the vectors of their words."""
        sizes = self.word_sizes()
        if sizes is None:
            return table_vectors(self)
        if isinstance(sizes, BilmSizes):
            return elmo_vectors(sizes)
        return bert_vectors(sizes, self.tune_word_model, self.pool_words)

    @property
    def takes_smoothing(self) -> bool:
        """Where answers are whole words, a piece within a word is no start and no end."""
        return not self.pool_words

    @property
    def has_frozen_part(self) -> bool:
        """A word model is one, unless it is trained."""
        return self.word_vectors != "table" and not self.tune_word_model

    def frozen_part(self, model: keras.Model) -> FrozenPart:
        """The word model, and the rest."""
        sizes = self.word_sizes()
        assert sizes is not None, "there is no word model"
        text_model = frozen_text_model(model, sizes)
        named = {layer.name: layer for layer in model.layers}
        return FrozenPart(text_model, _assembled(named, kept_vectors(model, text_model)))

    def decoder(self, n_best: int) -> keras.layers.Layer:
        """With the published score of "no answer" if `null_pairs` is true."""
        return layers.SpanDecoder(self.max_answer, n_best, null_pairs=self.null_pairs)


CHEUNG_AS_PUBLISHED = Published(
    "Cheung, Deep learning in NLP - Constructing a machine question answering model",
    lambda given: (
        KERAS_ADAM
        | {
            # The default, too: named here, so that a training with shorter vectors says so.
            "word_dim": 300,
            "null_pairs": given.get("null_head", BidafCheungConfig.null_head),
            "max_passage": 300,
            "max_question": 30,
            # No word has a trained vector of its own.
            "min_word_count": 1_000_000_000,
            # Table 3; the memory of its GPU decided.
            "batch_size": _BATCH_SIZES.get(given.get("word_vectors", BidafCheungConfig.word_vectors), 60),
            "length_buckets": 1,
            "epochs": 12,
            "smoothing": "none",
        }
        | (_OF_BERT if given.get("word_vectors") == "bert" else {})
    ),
    SQUAD_2,
    "GloVe 6B with 300 dimensions",
    (
        "12 epochs and no dropout, because the report says nothing about either",
        "longer passages and questions than its 300 and 30 tokens (BERT: 320 and 40) are not trained on, and are read "
        "whole when scored",
        "words without a vector share one that is trained, there none is",
        "a new run always answers; --no_answer_threshold=0.5 decides as the report does, by the likeliest pair",
    ),
)


def build_bidaf_cheung(config: BidafCheungConfig) -> keras.Model:
    """Builds the model; see `fabir_tf.build_model` for its inputs and outputs.

    With T and J as the encoded passage and question, and M_e = BiGRU(M):

        S_kv = w_S^T [T_k; J_v; T_k * J_v]              eq. 9
        G_k  = [T_k; J~_k; T_k * J~_k; T_k * T~_k]      eq. 10, where the print lacks J~_k, but its size, 8f, has it
        p_s  = softmax(w_ps^T [G; M]; w_s)              eq. 12, the null logit w_s beside the tokens' logits
        p_e  = softmax(w_pe^T [G; M_e]; w_e)            eq. 13

    The loss is eq. 14, `StartEndLoss` without smoothing.
    """
    # In this order, which decides about their seeds.
    parts: list[keras.layers.Layer] = [layers.Dropout(config.dropout, name="drop")]
    parts += [layers.RecurrentEncoder(config.units, "gru", name=name) for name in _ENCODERS]
    parts += [layers.AttentionFlow(name="attention_flow"), keras.layers.Concatenate(name="flow_and_modelled")]
    parts += [layers.TokenLogits(config.dropout, name=name) for name in ("start", "end")]
    parts += [layers.TrainedNullLogits(name="null_logits")] if config.null_head else []
    parts += [layers.PieceLogits(name="piece_logits")] if config.pool_words else []
    return _assembled({layer.name: layer for layer in parts}, config.given_vectors())


_ENCODERS = ("contextual_encoder", "modelling_encoder_1", "modelling_encoder_2", "end_encoder")


def _assembled(parts: Mapping[str, keras.layers.Layer], texts: TextVectors) -> keras.Model:
    """The functional model of layers by name, from the vectors of words on."""
    drop, join = parts["drop"], parts["flow_and_modelled"]
    contextual_encoder, *modelling_encoders, end_encoder = (parts[name] for name in _ENCODERS)
    encoded = {text: contextual_encoder(drop(texts.vectors[text]), texts.masks[f"{text}_mask"]) for text in TEXTS}
    mask = texts.masks["passage_mask"]
    flow = modelled = parts["attention_flow"](**encoded, **texts.masks)
    for encoder in modelling_encoders:
        modelled = encoder(drop(modelled), mask)
    start = parts["start"](join([flow, modelled]), passage_mask=mask)
    end = parts["end"](join([flow, end_encoder(drop(modelled), mask)]), passage_mask=mask)
    if texts.pieces:
        start, end = parts["piece_logits"](start, end, texts.pieces.begins, texts.pieces.mask)
    null = parts["null_logits"](modelled) if "null_logits" in parts else None
    return keras.Model(texts.inputs, reader_outputs(start, end, null), name="bidaf_cheung")
