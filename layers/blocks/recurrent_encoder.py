import functools

import keras
from keras import ops

from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.masking import ExplicitMask, reversal, zero_padding

# cuDNN's GRU, whatever a backend prefers, so that all have the same weights.
CELLS = {"lstm": keras.layers.LSTM, "gru": functools.partial(keras.layers.GRU, reset_after=True)}


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class RecurrentEncoder(ExplicitMask, keras.layers.Layer):
    """A text read by two recurrent networks, one from each end.

        y_t = [f(x_1 ... x_t); b(x_n ... x_t)]

    The GRU multiplies the state by its weights before the reset gate acts on it, and has two biases for each gate, as
    in cuDNN.

    Masking: explicit, `mask`; real tokens come first. The second network reads each text reversed within its own
    length, so that both reach padding only after the last token. Neither network takes a mask: the fast kernels of GPUs
    refuse some masks, and loops that apply one at every step are slow. Padding is 0 in the output.

    Args:
        units: features of the state of each network.
        cell: "lstm" or "gru".

    Call arguments:
        x: float tensor `(batch, length, features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        Float tensor `(batch, length, 2 units)`.

    Raises:
        ValueError: an unknown `cell`.

    Example:
        >>> RecurrentEncoder(units=100)(passage, passage_mask).shape
        (60, 140, 200)

    Reference: Seo et al. 2017, section 2, 3 and 5; Hochreiter and Schmidhuber 1997; Cho et al. 2014.
    """

    def __init__(self, units: int = 100, cell: str = "lstm", **kwargs):
        super().__init__(**kwargs)
        if cell not in CELLS:
            raise ValueError(f"cell must be one of {', '.join(CELLS)}. Received: cell={cell!r}")
        self.units = units
        self.cell = cell
        self.forward, self.backward = (
            CELLS[cell](units, return_sequences=True, name=name, dtype=self.dtype_policy)
            for name in ("forward", "backward")
        )

    def build(self, x_shape):
        self.forward.build(x_shape)
        self.backward.build(x_shape)
        stay_frozen(self)

    def call(self, x, mask):
        order = reversal(mask)
        backward = ops.take_along_axis(self.backward(ops.take_along_axis(x, order, axis=1)), order, axis=1)
        return zero_padding(ops.concatenate([self.forward(x), backward], axis=-1), mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], 2 * self.units)

    def get_config(self):
        return super().get_config() | {"units": self.units, "cell": self.cell}
