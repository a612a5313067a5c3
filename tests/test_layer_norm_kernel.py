"""Layer normalisation as oneDNN has it: the formula, and only while a graph for reading is traced."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf.backends import tensorflow as backend
from fabir_tf.layers.layer_norm import layer_norm, standardising_with
from fabir_tf.passage_sharing import PassageSharing

GAIN, BIAS = np.random.default_rng(1).normal(size=(2, 100))


@tf.function(autograph=False)
def by_kernel(x, epsilon):
    with standardising_with(backend._standardise):
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
    sharing = PassageSharing(fabir_tf.build_model(frozen_words=30, characters=20, num_layers=1))
    norms = [layer for layer in sharing._flatten_layers() if type(layer).__name__ == "ResidualNorm"]
    found = [name for name, kind in operations(backend.as_graph(sharing)).items() if kind.startswith("FusedBatchNorm")]
    # Most norms are applied to one text.
    assert len(found) >= len(norms) > 5
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * (kind == "GPU"))
    assert "FusedBatchNormV3" not in operations(backend.as_graph(sharing)).values()
    inputs = {tensor.name: keras.ops.ones([1, 3, *tensor.shape[2:]], "int32") for tensor in sharing.model.inputs}
    plain = tf.function(sharing.model, autograph=False).get_concrete_function(inputs)
    assert "FusedBatchNormV3" not in {node.type for node in plain.graph.get_operations()}
