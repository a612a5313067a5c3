"""Checkpoints: every number that training continues from, in one file that is whole or not there.

Keras' own checkpoints are not used because none of them holds what an exact continuation needs: the weights, the
optimizer with its step and averages, the dropout generators, the place in the epoch and the best score, without the
frozen word table, which never changes and would be most of the file.
"""

import json
import os
from pathlib import Path

import keras
import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, read_arrays

# Keras' name of the state of a dropout's random numbers.
_GENERATOR = "seed_generator_state"


def save_checkpoint(path: str | os.PathLike, model: keras.Model, state: dict) -> None:
    """Writes all that training continues from, atomically.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        model: compiled; its variables are written, but for the frozen word table, and its optimizer's.
        state: whatever else the continuation needs, as JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    write_arrays(path, _arrays(_variables(model)), state)


def load_checkpoint(path: str | os.PathLike, model: keras.Model) -> dict:
    """Sets a model's and its optimizer's variables from a checkpoint.

    Args:
        path: what `save_checkpoint` wrote.
        model: built and compiled from the same configuration.

    Returns:
        The state.

    Raises:
        UserError: the file is missing, damaged, of another model or of weights alone.
    """
    path = Path(path)
    state, arrays = _read(path)
    _assign(path, arrays, _variables(model))
    return state


def save_weights(path: str | os.PathLike, model: keras.Model, state: dict) -> None:
    """Writes a model's weights, atomically, and no generator or optimizer.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        model: its weights are written, but for the frozen word table.
        state: what is to be known of them, as JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    write_arrays(path, _arrays(_weights(model)), state)


def load_weights(path: str | os.PathLike, model: keras.Model) -> dict:
    """Sets a model's weights; what drops out, and its generators, may be another's.

    Args:
        path: what `save_weights` or `save_checkpoint` wrote.
        model: built with the same layers.

    Returns:
        The state.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    state, arrays = read_weights(path)
    _assign(Path(path), arrays, _weights(model))
    return state


def read_weights(path: str | os.PathLike) -> tuple[dict, dict[str, np.ndarray]]:
    """Reads weights without a model.

    Args:
        path: what `save_weights` or `save_checkpoint` wrote.

    Returns:
        The state, and the weights by name, in the model's order.

    Raises:
        UserError: the file is missing or damaged.
    """
    state, arrays = _read(Path(path))
    found = [name for name in arrays if name.startswith("model/") and not name.endswith(_GENERATOR)]
    return state, {_name(number, name.split("/", 2)[2]): arrays[name] for number, name in enumerate(found)}


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray], state: dict) -> None:
    """Writes a checkpoint of given arrays, atomically.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        arrays: such as `read_weights` gives them.
        state: what is to be known of them, as JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_write(path) as file:
        np.savez(file, state=np.frombuffer(json.dumps(state).encode(), np.uint8), **arrays)


def validate_weights(path: str | os.PathLike, model: keras.Model) -> None:
    """Checks that a model can take a checkpoint's weights.

    Args:
        path: what `save_checkpoint` or `save_weights` wrote.
        model: whose weights they may be.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    _validate_alike(Path(path), read_weights(path)[1], _weights(model))


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    if not path.exists():
        raise UserError(f"{path}: no such checkpoint, expected one written by fabir-train")
    try:
        arrays = read_arrays(path)
        if "state" not in arrays:
            raise ValueError("it lacks the array state")
        return json.loads(arrays.pop("state").tobytes()), arrays
    except ValueError as error:
        message = f"{path}: the checkpoint is damaged or cut short ({error}), expected a whole .npz file"
        raise UserError(message) from error


def _arrays(variables: dict[str, keras.Variable]) -> dict[str, np.ndarray]:
    return {name: np.asarray(variable) for name, variable in variables.items()}


def _assign(path: Path, arrays: dict[str, np.ndarray], variables: dict[str, keras.Variable]) -> None:
    _validate_alike(path, arrays, variables)
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _validate_alike(path: Path, arrays: dict[str, np.ndarray], variables: dict[str, keras.Variable]) -> None:
    for name, variable in variables.items():
        found = arrays[name].shape if name in arrays else None
        if found != tuple(variable.shape):
            raise UserError(
                f"{path}: expected {name} of shape {tuple(variable.shape)}, found {found or 'none'}; "
                "the checkpoint belongs to another configuration"
            )


def _variables(model: keras.Model) -> dict[str, keras.Variable]:
    named = _numbered(model.variables)
    # Once only: a second build of the loss-scaling optimizer would begin its scale anew.
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return named | {f"optimizer/{number}/{v.name}": v for number, v in enumerate(model.optimizer.variables)}


def _weights(model: keras.Model) -> dict[str, keras.Variable]:
    return _numbered([variable for variable in model.variables if variable.name != _GENERATOR])


def _numbered(variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    kept = [variable for variable in variables if variable.name != "frozen_table"]
    return {_name(number, variable.name): variable for number, variable in enumerate(kept)}


def _name(number: int, name: str) -> str:
    return f"model/{number}/{name}"
