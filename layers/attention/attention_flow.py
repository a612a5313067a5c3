import keras
from keras import ops

from fabir_tf.layers.core.initializers import GlorotUniform, KerasUniform
from fabir_tf.layers.core.masking import mask_logits, masked_softmax


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class AttentionFlow(keras.layers.Layer):
    """BiDAF's attention: each passage token beside what it attends to, from passage to question and back.

        S_pq = w^T [h_p; u_q; h_p * u_q]
        u~_p = sum_q softmax_q(S_p)_q u_q              context to query
        h~   = sum_p softmax_p(max_q S_pq)_p h_p       query to context, the same for every p
        G_p  = [h_p; u~_p; h_p * u~_p; h_p * h~]

    `h` is the passage, `u` the question. The three parts of `w` are applied one by one, which avoids a tensor
    `(batch, passage, question, 3 features)`.

    Masking: explicit, `passage_mask` and `question_mask`. Padding has weight exactly 0 in both softmaxes and never
    is the maximum. The output of padded passage tokens has no meaning.

    Args:
        use_bias: whether a trained number is added to every `S_pq`; it changes no attention weight.
        keras_initializers: initializes `w` by Keras' "uniform" and the number as 1, instead of by Xavier and 0.

    Call arguments:
        passage: float tensor `(batch, passage, features)`.
        question: float tensor `(batch, question, features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        Float tensor `(batch, passage, 4 features)`.

    Example:
        >>> AttentionFlow()(passage, question, passage_mask, question_mask).shape
        (60, 140, 800)

    Reference: Seo et al. 2017, section 2, 4.
    """

    def __init__(self, use_bias: bool = False, keras_initializers: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.use_bias = use_bias
        self.keras_initializers = keras_initializers

    def build(self, passage_shape, question_shape):
        features = passage_shape[-1]
        kernel, bias = (KerasUniform(), "ones") if self.keras_initializers else (GlorotUniform(), "zeros")
        self.kernel = self.add_weight(name="kernel", shape=(3 * features, 1), initializer=kernel)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(1,), initializer=bias)

    def call(self, passage, question, passage_mask, question_mask):
        similarity = self._similarity(passage, question)
        to_question = ops.cast(masked_softmax(similarity, question_mask[:, None]), self.compute_dtype)
        asked = ops.matmul(to_question, question)
        most_alike = ops.max(mask_logits(similarity, question_mask[:, None]), axis=-1)
        to_passage = ops.cast(masked_softmax(most_alike, passage_mask), self.compute_dtype)
        attended = ops.matmul(to_passage[:, None], passage)
        return ops.concatenate([passage, asked, passage * asked, passage * attended], axis=-1)

    def _similarity(self, passage, question):
        """S, `(batch, passage, question)`."""
        for_passage, for_question, for_product = ops.split(self.kernel, 3)
        products = ops.matmul(passage * for_product[:, 0], ops.transpose(question, (0, 2, 1)))
        rows, columns = ops.matmul(passage, for_passage), ops.matmul(question, for_question)
        similarity = products + rows + ops.transpose(columns, (0, 2, 1))
        return similarity + self.bias if self.use_bias else similarity

    def compute_output_shape(self, passage_shape, question_shape):
        return (*passage_shape[:-1], 4 * passage_shape[-1])

    def get_config(self):
        return super().get_config() | {
            "use_bias": self.use_bias,
            "keras_initializers": self.keras_initializers,
        }
