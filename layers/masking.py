"""Numerics of masked attention, once for all layers."""

from keras import ops

# Finite, so that a row without a single real token stays finite; far below any logit, so that exp() of it is exactly 0.
MASKED_LOGIT = -1e9


def masked_softmax(logits, mask, axis: int):
    """Softmax in float32 over the real entries of one axis.

    Args:
        logits: float tensor of any shape.
        mask: boolean tensor that broadcasts against `logits`, true on real entries.
        axis: the axis along which the weights of the real entries sum to 1.

    Returns:
        A float32 tensor shaped like `logits`. A masked entry is exactly 0; where an axis holds no real entry all its
        weights are 0.
    """
    logits = mask_logits(logits, mask)
    return ops.where(mask, ops.softmax(logits, axis=axis), 0.0)


def mask_logits(logits, mask):
    """Gives padding the logit -1e9, in float32.

    Args:
        logits: float tensor of any shape.
        mask: boolean tensor that broadcasts against `logits`, true on real entries.

    Returns:
        A float32 tensor shaped like `logits`.
    """
    return ops.where(mask, ops.cast(logits, "float32"), MASKED_LOGIT)


def zero_padding(x, mask):
    """Sets the vectors of padding tokens to exactly 0.

    Args:
        x: float tensor `(batch, length, ..., features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        A tensor shaped like `x`, in its dtype.
    """
    mask = ops.reshape(mask, (*ops.shape(mask), *([1] * (len(x.shape) - 2))))
    # Not a product: 0 times a padding vector that holds an infinity would be no number.
    return ops.where(mask, x, ops.cast(0, x.dtype))


def padding_bias(mask):
    """What is added to logits so that a softmax gives padding the weight 0.

    An addition is cheaper than a choice on logits that are much larger than the mask.

    Args:
        mask: boolean tensor of any shape, true on real tokens.

    Returns:
        A float32 tensor of that shape: 0 on real tokens, -1e9 on padding.
    """
    return ops.where(mask, 0.0, MASKED_LOGIT)
