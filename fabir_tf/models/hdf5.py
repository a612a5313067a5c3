"""Reads arrays of HDF5 files, which may also say that their bytes lie in another file."""

from pathlib import Path

import h5py
import numpy as np

from fabir_tf.pipelines.errors import UserError


def read_array(path: Path, dataset: h5py.Dataset) -> np.ndarray:
    """The values of an array.

    Args:
        path: the file that was opened.
        dataset: one of its arrays.

    Raises:
        UserError: its bytes lie in another file, which this one could have been made to reach.
    """
    if dataset.file.filename != str(path) or dataset.external or dataset.is_virtual:
        raise UserError(f"{path}: found {dataset.name} in another file, expected all weights in this one.")
    return dataset[()]
