import keras

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Conv1D
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import mask_logits, zero_padding
from fabir_tf.layers.core.shared_values import same_texts


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ConvolutionalSelector(keras.layers.Layer):
    """Start and end logits from two convolutions over the passage.

        [y_1; y_2] = Conv( relu(Conv(P, H_1) + b_1), H_2 ) + b_2

    Masking: explicit, `passage_mask`. Padding enters both convolutions as 0 and gets the logit -1e9.

    Args:
        filters: width between the two convolutions.
        kernel_size: tokens seen by each convolution, SAME.
        num_outputs: 2 for start and end logits, 1 for one of them.
        dropout: share of the values dropped before each convolution in training.

    Call arguments:
        passage: float tensor `(batch, passage, d_model)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, passage)`; one of them if `num_outputs` is 1.

    Example:
        >>> start, end = ConvolutionalSelector()(passage, passage_mask)

    Reference: FABIR section III-G; thesis eq. 5.20.
    """

    def __init__(self, filters: int = 32, kernel_size: int = 9, num_outputs: int = 2, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.num_outputs = num_outputs
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.hidden = Conv1D(
            filters,
            kernel_size,
            padding="same",
            data_format="channels_last",
            activation="relu",
            kernel_initializer=GlorotUniform(),
            name="hidden",
            dtype=self.dtype_policy,
        )
        self.logits = Conv1D(
            num_outputs,
            kernel_size,
            padding="same",
            data_format="channels_last",
            kernel_initializer=GlorotUniform(),
            name="logits",
            dtype=self.dtype_policy,
        )

    def build(self, passage_shape):
        self.hidden.build(passage_shape)
        self.logits.build((*passage_shape[:-1], self.filters))
        stay_frozen(self)

    def call(self, passage, passage_mask, training=None):
        same_texts(passage, passage_mask)
        hidden = self.hidden(self.drop(zero_padding(passage, passage_mask), training=training))
        logits = self.logits(self.drop(zero_padding(hidden, passage_mask), training=training))
        return tuple(mask_logits(logits[..., i], passage_mask) for i in range(self.num_outputs))

    def compute_output_shape(self, passage_shape):
        return (passage_shape[:-1],) * self.num_outputs

    def compute_output_spec(self, passage, passage_mask, training=None):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(passage.shape))

    def get_config(self):
        return super().get_config() | {
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "num_outputs": self.num_outputs,
            "dropout": self.dropout,
        }
