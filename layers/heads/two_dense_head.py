import keras

from fabir_tf.layers.heads.dense_head import DenseHead


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class TwoDenseHead(DenseHead):
    """Two logits per token from two linear maps, with or without a function between them.

        Y = f(X W_1 + b_1) W_2 + b_2,   f = identity or relu

    The report gives no size of the first map; here it keeps the number of features.

    Masking: none is needed, each token is transformed alone; `SequenceLogits` masks the logits.

    Args:
        activation: "relu", or None for no function.
        dropout: share of the values of `X` dropped in training.

    Call arguments:
        x: float tensor `(batch, length, features)`, the encoder's last hidden states.

    Returns:
        Float32 tensor `(batch, length, 2)`.

    Raises:
        ValueError: an unknown activation.

    Example:
        >>> TwoDenseHead("relu")(hidden_states).shape
        (32, 384, 2)

    Reference: Cheung, section 3.2.2.
    """

    def __init__(self, activation: str | None = None, dropout: float = 0.0, **kwargs):
        super().__init__(dropout, **kwargs)
        if activation not in (None, "relu"):
            raise ValueError(f"activation must be 'relu' or None. Received: activation={activation!r}")
        self.activation = activation

    def build_hidden(self, x_shape):
        self.hidden_map = self._built_dense("hidden", x_shape, x_shape[-1], self.activation)

    def hidden(self, x):
        return self.hidden_map(x)

    def get_config(self):
        return super().get_config() | {"activation": self.activation}
