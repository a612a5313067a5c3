"""What the start and end distributions are trained towards, and how far they are from it."""

import keras
from keras import ops

SMOOTHINGS = ("gaussian", "uniform", "none")


def smoothed_targets(positions, lengths, width, smoothing="gaussian", amount=0.1, deviation=1.0):
    """The target distribution of a border token: most of it on the true position, the rest on other real tokens.

        gaussian:  amount * exp(-(i - y)^2 / (2 deviation^2)) / Z    for i != y
        uniform:   amount / (length - 1)                             for i != y

    Args:
        positions: int tensor `(batch,)`, y, the true token.
        lengths: int tensor `(batch,)`, real tokens of each passage.
        width: int, tokens of the batch's longest passage.
        smoothing: one of `SMOOTHINGS`.
        amount: probability moved off the true token; none is where a passage has no other token.
        deviation: of the Gaussian, in tokens.

    Returns:
        Float32 tensor `(batch, width)`; each row sums to 1 and is exactly 0 on padding, or the loss would explode.

    Raises:
        ValueError: an unknown `smoothing`.

    Reference: thesis eq. 5.23 and section 5.6.1.
    """
    if smoothing not in SMOOTHINGS:
        raise ValueError(f"smoothing must be one of {SMOOTHINGS}. Received: smoothing={smoothing!r}")
    places = ops.arange(width, dtype="int32")[None]
    distance = places - ops.cast(positions, "int32")[:, None]
    true = ops.cast(distance == 0, "float32")
    if smoothing == "none":
        return true
    others = ops.cast(places < ops.cast(lengths, "int32")[:, None], "float32") * (1 - true)
    if smoothing == "gaussian":
        others *= ops.exp(-(ops.cast(distance, "float32") ** 2) / (2 * deviation**2))
    total = ops.sum(others, axis=1, keepdims=True)
    share = amount * others / ops.where(total > 0, total, 1.0)
    return share + true * (1 - ops.sum(share, axis=1, keepdims=True))


def distilled_targets(targets, soft_labels):
    """Moves a share of the targets to where a teacher sees the border.

    Args:
        targets: float32 tensor `(batch, width)`, from `smoothed_targets`.
        soft_labels: float32 tensor `(batch, 2 * places)`: tokens, then the probability that each of them is given; what a
            token is given several times adds up. Their sum is the teacher's share; 0 leaves the targets as they are.

    Returns:
        Float32 tensor `(batch, width)`; each row sums to 1.

    Reference: Hinton, Vinyals and Dean 2015, Distilling the knowledge in a neural network, arXiv 1503.02531.
    """
    places, probabilities = ops.split(soft_labels, 2, axis=1)
    share = ops.sum(probabilities, axis=1, keepdims=True)
    hot = ops.one_hot(ops.cast(places, "int32"), ops.shape(targets)[1], dtype="float32")
    return (1 - share) * targets + ops.sum(probabilities[..., None] * hot, axis=1)


@keras.saving.register_keras_serializable(package="fabir_tf")
class StartEndLoss(keras.losses.Loss):
    """Cross-entropy between a border's logits and `smoothed_targets`, the mean over a batch's real rows.

    Args:
        smoothing, amount, deviation: of `smoothed_targets`.

    Call arguments:
        y_true: int tensor `(batch, 2)`: the border's position, and the passage's length; a length of 0 marks a row that
            only fills the batch up. With a teacher a float tensor `(batch, 2 + 2 * places)`, followed by the `soft_labels`
            of `distilled_targets`.
        y_pred: float tensor `(batch, passage)`, logits.

    Returns:
        Float32 scalar.

    Example:
        >>> StartEndLoss()(np.array([[1, 3]]), np.array([[0.0, 5.0, 0.0, -1e9]]))

    Reference: FABIR eq. 18; thesis eq. 5.23.
    """

    def __init__(self, smoothing: str = "gaussian", amount: float = 0.1, deviation: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.smoothing = smoothing
        self.amount = amount
        self.deviation = deviation

    def call(self, y_true, y_pred):
        positions, lengths = y_true[:, 0], y_true[:, 1]
        smoothing = (self.smoothing, self.amount, self.deviation)
        targets = smoothed_targets(positions, lengths, ops.shape(y_pred)[1], *smoothing)
        if y_true.shape[1] > 2:
            targets = distilled_targets(targets, y_true[:, 2:])
        losses = ops.categorical_crossentropy(targets, y_pred, from_logits=True)
        real = ops.cast(lengths > 0, losses.dtype)
        # Keras takes the mean over all rows.
        return losses * real * ops.cast(ops.shape(real)[0], real.dtype) / ops.maximum(ops.sum(real), 1.0)

    def get_config(self):
        config = {"smoothing": self.smoothing, "amount": self.amount, "deviation": self.deviation}
        return super().get_config() | config
