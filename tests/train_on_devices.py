"""Trains tiny runs, each on the devices that its settings name, in a process whose CPU is four devices.

    python train_on_devices.py '[{"run_dir": "two", "training": {"distribution": "mirrored", "logical_devices": 2}}]'

Keras' backend is that of the environment. A run may have settings of the `model`, be resumed (`resume`), and end the
process like a power cut after some steps (`killed_after`).
"""

import json
import os
import signal
import sys

import before_tensorflow  # noqa: F401
import keras
from tiny import CONFIG

DEVICES = 4
RATES = ("input_dropout", "sublayer_dropout", "attention_dropout", "selector_dropout", "character_dropout")
NO_DROPOUT = dict.fromkeys(RATES, 0.0)
SETTINGS = {
    "vectors": "none",
    "min_word_count": 0,
    "min_character_count": 0,
    "length_buckets": 1,
    "warmup_steps": 200,
    "checkpoint_steps": 1,
    "seed": 5,
}


def split_cpu() -> None:
    """Makes the logical devices that all runs share: a process chooses their number once."""
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_num_cpu_devices", DEVICES)
        return
    import tensorflow as tf

    cpu, *_ = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)


def kill_after(steps: int) -> None:
    """Ends the process after some steps of a training."""
    original, done = keras.callbacks.CallbackList.on_train_batch_end, []

    def on_train_batch_end(self, batch, logs=None):
        original(self, batch, logs)
        done.append(batch)
        if len(done) == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    keras.callbacks.CallbackList.on_train_batch_end = on_train_batch_end


def main() -> None:
    split_cpu()
    from fabir_tf.training.data_options import DataOptions
    from fabir_tf.training.train import train
    from fabir_tf.training.training_config import TrainingConfig

    for run in json.loads(sys.argv[1]):
        if run.get("killed_after"):
            kill_after(run["killed_after"])
        # The reduction layer holds all kinds of sublayers, and each layer is traced once for each device.
        config = CONFIG.replace(**{"num_layers": 0} | NO_DROPOUT | run.get("model", {}))
        training = TrainingConfig(**SETTINGS | run["training"])
        train(run["run_dir"], config, training, DataOptions(None), run.get("resume", False))


if __name__ == "__main__":
    main()
