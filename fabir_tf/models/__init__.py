"""The readers by name: a new one is a file beside this one and a line in `MODELS`."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from fabir_tf.configuration import ConfigError
from fabir_tf.models.bert_span import BERT_AS_PUBLISHED, BertSpanConfig, bert_training, build_bert_span
from fabir_tf.models.bidaf import BIDAF_AS_PUBLISHED, BidafConfig, build_bidaf
from fabir_tf.models.bidaf_bologna import BOLOGNA_AS_PUBLISHED, BidafBolognaConfig, build_bidaf_bologna
from fabir_tf.models.bidaf_cheung import CHEUNG_AS_PUBLISHED, BidafCheungConfig, build_bidaf_cheung
from fabir_tf.models.bidaf_porwal import PORWAL_AS_PUBLISHED, BidafPorwalConfig, build_bidaf_porwal
from fabir_tf.models.fabir import FABIR_AS_PUBLISHED, FabirConfig, build_fabir
from fabir_tf.models.published import Published
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.refusals import refuse_useless_methods
from fabir_tf.models.weights import set_frozen_tables
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.word_vectors import WordVectors, load_vectors


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """A model that can be built, trained, read with and exported.

    Attributes:
        config: the class of its configuration, which no other model has.
        build: makes the functional model from a configuration.
        about: one phrase for `--help`.
        published: the settings of its paper; None for a model without one.
        training: settings of its training that differ from the defaults, from those that the user gives.
    """

    config: type[ReaderConfig]
    build: Callable[[Any], keras.Model]
    about: str
    published: Published | None = None
    training: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda given: {}


MODELS = {
    "fabir": ModelSpec(
        FabirConfig, build_fabir, "attention alone, 1.4 M parameters (Correia et al. 2018)", FABIR_AS_PUBLISHED
    ),
    "bidaf": ModelSpec(
        BidafConfig,
        build_bidaf,
        "recurrent networks, 2.6 M parameters (bi-att-flow, Seo et al. 2017)",
        BIDAF_AS_PUBLISHED,
    ),
    "bidaf-porwal": ModelSpec(
        BidafPorwalConfig,
        build_bidaf_porwal,
        "wide recurrent networks, no characters, 18 M parameters (Porwal 2021)",
        PORWAL_AS_PUBLISHED,
    ),
    "bidaf-bologna": ModelSpec(
        BidafBolognaConfig,
        build_bidaf_bologna,
        "BiDAF and its variants 0 to 4 (Amorosa et al. 2021)",
        BOLOGNA_AS_PUBLISHED,
    ),
    "bidaf-cheung": ModelSpec(
        BidafCheungConfig,
        build_bidaf_cheung,
        "GRUs, no characters, and a null head for SQuAD 2.0, 2.5 M parameters (Cheung)",
        CHEUNG_AS_PUBLISHED,
    ),
    "bert-span": ModelSpec(
        BertSpanConfig,
        build_bert_span,
        "BERT, DistilBERT or MiniLM from a folder, with a span head (Devlin et al. 2019, Cheung)",
        BERT_AS_PUBLISHED,
        bert_training,
    ),
}


def list_models() -> dict[str, str]:
    """The readers that `build_model` and `--model` know.

    Returns:
        What each is, by its name.
    """
    return {name: spec.about for name, spec in MODELS.items()}


def build_model(
    model: str | ReaderConfig = "fabir",
    as_published: bool = False,
    vectors: str | WordVectors | np.ndarray | None = None,
    processor: TextProcessor | None = None,
    **overrides,
) -> keras.Model:
    """Builds a reader as a functional Keras model with fresh weights.

    Args:
        model: a name of `list_models()`, or a configuration.
        as_published: whether a name stands for the paper's reader, with its first weights and its decoding, and not for
            our defaults.
        vectors: word vectors that are not trained: `(words, dim)`, from `load_vectors`, or what that takes, such as
            "bundled". Row i is the word with the id `trainable_words + 1 + i`. Without them all are zeros.
        processor: a text processor, from `fit_processor`; the model gets its sizes and its vectors.
        **overrides: fields of the configuration to replace, as in `build_model(num_heads=2)`. A folder of trained
            weights, `encoder` of "bert-span" or `word_model` of "bidaf-cheung", gives the model its sizes and weights.

    Returns:
        A model that maps a dictionary of `passage_words (batch, passage)`, `passage_characters (batch, passage,
        max_word_characters)`, `question_words (batch, question)` and `question_characters (batch, question,
        max_word_characters)`, integer ids with 0 for padding, to a dictionary of float32 `start_logits` and
        `end_logits`, both `(batch, passage)`, and with `null_head=True` also `null_logits (batch, 2)`.

    Raises:
        ConfigError: no model has the name, or a field is unknown or its value does not fit; or a configuration is given
            with `as_published`, or vectors with a processor or for a model without word vectors.
        UserError: the vectors or the folder cannot be read.
    """
    if as_published:
        if not isinstance(model, str):
            raise ConfigError(f"as_published needs the name of a model, found a {type(model).__name__}")
        overrides = _checked_published(model, overrides) | overrides
    tables, sizes = _frozen_tables(vectors, processor)
    config = config_class(model)() if isinstance(model, str) else model
    if tables and "frozen_words" not in config.to_dict():
        raise ConfigError(f"vectors: {model_name(config)} has no word vectors")
    # The configuration of a run names a folder, too, whose weights are not meant.
    starts_from_folder = bool(overrides.get(config.folder_setting))
    if starts_from_folder:
        config = config.replace(**overrides).completed()
    config = config.replace(**sizes | overrides)
    built = MODELS[model_name(config)].build(config)
    if starts_from_folder:
        config.initialize(built)
    if processor is not None:
        _validate_inputs(built, processor)
    _validate_tables(built, tables)
    set_frozen_tables(built, tables)
    return refuse_useless_methods(built)


def _frozen_tables(
    vectors: str | WordVectors | np.ndarray | None, processor: TextProcessor | None
) -> tuple[Mapping[str, np.ndarray], dict[str, int]]:
    """The tables that a model gets, by the name of their layer, and the settings that they decide."""
    if processor is not None:
        if vectors is not None:
            raise ConfigError("vectors: the processor has its own, expected one of vectors and processor")
        return processor.frozen_tables, processor.sizes
    if vectors is None:
        return {}, {}
    loaded = load_vectors(vectors) if isinstance(vectors, str) else vectors
    table = np.asarray(loaded.table if isinstance(loaded, WordVectors) else loaded)
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.floating):
        raise ConfigError(f"vectors must be numbers (words, dim), found {table.dtype} of shape {table.shape}")
    if not (np.abs(table) <= np.finfo(np.float16).max).all():
        raise ConfigError("vectors: found a number that float16 cannot hold, expected numbers up to 65,504")
    if not table.size:
        return {}, {"frozen_words": 0}
    return {"word_embedding": table}, {"frozen_words": table.shape[0], "word_dim": table.shape[1]}


def _checked_published(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's settings of a model; the given ones are checked first, because others depend on them."""
    fields = config_class(name)
    for field, value in given.items():
        if field in fields.__dataclass_fields__:
            fields.check(field, value)
    return published_settings(name, given)[0]


def _validate_inputs(model: keras.Model, processor: TextProcessor) -> None:
    """Refuses a processor whose arrays do not fit the model's inputs."""
    inputs = {tensor.name: tuple(tensor.shape) for tensor in model.inputs}
    specs = {name: tuple(shape) for name, (shape, _) in processor.input_specs.items()}
    if inputs != specs:
        name = next(name for name in (*inputs, *specs) if inputs.get(name) != specs.get(name))
        raise ConfigError(f"processor: gives {name} of shape {specs.get(name)}, the model needs {inputs.get(name)}")


def _validate_tables(model: keras.Model, tables: Mapping[str, np.ndarray]) -> None:
    """Refuses tables that other settings do not fit."""
    found_layers = {layer.name for layer in model.layers}
    for name, table in tables.items():
        if name not in found_layers:
            raise ConfigError(f"vectors: with these settings the model has no {name} of its own, expected none")
        layer = model.get_layer(name)
        expected = (layer.frozen_rows, layer.dim)
        if table.shape != expected:
            raise ConfigError(f"vectors: found {table.shape} numbers, expected {expected}, frozen_words and word_dim")


def published_settings(name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a published reader that differ from the defaults.

    Args:
        name: the model's.
        given: settings that the user chooses, on which others may depend.

    Returns:
        Those of the model, and those of its training.

    Raises:
        ConfigError: no model has the name, or the model has no paper.
    """
    fields = config_class(name).__dataclass_fields__
    published = MODELS[name].published
    if published is None:
        raise ConfigError(f"as_published: {name} was not published, expected one of {', '.join(_published_names())}")
    settings = published.settings(given)
    of_model = {field: settings.pop(field) for field in list(settings) if field in fields}
    return of_model, settings


FINE_TUNING = {"learning_rate": 0.0003, "epochs": 4}
"""Training settings of a run that starts from a trained reader: the papers' are for new weights."""

# What chooses a learning rate of its own.
_RATE_SETTINGS = ("learning_rate", "learning_rate_factor", "warmup_steps", "optimizer")


def training_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model's training: those that are given, and for the others the model's own, or `FINE_TUNING` of
    a run that starts from a trained reader.

    Args:
        name: the model's.
        given: settings of `TrainingConfig` that the user chooses, on which others may depend.

    Raises:
        ConfigError: no model has the name.
    """
    config_class(name)
    start = dict(FINE_TUNING) if given.get("start_from") else {}
    if any(setting in given for setting in _RATE_SETTINGS):
        start.pop("learning_rate", None)
    return start | MODELS[name].training(given) | dict(given)


def _published_names() -> list[str]:
    return [name for name, spec in MODELS.items() if spec.published]


def config_class(name: str) -> type[ReaderConfig]:
    """The class of a model's configuration.

    Raises:
        ConfigError: no model has the name.
    """
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"the model must be one of {', '.join(MODELS)}, found {name!r}{hint}")
    return MODELS[name].config


def model_name(config: ReaderConfig) -> str:
    """The name of the model that a configuration is of."""
    return next(name for name, spec in MODELS.items() if spec.config is type(config))
