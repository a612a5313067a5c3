"""What the start and end distributions are trained towards."""

import tensorflow as tf

SMOOTHINGS = ("gaussian", "uniform", "none")


def border_targets(
    positions: tf.Tensor,
    lengths: tf.Tensor,
    width: tf.Tensor,
    smoothing: str = "gaussian",
    amount: float = 0.1,
    deviation: float = 1.0,
) -> tf.Tensor:
    """The target distribution of a border token: most of it on the true position, the rest on other real tokens.

        gaussian:  amount * exp(-(i - y)^2 / (2 deviation^2)) / Z    for i != y
        uniform:   amount / (length - 1)                             for i != y

    Args:
        positions: int tensor `(batch,)`, y, the true token.
        lengths: int tensor `(batch,)`, real tokens of each passage.
        width: int scalar, tokens of the batch's longest passage.
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
    distance = tf.range(width, dtype=positions.dtype)[None] - positions[:, None]
    true = tf.cast(distance == 0, tf.float32)
    if smoothing == "none":
        return true
    others = tf.cast(tf.range(width, dtype=lengths.dtype)[None] < lengths[:, None], tf.float32) * (1 - true)
    if smoothing == "gaussian":
        others *= tf.exp(-(tf.cast(distance, tf.float32) ** 2) / (2 * deviation**2))
    share = tf.math.divide_no_nan(amount * others, tf.reduce_sum(others, axis=1, keepdims=True))
    return share + true * (1 - tf.reduce_sum(share, axis=1, keepdims=True))
