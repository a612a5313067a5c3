"""Reading and training on TensorFlow: tf.data batches, and one graph for all lengths."""

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import tensorflow as tf

from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.tensor_batches import batches_to_read, make_batches

__all__ = [
    "Logits",
    "as_graph",
    "compiles_with_xla",
    "feed",
    "make_deterministic",
    "reading_kernels",
    "sync",
    "traced",
    "write_events",
]

# Batches computed at once: a core that has done its part of an operation goes on with another batch.
STREAMS = 2


class Logits:
    """A model's logits of many batches.

    Args:
        model: what `fabir_tf.build_model` returned.

    Call arguments:
        rows: what can be read.
        batches: int64 arrays of row numbers, one per batch.

    Yields:
        For each batch in turn the model's outputs, arrays `(batch, passage)` by name; the passage is at least as long
        as the batch's longest.
    """

    def __init__(self, model: keras.Model):
        self._logits = as_graph(DeduplicatedModel(model))

    def __call__(self, rows: Features, batches: Sequence[np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        return self.of(batches_to_read(rows, batches))

    def of(self, batches: Iterable[dict[str, tf.Tensor]]) -> Iterator[dict[str, np.ndarray]]:
        """The logits of batches that are made already."""
        with ThreadPoolExecutor(STREAMS) as pool:
            ahead = deque()
            for inputs in batches:
                ahead.append(pool.submit(self._logits, inputs))
                if len(ahead) > STREAMS:
                    yield _as_arrays(ahead.popleft().result())
            while ahead:
                yield _as_arrays(ahead.popleft().result())


def feed(
    rows: Features, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray], like: Iterable[np.ndarray]
) -> tf.data.Dataset:
    """The dataset to train on, from `make_batches`; `like` is for backends that compile for each shape."""
    return make_batches(rows, batches, targets)


def as_graph(sharing: DeduplicatedModel) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """A model as one graph for every batch and every length: shapes are left open."""
    signature = {name: tf.TensorSpec(*spec, name) for name, spec in sharing.input_specs.items()}
    kernels = reading_kernels()

    def logits(inputs):
        with backend_kernels(kernels):
            return sharing(inputs)

    return tf.function(logits, input_signature=[signature], autograph=False)


def traced(decoder: keras.layers.Layer) -> Callable:
    """What chooses answers from logits as one graph, for every batch and every length."""
    logits = tf.TensorSpec([None, None], tf.float32)
    return tf.function(decoder, input_signature=[logits, logits], autograph=False)


def reading_kernels() -> dict[str, Callable]:
    """What reads faster than Keras' operations on this machine, for `fabir_tf.layers.core.backend_kernels`."""
    if tf.config.list_physical_devices("GPU"):
        return {}
    return {"standardise": _standardise} | ({"softmax": tf.nn.softmax} if _softmax_sums_in_float32() else {})


@functools.cache
def _softmax_sums_in_float32() -> bool:
    """Whether oneDNN computes a softmax in bfloat16: TensorFlow's own sums it in bfloat16, where 256 + 1 = 256."""
    softmax = tf.function(tf.nn.softmax, autograph=False)
    return bool(tf.reduce_all(softmax(tf.zeros([1, 4096], tf.bfloat16)) == 1 / 4096))


def _standardise(x: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Layer normalisation as oneDNN has it, in one pass over the texts.

    A batch norm over a single "image" whose channels are the tokens; TensorFlow replaces it, and the gain and bias
    after it, by oneDNN's layer norm. Not on a GPU, whose batch norm may refuse so small an epsilon.
    """
    shape, tokens = tf.shape(x), tf.size(x) // x.shape[-1]
    image = tf.reshape(x, (1, tokens, x.shape[-1], 1))
    ones, zeros = tf.ones([tokens]), tf.zeros([tokens])
    image, _, _ = tf.compat.v1.nn.fused_batch_norm(image, ones, zeros, epsilon=epsilon, data_format="NCHW")
    return tf.reshape(image, shape)


def _as_arrays(logits: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in logits.items()}


def compiles_with_xla(asked: bool) -> bool:
    """Whether the training step is compiled with XLA, which on TensorFlow is slower on a CPU."""
    return asked


def make_deterministic() -> None:
    """Makes operations repeat exactly, also where that is slower."""
    tf.config.experimental.enable_op_determinism()


def sync(trainer: keras.Model) -> None:
    """Brings a model's variables up to date in the middle of a fit; TensorFlow's always are."""


def write_events(folder: str | os.PathLike, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers for TensorBoard, which need not be installed for that."""
    summary = tf.compat.v1.Summary()
    for name, value in values.items():
        summary.value.add(tag=name, simple_value=value)
    with tf.summary.create_file_writer(os.fspath(folder)).as_default():
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)
