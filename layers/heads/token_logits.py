import keras
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.initializers import GlorotUniform, KerasUniform
from fabir_tf.layers.core.masking import mask_logits


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class TokenLogits(keras.layers.Layer):
    """One logit per token, for the start or the end of the answer.

        y = x w [+ b]

    Masking: explicit, `passage_mask`. Padding gets the logit -1e9.

    Args:
        dropout: share of the values dropped in training.
        use_bias: whether a trained number is added to all logits; it changes no probability.
        keras_initializers: initializes `w` by Keras' "uniform" instead of by Xavier.

    Call arguments:
        x: float tensor `(batch, passage, features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Float32 tensor `(batch, passage)`.

    Example:
        >>> TokenLogits()(modelled, passage_mask).shape
        (60, 140)

    Reference: Seo et al. 2017, section 2, 6.
    """

    def __init__(self, dropout: float = 0.0, use_bias: bool = False, keras_initializers: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.use_bias = use_bias
        self.keras_initializers = keras_initializers
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, x_shape):
        initializer = KerasUniform() if self.keras_initializers else GlorotUniform()
        self.kernel = self.add_weight(name="kernel", shape=(x_shape[-1], 1), initializer=initializer)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")

    def call(self, x, passage_mask, training=None):
        logits = ops.matmul(self.drop(x, training=training), self.kernel)[..., 0]
        return mask_logits(logits + self.bias if self.use_bias else logits, passage_mask)

    def compute_output_shape(self, x_shape):
        return x_shape[:-1]

    def compute_output_spec(self, x, passage_mask, training=None):
        # Keras cannot infer from the shape that the logits are float32 under every policy.
        return keras.KerasTensor(x.shape[:-1], "float32")

    def get_config(self):
        return super().get_config() | {
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "keras_initializers": self.keras_initializers,
        }
