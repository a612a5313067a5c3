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
from fabir_tf.pipelines.files import read_arrays, replacing


def save_checkpoint(path: str | os.PathLike, model: keras.Model, state: dict, optimizer: bool = True) -> None:
    """Writes a model's variables and a state, atomically.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        model: its variables are written, but for the frozen word table.
        state: whatever else the continuation needs, as JSON values.
        optimizer: whether the optimizer's variables are written too.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = {name: np.asarray(value) for name, value in _variables(model, optimizer).items()}
    with replacing(path) as file:
        np.savez(file, state=np.frombuffer(json.dumps(state).encode(), np.uint8), **arrays)


def load_checkpoint(path: str | os.PathLike, model: keras.Model, optimizer: bool = True) -> dict:
    """Sets a model's variables from a checkpoint.

    Args:
        path: what `save_checkpoint` wrote.
        model: built from the same configuration.
        optimizer: whether the optimizer's variables are read too; they must then have been written.

    Returns:
        The state.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    path = Path(path)
    state, arrays = _read(path)
    variables = _variables(model, optimizer)
    for name, variable in variables.items():
        found = arrays[name].shape if name in arrays else None
        if found != tuple(variable.shape):
            raise UserError(
                f"{path}: expected {name} of shape {tuple(variable.shape)}, found {found or 'none'}; "
                "the checkpoint belongs to another configuration"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


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


def _variables(model: keras.Model, optimizer: bool) -> dict[str, keras.Variable]:
    kept = [variable for variable in model.variables if variable.name != "frozen_table"]
    named = {f"model/{number}/{variable.name}": variable for number, variable in enumerate(kept)}
    if optimizer:
        # Once only: a second build of the loss-scaling optimizer would begin its scale anew.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        named |= {f"optimizer/{number}/{v.name}": v for number, v in enumerate(model.optimizer.variables)}
    return named
