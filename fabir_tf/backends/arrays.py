"""Reading and training on JAX, where TensorFlow need not be installed: NumPy batches of few shapes, each compiled once.

JAX keeps what it has compiled between processes in the folder that JAX_COMPILATION_CACHE_DIR names.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np

from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.features.array_batches import array_batches as feed
from fabir_tf.pipelines.features.features import Features

__all__ = ["Logits", "compiles_with_xla", "feed", "make_deterministic", "sync", "traced", "write_events"]


class Logits:
    """A model's logits of many batches; see `fabir_tf.backends.tensorflow.Logits`."""

    def __init__(self, model: keras.Model):
        self._sharing = DeduplicatedModel(model)

    def __call__(self, rows: Features, batches: Sequence[np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        for batch, (inputs,) in zip(batches, feed(rows, batches, like=batches), strict=True):
            logits = self._sharing.predict_on_batch(inputs)
            yield {name: np.asarray(values)[: len(batch)] for name, values in logits.items()}


def traced(decoder: keras.layers.Layer) -> keras.layers.Layer:
    """What chooses answers from logits as it is: it would be compiled anew for every length."""
    return decoder


def compiles_with_xla(asked: bool) -> bool:
    """Whether the training step is compiled with XLA: JAX has nothing else."""
    return True


def make_deterministic() -> None:
    """JAX repeats exactly on a CPU and a TPU; for a GPU, XLA_FLAGS=--xla_gpu_deterministic_ops=true says so."""


def sync(trainer: keras.Model) -> None:
    """Brings a model's variables up to date in the middle of a fit, during which JAX holds them elsewhere."""
    trainer.jax_state_sync()


def write_events(folder: str | os.PathLike, step: int, values: Mapping[str, float]) -> None:
    """TensorBoard's files are TensorFlow's to write; history.csv holds the same numbers."""
