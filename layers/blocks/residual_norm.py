import keras

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.layer_norm import layer_norm
from fabir_tf.layers.core.shared_values import rows, texts


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ResidualNorm(keras.layers.Layer):
    """Dropout, residual sum and layer normalization, which follow every sublayer.

        y = gain * (s - mean(s)) / sqrt(var(s) + epsilon) + bias,   s = x + dropout(sublayer(x))

    The variance is the biased one; mean and variance are taken over a token's features.

    Masking: none is needed, each token is normalized alone.

    Args:
        dropout: share of the sublayer's output dropped in training.
        epsilon: added to the variance.

    Call arguments:
        x: float tensor `(batch, length, features)`, the sublayer's input.
        update: tensor of the same shape, the sublayer's output.

    Returns:
        Float tensor of the same shape.

    Example:
        >>> ResidualNorm(dropout=0.1)(np.zeros((2, 7, 100)), np.ones((2, 7, 100))).shape
        (2, 7, 100)

    Reference: FABIR sections III-D4 and III-E; thesis section 5.6.4 for the position of the dropout.
    """

    def __init__(self, dropout: float = 0.0, epsilon: float = 1e-8, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.epsilon = epsilon
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, x_shape, update_shape):
        self.gain = self.add_weight(name="gain", shape=x_shape[-1:], initializer="ones")
        self.bias = self.add_weight(name="bias", shape=x_shape[-1:], initializer="zeros")

    def call(self, x, update, training=None):
        # A sum of texts and not of rows, to which TensorFlow would add the bias of the sublayer's last product, too.
        total = x + self.drop(update, training=training)
        return texts(layer_norm(rows(total), self.gain, self.bias, self.epsilon), x)

    def compute_output_shape(self, x_shape, update_shape):
        return x_shape

    def get_config(self):
        return super().get_config() | {"dropout": self.dropout, "epsilon": self.epsilon}
