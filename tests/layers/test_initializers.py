"""Initializers: their distributions, and equal numbers for equal seeds on every backend."""

import keras
import numpy as np
import pytest

from fabir_tf.layers.core.initializers import GlorotUniform, KerasUniform, SmallNormal, StandardNormal


@pytest.mark.parametrize(("shape", "fans"), [((70, 130), 200), ((5, 30, 50), 400), ((1, 7, 20, 30), 350)])
def test_glorot_uniform(shape, fans):
    values = np.concatenate([np.ravel(GlorotUniform(seed)(shape)) for seed in range(20)])
    limit = np.sqrt(6 / fans)
    assert np.abs(values).max() <= limit
    # Variance of the uniform distribution: limit^2 / 3.
    assert values.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert abs(values.mean()) < 5 * limit / np.sqrt(3 * values.size)


def test_a_gain_is_a_factor_of_all_numbers():
    made = keras.initializers.deserialize(keras.initializers.serialize(GlorotUniform(5, gain=0.25)))
    np.testing.assert_allclose(made((2, 4)), 0.25 * GlorotUniform(5)((2, 4)), rtol=1e-6)


def test_standard_normal():
    values = StandardNormal(1)((400, 500))
    assert abs(values.mean()) < 0.012
    assert values.std() == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("initializer", [GlorotUniform, StandardNormal])
def test_numbers_do_not_depend_on_the_backend(initializer):
    """All backends expect the numbers of NumPy's generator; the limit of this shape is 1."""
    random = np.random.default_rng(5)
    drawn = random.uniform(-1, 1, (2, 4)) if initializer is GlorotUniform else random.normal(size=(2, 4))
    values = initializer(5)((2, 4), "float32")
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, drawn, rtol=1e-6)
    np.testing.assert_array_equal(values, initializer(5)((2, 4)))
    assert (values != initializer(6)((2, 4))).any()


@pytest.mark.parametrize("initializer", [GlorotUniform, StandardNormal])
def test_round_trip(initializer):
    made = keras.initializers.deserialize(keras.initializers.serialize(initializer(8)))
    assert type(made) is initializer
    np.testing.assert_array_equal(made((3, 2)), initializer(8)((3, 2)))


def test_the_global_seed_determines_the_numbers():
    drawn = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        drawn.append(GlorotUniform()((4, 5)))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_what_keras_calls_uniform():
    values = KerasUniform(1)((300, 400))
    assert np.abs(values).max() <= 0.05
    assert values.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.01)
    made = keras.initializers.deserialize(keras.initializers.serialize(KerasUniform(7)))
    np.testing.assert_array_equal(made((2, 4)), KerasUniform(7)((2, 4)))


def test_small_normal():
    values = SmallNormal(0.03, seed=1)((400, 500))
    assert abs(values.mean()) < 0.03 * 0.012
    assert values.std() == pytest.approx(0.03, rel=0.01)
    made = keras.initializers.deserialize(keras.initializers.serialize(SmallNormal(0.03, seed=7)))
    np.testing.assert_array_equal(made((2, 4)), SmallNormal(0.03, seed=7)((2, 4)))
