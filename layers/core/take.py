from keras import ops

from fabir_tf.layers.core.backend_kernels import backend_kernel


def take(values, indices, axis: int = 0):
    """Parts of a tensor by their numbers.

    Keras counts negative numbers from the end, which takes five operations; the kernel `take` needs one.

    Args:
        values: tensor of any shape.
        indices: integer tensor, from 0 on.
        axis: the axis of `values` that is looked up.

    Returns:
        Tensor shaped like `values`, with the axes of `indices` in the place of `axis`.
    """
    return (backend_kernel("take") or ops.take)(values, indices, axis=axis)
