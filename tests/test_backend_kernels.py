"""Norm, softmax and GELU by kernels of the backend: the formulas, and their use only where they are meant to be."""

import math
import re
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf import onednn
from fabir_tf.backends import tensorflow as backend
from fabir_tf.backends.gelu import fused_gelu
from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.layers.core.layer_norm import layer_norm
from fabir_tf.layers.core.masking import masked_softmax
from fabir_tf.models.bert_span import BertSpanConfig, build_bert_span
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.precision import dtype_policy

SOFTMAX = tf.nn.softmax
GAIN, BIAS = np.random.default_rng(1).normal(size=(2, 100))


@tf.function(autograph=False)
def by_kernel(x, epsilon):
    with mock.patch.object(onednn, "is_on", lambda: True), backend_kernels(backend.reading_kernels()):
        normalized = layer_norm(tf.reshape(x, (-1, 100)), *(tf.cast(part, x.dtype) for part in (GAIN, BIAS)), epsilon)
        return tf.reshape(normalized, tf.shape(x))


def oracle(x, epsilon):
    x = np.asarray(tf.cast(x, "float64"))
    x = x - x.mean(-1, keepdims=True)
    return GAIN * x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) + BIAS


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 5e-2)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("shape", [(3, 7, 100), (1, 1, 100), (2, 4096, 100)])
def test_the_kernel_is_the_formula(shape, scale, dtype, tolerance, epsilon):
    x = tf.cast(np.random.default_rng(2).normal(scale / 2, scale, shape), dtype)
    found = tf.cast(by_kernel(x, epsilon), "float64")
    np.testing.assert_allclose(found, oracle(x, epsilon), rtol=tolerance, atol=tolerance)


def test_a_token_of_equal_values_becomes_the_bias():
    np.testing.assert_allclose(by_kernel(tf.ones((2, 3, 100)), 1e-8), np.broadcast_to(BIAS, (2, 3, 100)), atol=1e-5)


def operations(function):
    return {node.name: node.type for node in function.get_concrete_function().graph.get_operations()}


@pytest.mark.slow
def test_only_reading_on_tensorflow_uses_it(monkeypatch):
    sharing = DeduplicatedModel(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    norms = [weight for weight in sharing.model.weights if weight.path.endswith("norm/gain")]
    monkeypatch.setattr(onednn, "is_on", lambda: True)
    found = [name for name, kind in operations(backend.as_graph(sharing)).items() if kind.startswith("FusedBatchNorm")]
    # Most norms are applied to only one text.
    assert len(found) >= len(norms) > 5
    monkeypatch.setattr(onednn, "is_on", lambda: False)
    assert "FusedBatchNormV3" not in operations(backend.as_graph(sharing)).values()
    monkeypatch.setattr(onednn, "is_on", lambda: True)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * (kind == "GPU"))
    assert "FusedBatchNormV3" not in operations(backend.as_graph(sharing)).values()
    inputs = {tensor.name: keras.ops.ones([1, 3, *tensor.shape[2:]], "int32") for tensor in sharing.model.inputs}
    plain = tf.function(sharing.model, autograph=False).get_concrete_function(inputs)
    assert "FusedBatchNormV3" not in {node.type for node in plain.graph.get_operations()}


@pytest.mark.slow
@pytest.mark.skipif(not onednn.is_on(), reason="oneDNN is switched off here")
def test_tensorflow_replaces_every_norm_by_that_of_onednn(tmp_path):
    """A norm whose parts had other uses, or whose shape is packed from parts, would stay a batch norm."""
    deduplicated = DeduplicatedModel(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    graph = backend.as_graph(deduplicated)
    inputs = {
        name: tf.ones([size or 3 for size in shape], dtype) for name, (shape, dtype) in deduplicated.input_specs.items()
    }
    inputs = {name: tf.zeros_like(ids) if name.endswith("index") else ids for name, ids in inputs.items()}
    tf.profiler.experimental.start(str(tmp_path))
    graph(inputs)
    tf.profiler.experimental.stop()
    (events,) = tmp_path.rglob("*.xplane.pb")
    # An operation is an event "name:kind".
    kinds = set(re.findall(rb":(\w*(?:LayerNorm|BatchNorm)\w*)", events.read_bytes()))
    assert kinds == {b"_MklLayerNorm"}


def softmax_types(function):
    """The dtype of each softmax in a graph."""
    nodes = function.get_concrete_function().graph.get_operations()
    return [node.outputs[0].dtype.name for node in nodes if node.type == "Softmax"]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "expected"), [("mixed_bfloat16", "bfloat16"), ("float32", "float32")])
def test_reading_leaves_the_rounding_of_weights_to_the_kernel(policy, expected, monkeypatch):
    with dtype_policy(policy):
        sharing = DeduplicatedModel(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    monkeypatch.setattr(backend, "_softmax_sums_in_float32", lambda: True)
    assert set(softmax_types(backend.as_graph(sharing))) == {expected}
    # On a CPU whose kernel would sum in bfloat16.
    monkeypatch.setattr(backend, "_softmax_sums_in_float32", lambda: False)
    assert set(softmax_types(backend.as_graph(sharing))) == {"float32"}


@pytest.mark.parametrize("length", [1, 37, 400, 4096])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_a_kernel_that_is_used_rounds_the_softmax_in_float32(scale, length):
    """The weights are at most one rounding step of bfloat16 from those of a float32 softmax."""
    kernels = backend.reading_kernels()
    logits = tf.cast(np.random.default_rng(3).normal(0, scale, (3, 5, length)), "bfloat16")
    mask = tf.range(length) < tf.constant([length, 1 + length // 2, 1])[:, None, None]

    @tf.function(autograph=False)
    def weights():
        with backend_kernels(kernels):
            return masked_softmax(logits, mask)

    exact = np.asarray(tf.cast(logits, "float64"))
    exact = np.exp(exact - exact.max(-1, keepdims=True)) * mask.numpy()
    exact = exact / exact.sum(-1, keepdims=True)
    found = np.asarray(tf.cast(weights(), "float64"))
    # Half a step of rounding and one more; a step is at most 2^-7 of a number.
    np.testing.assert_allclose(found, exact, rtol=1.5 * 2**-7, atol=1e-30)
    assert not found[~np.broadcast_to(mask, found.shape)].any()


def in_float32(logits):
    return tf.cast(SOFTMAX(tf.cast(logits, "float32")), logits.dtype)


def with_bfloat16_exponentials(logits):
    if logits.dtype == "float32":
        return SOFTMAX(logits)
    weights = tf.exp(logits - tf.reduce_max(logits, -1, keepdims=True))
    total = tf.reduce_sum(tf.cast(weights, "float32"), -1, keepdims=True)
    return tf.cast(tf.cast(weights, "float32") / total, "bfloat16")


def with_a_bfloat16_sum(logits):
    if logits.dtype == "float32":
        return SOFTMAX(logits)
    weights = tf.exp(tf.cast(logits, "float32") - tf.cast(tf.reduce_max(logits, -1, keepdims=True), "float32"))
    total = tf.cumsum(tf.cast(weights, "bfloat16"), axis=-1)[..., -1:]
    return tf.cast(weights / tf.cast(total, "float32"), "bfloat16")


def one_step_higher(logits):
    if logits.dtype == "float32":
        return SOFTMAX(logits)
    return tf.bitcast(tf.bitcast(in_float32(logits), "int16") + tf.constant(1, "int16"), "bfloat16")


def two_steps_higher(logits):
    if logits.dtype == "float32":
        return SOFTMAX(logits)
    return tf.bitcast(tf.bitcast(in_float32(logits), "int16") + tf.constant(2, "int16"), "bfloat16")


@pytest.fixture
def fresh_probe():
    backend._softmax_sums_in_float32.cache_clear()
    yield
    backend._softmax_sums_in_float32.cache_clear()


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.parametrize(
    ("softmax", "is_used"),
    [
        (in_float32, True),
        (one_step_higher, True),
        (two_steps_higher, False),
        (with_bfloat16_exponentials, False),
        (with_a_bfloat16_sum, False),
    ],
)
def test_only_a_softmax_that_rounds_like_float32_is_used(softmax, is_used, monkeypatch):
    monkeypatch.setattr(tf.nn, "softmax", softmax)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    weights = backend.reading_kernels()["softmax"](tf.zeros((1, 1, 1, 3), "bfloat16"))
    assert (weights.dtype == "bfloat16") == is_used


# === GELU ===


def exact_gelu(x):
    """The function and its derivative, in float64."""
    x = np.asarray(tf.cast(x, "float64"))
    below = np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0)))(x)
    return x * below, below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("bfloat16", 8e-3)])
def test_the_fused_gelu_is_the_function_with_its_gradient(dtype, tolerance):
    x = tf.cast(np.concatenate([np.linspace(-12, 12, 4001), [0.0, 1e-4, -1e-4, 300.0, -300.0]]), dtype)
    incoming = tf.cast(np.random.default_rng(3).normal(size=x.shape), dtype)

    @tf.function(autograph=False)
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fused_gelu()(x)
        return y, tape.gradient(y, x, output_gradients=incoming)

    value, gradient = exact_gelu(x)
    for found, expected in zip(both(x), (value, gradient * tf.cast(incoming, "float64")), strict=True):
        assert found.dtype == x.dtype
        # Where erf should be -1, it is one rounding step above it.
        error = np.abs(tf.cast(found, "float64") - expected)
        assert (error <= tolerance * np.maximum(1, np.abs(tf.cast(x, "float64")))).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_only_training_uses_it_and_learns_the_same(policy, monkeypatch):
    with dtype_policy(policy):
        sizes = {"pieces": 30, "d_model": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 12, "max_positions": 20}
        model = build_bert_span(BertSpanConfig(**sizes, max_sequence=20, hidden_dropout=0.0, attention_dropout=0.0))
    # Every token is a unique one.
    ids = np.random.default_rng(4).integers(1, 30, 33).astype("int32")
    places = np.arange(33, dtype="int32").reshape(3, 11)
    segments = (places % 11 > 3).astype("int32").reshape(-1)
    inputs = {"sequence_token_index": places, "unique_ids": ids, "unique_segments": segments}
    used = []
    gelu = fused_gelu()
    monkeypatch.setattr(backend, "fused_gelu", lambda: lambda x: used.append(x) or gelu(x))

    def gradients(trainer):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(trainer(inputs, training=True)["start_logits"][:, 4:-1]))
        return [
            np.asarray(tf.convert_to_tensor(part))
            for part in tape.gradient(loss, model.trainable_variables)
            if part is not None
        ]

    fused, plain = gradients(backend.trainer(model)), gradients(DeduplicatedModel(model))
    assert len(used) == 2 and len(fused) == len(plain)
    backend.trainer(model)(inputs, training=False)
    assert len(used) == 2
    tolerance = 1e-5 if policy == "float32" else 0.05
    largest = max(np.abs(part).max() for part in plain)
    for ours, theirs in zip(fused, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * largest)


def test_without_xla_keras_operations_compute_it(monkeypatch):
    monkeypatch.setattr(backend, "fused_gelu", lambda: None)
    assert backend.training_kernels() == {}
