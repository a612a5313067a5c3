"""The common tests notice the faults that they exist for."""

import keras
import layer_testing
import numpy as np
import pytest
from keras import ops

from fabir_tf.layers.core.dense_gradient import dense_gradient

IDS = {"ids": np.array([[1, 2, 2], [0, 1, 0]], "int32")}


@keras.saving.register_keras_serializable(package="tests")
class DenseTable(keras.layers.Layer):
    """Looks a table up as a layer should."""

    def build(self, ids_shape):
        self.table = self.add_weight(name="table", shape=(3, 4))

    def call(self, ids):
        return ops.take(dense_gradient(self.table), ids, axis=0)

    def compute_output_shape(self, ids_shape):
        return *ids_shape, 4


@keras.saving.register_keras_serializable(package="tests")
class SparseTable(DenseTable):
    """Looks the table up without `dense_gradient`."""

    def call(self, ids):
        return ops.take(self.table, ids, axis=0)


@keras.saving.register_keras_serializable(package="tests")
class MaskedSum(keras.layers.Layer):
    """Takes `mask` and leaves Keras to guess what becomes of it."""

    def build(self, x_shape):
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def call(self, x, mask):
        return ops.where(mask[..., None], x * self.scale, ops.zeros_like(x))

    def compute_output_shape(self, x_shape):
        return x_shape


@keras.saving.register_keras_serializable(package="tests")
class ForgetfulTable(DenseTable):
    """Does not store its argument."""

    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def get_config(self):
        config = super().get_config()
        config.pop("scale", None)
        return config


def test_a_table_with_a_dense_gradient_passes():
    layer_testing.run_layer_test(DenseTable, {}, IDS)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow has sparse gradients")
def test_a_table_with_a_sparse_gradient_fails():
    with pytest.raises(AssertionError, match=r"table: found a sparse gradient, expected a dense one.*dense_gradient"):
        layer_testing.run_layer_test(SparseTable, {}, IDS)


def test_a_layer_that_loses_its_mask_fails():
    inputs = {"x": layer_testing.normal(2, 3, 4, seed=1), "mask": layer_testing.mask_of((3, 0), 3)}
    with pytest.raises(UserWarning, match="does not support masking"):
        layer_testing.run_layer_test(MaskedSum, {}, inputs)


def test_an_argument_that_is_not_stored_fails():
    with pytest.raises(AssertionError, match="an argument is missing in the configuration"):
        layer_testing.run_layer_test(ForgetfulTable, {"scale": 2.0}, IDS)


def test_an_argument_with_its_default_fails():
    with pytest.raises(AssertionError, match="the test gives scale its default"):
        layer_testing.run_layer_test(ForgetfulTable, {"scale": 1.0}, IDS)
