"""The readers by name: a new one is a file beside this one and a line in `MODELS`."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

import keras

from fabir_tf.configuration import ConfigError
from fabir_tf.models.bidaf import BidafConfig, build_bidaf
from fabir_tf.models.bidaf_bologna import BidafBolognaConfig, build_bidaf_bologna
from fabir_tf.models.bidaf_porwal import BidafPorwalConfig, build_bidaf_porwal
from fabir_tf.models.fabir import FabirConfig, build_fabir
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.refusals import refuse_useless_methods


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """A model that can be built, trained, read with and exported.

    Attributes:
        config: the class of its configuration, which no other model has.
        build: makes the functional model from a configuration.
        about: one phrase for `--help`.
    """

    config: type[ReaderConfig]
    build: Callable[[Any], keras.Model]
    about: str


MODELS = {
    "fabir": ModelSpec(FabirConfig, build_fabir, "attention alone, 1.4 M parameters (Correia et al. 2018)"),
    "bidaf": ModelSpec(BidafConfig, build_bidaf, "recurrent networks, 2.6 M parameters (bi-att-flow, Seo et al. 2017)"),
    "bidaf-porwal": ModelSpec(
        BidafPorwalConfig, build_bidaf_porwal, "wide recurrent networks, no characters, 18 M parameters (Porwal 2021)"
    ),
    "bidaf-bologna": ModelSpec(
        BidafBolognaConfig, build_bidaf_bologna, "BiDAF and its variants 0 to 4 (Amorosa et al. 2021)"
    ),
}


def list_models() -> dict[str, str]:
    """The readers that `build_model` and `--model` know.

    Returns:
        What each is, by its name.
    """
    return {name: spec.about for name, spec in MODELS.items()}


def build_model(model: str | ReaderConfig = "fabir", **overrides) -> keras.Model:
    """Builds a reader as a functional Keras model with fresh weights.

    Args:
        model: a name of `list_models()`, as published, or a configuration.
        **overrides: fields of the configuration to replace, as in `build_model(num_heads=2)`.

    Returns:
        A model that maps a dictionary of `passage_words (batch, passage)`, `passage_characters (batch, passage,
        max_word_characters)`, `question_words (batch, question)` and `question_characters (batch, question,
        max_word_characters)`, integer ids with 0 for padding, to a dictionary of float32 `start_logits` and
        `end_logits`, both `(batch, passage)`, and with `null_head=True` also `null_logits (batch, 2)`.

    Raises:
        ConfigError: no model has the name, or a field is unknown or its value does not fit.
    """
    config = (config_class(model)() if isinstance(model, str) else model).replace(**overrides)
    return refuse_useless_methods(MODELS[model_name(config)].build(config))


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
