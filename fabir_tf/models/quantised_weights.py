"""Weights with 8 bits per number, as a file holds them; a model computes with floats."""

from collections.abc import Mapping

import numpy as np

SCALES = "scales/"
"""What stands before a weight's name in that of its scales."""

_LARGEST = 127


def quantise_weights(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gives every matrix 8 bits per number; biases, gains and other vectors stay as they are.

    A scale belongs to all numbers with the same place along one axis: the first, as suits a table of vectors, or the
    last, as suits a kernel; whichever has the smaller scales (their geometric mean).

    Args:
        weights: float arrays by name.

    Returns:
        int8 arrays by name, the scales of each under its name behind `scales/`, and the other arrays.
    """
    found = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            found[name] = weight
            continue
        forms = [_quantised(weight, axis) for axis in (0, weight.ndim - 1)]
        found[name], found[SCALES + name] = min(forms, key=lambda form: _mean_step(form[1]))
    return found


def dequantise_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The float32 weights of what `quantise_weights` returned; other arrays as they are.

    Args:
        arrays: by name.

    Raises:
        ValueError: scales do not fit their weights.
    """
    found = {name: array for name, array in arrays.items() if not name.startswith(SCALES)}
    for name in arrays.keys() - found.keys():
        weight, scales = found.get(name.removeprefix(SCALES)), arrays[name]
        if weight is None or not _fit(weight, scales):
            raise ValueError(f"the array {name} fits no weight")
        found[name.removeprefix(SCALES)] = weight * scales.astype(np.float32)
    return found


def _quantised(weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    others = tuple(number for number in range(weight.ndim) if number != axis)
    scales = (np.abs(weight).max(others, keepdims=True) / _LARGEST).astype(np.float32)
    # A row of zeros has none.
    divisors = np.where(scales > 0, scales, 1)
    return np.clip(np.rint(weight / divisors), -_LARGEST, _LARGEST).astype(np.int8), scales


def _fit(weight: np.ndarray, scales: np.ndarray) -> bool:
    if weight.dtype != np.int8 or weight.ndim != scales.ndim:
        return False
    return all(size in (1, whole) for size, whole in zip(scales.shape, weight.shape, strict=True))


def _mean_step(scales: np.ndarray) -> float:
    """The geometric mean, which also sees the small rows beside large ones; nothing is smaller than no row at all."""
    return float(np.log(np.maximum(scales, np.finfo(np.float32).tiny)).mean())
