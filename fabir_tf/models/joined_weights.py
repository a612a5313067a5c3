"""FABIR's first weights as in its authors' program, which computes several projections as one product."""

import math
import re

import keras
import numpy as np

# Projections that are one matrix in the program: its outputs count together.
_JOINED = (
    (re.compile(r"/self_attention/(query|key|value)/kernel$"), 3),
    (re.compile(r"/cross_attention/(key|value)/kernel$"), 2),
    (re.compile(r"^highway/(transform|gate)_\d+/kernel$"), 2),
)
# The variance of a normal distribution that is cut off at two deviations.
_TRUNCATED = 0.7737
# How much wider TensorFlow 1 draws, so that the variance after the cut is about Xavier's.
_WIDENED = 1.3


def draw_joined(model: keras.Model, seed: int) -> None:
    """Draws all matrices and kernels of a model anew, except for its tables.

        Var[W] = 2 / (n_in + n_out)

    `n_out` counts the outputs of all projections that the program computes in one product: queries, keys and values of
    a self-attention, keys and values of a cross-attention, transform and gate of a highway layer. So these begin with
    smaller values than if each counted alone. The distribution is normal, cut off at two deviations.

    Args:
        model: a FABIR.
        seed: seed of the random numbers.

    Reference: thesis eq. 5.25; the authors' program (github.com/AlCorreia/FAB) for what a layer is.
    """
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1 and not weight.path.endswith("table"):
            weight.assign(_deviation(weight.path, weight.shape) * _truncated_normal(generator, weight.shape))


def variance(path: str, shape: tuple[int, ...]) -> float:
    """The variance of the numbers that `draw_joined` draws.

    Args:
        path: of the weight.
        shape: of the weight.
    """
    return _TRUNCATED * _deviation(path, shape) ** 2


def _deviation(path: str, shape: tuple[int, ...]) -> float:
    """That of the normal distribution before it is cut off."""
    return math.sqrt(_WIDENED * 2 / sum(_fans(path, shape)))


def _fans(path: str, shape: tuple[int, ...]) -> tuple[int, int]:
    positions = math.prod(shape[:-2])
    outputs = next((count for pattern, count in _JOINED if pattern.search(path)), 1)
    return positions * shape[-2], positions * shape[-1] * outputs


def _truncated_normal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    numbers = generator.normal(size=shape)
    while (beyond := np.abs(numbers) > 2).any():
        numbers[beyond] = generator.normal(size=beyond.sum())
    return numbers.astype("float32")
