import keras
from keras import ops


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class LayerMix(keras.layers.Layer):
    """A trained mean of the layers of a word model, scaled by a trained number.

        y = gamma * sum_k softmax(s)_k h_k

    `s` starts at 0, so that all layers count alike, and gamma at 1. With the three layers of ELMo it trains four
    numbers.

    Masking: none is needed, each token is mixed alone.

    Call arguments:
        x: float tensor `(batch, length, layers, features)`.

    Returns:
        Float tensor `(batch, length, features)`.

    Example:
        >>> LayerMix()(np.zeros((2, 7, 3, 1024), "float32")).shape
        (2, 7, 1024)

    Reference: Peters et al. 2018, arXiv 1802.05365, eq. 1; Cheung, section 3.1.2.
    """

    per_word = True

    def build(self, x_shape):
        self.scores = self.add_weight(name="scores", shape=(x_shape[-2],), initializer="zeros")
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones")

    def call(self, x):
        shares = ops.softmax(ops.cast(self.scores, "float32"))
        weights = ops.cast(ops.cast(self.gamma, "float32") * shares, x.dtype)
        return ops.sum(x * weights[:, None], axis=-2)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-2], x_shape[-1])
