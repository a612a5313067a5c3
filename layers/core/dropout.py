import math

import keras
from keras import ops

from fabir_tf.layers.core.shared_values import derived, leading, shape_of


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Dropout(keras.layers.Layer):
    """Dropout that needs a quarter of the random numbers: one number of 32 bits decides on four values.

        y = x * keep / (1 - rate),   keep ~ Bernoulli(1 - rate) for each value, in training

    Each value is decided by 8 bits, so each call drops at one of the two multiples of 1/256 next to `rate`, chosen at
    random such that their mean is `rate` (to 2^-16). Keras draws one number per value, which takes an eighth of a
    training step; under bfloat16 it draws in bfloat16, which is too coarse (a rate of 0.1 drops 0.1016 of the values).

    Masking: none is needed, each value is kept or dropped alone.

    Args:
        rate: share of the values dropped; a rate between 255/256 and 1 acts as 255/256.
        seed: seed of the random numbers.

    Call arguments:
        inputs: float tensor of any shape.
        training: whether to drop.

    Returns:
        Float tensor of the same shape.

    Raises:
        ValueError: `rate` is less than 0 or more than 1.

    Example:
        >>> Dropout(0.1)(np.ones((2, 7, 100)), training=True).shape
        (2, 7, 100)

    Reference: Srivastava et al. 2014; FABIR section IV.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be from 0 to 1. Received: rate={rate}")
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs, training=None):
        if not training or not self.rate:
            return inputs
        if self.rate == 1:
            return ops.zeros_like(inputs)
        # In units of 2^-16, limited so that the threshold below fits 8 bits.
        dropped = min(round(self.rate * 2**16), 255 * 2**8)
        values, chance = self._random_bytes(inputs)
        threshold = (dropped + chance) // 2**8 - 2**7
        kept = values >= ops.cast(threshold, "int8")
        return inputs * ops.where(kept, ops.cast(2**16 / (2**16 - dropped), inputs.dtype), ops.cast(0, inputs.dtype))

    def _random_bytes(self, inputs):
        """Uniform integers: from -128 to 127 in the shape of the inputs, and one from 0 to 255."""
        is_text = len(inputs.shape) == 3 and inputs.shape[2] is not None
        shape = (*derived(leading, inputs), inputs.shape[2]) if is_text else ops.shape(inputs)
        quadruples, size, shape = derived(_amounts, *shape)
        numbers = keras.random.randint(quadruples, -(2**31), 2**31 - 1, "int32", seed=self.seed_generator)
        values = ops.reshape(ops.view(numbers, "int8"), (-1,))
        return ops.reshape(values[:size], shape), ops.bitwise_and(numbers[-1, 0], 2**8 - 1)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}


def _amounts(*shape):
    """The shape of the random numbers that decide on a tensor's values, the number of values, and their shape."""
    size = math.prod(shape)
    return shape_of(((size + 3) // 4 + 1,), 1), size, shape_of(shape)
