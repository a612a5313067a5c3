import keras

from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.shared_values import rows, texts


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class Highway(keras.layers.Layer):
    """Highway layers: a learned gate between a vector and its transformation.

        y = x * g + (1 - g) * relu(x W + b),   g = sigmoid(x W' + b')

    Our gate `g` is the share of `x`; the original paper writes the other gate, 1 - g.

    Masking: none is needed, each token is transformed alone.

    Args:
        depth: number of layers, one after the other.

    Call arguments:
        x: float tensor `(batch, length, features)`.

    Returns:
        Float tensor of the same shape.

    Example:
        >>> Highway(depth=2)(np.zeros((2, 7, 200))).shape
        (2, 7, 200)

    Reference: FABIR eq. 8; Srivastava et al. 2015, eq. 3.
    """

    per_word = True

    def __init__(self, depth: int = 2, **kwargs):
        super().__init__(**kwargs)
        self.depth = depth

    def build(self, input_shape):
        features = input_shape[-1]
        self.transforms = [
            Dense(features, "relu", kernel_initializer=GlorotUniform(), name=f"transform_{i}", dtype=self.dtype_policy)
            for i in range(self.depth)
        ]
        self.gates = [
            Dense(features, "sigmoid", kernel_initializer=GlorotUniform(), name=f"gate_{i}", dtype=self.dtype_policy)
            for i in range(self.depth)
        ]
        for dense in (*self.transforms, *self.gates):
            dense.build(input_shape)
        stay_frozen(self)

    def call(self, x):
        words = rows(x)
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            transformed = transform(words)
            words = transformed + gate(words) * (words - transformed)
        return texts(words, x)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"depth": self.depth}
