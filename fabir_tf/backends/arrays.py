"""Reading and training on JAX, without TensorFlow: NumPy batches in few shapes, each compiled once.

JAX keeps what it has compiled between processes in the folder that JAX_COMPILATION_CACHE_DIR names.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import keras
import numpy as np
from keras.optimizers import Adam

from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.array_batches import ROWS
from fabir_tf.pipelines.features.array_batches import array_batches as feed
from fabir_tf.pipelines.features.features import Features

__all__ = [
    "Adam",
    "Logits",
    "compiles_with_xla",
    "computes_on_cpu",
    "devices",
    "feed",
    "make_deterministic",
    "optimizer_class",
    "sync",
    "traced",
    "trainer",
    "use_cpu",
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


def devices(
    distribution: str, logical_devices: int | None, log: Callable[[str], object]
) -> contextlib.AbstractContextManager:
    """The devices to train on, as a context in which the model is made and trained.

    JAX computes what one device would, and divides the rows of every array among the devices. A passage may therefore
    lie on another device than its questions, and is then sent there.

    Args:
        distribution: "data_parallel", the only one that JAX has.
        logical_devices: parts of the CPU that stand for devices; None for all devices that JAX finds.
        log: called with one line that names the devices.

    Raises:
        UserError: another distribution, JAX has started with fewer logical devices, or the rows of a batch cannot be
            divided among so many.
    """
    if distribution != "data_parallel":
        raise UserError(
            f"--distribution={distribution} needs TensorFlow, found KERAS_BACKEND=jax: expected "
            "--distribution=data_parallel, which does the same there"
        )
    names = _parts_of_cpu(logical_devices) if logical_devices else keras.distribution.list_devices()
    if ROWS % len(names):
        raise UserError(
            f"--distribution=data_parallel: found {len(names)} devices, expected 1, 2, 4, 8 or {ROWS}, among which the "
            "rows of a batch can be divided"
        )
    one = "one device only" if len(names) == 1 else f"{len(names)} devices"
    log(f"--distribution=data_parallel: training on {one}, {', '.join(names)}")
    return _distributed(keras.distribution.DataParallel(devices=names))


def _parts_of_cpu(count: int) -> list[str]:
    """Names of logical devices, which are made of the CPU unless there are as many."""
    with contextlib.suppress(RuntimeError):
        # JAX has computed something.
        jax.config.update("jax_num_cpu_devices", count)
    found = keras.distribution.list_devices("cpu")
    if len(found) < count:
        raise UserError(
            f"--logical_devices={count}: JAX has started with {len(found)}, expected a new process that has computed "
            "nothing yet"
        )
    return found[:count]


@contextlib.contextmanager
def _distributed(distribution: keras.distribution.DataParallel) -> Iterator[None]:
    # Keras' own scope does not end with an error.
    former = keras.distribution.distribution()
    keras.distribution.set_distribution(distribution)
    try:
        yield
    finally:
        keras.distribution.set_distribution(former)


def trainer(model: keras.Model, training_model: keras.Model | None = None) -> DeduplicatedModel:
    """What trains a model, on one device or several; see the TensorFlow backend's."""
    return DeduplicatedModel(model, training_model=training_model)


def optimizer_class(optimizer: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """The class of an optimizer for what `trainer` returns: itself."""
    return optimizer


def make_deterministic() -> None:
    """JAX repeats exactly on a CPU and a TPU; on a GPU it needs XLA_FLAGS=--xla_gpu_deterministic_ops=true."""


def sync(trainer: keras.Model) -> None:
    """Updates a model's variables in the middle of a fit, during which JAX keeps their values elsewhere."""
    trainer.jax_state_sync()


def use_cpu() -> None:
    """See `fabir_tf.backends.tensorflow.use_cpu`."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def write_events(folder: str | os.PathLike, step: int, values: Mapping[str, float]) -> None:
    """Does nothing: TensorFlow writes TensorBoard's files, and history.csv holds the same numbers."""
