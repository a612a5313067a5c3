"""Reading and training on TensorFlow: tf.data batches, and one graph for all lengths."""

import contextlib
import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import tensorflow as tf

from fabir_tf import onednn
from fabir_tf.backends.fused_adam import FusedAdam as Adam
from fabir_tf.backends.gelu import fused_gelu
from fabir_tf.backends.graph_lock import GRAPH_LOCK
from fabir_tf.backends.mirrored import MirroredModel, mirrored_batches, mirrored_optimizer
from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.tensor_batches import batches_to_read, make_batches

__all__ = [
    "PORTABLE_KERNELS",
    "Adam",
    "Logits",
    "as_graph",
    "compiles_with_xla",
    "computes_on_cpu",
    "devices",
    "feed",
    "make_deterministic",
    "optimizer_class",
    "reading_kernels",
    "sync",
    "traced",
    "trainer",
    "write_events",
]

# Of a SavedModel, too, wherever it is served.
PORTABLE_KERNELS: dict[str, Callable] = {"take": tf.gather}

# Batches computed at once: a core that has finished its part of an operation continues with another batch.
STREAMS = 2
# A loaded reader computes its first small batches without a graph: to trace one takes as long as eight of them.
EAGER_BATCHES, EAGER_EXAMPLES = 5, 8


class Logits:
    """A model's logits of many batches.

    Args:
        model: what `fabir_tf.build_model` returned.

    Call arguments:
        features: the examples.
        batches: int64 arrays of example numbers, one per batch.

    Yields:
        For each batch in turn the model's outputs, arrays `(batch, ...)` by name, padded to the batch's longest text or
        further.
    """

    def __init__(self, model: keras.Model):
        self._logits = as_graph(DeduplicatedModel(model))
        self._graph = _TracedOnce(self._logits)
        self._eager_batches = 0
        self._pool = ThreadPoolExecutor(STREAMS, "fabir_tf-reading")

    def answer_at_once(self) -> None:
        """Computes the next few small batches without a graph, whose numbers differ in the last digits."""
        self._eager_batches = EAGER_BATCHES

    def __call__(self, features: Features, batches: Sequence[np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        inputs = batches_to_read(features, batches)
        if self._graph.is_traced or sum(map(len, batches)) > EAGER_EXAMPLES or len(batches) > self._eager_batches:
            return self.of(inputs)
        self._eager_batches -= len(batches)
        return (_as_arrays(self._logits.python_function(batch)) for batch in inputs)

    def of(self, batches: Iterable[dict[str, tf.Tensor]]) -> Iterator[dict[str, np.ndarray]]:
        """The logits of batches of inputs."""
        ahead = deque()
        for inputs in batches:
            ahead.append(self._pool.submit(self._graph, inputs))
            if len(ahead) > STREAMS:
                yield _as_arrays(ahead.popleft().result())
        while ahead:
            yield _as_arrays(ahead.popleft().result())


def feed(
    features: Features, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray], like: Iterable[np.ndarray]
) -> tf.data.Dataset:
    """The dataset to train on, from `make_batches`; `like` is for backends that compile for each shape.

    Inside `devices` each of several devices gets a part of every batch.
    """
    if tf.distribute.has_strategy():
        return mirrored_batches(tf.distribute.get_strategy(), features, batches, targets)
    return make_batches(features, batches, targets)


def devices(
    distribution: str, logical_devices: int | None, log: Callable[[str], object]
) -> contextlib.AbstractContextManager:
    """The devices to train on, as a context in which the model is made and trained.

    Args:
        distribution: "mirrored", the only one that TensorFlow has.
        logical_devices: parts of the CPU that stand for devices; None for the GPUs of this machine, or its CPU.
        log: called with one line that names the devices.

    Raises:
        UserError: another distribution, or TensorFlow has started with fewer logical devices.
    """
    if distribution != "mirrored":
        raise UserError(
            f"--distribution={distribution}: Keras' data parallelism has no effect on TensorFlow, expected "
            "KERAS_BACKEND=jax in the environment, or --distribution=mirrored"
        )
    if logical_devices:
        _split_cpu(logical_devices)
        names = [f"CPU:{number}" for number in range(logical_devices)]
    else:
        names = [device.name.partition("device:")[2] for device in tf.config.list_logical_devices("GPU")] or ["CPU:0"]
    one = "one device only" if len(names) == 1 else f"{len(names)} devices"
    log(f"--distribution=mirrored: training on {one}, {', '.join(names)}")
    # TensorFlow's own choice for parts of the CPU lets a process train on one number of devices only.
    sums = tf.distribute.ReductionToOneDevice() if logical_devices else None
    return tf.distribute.MirroredStrategy(names, sums).scope()


def _split_cpu(count: int) -> None:
    """Makes logical devices of the CPU, unless there are as many."""
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    except RuntimeError:
        # TensorFlow has computed something.
        found = len(tf.config.list_logical_devices("CPU"))
        if found < count:
            raise UserError(
                f"--logical_devices={count}: TensorFlow has started with {found}, expected a new process that has "
                "computed nothing yet"
            ) from None


def trainer(model: keras.Model, training_model: keras.Model | None = None) -> DeduplicatedModel:
    """What trains a model: on the devices of the strategy in whose scope it is made, if there is one.

    Args:
        model: the reader's.
        training_model: as for `DeduplicatedModel`.
    """
    if tf.distribute.has_strategy():
        return MirroredModel(model, training_model=training_model)
    return DeduplicatedModel(model, training_kernels(), training_model)


def training_kernels() -> dict[str, Callable]:
    """Kernels that are faster than Keras' operations on this machine, and have a gradient."""
    gelu = fused_gelu() if computes_on_cpu() else None
    return {"gelu": gelu} if gelu else {}


def optimizer_class(optimizer: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """The class of an optimizer for what `trainer` returns."""
    return mirrored_optimizer(optimizer) if tf.distribute.has_strategy() else optimizer


def as_graph(model: DeduplicatedModel) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """A model as one graph with unknown shapes, for every batch and every length."""
    signature = {name: tf.TensorSpec(*spec, name) for name, spec in model.input_specs.items()}
    kernels = reading_kernels()

    def logits(inputs):
        with backend_kernels(kernels):
            return model(inputs)

    return tf.function(logits, input_signature=[signature], autograph=False)


def traced(decoder: keras.layers.Layer, has_null: bool = False) -> Callable:
    """A decoder as one graph, for every batch and every length.

    Args:
        decoder: chooses spans from start and end logits, and from null logits if there are any.
        has_null: whether it is called with null logits; without, the third argument is None.
    """
    logits = tf.TensorSpec([None, None], tf.float32)
    signature = [logits, logits] + [tf.TensorSpec([None, 2], tf.float32)] * has_null
    graph = _TracedOnce(tf.function(decoder, input_signature=signature, autograph=False))
    return graph if has_null else lambda start, end, null=None: graph(start, end)


class _TracedOnce:
    """A function with an input signature, traced at its first call, while no other thread makes a graph."""

    def __init__(self, function):
        self._function = function
        self._graph: Callable | None = None

    @property
    def is_traced(self) -> bool:
        """Whether it was called."""
        return self._graph is not None

    def __call__(self, *args):
        if self._graph is None:
            with GRAPH_LOCK:
                self._graph = self._function.get_concrete_function()
        return self._graph(*args)


def reading_kernels() -> dict[str, Callable]:
    """Kernels that are faster than Keras' operations on this machine, for `fabir_tf.layers.core.backend_kernels`."""
    if not computes_on_cpu():
        return PORTABLE_KERNELS
    # A batch norm is slower than Keras' operations where oneDNN does not compute it.
    return PORTABLE_KERNELS | {"softmax": _softmax} | ({"standardise": _standardise} if onednn.is_on() else {})


def _softmax(logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(logits if _softmax_sums_in_float32() else tf.cast(logits, tf.float32))


@functools.cache
def _softmax_sums_in_float32() -> bool:
    """Whether TensorFlow computes a bfloat16 softmax in float32, as oneDNN does on newer CPUs.

    On other CPUs the exponentials and sums are bfloat16, and weights are wrong by up to 30 %. The probe compares random
    logits of several scales and lengths with a float32 softmax rounded to bfloat16; one rounding step is allowed.
    """
    softmax = tf.function(tf.nn.softmax, input_signature=[tf.TensorSpec([None] * 4, tf.bfloat16)], autograph=False)
    random = np.random.default_rng(1)
    # Eagerly, even if a graph is being traced.
    with tf.init_scope():
        for length in (7, 64, 1000):
            logits = np.stack([random.normal(0, scale, (2, 8, length)) for scale in (0.01, 1.0, 30.0)])
            logits = tf.cast(logits, tf.bfloat16)
            expected = tf.cast(tf.nn.softmax(tf.cast(logits, tf.float32)), tf.bfloat16)
            # Read as integers, the bits of positive bfloat16 numbers count rounding steps.
            found_steps, steps = (tf.cast(tf.bitcast(x, tf.int16), tf.int32) for x in (softmax(logits), expected))
            # Kernels differ in whether they round the smallest numbers to 0.
            if tf.reduce_any((tf.abs(found_steps - steps) > 1) & (expected > 1e-30)):
                return False
    return True


def _standardise(x: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Layer normalization by oneDNN, in one pass over the tokens `(tokens, features)`.

    This is a batch norm over a single "image" whose channels are the tokens. TensorFlow replaces it, together with the
    gain and bias after it, by oneDNN's layer norm, which takes a third of the time. It does so only if the image has a
    gain of its own: one that norms share has other uses. A GPU's batch norm may refuse such a small epsilon.
    """
    features, tokens = x.shape[-1], tf.shape(x)[:1]
    image, _, _ = tf.compat.v1.nn.fused_batch_norm(
        tf.reshape(x, (1, -1, features, 1)),
        tf.fill(tokens, 1.0),
        tf.fill(tokens, 0.0),
        epsilon=epsilon,
        data_format="NCHW",
    )
    return tf.reshape(image, (-1, features))


def _as_arrays(logits: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in logits.items()}


def compiles_with_xla(asked: bool) -> bool:
    """Whether the training step is compiled with XLA, which is slower with TensorFlow on a CPU."""
    return asked


def computes_on_cpu() -> bool:
    """Whether there is no GPU."""
    return not tf.config.list_physical_devices("GPU")


def make_deterministic() -> None:
    """Makes operations repeat exactly, even where that is slower."""
    tf.config.experimental.enable_op_determinism()


def sync(trainer: keras.Model) -> None:
    """Does nothing: TensorFlow's variables are up to date in the middle of a fit."""


def use_cpu() -> None:
    """Leaves the accelerators, and their memory, to other processes; nothing may have been computed before."""
    tf.config.set_visible_devices([], "GPU")


def write_events(folder: str | os.PathLike, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers for TensorBoard, which does not have to be installed."""
    summary = tf.compat.v1.Summary()
    for name, value in values.items():
        summary.value.add(tag=name, simple_value=value)
    with tf.summary.create_file_writer(os.fspath(folder)).as_default():
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)
