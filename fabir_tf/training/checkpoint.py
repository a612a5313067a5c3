"""Checkpoints: everything that training continues from, in one file that is whole or not there.

Keras' own checkpoints lack parts of what an exact continuation needs: the weights, the optimizer with its step and
averages, the dropout generators, the position in the epoch and the best score. They also contain the frozen word table,
which never changes and would be most of the file.
"""

import os
from pathlib import Path

import keras
import numpy as np

from fabir_tf.models.weights import is_numbered, read_state, validate_arrays, variables_of, write_arrays
from fabir_tf.pipelines.errors import UserError


def save_checkpoint(path: str | os.PathLike, model: keras.Model, state: dict) -> None:
    """Writes everything that training continues from, atomically.

    Args:
        path: an `.npz` file; it is replaced only when the new one is complete.
        model: a compiled model; its variables and its optimizer's are written, without frozen tables.
        state: whatever else the continuation needs, as JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    write_arrays(path, {name: np.asarray(variable) for name, variable in _variables(model).items()}, state)


def load_checkpoint(path: str | os.PathLike, model: keras.Model) -> dict:
    """Sets a model's and its optimizer's variables from a checkpoint.

    Args:
        path: what `save_checkpoint` wrote.
        model: built and compiled from the same configuration.

    Returns:
        The state.

    Raises:
        UserError: the file is missing, damaged, of another model, of weights alone, or of version 0.1.
    """
    path = Path(path)
    state, arrays = read_state(path)
    if is_numbered(arrays):
        raise UserError(
            f"{path}: found a checkpoint of version 0.1, whose training this version cannot resume: start a new run "
            f"with --start_from={path.parents[1]}"
        )
    variables = _variables(model)
    validate_arrays(path, arrays, variables)
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def _variables(model: keras.Model) -> dict[str, keras.Variable]:
    # Build the optimizer once only: a second build resets the scale of the loss-scaling optimizer.
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    named = variables_of(model)
    for variable in model.optimizer.variables:
        # Not the path: Keras numbers the optimizers of a process, and their names are part of it.
        name = f"optimizer/{variable.name}"
        # The loss-scaling optimizer and the one inside it both count their steps.
        while name in named:
            name += "_inner"
        named[name] = variable
    return named
