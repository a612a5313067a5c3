"""The learning rate against its formula in float64."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.models.fabir import FabirConfig
from fabir_tf.training.schedules import InverseSquareRootSchedule, LinearDecay, LinearWarmup
from fabir_tf.training.train import learning_rate
from fabir_tf.training.training_config import TrainingConfig


def rate(step, d_model, factor, warmup_steps):
    """Thesis eq. 5.24; Keras' step 0 is its t = 1."""
    t = float(step + 1)
    return factor * d_model**-0.5 * min(t**-0.5, t * warmup_steps**-1.5)


@pytest.mark.parametrize("settings", [(100, 0.5, 4000), (20, 2.0, 7), (512, 1.0, 1), (128, 0.0, 10)])
@pytest.mark.parametrize("step", [0, 1, 5, 6, 7, 3998, 3999, 4000, 21_099, 1_000_000])
def test_rate_follows_the_formula(settings, step):
    np.testing.assert_allclose(float(InverseSquareRootSchedule(*settings)(step)), rate(step, *settings), rtol=1e-5)


def test_the_papers_schedule_is_the_default():
    schedule = InverseSquareRootSchedule()
    rates = np.asarray(schedule(np.arange(12_000)))
    assert int(np.argmax(rates)) == 3999
    np.testing.assert_allclose(rates.max(), 0.5 * 0.1 * 4000**-0.5, rtol=1e-5)
    np.testing.assert_allclose(rates[0], 0.05 * 4000**-1.5, rtol=1e-5)


def test_rate_inside_a_graph_with_the_optimizers_own_counter():
    schedule = InverseSquareRootSchedule(20, 2.0, 7)
    optimizer = keras.optimizers.Adam(schedule)
    optimizer.build([keras.Variable(0.0)])
    for step in (0, 3, 11):
        optimizer.iterations.assign(step)
        found = tf.function(lambda: optimizer.learning_rate)()
        np.testing.assert_allclose(found.numpy(), rate(step, 20, 2.0, 7), rtol=1e-5)


def test_schedule_comes_back_from_its_configuration():
    schedule = InverseSquareRootSchedule(30, 0.7, 12)
    stored = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    clone = keras.saving.deserialize_keras_object(stored)
    assert isinstance(clone, InverseSquareRootSchedule)
    assert clone.get_config() == {"d_model": 30, "factor": 0.7, "warmup_steps": 12}
    assert float(clone(40)) == float(schedule(40))


@pytest.mark.parametrize(("step", "share"), [(0, 1), (69, 1), (70, 1), (85, 0.5), (99, 1 / 30), (100, 0), (5000, 0)])
def test_the_rate_falls_to_nothing_at_the_end(step, share):
    schedule = LinearDecay(InverseSquareRootSchedule(20, 2.0, 7), 100, 30.0)
    np.testing.assert_allclose(float(schedule(step)), share * rate(step, 20, 2.0, 7), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(float(LinearDecay(0.01, 100, 30.0)(step)), share * 0.01, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("before", [InverseSquareRootSchedule(30, 0.7, 12), 0.02])
def test_cooldown_comes_back_from_its_configuration(before):
    schedule = LinearDecay(before, 90, 20.0)
    clone = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(schedule))))
    assert isinstance(clone, LinearDecay)
    assert float(clone(75)) == float(schedule(75)) > 0


@pytest.mark.parametrize(("step", "rate"), [(0, 0.25), (1, 0.5), (3, 1), (4, 1), (3000, 1)])
def test_the_rate_rises_from_nothing(step, rate):
    schedule = LinearWarmup(0.02, 4)
    clone = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(schedule))))
    assert isinstance(clone, LinearWarmup)
    for found in (schedule, clone):
        np.testing.assert_allclose(float(found(step)), 0.02 * rate, rtol=1e-6)


@pytest.mark.parametrize("max_steps", [None, 20])
@pytest.mark.parametrize("share", [0.1, 0.0])
def test_a_training_rises_over_its_share_of_the_steps_and_falls_to_nothing(max_steps, share):
    """Also where max_steps ends it within its decay: the peak is the learning rate all the same."""
    training = TrainingConfig(
        learning_rate=0.01, warmup_share=share, linear_decay_epochs=4 * (1 - share), epochs=4, max_steps=max_steps
    )
    last = max_steps or 4 * 25
    rates = np.array([float(learning_rate(FabirConfig(), training, 25)(step)) for step in range(last)])
    peak = round(share * last)
    np.testing.assert_allclose(rates[:peak], 0.01 * np.arange(1, peak + 1) / peak, rtol=1e-5)
    np.testing.assert_allclose(rates[peak:], 0.01 * np.arange(last - peak, 0, -1) / (last - peak), rtol=1e-5)
