import keras

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import mask_logits


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class LinearSelector(keras.layers.Layer):
    """Start and end logits, each from one weight vector.

        y_1 = P v_1,   y_2 = P v_2

    Masking: explicit, `passage_mask`. Padding gets the logit -1e9.

    Args:
        num_outputs: 2 for start and end logits, 1 for one of them.
        dropout: share of the passage's values dropped in training.

    Call arguments:
        passage: float tensor `(batch, passage, d_model)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, passage)`; one of them if `num_outputs` is 1.

    Example:
        >>> start, end = LinearSelector()(passage, passage_mask)

    Reference: thesis eq. 5.19.
    """

    def __init__(self, num_outputs: int = 2, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_outputs = num_outputs
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.logits = Dense(
            num_outputs, use_bias=False, kernel_initializer=GlorotUniform(), name="logits", dtype=self.dtype_policy
        )

    def build(self, passage_shape):
        self.logits.build(passage_shape)
        stay_frozen(self)

    def call(self, passage, passage_mask, training=None):
        logits = self.logits(self.drop(passage, training=training))
        return tuple(mask_logits(logits[..., i], passage_mask) for i in range(self.num_outputs))

    def compute_output_shape(self, passage_shape):
        return (passage_shape[:-1],) * self.num_outputs

    def compute_output_spec(self, passage, passage_mask, training=None):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(passage.shape))

    def get_config(self):
        return super().get_config() | {"num_outputs": self.num_outputs, "dropout": self.dropout}
