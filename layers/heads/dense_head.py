import keras
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import SmallNormal


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class DenseHead(keras.layers.Layer):
    """Two logits per token, for the start and the end of the answer, from one linear map: BERT's own head.

        Y = X W + b

    A variant overrides `build_hidden` and `hidden`, which come before the linear map.

    Masking: none is needed, each token is transformed alone; `SequenceLogits` masks the logits.

    Args:
        dropout: share of the values of `X` dropped in training.

    Call arguments:
        x: float tensor `(batch, length, features)`, the encoder's last hidden states.

    Returns:
        Float32 tensor `(batch, length, 2)`.

    Example:
        >>> DenseHead()(hidden_states).shape
        (32, 384, 2)

    Reference: Cheung, eq. 15; Devlin et al. 2019, section 4.2.
    """

    def __init__(self, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, x_shape):
        self.build_hidden(x_shape)
        self.logits = self._built_dense("logits", x_shape, 2)
        stay_frozen(self)

    def build_hidden(self, x_shape):
        """Builds the layers of `hidden`; there are none here."""

    def hidden(self, x):
        """The vectors `(batch, length, features)` that the linear map takes, from the encoder's: the same here."""
        return x

    def _built_dense(self, name, x_shape, units, activation=None):
        dense = Dense(units, activation, kernel_initializer=SmallNormal(), name=name, dtype=self.dtype_policy)
        dense.build(x_shape)
        return dense

    def call(self, x, training=None):
        return ops.cast(self.logits(self.hidden(self.drop(x, training=training))), "float32")

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], 2)

    def compute_output_spec(self, x, training=None):
        # Keras cannot infer from the shape that the logits are float32 under every policy.
        return keras.KerasTensor(self.compute_output_shape(x.shape), "float32")

    def get_config(self):
        return super().get_config() | {"dropout": self.dropout}
