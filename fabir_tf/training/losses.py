"""The target distributions of start and end, and the loss of a reader's outputs."""

import keras
from keras import ops

from fabir_tf.models.outputs import END, NULL, START
from fabir_tf.pipelines.features.teacher_distributions import split_soft_labels

SMOOTHINGS = ("gaussian", "uniform", "none")

_MASKED = -1e9


def smoothed_targets(positions, offsets, lengths, width, smoothing="gaussian", amount=0.1, deviation=1.0):
    """The target distribution of start or end: most of it on the true token, the rest on other real tokens.

        gaussian:  amount * exp(-(i - y)^2 / (2 deviation^2)) / Z    for i != y
        uniform:   amount / (length - 1)                             for i != y

    Args:
        positions: int tensor `(batch,)`, y, the column of the true token; -1 where there is no answer.
        offsets: int tensor `(batch,)`, the column of each passage's first token.
        lengths: int tensor `(batch,)`, real tokens of each passage.
        width: int, columns of the logits.
        smoothing: one of `SMOOTHINGS`.
        amount: probability moved off the true token; none is moved where a passage has no other token.
        deviation: of the Gaussian, in tokens.

    Returns:
        Float32 tensor `(batch, width)`. Each row sums to 1, or to 0 where there is no answer, and is exactly 0 on
        padding: anything else there would make the loss explode.

    Raises:
        ValueError: an unknown `smoothing`.

    Reference: thesis eq. 5.23 and section 5.6.1.
    """
    if smoothing not in SMOOTHINGS:
        raise ValueError(f"smoothing must be one of {SMOOTHINGS}. Received: smoothing={smoothing!r}")
    columns = ops.arange(width, dtype="int32")[None]
    positions, offsets, lengths = (ops.cast(part, "int32")[:, None] for part in (positions, offsets, lengths))
    distance = columns - positions
    true = ops.cast(distance == 0, "float32")
    if smoothing == "none":
        return true
    is_real = ops.logical_and(columns >= offsets, columns < offsets + lengths)
    others = ops.cast(ops.logical_and(is_real, positions >= 0), "float32") * (1 - true)
    if smoothing == "gaussian":
        others *= ops.exp(-(ops.cast(distance, "float32") ** 2) / (2 * deviation**2))
    total = ops.sum(others, axis=1, keepdims=True)
    share = amount * others / ops.where(total > 0, total, 1.0)
    return share + true * (1 - ops.sum(share, axis=1, keepdims=True))


def distilled_targets(targets, soft_labels):
    """Moves a part of the targets to a teacher's distribution.

    Args:
        targets: float32 tensor `(batch, width + 1)`: those of `smoothed_targets`, and in the last column the target of
            "no answer".
        soft_labels: float32 tensor `(batch, 2 * kept + 1)`: columns, the probability that the teacher gives to each of
            them, and to "no answer"; the probabilities of a repeated column are added. Their sum is the part that is
            moved; 0 leaves the targets as they are.

    Returns:
        Float32 tensor `(batch, width + 1)`; each row has the same sum as before.

    Reference: Hinton, Vinyals and Dean 2015, Distilling the knowledge in a neural network, arXiv 1503.02531.
    """
    columns, probabilities, null = split_soft_labels(soft_labels)
    weight = ops.sum(probabilities, axis=1, keepdims=True) + null
    hot = ops.one_hot(ops.cast(columns, "int32"), ops.shape(targets)[1] - 1, dtype="float32")
    soft = ops.concatenate([ops.sum(probabilities[..., None] * hot, axis=1), null], axis=1)
    return (1 - weight) * targets + soft


@keras.saving.register_keras_serializable(package="fabir_tf")
class StartEndLoss(keras.losses.Loss):
    """Cross-entropy of start and end with their targets, the sum of both, averaged over the examples of a batch.

    The softmax runs over the tokens of the passage and, if the reader has null logits, over "no answer". With a shared
    norm, each example that has an answer has a second loss, in which the softmax runs over the tokens of all examples
    of its group: the passages about one question are then compared with each other.

        loss = (sum of all examples' own losses + shared_norm * sum of the second losses) / examples

    Args:
        smoothing, amount, deviation: of `smoothed_targets`.
        shared_norm: weight of the second loss; it needs group ids.

    Call arguments:
        y_true: a dictionary of
            - `start`, `end`: int tensors `(batch,)`, the columns of the answer's first and last token; -1 for none;
            - `offset`: int tensor `(batch,)`, the column of the passage's first token;
            - `length`: int tensor `(batch,)`, tokens of the passage; 0 marks an example that only fills the batch up;
            - `soft_labels`, optional: float tensor `(batch, 2, 2 * kept + 1)`, those of `distilled_targets` for start
              and end;
            - `group_ids`, optional: int tensor `(batch,)`, the same for all examples about one question.
        y_pred: a dictionary of `start_logits` and `end_logits`, float tensors `(batch, width)`, and optionally
            `null_logits`, `(batch, 2)`.

    Returns:
        Float32 scalar.

    Example:
        >>> loss = StartEndLoss(smoothing="none")
        >>> loss({"start": [1], "end": [1], "offset": [0], "length": [3]}, model_outputs)

    Reference: FABIR eq. 18; thesis eq. 5.23. Shared norm: Clark and Gardner 2018, arXiv 1710.10723, section 3.3.
    """

    def __init__(
        self,
        smoothing: str = "gaussian",
        amount: float = 0.1,
        deviation: float = 1.0,
        shared_norm: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.smoothing = smoothing
        self.amount = amount
        self.deviation = deviation
        self.shared_norm = shared_norm

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras' own would match each output with a target of the same name.
        return self.call(y_true, y_pred)

    def call(self, y_true, y_pred):
        y_true = {name: ops.convert_to_tensor(values) for name, values in y_true.items()}
        real = ops.cast(y_true["length"] > 0, "float32")
        losses = [
            self._losses(y_true, y_pred, number, position, logits, real)
            for number, (position, logits) in enumerate((("start", START), ("end", END)))
        ]
        return ops.sum(losses[0] + losses[1]) / ops.maximum(self.count(y_true), 1.0)

    def count(self, y_true):
        """The number of examples that the loss is the mean of, a float32 scalar."""
        return ops.sum(ops.cast(ops.convert_to_tensor(y_true["length"]) > 0, "float32"))

    def _losses(self, y_true, y_pred, number, position, logits, real):
        """The loss of start or end, one number for each example."""
        logits = tokens = ops.cast(ops.convert_to_tensor(y_pred[logits]), "float32")
        has_null = NULL in y_pred
        smoothing = (self.smoothing, self.amount, self.deviation)
        positions, offsets, lengths = (y_true[name] for name in (position, "offset", "length"))
        targets = smoothed_targets(positions, offsets, lengths, ops.shape(logits)[1], *smoothing)
        if has_null:
            null_logits = ops.cast(ops.convert_to_tensor(y_pred[NULL]), "float32")
            logits = ops.concatenate([logits, null_logits[:, number : number + 1]], axis=1)
        if has_null or "soft_labels" in y_true:
            null = ops.cast(positions < 0, "float32")[:, None]
            targets = ops.concatenate([targets, null], axis=1)
        if "soft_labels" in y_true:
            targets = distilled_targets(targets, y_true["soft_labels"][:, number])
        # A reader that always answers cannot learn the teacher's "no answer".
        targets = targets if has_null else targets[:, : ops.shape(logits)[1]]
        targets *= real[:, None]
        # Not `categorical_crossentropy`: TensorFlow's gradient is wrong where the targets do not sum to 1.
        losses = -ops.sum(targets * ops.log_softmax(logits, axis=1), axis=1)
        if not self.shared_norm:
            return losses
        targets = targets[:, : ops.shape(tokens)[1]] * ops.cast(positions >= 0, "float32")[:, None]
        return losses + self.shared_norm * _shared_losses(targets, tokens, y_true["group_ids"], real)

    def get_config(self):
        config = {"smoothing": self.smoothing, "amount": self.amount, "deviation": self.deviation}
        config |= {"shared_norm": self.shared_norm}
        return super().get_config() | config


def _shared_losses(targets, logits, group_ids, real):
    """Cross-entropy of each example under one softmax over the tokens of all examples of its group."""
    # Examples that fill the batch up may have the id of a real group.
    sizes = ops.where(real > 0, ops.logsumexp(logits, axis=1), _MASKED)
    is_same = group_ids[:, None] == group_ids[None]
    of_group = ops.logsumexp(ops.where(is_same, sizes[None], _MASKED), axis=1)
    return -ops.sum(targets * (logits - of_group[:, None]), axis=1)
