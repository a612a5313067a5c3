import keras

from fabir_tf.layers.dropout import Dropout
from fabir_tf.layers.initializers import GlorotUniform
from fabir_tf.layers.masking import mask_logits


@keras.saving.register_keras_serializable(package="fabir_tf")
class LinearSelector(keras.layers.Layer):
    """Start and end logits from one weight vector each.

        y_1 = P v_1,   y_2 = P v_2

    Masking: explicit, `passage_mask`. Padding leaves with the logit -1e9.

    Args:
        borders: start and end, or only one of them.
        dropout: share of the passage's values dropped in training.

    Call arguments:
        passage: float tensor `(batch, passage, d_model)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, passage)`; of a single border one.

    Example:
        >>> start, end = LinearSelector()(passage, passage_mask)

    Reference: thesis eq. 5.19.
    """

    def __init__(self, borders: int = 2, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.number_of_borders = borders
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.borders = keras.layers.Dense(
            borders, use_bias=False, kernel_initializer=GlorotUniform(), name="borders", dtype=self.dtype_policy
        )

    def build(self, passage_shape):
        self.borders.build(passage_shape)

    def call(self, passage, passage_mask, training=None):
        logits = self.borders(self.drop(passage, training=training))
        return tuple(mask_logits(logits[..., i], passage_mask) for i in range(self.number_of_borders))

    def compute_output_shape(self, passage_shape):
        return (passage_shape[:-1],) * self.number_of_borders

    def compute_output_spec(self, passage, passage_mask, training=None):
        # Float32 under every policy, which Keras would not guess from the shapes.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(passage.shape))

    def get_config(self):
        return super().get_config() | {"borders": self.number_of_borders, "dropout": self.dropout}
