"""Numerics of masked attention, once for all layers."""

from keras import ops

from fabir_tf.layers.core.backend_kernels import backend_kernel

# Finite, so that a row without a single real token stays finite; far below any logit, so that exp() of it is exactly 0.
MASKED_LOGIT = -1e9


def masked_softmax(logits, mask):
    """Softmax in float32 over the last axis, padding left out.

    Args:
        logits: float tensor of any shape; those of padding must be far below 1e9.
        mask: boolean tensor that broadcasts against `logits`, true on real entries.

    Returns:
        A tensor shaped like `logits`, its last axis summing to 1; float32, or rounded from it to bfloat16 where the
        backend offers a kernel that does both. A masked entry is exactly 0, except where an axis holds no real entry:
        there all entries are alike.
    """
    # float16 has no number so low. In any other type the sum is exact, and part of the product that gives the logits.
    dtype = "float32" if logits.dtype == "float16" else logits.dtype
    # A sum, because a choice takes longer on logits that are much larger than the mask.
    logits = ops.cast(logits, dtype) + ops.cast(ops.where(mask, 0.0, MASKED_LOGIT), dtype)
    kernel = backend_kernel("softmax")
    if kernel and dtype == "bfloat16":
        return kernel(logits)
    return ops.softmax(ops.cast(logits, "float32"), axis=-1)


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
