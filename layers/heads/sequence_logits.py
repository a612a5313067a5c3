import keras
from keras import ops

from fabir_tf.layers.core.masking import mask_logits


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class SequenceLogits(keras.layers.Layer):
    """Start, end and null logits from the two logits of each token of a joined sequence.

        start_i = Y_i,1,   end_i = Y_i,2   for the passage's tokens i
        null    = [Y_CLS,1; Y_CLS,2]

    [CLS] is the first token. Its start and end logit stand for "no answer".

    Masking: explicit, `passage_mask`. Every other token gets the logit -1e9: the question, [CLS], [SEP] and padding.

    Call arguments:
        logits: float tensor `(batch, length, 2)`, from a head of `BERT_HEADS`.
        passage_mask: boolean tensor `(batch, length)`, true on the passage's tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, length)`, and null logits, float32 `(batch, 2)`.

    Example:
        >>> start, end, null = SequenceLogits()(logits, passage_mask)

    Reference: Devlin et al. 2019, section 4.3; Cheung, section 3.2.2.
    """

    def call(self, logits, passage_mask):
        start, end = (mask_logits(logits[..., i], passage_mask) for i in range(2))
        return start, end, ops.cast(logits[:, 0], "float32")

    def compute_output_shape(self, logits_shape):
        return logits_shape[:-1], logits_shape[:-1], (logits_shape[0], 2)

    def compute_output_spec(self, logits, passage_mask):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(logits.shape))
