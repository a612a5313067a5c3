import keras
from keras import ops


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class TrainedNullLogits(keras.layers.Layer):
    """Start and end logit of "no answer" that are two trained numbers, the same for all questions.

        null = [w_s; w_e]

    A question has no answer where its best start and end have smaller logits than these thresholds.

    Masking: none is needed; the values of the passage are not used.

    Call arguments:
        passage: tensor `(batch, passage, features)`; only its first dimension is used.

    Returns:
        Float32 tensor `(batch, 2)`, the `null_logits` of `SpanDecoder`.

    Example:
        >>> TrainedNullLogits()(passage).shape
        (60, 2)

    Reference: Cheung, "Deep Learning in NLP: Constructing a Machine Question Answering Model", eq. 12 and 13.
    """

    def build(self, passage_shape):
        # Not autocast: half precision would round the thresholds.
        self.null_logits = self.add_weight(name="null_logits", shape=(2,), initializer="zeros", autocast=False)

    def call(self, passage):
        return ops.broadcast_to(ops.cast(self.null_logits, "float32"), (ops.shape(passage)[0], 2))

    def compute_output_shape(self, passage_shape):
        return passage_shape[0], 2

    def compute_output_spec(self, passage):
        # Keras cannot infer from the shape that the logits are float32 under every policy.
        return keras.KerasTensor((passage.shape[0], 2), "float32")
