from typing import Any

import keras
from keras import ops

from fabir_tf.backends import backend

# The average over t steps reaches back over about a tenth of them, until `ema_momentum` reaches back less.
_FORGETTING = 9.0


class Averaging:
    """A moving average of the weights that early in the training has forgotten the first ones; mixed into an optimizer.

        average <- decay average + (1 - decay) weights,   decay = min(ema_momentum, t / (t + 9))

    `t` counts the steps before this one. With Keras' own constant decay of 0.999 the average after 900 steps still
    consists to 40 % of the first weights. The optimizer needs `use_ema=True`.

    Reference: Polyak and Juditsky 1992; the decay that grows is that of TensorFlow 1's ExponentialMovingAverage.
    """

    def _update_model_variables_moving_average(self: Any, trainable_variables):
        step = ops.cast(self.iterations, "float32")
        decay = ops.minimum(self.ema_momentum, step / (step + _FORGETTING))
        for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True):
            average.assign(decay * average + (1 - decay) * variable)

    def _overwrite_model_variables_with_average_value(self: Any, trainable_variables):
        for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True):
            # A copy, because JAX would share one array between both, and a training step deletes its arguments.
            variable.assign(ops.copy(average))


@keras.saving.register_keras_serializable(package="fabir_tf")
class AveragingAdam(Averaging, backend.Adam):
    """Adam that keeps the weights' moving average; the arguments are those of `keras.optimizers.Adam`."""


@keras.saving.register_keras_serializable(package="fabir_tf")
class AveragingAdadelta(Averaging, keras.optimizers.Adadelta):
    """AdaDelta that keeps the weights' moving average; the arguments are those of `keras.optimizers.Adadelta`."""
