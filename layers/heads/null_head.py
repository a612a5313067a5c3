import keras
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import masked_softmax, zero_padding


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class NullHead(keras.layers.Layer):
    """Start and end logit of "no answer", from attention pooling over both texts.

        p = softmax(P v_P)^T P,   q = softmax(Q v_Q)^T Q
        null = relu([p; q] W_1 + b_1) W_2 + b_2

    `v_P` and `v_Q` are one learned query for each text.

    Masking: explicit, `passage_mask` and `question_mask`. Padding has weight 0; a text of padding alone is pooled to 0.

    Args:
        hidden_dim: width of the hidden layer.
        dropout: share of the values dropped before each of the two products with W_1 and W_2, in training.

    Call arguments:
        passage: float tensor `(batch, passage, features)`.
        question: float tensor `(batch, question, question_features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        Float32 tensor `(batch, 2)`, the `null_logits` of `SpanDecoder`.

    Example:
        >>> NullHead()(passage, question, passage_mask, question_mask).shape
        (60, 2)

    Reference: this head is ours; the null logits in the softmax over the tokens are those of Cheung, eq. 12 and 13.
    """

    def __init__(self, hidden_dim: int = 32, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.hidden = self._dense(hidden_dim, "relu", "hidden")
        self.logits = self._dense(2, None, "logits")

    def _dense(self, units, activation, name):
        return Dense(units, activation, kernel_initializer=GlorotUniform(), name=name, dtype=self.dtype_policy)

    def build(self, passage_shape, question_shape):
        self.passage_query, self.question_query = (
            self.add_weight(name=f"{text}_query", shape=(shape[-1], 1), initializer=GlorotUniform())
            for text, shape in (("passage", passage_shape), ("question", question_shape))
        )
        self.hidden.build((None, passage_shape[-1] + question_shape[-1]))
        self.logits.build((None, self.hidden_dim))

    def call(self, passage, question, passage_mask, question_mask, training=None):
        texts = ((passage, passage_mask, self.passage_query), (question, question_mask, self.question_query))
        pooled = ops.concatenate([self._pool(*text) for text in texts], axis=-1)
        hidden = self.hidden(self.drop(pooled, training=training))
        return ops.cast(self.logits(self.drop(hidden, training=training)), "float32")

    def _pool(self, x, mask, query):
        """The sum of a text's tokens, weighted by how well they match the query, `(batch, features)`."""
        x = zero_padding(x, mask)
        weights = ops.cast(masked_softmax(ops.matmul(x, query)[..., 0], mask), x.dtype)
        return ops.matmul(weights[:, None], x)[:, 0]

    def compute_output_shape(self, passage_shape, question_shape):
        return passage_shape[0], 2

    def compute_output_spec(self, passage, question, passage_mask, question_mask, training=None):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return keras.KerasTensor((passage.shape[0], 2), "float32")

    def get_config(self):
        return super().get_config() | {"hidden_dim": self.hidden_dim, "dropout": self.dropout}
