import keras
from keras import ops


@keras.saving.register_keras_serializable(package="fabir_tf")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly, then falls with the square root of the step.

        rate(t) = factor * d_model^-0.5 * min(t^-0.5, t * warmup_steps^-1.5)

    `t` counts from 1; Keras counts steps from 0.

    Args:
        d_model: features of the model.
        factor: scales the whole schedule; FABIR halves it.
        warmup_steps: steps until the peak.

    Reference: thesis eq. 5.24; FABIR section IV.
    """

    def __init__(self, d_model: int = 100, factor: float = 0.5, warmup_steps: int = 4000):
        self.d_model = d_model
        self.factor = factor
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        t = ops.cast(step, "float32") + 1.0
        return self.factor * self.d_model**-0.5 * ops.minimum(t**-0.5, t * self.warmup_steps**-1.5)

    def get_config(self):
        return {"d_model": self.d_model, "factor": self.factor, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="fabir_tf")
class LinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that falls to nothing, linearly, at the end of the training.

        rate(step) = before(step) * min(1, (last_step - step) / steps),   0 from last_step on

    Args:
        before: the rate without it, a schedule or a number.
        last_step: steps of the whole training.
        steps: over how many of them the rate falls.

    Reference: Hu et al. 2024, MiniCPM, arXiv 2404.06395, section 4 (the gain comes while the rate falls).
    """

    def __init__(self, before: keras.optimizers.schedules.LearningRateSchedule | float, last_step: int, steps: float):
        self.before = before
        self.last_step = last_step
        self.steps = steps

    def __call__(self, step):
        left = (self.last_step - ops.cast(step, "float32")) / self.steps
        return _rate(self.before, step) * ops.clip(left, 0.0, 1.0)

    def get_config(self):
        before = keras.saving.serialize_keras_object(self.before)
        return {"before": before, "last_step": self.last_step, "steps": self.steps}

    @classmethod
    def from_config(cls, config):
        return cls(**config | {"before": keras.saving.deserialize_keras_object(config["before"])})


@keras.saving.register_keras_serializable(package="fabir_tf")
class LinearWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly in the first steps.

        rate(t) = after(t) * min(1, t / steps)

    `t` counts from 1; Keras counts steps from 0.

    Args:
        after: the rate without it, a schedule or a number.
        steps: over how many steps the rate rises.

    Reference: Devlin et al. 2019, arXiv 1810.04805, appendix A.2.
    """

    def __init__(self, after: keras.optimizers.schedules.LearningRateSchedule | float, steps: int):
        self.after = after
        self.steps = steps

    def __call__(self, step):
        share = (ops.cast(step, "float32") + 1.0) / self.steps
        return _rate(self.after, step) * ops.minimum(share, 1.0)

    def get_config(self):
        return {"after": keras.saving.serialize_keras_object(self.after), "steps": self.steps}

    @classmethod
    def from_config(cls, config):
        return cls(**config | {"after": keras.saving.deserialize_keras_object(config["after"])})


def _rate(schedule: keras.optimizers.schedules.LearningRateSchedule | float, step):
    return schedule(step) if callable(schedule) else schedule
