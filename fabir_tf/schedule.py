import keras
from keras import ops


@keras.saving.register_keras_serializable(package="fabir_tf")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
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
