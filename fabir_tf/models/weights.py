"""A model's weights as an .npz file that is whole or not there; every weight is named by its path in the model."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from fabir_tf.compatibility import weights_by_path
from fabir_tf.models.quantised_weights import SCALES, dequantise_weights
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, read_arrays

FORMAT = 3
"""Version of the file format; 1 numbered the weights in the order in which the model made them, 3 may quantise them."""

MODEL = "model/"
# Keras' name of the state of a dropout layer's random numbers.
GENERATOR = "seed_generator_state"
FROZEN_TABLE = "frozen_table"


def set_frozen_tables(model: keras.Model, tables: Mapping[str, np.ndarray]) -> None:
    """Gives a model the tables that it does not train, such as word vectors.

    Args:
        model: from `fabir_tf.build_model`.
        tables: by the name of the layer, such as `word_embedding`, from `TextProcessor.frozen_tables`.
    """
    for name, table in tables.items():
        model.get_layer(name).frozen_table.assign(table)


def save_weights(path: str | os.PathLike, model: keras.Model, state: dict) -> None:
    """Writes a model's weights, without random generators, optimizer and frozen tables.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        model: a built model.
        state: JSON values that describe the weights, such as their scores.

    Raises:
        OSError: the file cannot be written.
    """
    write_arrays(path, {name: np.asarray(variable) for name, variable in weights_of(model).items()}, state)


def load_weights(path: str | os.PathLike, model: keras.Model) -> list[str]:
    """Sets a model's weights.

    Args:
        path: what `save_weights` or `save_checkpoint` wrote.
        model: a model with the same layers.

    Returns:
        An empty list, as `set_weights` does where none is missing.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    _, arrays = read_weights(path, lambda: model)
    return set_weights(model, arrays, path)


def set_weights(
    model: keras.Model, arrays: Mapping[str, np.ndarray], source: str | os.PathLike, allow_missing: bool = False
) -> list[str]:
    """Sets a model's weights.

    Args:
        model: a model with the same layers.
        arrays: by name, as `read_weights` returns them.
        source: where they come from, for messages.
        allow_missing: whether weights that are not among them keep their initial values.

    Returns:
        The paths of the weights that are not among them.

    Raises:
        UserError: they are of another model.
    """
    missing = missing_weights(model, arrays, source, allow_missing)
    for name, variable in weights_of(model).items():
        if name.removeprefix(MODEL) not in missing:
            variable.assign(arrays[name])
    return missing


def missing_weights(
    model: keras.Model, arrays: Mapping[str, np.ndarray], source: str | os.PathLike, allow_missing: bool = False
) -> list[str]:
    """Checks that a model can take weights.

    Args:
        model, arrays, source, allow_missing: as for `set_weights`.

    Returns:
        The paths of the weights that are not among them; without `allow_missing` there are none.

    Raises:
        UserError: they are of another model.
    """
    variables = weights_of(model)
    missing = [name for name in variables if name not in arrays] if allow_missing else []
    # Weights of which nothing fits are another model's.
    if len(missing) == len(variables):
        missing = []
    expected = {name: variable for name, variable in variables.items() if name not in missing}
    validate_arrays(Path(source), arrays, expected)
    unused = [name for name in arrays if name not in variables]
    if unused:
        raise UserError(
            f"{source}: found {unused[0]}, which the model lacks; the weights belong to another configuration"
        )
    return [name.removeprefix(MODEL) for name in missing]


def read_weights(path: str | os.PathLike, build_model: Callable[[], keras.Model]) -> tuple[dict, dict[str, np.ndarray]]:
    """Reads weights.

    Args:
        path: what `save_weights` or `save_checkpoint` wrote.
        build_model: builds the model that the weights were saved from; only called for a file of version 0.1, whose
            weights it names.

    Returns:
        The state, and the weights by name, `model/` and their path.

    Raises:
        UserError: the file is missing or damaged.
    """
    state, arrays = read_state(Path(path))
    if is_numbered(arrays):
        paths = [name.removeprefix(MODEL) for name in weights_of(build_model())]
        return state, {f"{MODEL}{name}": array for name, array in weights_by_path(arrays, paths).items()}
    return state, {
        name: array for name, array in arrays.items() if name.startswith(MODEL) and not name.endswith(GENERATOR)
    }


def write_arrays(path: str | os.PathLike, arrays: Mapping[str, np.ndarray], state: dict) -> None:
    """Writes named arrays, atomically.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        arrays: such as `read_weights` or `quantise_weights` returns.
        state: JSON values that describe them.

    Raises:
        OSError: the file cannot be written.
    """
    # Earlier versions read what holds no scales.
    version = FORMAT if any(name.startswith(SCALES) for name in arrays) else 2
    header = {"format": np.array(version), "state": np.frombuffer(json.dumps(state).encode(), np.uint8)}
    content: dict[str, Any] = {**header, **arrays}
    with atomic_write(path) as file:
        np.savez(file, **content)


def read_state(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Reads what `write_arrays` wrote, in this version or in 0.1.

    Args:
        path: the file.

    Returns:
        The state and the arrays, quantised ones as float32.

    Raises:
        UserError: the file is missing, damaged or of a later version.
    """
    if not path.exists():
        raise UserError(f"{path}: no such checkpoint, expected one written by fabir-train")
    try:
        arrays = read_arrays(path)
        if "state" not in arrays:
            raise ValueError("it lacks the array state")
        state = json.loads(arrays.pop("state").tobytes())
        version = int(arrays.pop("format", 1))
        arrays = dequantise_weights(arrays)
    except (ValueError, TypeError, RecursionError) as error:
        message = f"{path}: the checkpoint is damaged or cut short ({error}), expected a whole .npz file"
        raise UserError(message) from error
    if version > FORMAT:
        raise UserError(f"{path}: found format {version}, expected at most {FORMAT}: it needs a later fabir_tf")
    return state, arrays


def is_numbered(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the weights are named by number, as version 0.1 did."""
    return any(name.split("/")[1].isdecimal() for name in arrays if name.startswith(MODEL))


def weights_of(model: keras.Model) -> dict[str, keras.Variable]:
    """A model's weights by name, without random generators and frozen tables."""
    return {name: variable for name, variable in variables_of(model).items() if not name.endswith(GENERATOR)}


def variables_of(model: keras.Model) -> dict[str, keras.Variable]:
    """A model's variables by name, without frozen tables.

    Raises:
        ValueError: two variables have the same path.
    """
    kept = [variable for variable in model.variables if variable.name != FROZEN_TABLE]
    generators = {id(variable): name for name, variable in _generators_of(model)}
    paths = [generators.get(id(variable), variable.path) for variable in kept]
    named = {f"{MODEL}{path}": variable for path, variable in zip(paths, kept, strict=True)}
    if len(named) < len(kept):
        repeated = next(path for path in paths if paths.count(path) > 1)
        raise ValueError(f"Two variables of the model have the path {repeated!r}: give their layers different names.")
    return named


def _generators_of(model: keras.Model) -> Iterator[tuple[str, keras.Variable]]:
    """The states of a model's random generators, named by their layer.

    Their own paths do not serve: Keras numbers the generators of a process.
    """
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            for name, variable in _generators_of(layer):
                yield f"{layer.name}/{name}", variable
            continue
        states = [variable for variable in layer.variables if variable.name == GENERATOR]
        for number, variable in enumerate(states):
            yield f"{layer.name}/{number}/{GENERATOR}", variable


def validate_arrays(path: Path, arrays: Mapping[str, np.ndarray], variables: Mapping[str, keras.Variable]) -> None:
    """Checks that there is an array of the right shape for each variable.

    Raises:
        UserError: one is missing or has another shape.
    """
    for name, variable in variables.items():
        found = arrays[name].shape if name in arrays else None
        if found != tuple(variable.shape):
            raise UserError(
                f"{path}: expected {name} of shape {tuple(variable.shape)}, found {found or 'none'}; "
                "the checkpoint belongs to another configuration"
            )
