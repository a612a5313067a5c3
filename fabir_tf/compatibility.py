"""What version 0.1 wrote, read by this version: layers and weights.

This module and `renamed_settings.py` alone know the names of 0.1.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from fabir_tf import layers
from fabir_tf.layers.core import exact_bias, initializers

# === Layers in .keras files ===

_ARGUMENTS = {
    "sublayer_start": "residual_init_scale",
    "matching_start": "shared_query_key_init",
    "cross_matching_start": "shared_query_key_init",
    "first_position": "position_offset",
    "borders": "num_outputs",
}


class _OldSelector:
    """A selector whose weights a `.keras` file of 0.1 holds under the name `borders`."""

    @property
    def borders(self) -> keras.layers.Layer:
        """The layer that is called `logits` now."""
        return self.logits


# Keras finds a layer's weights by the name of its class, so these classes keep the names of 0.1.
@keras.saving.register_keras_serializable(package="fabir_tf.compatibility")
class ConvolutionalSelector(_OldSelector, layers.ConvolutionalSelector):
    """The layer of this name, with the attributes that it had in 0.1."""


@keras.saving.register_keras_serializable(package="fabir_tf.compatibility")
class LinearSelector(_OldSelector, layers.LinearSelector):
    """The layer of this name, with the attributes that it had in 0.1."""


@keras.saving.register_keras_serializable(package="fabir_tf.compatibility")
class BorderLogits(layers.TokenLogits):
    """`TokenLogits`, under the name that it had in 0.1."""


class _OldClass:
    """Stands for a class in Keras' registry and translates the arguments that 0.1 wrote."""

    def __init__(self, new: type):
        self._new = new

    def from_config(self, config: dict[str, Any]):
        """Makes the object from a configuration of 0.1."""
        return self._new.from_config({_ARGUMENTS.get(name, name): value for name, value in config.items()})


def register_old_layers() -> None:
    """Lets Keras load the `.keras` files of 0.1, whose layers are registered under `fabir_tf>` and their old names."""
    registry = keras.saving.get_custom_objects()
    classes = {name: getattr(layers, name) for name in layers.__all__ if isinstance(getattr(layers, name), type)}
    classes |= {cls.__name__: cls for cls in (initializers.GlorotUniform, initializers.StandardNormal)}
    classes |= {cls.__name__: cls for cls in (exact_bias.Dense, exact_bias.Conv1D, exact_bias.Conv2D)}
    classes |= {cls.__name__: cls for cls in (ConvolutionalSelector, LinearSelector, BorderLogits)}
    for name, cls in classes.items():
        registry[f"fabir_tf>{name}"] = _OldClass(cls)


register_old_layers()


# === Weights in .npz files ===

_NUMBERED = re.compile(r"model/(\d+)/(.+)")
_GENERATOR = "seed_generator_state"


def weights_by_path(arrays: Mapping[str, np.ndarray], paths: Sequence[str]) -> dict[str, np.ndarray]:
    """Names the weights of a checkpoint of 0.1, which numbered them in the order of the model.

    Args:
        arrays: the checkpoint's arrays by name.
        paths: the paths of the model's weights, in the model's order.

    Returns:
        The weights by path. Where the checkpoint has another number of weights than the model, or they have other
        names, the names of 0.1 stay, which fit no weight.
    """
    numbered = {}
    for name, array in arrays.items():
        found = _NUMBERED.fullmatch(name)
        if found and found[2] != _GENERATOR:
            numbered[int(found[1])] = (found[2], array)
    old = [numbered[number] for number in sorted(numbered)]
    if [name for name, _ in old] != [_old_name(path) for path in paths]:
        return {f"{name} (number {number} of version 0.1)": array for number, (name, array) in enumerate(old)}
    return {path: array for path, (_, array) in zip(paths, old, strict=True)}


def _old_name(path: str) -> str:
    return path.rpartition("/")[2]
