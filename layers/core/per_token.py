"""Dense layers on texts, as one matrix product with what follows it."""

from keras import ops


def per_token(dense, x):
    """Applies a dense layer to each token.

    The tokens of all texts are the rows of one matrix: on three axes TensorFlow would run product, bias and activation
    one after the other, on two it fuses them.

    Args:
        dense: a built `keras.layers.Dense`.
        x: float tensor `(..., features)`.

    Returns:
        Float tensor `(..., units)`.
    """
    shape = ops.shape(x)
    rows = dense(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(rows, (*shape[:-1], dense.units))
