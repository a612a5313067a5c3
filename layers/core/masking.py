"""Masking, once for all layers."""

import keras
from keras import ops

from fabir_tf.layers.core.backend_kernels import backend_kernel
from fabir_tf.layers.core.shared_values import derived, same_texts

# Finite, so that a softmax over padding alone stays finite; far below any logit, so that its exp() is exactly 0.
MASKED_LOGIT = -1e9


def masked_softmax(logits, mask):
    """Softmax in float32 over the real entries of the last axis.

    Args:
        logits: float tensor of any shape; those of padding must be far below 1e9.
        mask: boolean tensor that broadcasts against `logits`, true on real entries.

    Returns:
        A tensor shaped like `logits` whose last axis sums to 1. It is float32, or bfloat16 rounded from float32 where
        the backend has a kernel for that. A masked entry is exactly 0, unless the axis has no real entry; then all its
        entries are equal.
    """
    # float16 cannot hold -1e9. In the other types the sum is exact and is fused into the product that gives the logits.
    dtype = keras.backend.standardize_dtype(logits.dtype)
    dtype = "float32" if dtype == "float16" else dtype
    # A sum, because `where` is slower on logits that are much larger than the mask.
    logits = ops.cast(logits, dtype) + derived(_padding_logits, mask, dtype)
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
    # Not a product: 0 times an infinity in a padding vector would be NaN.
    padded = ops.where(derived(_with_axes, mask, len(x.shape)), x, 0.0)
    same_texts(padded, x)
    return padded


def zero_padding_rows(matrix, mask):
    """`zero_padding` of texts whose tokens are the rows of a matrix.

    Args:
        matrix: float tensor `(batch * length, features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        A tensor shaped like `matrix`, in its dtype.
    """
    return ops.where(derived(_as_column, mask), matrix, 0.0)


def reversal(mask):
    """The order that turns each text around within its own length; it is its own inverse.

    Args:
        mask: boolean tensor `(batch, length)`, true on real tokens, which come first.

    Returns:
        Int tensor `(batch, length, 1)` for `take_along_axis`.
    """
    positions = ops.arange(ops.shape(mask)[1], dtype="int32")[None]
    lengths = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    return ops.where(positions < lengths, lengths - 1 - positions, positions)[..., None]


def any_token(mask):
    """Which texts have a real token.

    Args:
        mask: boolean tensor `(batch, length)`.

    Returns:
        Boolean tensor `(batch, 1)`.
    """
    return derived(_any_token, mask)


def _padding_logits(mask, dtype: str):
    return ops.cast(ops.where(mask, 0.0, MASKED_LOGIT), dtype)


def _with_axes(mask, rank: int):
    return ops.expand_dims(mask, tuple(range(2, rank)))


def _as_column(mask):
    return ops.reshape(mask, (-1, 1))


def _any_token(mask):
    return ops.any(mask, axis=1, keepdims=True)


class ExplicitMask:
    """Mixin of layers that take a mask as their argument `mask` and attach none to their output.

    Keras treats an argument of that name as a mask attached to the input. It warns that the layer destroys that mask
    unless the layer says what becomes of it.
    """

    def compute_mask(self, inputs, previous_mask):
        return None
