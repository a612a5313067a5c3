import keras

from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.shared_values import rows, texts


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class FeedForward(keras.layers.Layer):
    """A network with one hidden layer, applied to each token.

        x_out = relu(x W_1 + b_1) W_2 + b_2

    Masking: none is needed, each token is transformed alone.

    Args:
        hidden_dim: width of the hidden layer.
        residual_init_scale: factor of W_2's initial values: the smaller, the closer to 0 is the initial output.

    Call arguments:
        x: float tensor `(batch, length, features)`.

    Returns:
        Float tensor of the same shape.

    Example:
        >>> FeedForward(hidden_dim=200)(np.zeros((2, 7, 100))).shape
        (2, 7, 100)

    Reference: FABIR eq. 15.
    """

    def __init__(self, hidden_dim: int, residual_init_scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.residual_init_scale = residual_init_scale

    def build(self, input_shape):
        self.hidden = Dense(
            self.hidden_dim, "relu", kernel_initializer=GlorotUniform(), name="hidden", dtype=self.dtype_policy
        )
        self.output_map = Dense(
            input_shape[-1],
            kernel_initializer=GlorotUniform(gain=self.residual_init_scale),
            name="output",
            dtype=self.dtype_policy,
        )
        self.hidden.build(input_shape)
        self.output_map.build((*input_shape[:-1], self.hidden_dim))
        stay_frozen(self)

    def call(self, x):
        return texts(self.output_map(self.hidden(rows(x))), x)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"hidden_dim": self.hidden_dim, "residual_init_scale": self.residual_init_scale}
