"""Layer normalisation and softmax as oneDNN has them: the formulas, and only while a graph for reading is traced."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf.backends import tensorflow as backend
from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.layers.core.layer_norm import layer_norm
from fabir_tf.layers.core.masking import masked_softmax
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.precision import dtype_policy

GAIN, BIAS = np.random.default_rng(1).normal(size=(2, 100))


@tf.function(autograph=False)
def by_kernel(x, epsilon):
    with backend_kernels({"standardise": backend._standardise}):
        return layer_norm(x, *(tf.cast(part, x.dtype) for part in (GAIN, BIAS)), epsilon)


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


def test_only_reading_on_tensorflow_uses_it(monkeypatch):
    sharing = DeduplicatedModel(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    norms = [layer for layer in sharing._flatten_layers() if type(layer).__name__ == "ResidualNorm"]
    found = [name for name, kind in operations(backend.as_graph(sharing)).items() if kind.startswith("FusedBatchNorm")]
    # Most norms are applied to one text.
    assert len(found) >= len(norms) > 5
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * (kind == "GPU"))
    assert "FusedBatchNormV3" not in operations(backend.as_graph(sharing)).values()
    inputs = {tensor.name: keras.ops.ones([1, 3, *tensor.shape[2:]], "int32") for tensor in sharing.model.inputs}
    plain = tf.function(sharing.model, autograph=False).get_concrete_function(inputs)
    assert "FusedBatchNormV3" not in {node.type for node in plain.graph.get_operations()}


def softmax_types(function):
    """What each softmax of a graph computes in."""
    nodes = function.get_concrete_function().graph.get_operations()
    return [node.outputs[0].dtype.name for node in nodes if node.type == "Softmax"]


@pytest.mark.parametrize(("policy", "expected"), [("mixed_bfloat16", "bfloat16"), ("float32", "float32")])
def test_reading_leaves_the_rounding_of_weights_to_the_kernel(policy, expected, monkeypatch):
    with dtype_policy(policy):
        sharing = DeduplicatedModel(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    monkeypatch.setattr(backend, "_softmax_sums_in_float32", lambda: True)
    assert set(softmax_types(backend.as_graph(sharing))) == {expected}
    # Where TensorFlow's own kernel would sum in bfloat16.
    monkeypatch.setattr(backend, "_softmax_sums_in_float32", lambda: False)
    assert set(softmax_types(backend.as_graph(sharing))) == {"float32"}


@pytest.mark.parametrize("length", [1, 37, 400, 4096])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_a_kernel_that_is_used_rounds_the_softmax_in_float32(scale, length):
    """The kernel's weights are those that float32 gives, but for the last bit of bfloat16."""
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
    np.testing.assert_allclose(found, exact, rtol=2**-8, atol=1e-30)
    assert not found[~np.broadcast_to(mask, found.shape)].any()
