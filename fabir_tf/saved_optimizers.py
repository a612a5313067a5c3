"""Lets Keras load a model that was compiled with `fabir_tf.Adam`, before anything else of this package is imported."""

import importlib
from typing import Any

import keras

NAME = "fabir_tf>FusedAdam"
"""What Keras calls `fabir_tf.Adam` on TensorFlow in a `.keras` file."""


class _SavedAdam:
    """Stands for the optimizer in Keras' registry, because the optimizer itself needs TensorFlow."""

    def from_config(self, config: dict[str, Any]) -> keras.optimizers.Optimizer:
        """Makes the backend's own Adam, on JAX that of Keras."""
        return importlib.import_module("fabir_tf.backends").backend.Adam.from_config(config)


def register_optimizers() -> None:
    """Registers what stands for the optimizers, unless they are there themselves."""
    keras.saving.get_custom_objects().setdefault(NAME, _SavedAdam())


register_optimizers()
