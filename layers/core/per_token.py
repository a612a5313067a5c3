"""Dense layers on texts as one fused matrix product."""

from keras import ops


def per_token(dense, x):
    """Applies a dense layer to each token.

    The tokens of all texts become the rows of one matrix, because TensorFlow fuses product, bias and activation on two
    axes but not on three.

    Args:
        dense: a built `keras.layers.Dense`.
        x: float tensor `(..., features)`.

    Returns:
        Float tensor `(..., units)`.
    """
    shape = ops.shape(x)
    rows = dense(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(rows, (*shape[:-1], dense.units))
