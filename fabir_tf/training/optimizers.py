"""The optimizers of a training: another one is a function here, and its settings in `OPTIMIZER_SETTINGS`."""

from collections.abc import Callable
from typing import Any

import keras

from fabir_tf.backends import backend
from fabir_tf.training.averaging import AveragingAdadelta, AveragingAdam
from fabir_tf.training.training_config import TrainingConfig

# Weight decay pulls weights to 0, which no gain of a norm and no bias should be.
_NOT_DECAYED = ["gain", "bias"]

_Make = Callable[..., keras.optimizers.Optimizer]
# The classes without and with a moving average of the weights.
_ADAM: tuple[_Make, _Make] = (backend.Adam, AveragingAdam)
_ADADELTA: tuple[_Make, _Make] = (keras.optimizers.Adadelta, AveragingAdadelta)


def make_optimizer(
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule, training: TrainingConfig
) -> keras.optimizers.Optimizer:
    """Makes the optimizer that a training names.

    Args:
        learning_rate: a number or a schedule.
        training: the optimizer's name and settings, the clipping of gradients, and the moving average of the weights.

    Returns:
        The optimizer, without variables.
    """
    optimizer = _OPTIMIZERS[training.optimizer](
        training, learning_rate=learning_rate, global_clipnorm=training.clip_norm, **_averaging(training)
    )
    optimizer.exclude_from_weight_decay(var_names=_NOT_DECAYED)
    return optimizer


def _averaging(training: TrainingConfig) -> dict[str, Any]:
    return {} if training.ema_decay is None else {"use_ema": True, "ema_momentum": training.ema_decay}


def _adam(training: TrainingConfig, **common) -> keras.optimizers.Optimizer:
    make = _ADAM[training.ema_decay is not None]
    return make(beta_1=training.adam_beta_1, beta_2=training.adam_beta_2, epsilon=training.adam_epsilon, **common)


def _adamw(training: TrainingConfig, **common) -> keras.optimizers.Optimizer:
    return _adam(training, weight_decay=training.weight_decay, **common)


def _adadelta(training: TrainingConfig, **common) -> keras.optimizers.Optimizer:
    make = _ADADELTA[training.ema_decay is not None]
    return make(rho=training.adadelta_rho, epsilon=training.adadelta_epsilon, **common)


_OPTIMIZERS: dict[str, _Make] = {
    "adam": _adam,
    "adamw": _adamw,
    "adadelta": _adadelta,
}
