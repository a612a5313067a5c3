"""The optimizers follow their equations, and each has its own settings."""

import keras
import numpy as np
import pytest

from fabir_tf.configuration import ConfigError
from fabir_tf.training.averaging import AveragingAdadelta, AveragingAdam
from fabir_tf.training.optimizers import make_optimizer
from fabir_tf.training.training_config import OPTIMIZER_SETTINGS, TrainingConfig

RATE = 0.3


def moved(training: TrainingConfig, name: str, start: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """A variable of some name after a step with each gradient."""
    variable = keras.Variable(start, name=name)
    optimizer = make_optimizer(RATE, training)
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
    return np.asarray(variable)


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    """The first value of a variable, and five gradients."""
    random = np.random.default_rng(5)
    return random.normal(size=(4, 3)).astype("float32"), random.normal(size=(5, 4, 3)).astype("float32")


def test_adadelta_follows_the_equations(data):
    start, gradients = data
    rho, epsilon = 0.8, 1e-3
    value, squares, moves = start.astype(np.float64), 0.0, 0.0
    for gradient in gradients.astype(np.float64):
        squares = rho * squares + (1 - rho) * gradient**2
        move = -np.sqrt(moves + epsilon) / np.sqrt(squares + epsilon) * gradient
        moves = rho * moves + (1 - rho) * move**2
        value = value + RATE * move
    training = TrainingConfig(optimizer="adadelta", adadelta_rho=rho, adadelta_epsilon=epsilon)
    np.testing.assert_allclose(moved(training, "kernel", start, gradients), value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "decay"), [("kernel", 0.1), ("table", 0.1), ("bias", 0.0), ("gain", 0.0)])
def test_adamw_decays_weights_apart_from_the_gradient(data, name, decay):
    start, gradients = data
    beta_1, beta_2, epsilon = 0.8, 0.95, 1e-3
    value, momentum, velocity = start.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(gradients.astype(np.float64), 1):
        momentum = beta_1 * momentum + (1 - beta_1) * gradient
        velocity = beta_2 * velocity + (1 - beta_2) * gradient**2
        rate = RATE * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        value = value * (1 - RATE * decay) - rate * momentum / (np.sqrt(velocity) + epsilon)
    adam = {"adam_beta_1": beta_1, "adam_beta_2": beta_2, "adam_epsilon": epsilon}
    training = TrainingConfig(optimizer="adamw", weight_decay=0.1, **adam)
    np.testing.assert_allclose(moved(training, name, start, gradients), value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZER_SETTINGS)
def test_each_keeps_an_average_of_the_weights(data, name):
    start, gradients = data
    training = TrainingConfig(optimizer=name, ema_decay=0.6, clip_norm=0.5)
    optimizer = make_optimizer(RATE, training)
    assert type(optimizer) is (AveragingAdadelta if name == "adadelta" else AveragingAdam)
    assert optimizer.global_clipnorm == 0.5
    variable, average = keras.Variable(start), start.astype(np.float64)
    for step, gradient in enumerate(gradients):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        decay = min(0.6, step / (step + 9))
        average = decay * average + (1 - decay) * np.asarray(variable)
    optimizer.finalize_variable_values([variable])
    np.testing.assert_allclose(np.asarray(variable), average, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ema_decay", [None, 0.5])
def test_each_variable_may_have_another_learning_rate(data, ema_decay):
    """Two variables with the same gradients move as far as their factors say; weight decay knows no factor."""
    start, gradients = data
    training = TrainingConfig(optimizer="adamw", weight_decay=0.1, ema_decay=ema_decay)
    whole, half = keras.Variable(start, name="bias"), keras.Variable(start, name="bias")
    decayed = keras.Variable(start, name="kernel")
    optimizer = make_optimizer(RATE, training, [1.0, 0.5, 0.0])
    gradient = keras.ops.convert_to_tensor(gradients[0])
    optimizer.apply([gradient] * 3, [whole, half, decayed])
    np.testing.assert_allclose(np.asarray(half) - start, (np.asarray(whole) - start) / 2, rtol=1e-5, atol=1e-6)
    assert np.abs(np.asarray(whole) - start).min() > 0.9 * RATE
    np.testing.assert_allclose(np.asarray(decayed), start * (1 - RATE * 0.1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "setting", "value"),
    [("adam", "weight_decay", 0.1), ("adadelta", "adam_beta_2", 0.9), ("adamw", "adadelta_rho", 0.5)],
)
def test_a_setting_of_another_optimizer_is_refused(optimizer, setting, value):
    with pytest.raises(ConfigError, match=f"{setting} is of no effect with optimizer='{optimizer}', found {value}"):
        TrainingConfig(optimizer=optimizer, **{setting: value})


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ConfigError, match="optimizer must be one of adam, adamw, adadelta, found 'sgd'"):
        TrainingConfig(optimizer="sgd")
