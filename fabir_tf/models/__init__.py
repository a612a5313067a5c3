"""The readers that `build_model` knows: a new one is a file beside this one and a line in `MODELS`."""

import keras

from fabir_tf.models.fabir import FabirConfig, build_fabir

# Configuration class -> the function that builds its functional model.
MODELS = {FabirConfig: build_fabir}


def build_model(config: FabirConfig | None = None, **overrides) -> keras.Model:
    """Builds a reader as a functional Keras model with fresh weights.

    Args:
        config: the model's configuration; FABIR as published when None.
        **overrides: fields of the configuration to replace, as in `build_model(num_heads=2)`.

    Returns:
        A model that maps a dictionary of `passage_words (batch, passage)`, `passage_characters (batch, passage,
        max_word_characters)`, `question_words (batch, question)` and `question_characters (batch, question,
        max_word_characters)`, integer ids with 0 for padding, to a dictionary of float32 `start_logits` and
        `end_logits`, both `(batch, passage)`.

    Raises:
        ConfigError: a field is unknown or its value does not fit.
    """
    config = (config or FabirConfig()).replace(**overrides)
    return MODELS[type(config)](config)
