import keras

from fabir_tf.layers.blocks.highway import Highway
from fabir_tf.layers.heads.dense_head import DenseHead


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class HighwayHead(DenseHead):
    """Two logits per token from one highway layer and one linear map.

        H = relu(X W_H + b_H) * t + X * (1 - t),   t = sigmoid(X W_T + b_T)
        Y = H W + b

    `Highway` trains the other gate, 1 - t, which is the same layer with W_T and b_T negated.

    Masking: none is needed, each token is transformed alone; `SequenceLogits` masks the logits.

    Args:
        dropout: share of the values of `X` dropped in training.

    Call arguments:
        x: float tensor `(batch, length, features)`, the encoder's last hidden states.

    Returns:
        Float32 tensor `(batch, length, 2)`.

    Example:
        >>> HighwayHead()(hidden_states).shape
        (32, 384, 2)

    Reference: Cheung, eq. 18.
    """

    def build_hidden(self, x_shape):
        self.highway = Highway(depth=1, name="highway", dtype=self.dtype_policy)
        self.highway.build(x_shape)

    def hidden(self, x):
        return self.highway(x)
