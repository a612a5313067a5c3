import keras
from keras import ops

from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.heads.dense_head import DenseHead


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class GatedHead(DenseHead):
    """Two logits per token from gated tanh-ReLU units.

        Y = relu(X W_R + b_R) * tanh(X W_T + b_T)

    Both maps have two outputs, so no other linear map follows. A logit of 0 has no gradient where its ReLU is closed.

    Masking: none is needed, each token is transformed alone; `SequenceLogits` masks the logits.

    Args:
        dropout: share of the values of `X` dropped in training.

    Call arguments:
        x: float tensor `(batch, length, features)`, the encoder's last hidden states.

    Returns:
        Float32 tensor `(batch, length, 2)`.

    Example:
        >>> GatedHead()(hidden_states).shape
        (32, 384, 2)

    Reference: Cheung, eq. 16; Xue and Li 2018, eq. 3 to 5.
    """

    def build(self, x_shape):
        self.gate = self._built_dense("gate", x_shape, 2, "relu")
        self.value = self._built_dense("value", x_shape, 2, "tanh")
        stay_frozen(self)

    def call(self, x, training=None):
        x = self.drop(x, training=training)
        return ops.cast(self.gate(x) * self.value(x), "float32")
