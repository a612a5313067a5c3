"""The size of a model."""

import math

import keras


def count_trainable(model: keras.Model) -> int:
    """The number of trainable parameters.

    Args:
        model: a built model.
    """
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)
