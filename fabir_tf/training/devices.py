"""The devices that a run trains on: one, or several of one machine."""

import contextlib
import json
import os
from collections.abc import Callable

from fabir_tf.backends import backend
from fabir_tf.pipelines.errors import UserError
from fabir_tf.training.training_config import TrainingConfig


def training_devices(training: TrainingConfig, log: Callable[[str], object]) -> contextlib.AbstractContextManager:
    """The devices that the settings name, as a context in which a model is made and trained.

    Logical devices are made here, so this comes before TensorFlow or JAX computes anything.

    Args:
        training: `distribution` and `logical_devices`.
        log: called with one line that names the devices, if there is a distribution.

    Returns:
        A context for one use. Without a distribution it changes nothing.

    Raises:
        UserError: the backend has no such distribution, there are fewer devices, or several machines.
    """
    if training.distribution == "none":
        return contextlib.nullcontext()
    _refuse_several_machines(training.distribution)
    return backend.devices(training.distribution, training.logical_devices, log)


def _refuse_several_machines(distribution: str) -> None:
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        machines = sum(len(addresses) for addresses in cluster.values())
    except (ValueError, AttributeError, TypeError):
        raise UserError("TF_CONFIG: found no description of a cluster in JSON, expected one, or none at all") from None
    if machines > 1:
        raise UserError(
            f"--distribution={distribution}: TF_CONFIG names {machines} machines, and training runs on the devices of "
            "one, because the fit of Keras 3 cannot train on several (keras#20585): unset TF_CONFIG"
        )
