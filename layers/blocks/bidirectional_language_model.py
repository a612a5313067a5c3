import keras
from keras import ops

from fabir_tf.layers.blocks.projected_lstm import ProjectedLstm
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.masking import ExplicitMask, reversal, zero_padding

DIRECTIONS = ("forward", "backward")


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class BidirectionalLanguageModel(ExplicitMask, keras.layers.Layer):
    """The recurrent layers of ELMo: a text read from both ends, each layer's output kept.

        h_0 = [x; x],   h_k = [forward_k(f_{k-1}) + f_{k-1}; backward_k(b_{k-1}) + b_{k-1}]

    `f` and `b` are the halves of `h`, and the first layer adds nothing to its output. Both directions also read the
    vectors of the text's two borders, which are not part of the result: they stand before the first and after the last
    real token.

    Masking: explicit, `mask`; real tokens come first. Padding is 0 in the output and changes no state.

    Args:
        units: length of an LSTM's memory.
        projection: length of its output, and of `x`.
        depth: layers of each direction.
        cell_clip, projection_clip: as in `ProjectedLstm`.
        skip_connections: whether layers after the first add their input to their output.

    Call arguments:
        x: float tensor `(batch, length, projection)`, words by themselves.
        mask: boolean tensor `(batch, length)`, true on real tokens.
        state: float tensor `(batch, depth, 2, projection + units)`, the state of each layer and direction before the
            text; None for zeros. A reader always starts from zeros, so that no answer depends on an earlier one.

    Returns:
        Float tensor `(batch, length, 1 + depth, 2 * projection)`, all layers of each token, and the state after the
        text, shaped like `state`.

    Example:
        >>> layers, state = BidirectionalLanguageModel(4096, 512)(words, mask)
        >>> layers.shape
        (2, 7, 3, 1024)

    Reference: Peters et al. 2018, arXiv 1802.05365, sections 3.1 and 3.4; Cheung, section 3.1.2.
    """

    def __init__(
        self,
        units: int,
        projection: int,
        depth: int = 2,
        cell_clip: float = 3.0,
        projection_clip: float = 3.0,
        skip_connections: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.projection = projection
        self.depth = depth
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.skip_connections = skip_connections
        self.networks = {
            direction: [
                ProjectedLstm(
                    units,
                    projection,
                    cell_clip,
                    projection_clip,
                    name=f"{direction}_{number}",
                    dtype=self.dtype_policy,
                )
                for number in range(depth)
            ]
            for direction in DIRECTIONS
        }

    def build(self, x_shape):
        self.borders = self.add_weight(name="borders", shape=(2, self.projection), initializer="zeros")
        for network in (*self.networks["forward"], *self.networks["backward"]):
            network.build(x_shape)
        stay_frozen(self)

    def call(self, x, mask, state=None):
        batch, length = ops.shape(x)[:2]
        if state is None:
            state = ops.zeros((batch, self.depth, 2, self.projection + self.units), x.dtype)
        x, bordered = self._with_borders(x, mask)
        order = reversal(bordered)
        halves, states = {}, []
        for number, direction in enumerate(DIRECTIONS):
            read = ops.take_along_axis(x, order, axis=1) if direction == "backward" else x
            outputs, last = self._read(self.networks[direction], read, bordered, state[:, :, number])
            if direction == "backward":
                outputs = [ops.take_along_axis(output, order, axis=1) for output in outputs]
            # (batch, length, 1 + depth, projection)
            halves[direction] = ops.stack(outputs, axis=2)[:, 1 : length + 1]
            states.append(last)
        both = ops.concatenate([halves[direction] for direction in DIRECTIONS], axis=-1)
        return zero_padding(both, mask), ops.stack(states, axis=2)

    def _with_borders(self, x, mask):
        """The words between the borders of their text, and the mask of both."""
        ends = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True) + 1
        padded = ops.pad(zero_padding(x, mask), ((0, 0), (1, 1), (0, 0)))
        positions = ops.arange(ops.shape(padded)[1], dtype="int32")[None]
        first, last = ops.cast(self.borders[0], x.dtype), ops.cast(self.borders[1], x.dtype)
        padded = ops.where((positions == 0)[..., None], first, padded)
        return ops.where((positions == ends)[..., None], last, padded), positions <= ends

    def _read(self, networks, x, mask, state):
        """The input and each network's output, and the networks' states `(batch, depth, projection + units)`."""
        outputs, states = [x], []
        for number, network in enumerate(networks):
            output, last = network(outputs[-1], mask, state[:, number])
            is_added = self.skip_connections and number > 0
            outputs.append(output + outputs[-1] if is_added else output)
            states.append(last)
        return outputs, ops.stack(states, axis=1)

    def compute_output_shape(self, x_shape):
        layers = (*x_shape[:2], 1 + self.depth, 2 * self.projection)
        return layers, (x_shape[0], self.depth, 2, self.projection + self.units)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "projection": self.projection,
            "depth": self.depth,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
            "skip_connections": self.skip_connections,
        }
