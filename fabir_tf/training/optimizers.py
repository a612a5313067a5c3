"""The optimizers of a training: another one is a function here, and its settings in `OPTIMIZER_SETTINGS`."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from fabir_tf.backends import backend
from fabir_tf.training.averaging import AveragingAdadelta, AveragingAdam
from fabir_tf.training.training_config import TrainingConfig

# Weight decay pulls weights to 0, which no gain of a norm and no bias should be.
_NOT_DECAYED = ["gain", "bias"]

Adam = backend.Adam
"""Keras' Adam; on TensorFlow its step is one operation for each variable, so that the first one starts sooner."""

_Make = Callable[..., keras.optimizers.Optimizer]
_Class = type[keras.optimizers.Optimizer]
# The classes without and with a moving average of the weights.
_ADAM: tuple[_Class, _Class] = (Adam, AveragingAdam)
_ADADELTA: tuple[_Class, _Class] = (keras.optimizers.Adadelta, AveragingAdadelta)


class Factors:
    """Another learning rate for each variable; mixed into an optimizer. Weight decay has the same rate for all.

    Its attribute `factors` has a number for each trainable variable, in their order.
    """

    factors: Sequence[float]

    def update_step(self: Any, gradient, variable, learning_rate):
        """The optimizer's own, with the variable's learning rate."""
        factor = self.factors[self._get_variable_index(variable)]
        super().update_step(gradient, variable, learning_rate * factor)  # type: ignore[misc]


def make_optimizer(
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    training: TrainingConfig,
    factors: Sequence[float] = (),
) -> keras.optimizers.Optimizer:
    """Makes the optimizer that a training names.

    Args:
        learning_rate: a number or a schedule.
        training: the optimizer's name and settings, the clipping of gradients, and the moving average of the weights.
        factors: what the learning rate of each trainable variable is multiplied with; none for the same rate.

    Returns:
        The optimizer, without variables.
    """
    make = _OPTIMIZERS[training.optimizer]
    common = {"learning_rate": learning_rate, "global_clipnorm": training.clip_norm} | _averaging(training)
    optimizer = make(training, factors, **common)
    optimizer.exclude_from_weight_decay(var_names=_NOT_DECAYED)
    return optimizer


def _averaging(training: TrainingConfig) -> dict[str, Any]:
    return {} if training.ema_decay is None else {"use_ema": True, "ema_momentum": training.ema_decay}


def _class_of(classes: tuple[_Class, _Class], training: TrainingConfig, factors: Sequence[float]) -> _Make:
    """The class without or with a moving average, and with factors where they are not all 1."""
    chosen: Any = backend.optimizer_class(classes[training.ema_decay is not None])
    if all(factor == 1.0 for factor in factors):
        return chosen
    return type(chosen.__name__, (Factors, chosen), {"factors": tuple(factors)})


def _adam(training: TrainingConfig, factors: Sequence[float], **common) -> keras.optimizers.Optimizer:
    make = _class_of(_ADAM, training, factors)
    return make(beta_1=training.adam_beta_1, beta_2=training.adam_beta_2, epsilon=training.adam_epsilon, **common)


def _adamw(training: TrainingConfig, factors: Sequence[float], **common) -> keras.optimizers.Optimizer:
    return _adam(training, factors, weight_decay=training.weight_decay, **common)


def _adadelta(training: TrainingConfig, factors: Sequence[float], **common) -> keras.optimizers.Optimizer:
    make = _class_of(_ADADELTA, training, factors)
    return make(rho=training.adadelta_rho, epsilon=training.adadelta_epsilon, **common)


_OPTIMIZERS: dict[str, _Make] = {
    "adam": _adam,
    "adamw": _adamw,
    "adadelta": _adadelta,
}
