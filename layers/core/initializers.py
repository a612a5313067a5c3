"""Initial weights drawn by NumPy, so that one seed gives the same model on every Keras backend."""

import math

import keras
import numpy as np


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class GlorotUniform(keras.initializers.GlorotUniform):
    """Xavier's uniform distribution, between -limit and limit.

        limit = gain * sqrt(6 / (fan_in + fan_out))

    Both fans of a convolution's kernel, `(..., in, out)`, count all of its positions.

    Args:
        seed: seed of the random numbers; every call of the initializer returns the same values.
        gain: factor of all numbers.
        **kwargs: further arguments that some versions of Keras write into a saved model.

    Reference: Glorot and Bengio 2010; thesis section 5.6.3.
    """

    def __init__(self, seed: int | None = None, gain: float = 1.0, **kwargs):
        super().__init__(seed, **kwargs)
        self.gain = gain

    def __call__(self, shape, dtype=None):
        limit = self.gain * math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
        return np.random.default_rng(self.seed).uniform(-limit, limit, shape).astype("float32")

    def get_config(self):
        return super().get_config() | {"gain": self.gain}


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class StandardNormal(keras.initializers.RandomNormal):
    """The normal distribution with mean 0 and variance 1.

    Args:
        seed: seed of the random numbers; every call of the initializer returns the same values.

    Reference: thesis section 5.6.3.
    """

    def __init__(self, seed: int | None = None):
        super().__init__(0.0, 1.0, seed)

    def __call__(self, shape, dtype=None):
        return np.random.default_rng(self.seed).normal(size=shape).astype("float32")

    def get_config(self):
        return {"seed": super().get_config()["seed"]}


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class KerasUniform(keras.initializers.RandomUniform):
    """What Keras calls "uniform": numbers between -0.05 and 0.05.

    Args:
        seed: seed of the random numbers; every call of the initializer returns the same values.

    Reference: Porwal 2021, code of the layers.
    """

    def __init__(self, seed: int | None = None):
        super().__init__(-0.05, 0.05, seed)

    def __call__(self, shape, dtype=None):
        return np.random.default_rng(self.seed).uniform(-0.05, 0.05, shape).astype("float32")

    def get_config(self):
        return {"seed": super().get_config()["seed"]}


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class SmallNormal(keras.initializers.RandomNormal):
    """The normal distribution with mean 0 and a small standard deviation.

    Args:
        stddev: the standard deviation.
        seed: seed of the random numbers; every call of the initializer returns the same values.

    Reference: Devlin et al. 2019, code of the model (`initializer_range`).
    """

    def __init__(self, stddev: float = 0.02, seed: int | None = None):
        super().__init__(0.0, stddev, seed)

    def __call__(self, shape, dtype=None):
        return np.random.default_rng(self.seed).normal(0.0, self.stddev, shape).astype("float32")

    def get_config(self):
        config = super().get_config()
        return {"stddev": config["stddev"], "seed": config["seed"]}
