"""A table too large for memory, whose rows are read when a batch asks for them."""

import numpy as np


class RowsOnDisk:
    """The rows of a mapped file, in the place of an array of `Features.unique`.

    Args:
        array: `(rows, ...)`, mapped from a file.
    """

    def __init__(self, array: np.ndarray):
        self._array = array

    @property
    def dtype(self) -> np.dtype:
        """That of the array."""
        return self._array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self._array.shape

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, as an array in memory.

        Args:
            rows: int array, their numbers.
        """
        return np.asarray(self._array[rows])
