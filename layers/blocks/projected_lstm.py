import keras
from keras import ops

from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import ExplicitMask, zero_padding


class _Cell(keras.layers.Layer):
    """One step, on what the kernel has made of its input already."""

    def __init__(self, units: int, projection: int, cell_clip: float, projection_clip: float, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.projection = projection
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.state_size = [projection, units]
        self.output_size = projection

    def build(self, gates_shape):
        weights = {
            "recurrent_kernel": (self.projection, 4 * self.units),
            "output_kernel": (self.units, self.projection),
        }
        self.recurrent_kernel, self.output_kernel = (
            self.add_weight(name=name, shape=shape, initializer=GlorotUniform()) for name, shape in weights.items()
        )

    def call(self, gates, states):
        output, memory = states
        gates = gates + ops.matmul(output, self.recurrent_kernel)
        input_gate, new, forget_gate, output_gate = ops.split(gates, 4, axis=-1)
        # The published weights were trained with this 1.
        memory = ops.sigmoid(forget_gate + 1.0) * memory + ops.sigmoid(input_gate) * ops.tanh(new)
        memory = _clipped(memory, self.cell_clip)
        output = ops.matmul(ops.sigmoid(output_gate) * ops.tanh(memory), self.output_kernel)
        output = _clipped(output, self.projection_clip)
        return output, [output, memory]


def _clipped(x, limit: float):
    return ops.clip(x, -limit, limit) if limit else x


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ProjectedLstm(ExplicitMask, keras.layers.Layer):
    """An LSTM whose output is a linear map of its memory, both clipped.

        [i, g, f, o] = x_t W + h_{t-1} R + b
        c_t = clip( sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(g) )
        h_t = clip( (sigmoid(o) * tanh(c_t)) P )

    Masking: explicit, `mask`; real tokens come first. The state stays as it is on padding, and the output there is 0.

    Args:
        units: length of the memory `c`.
        projection: length of the output `h`.
        cell_clip: largest absolute value of the memory; 0 for no limit.
        projection_clip: largest absolute value of the output; 0 for no limit.

    Call arguments:
        x: float tensor `(batch, length, features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.
        state: float tensor `(batch, projection + units)`, `h` and `c` before the first token.

    Returns:
        `h` of every token, float tensor `(batch, length, projection)`, and the state after the last real one, shaped
        like `state`.

    Example:
        >>> output, state = ProjectedLstm(4096, 512)(tokens, mask, state)

    Reference: Sak et al. 2014; Peters et al. 2018, arXiv 1802.05365, section 3.4.
    """

    def __init__(self, units: int, projection: int, cell_clip: float = 3.0, projection_clip: float = 3.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.projection = projection
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        cell = _Cell(units, projection, cell_clip, projection_clip, name="cell", dtype=self.dtype_policy)
        self.steps = keras.layers.RNN(
            cell, return_sequences=True, return_state=True, name="steps", dtype=self.dtype_policy
        )

    def build(self, x_shape):
        gates = 4 * self.units
        self.kernel = self.add_weight(name="kernel", shape=(x_shape[-1], gates), initializer=GlorotUniform())
        self.bias = self.add_weight(name="bias", shape=(gates,), initializer="zeros")
        self.steps.build((*x_shape[:2], gates))
        stay_frozen(self)

    def call(self, x, mask, state):
        # The inputs' share of the gates of all steps is one product.
        gates = ops.matmul(x, self.kernel) + ops.convert_to_tensor(self.bias)
        first = [state[:, : self.projection], state[:, self.projection :]]
        outputs, *last = self.steps(gates, mask=mask, initial_state=first)
        return zero_padding(outputs, mask), ops.concatenate(last, axis=-1)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.projection), (x_shape[0], self.projection + self.units)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "projection": self.projection,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
        }
