"""Reading and training on JAX, without TensorFlow: NumPy batches in few shapes, each compiled once.

JAX keeps what it has compiled between processes in the folder that JAX_COMPILATION_CACHE_DIR names.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import jax
import keras
import numpy as np
from keras.optimizers import Adam

from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.features.array_batches import array_batches as feed
from fabir_tf.pipelines.features.features import Features

__all__ = [
    "Adam",
    "Logits",
    "compiles_with_xla",
    "computes_on_cpu",
    "feed",
    "make_deterministic",
    "sync",
    "traced",
    "write_events",
]


class Logits:
    """A model's logits of many batches; see `fabir_tf.backends.tensorflow.Logits`."""

    def __init__(self, model: keras.Model):
        self._deduplicated = DeduplicatedModel(model)

    def answer_at_once(self) -> None:
        """Does nothing: JAX compiles for each shape, also for the first one."""

    def __call__(self, features: Features, batches: Sequence[np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        for batch, (inputs,) in zip(batches, feed(features, batches, like=batches), strict=True):
            logits = self._deduplicated.predict_on_batch(inputs)
            yield {name: np.asarray(values)[: len(batch)] for name, values in logits.items()}


def traced(decoder: keras.layers.Layer, has_null: bool = False) -> keras.layers.Layer:
    """The decoder itself: JAX would compile it for every length."""
    return decoder


def compiles_with_xla(asked: bool) -> bool:
    """Whether the training step is compiled with XLA; JAX always does."""
    return True


def computes_on_cpu() -> bool:
    """Whether there is neither a GPU nor a TPU."""
    return jax.default_backend() == "cpu"


def make_deterministic() -> None:
    """JAX repeats exactly on a CPU and a TPU; on a GPU it needs XLA_FLAGS=--xla_gpu_deterministic_ops=true."""


def sync(trainer: keras.Model) -> None:
    """Updates a model's variables in the middle of a fit, during which JAX keeps their values elsewhere."""
    trainer.jax_state_sync()


def write_events(folder: str | os.PathLike, step: int, values: Mapping[str, float]) -> None:
    """Does nothing: TensorFlow writes TensorBoard's files, and history.csv holds the same numbers."""
