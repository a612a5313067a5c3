"""Training on several devices of one machine with TensorFlow: `tf.distribute.MirroredStrategy` and Keras' `fit`."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.weights import GENERATOR
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.splitting import passages_of, split_batches, with_empty_example
from fabir_tf.pipelines.features.tensor_batches import make_batches

# Between the seeds of two devices.
_SEED_STEP = 0x1E3779B1


class MirroredModel(DeduplicatedModel):
    """A `DeduplicatedModel` that trains on the devices of a strategy: each computes a part of the batch.

        loss = (sum over the devices of the sum of their examples' losses) / (number of examples of all devices)

    The gradients of this loss are summed over the devices, and then every device updates its own copy of the variables
    in the same way. A clipped norm and a moving average are therefore those of one device. Each device drops values of
    its own.

    Args:
        model: as for `DeduplicatedModel`; it was made inside the strategy's scope, as this one is.
    """

    def compile(self, optimizer, loss, **kwargs):
        """Prepares training, as `DeduplicatedModel.compile` does, inside the strategy's scope."""
        super().compile(optimizer, loss, **kwargs)
        optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing: all is built, and Keras would average the first parts, whose lengths differ."""

    def train_step(self, data):
        """One step of one device."""
        inputs, targets = data
        replica = tf.distribute.get_replica_context()
        own = self._loss.count(targets)
        count = tf.maximum(replica.all_reduce(tf.distribute.ReduceOp.SUM, own), 1.0)
        with tf.GradientTape() as tape, own_random_numbers(self.non_trainable_variables):
            # The mean over this device's examples, as a part of the mean over all.
            loss = self._loss(targets, self(inputs, training=True)) * own / count
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        known = [number for number, gradient in enumerate(gradients) if gradient is not None]
        parts = [loss, *(tf.convert_to_tensor(gradients[number]) for number in known)]
        loss, *summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, parts)
        self.optimizer.apply(summed, [variables[number] for number in known])
        # The variables of the mean are summed over the devices when they are read.
        self._mean_loss.update_state(loss, sample_weight=count / replica.num_replicas_in_sync)
        return {"loss": self._mean_loss.result()}


@contextlib.contextmanager
def own_random_numbers(variables: Iterable[keras.Variable]) -> Iterator[None]:
    """Gives each device random numbers of its own; the first one has those of a single device.

    The states of the generators are the same on all devices before and after, so that a checkpoint holds one for all.

    Args:
        variables: those of a model; the states are among them.
    """
    states = [variable for variable in variables if variable.name == GENERATOR]
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    # The first number of a state is the seed, the second counts the calls.
    moves = [tf.cast(replica, state.dtype) * tf.constant([_SEED_STEP, 0], state.dtype) for state in states]
    for state, move in zip(states, moves, strict=True):
        state.assign_add(move)
    yield
    for state, move in zip(states, moves, strict=True):
        state.assign_sub(move)


class _UpdatesOwnCopy:
    """Lets each device update its own copy of the variables; mixed into an optimizer.

    Keras' own sums the gradients of all devices here, after it has clipped those of each.
    """

    def _backend_update_step(self: Any, grads, trainable_variables, learning_rate):
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            self.update_step(gradient, variable, learning_rate)


def mirrored_optimizer(optimizer: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """An optimizer for `MirroredModel`, which gives it the same gradients on every device.

    Args:
        optimizer: the class of the optimizer on one device.
    """
    return type(optimizer.__name__, (_UpdatesOwnCopy, optimizer), {})


def mirrored_batches(
    strategy: tf.distribute.Strategy,
    features: Features,
    batches: Iterable[np.ndarray],
    targets: Mapping[str, np.ndarray],
) -> tf.distribute.DistributedDataset:
    """The dataset to train on: of each batch every device gets a complete part.

    Args:
        strategy: that of the model.
        features, batches, targets: as for `fabir_tf.pipelines.features.tensor_batches.make_batches`.

    Returns:
        A dataset for `MirroredModel.fit`.
    """
    passages = passages_of(features, targets.get("group_ids"))
    parts = split_batches(batches, passages, strategy.num_replicas_in_sync)
    features, targets = with_empty_example(features, targets)
    dataset = make_batches(features, parts, targets)
    # Each device takes the next element.
    return strategy.distribute_datasets_from_function(lambda context: dataset)
