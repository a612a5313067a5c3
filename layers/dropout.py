import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="fabir_tf")
class Dropout(keras.layers.Layer):
    """Dropout that draws half as many random numbers: one of 32 bits decides on two values.

        y = x * keep / (1 - rate),   keep ~ Bernoulli(1 - rate) for each value, in training

    The rate is rounded to a multiple of 2^-16. Keras draws a number per value, which takes an eighth of a training
    step, and under bfloat16 draws it in bfloat16, too coarse for the rate (0.1 drops 0.1016 of the values).

    Masking: none is needed, each value is kept or dropped alone.

    Args:
        rate: share of the values that is dropped.
        seed: of the random numbers.

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
        dropped = round(self.rate * 2**16)
        if not training or not dropped:
            return inputs
        if dropped == 2**16:
            return ops.zeros_like(inputs)
        kept = self._random_16_bits(ops.shape(inputs)) >= dropped - 2**15
        return inputs * ops.where(kept, ops.cast(2**16 / (2**16 - dropped), inputs.dtype), ops.cast(0, inputs.dtype))

    def _random_16_bits(self, shape):
        """Integers from -2^15 to 2^15 - 1, all alike probable."""
        size = math.prod(shape)
        pairs = keras.random.randint(((size + 1) // 2, 1), -(2**31), 2**31 - 1, "int32", seed=self.seed_generator)
        return ops.reshape(ops.reshape(ops.view(pairs, "int16"), (-1,))[:size], shape)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
