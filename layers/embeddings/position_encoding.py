import keras
import numpy as np
from keras import ops

from fabir_tf.layers.core.shared_values import derived, leading, same_texts, shape_of


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class PositionEncoding(keras.layers.Layer):
    """The trigonometric encoding of each token's position, without weights.

        e_i = [sin(i f_1) ... sin(i f_{d/2}), cos(i f_1) ... cos(i f_{d/2})]

    `f` falls geometrically from 1 to `min_frequency`; `i` counts from `position_offset`. The encoding is computed for
    the length of the input, so texts may have any length.

    Masking: none is needed; an encoding depends on its position alone.

    Args:
        dim: d, even.
        min_frequency: f_{d/2}.
        position_offset: i of the first token.

    Call arguments:
        x: tensor `(batch, length, ...)`; only its first two dimensions are used.

    Returns:
        Float tensor `(batch, length, dim)`.

    Raises:
        ValueError: `dim` is odd or less than 4.

    Example:
        >>> PositionEncoding(100)(np.zeros((2, 7))).shape
        (2, 7, 100)

    Reference: FABIR eq. 9; thesis eq. 5.10.
    """

    def __init__(self, dim: int, min_frequency: float = 1e-4, position_offset: int = 500, **kwargs):
        super().__init__(**kwargs)
        if dim % 2 or dim < 4:
            raise ValueError(f"dim must be even and at least 4. Received: dim={dim}")
        self.dim = dim
        self.min_frequency = min_frequency
        self.position_offset = position_offset

    def call(self, x):
        sizes = derived(leading, x)
        encoding = derived(_encoding, sizes[1], self.dim, self.min_frequency, self.position_offset)
        encodings = ops.cast(ops.broadcast_to(encoding, derived(shape_of, sizes, self.dim)), self.compute_dtype)
        same_texts(encodings, x)
        return encodings

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.dim)

    def get_config(self):
        return super().get_config() | {
            "dim": self.dim,
            "min_frequency": self.min_frequency,
            "position_offset": self.position_offset,
        }


def _encoding(length, dim: int, min_frequency: float, position_offset: int):
    """`(length, dim)`, in float32 under every policy, because bfloat16 cannot tell position 500 from 501."""
    frequencies = np.geomspace(1.0, min_frequency, dim // 2).astype("float32")
    angles = derived(_positions, length, position_offset) * frequencies
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def _positions(length, position_offset: int):
    """`(length, 1)`."""
    return ops.arange(position_offset, position_offset + length, dtype="float32")[:, None]
