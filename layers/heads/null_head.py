import keras
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import MASKED_LOGIT, masked_softmax, zero_padding

# The lowest evidence of a token, so that its logarithm is finite.
_LEAST = 1e-6


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class NullHead(keras.layers.Layer):
    """Start and end logit of "no answer": compares each question word with the passage near the likeliest answer.

        r_i  = sum_k (p_start,k + p_end,k) / 2 * exp(-|decay| |i - k|)     how near token i is to the likeliest answer
        a_j  = sum_i softmax_i((q_j * v) p_i / sqrt(d) + near * log(r_i + 1e-6)) p_i
        c_j  = relu([q_j * a_j; |q_j - a_j|] W_1 + b_1)
        s    = relu([p_start P; p_end P] W_2 + b_2)
        null = [sum_j softmax_j(q_j u) c_j; max_j c_j; s] W_3 + b_3

    `p_start` and `p_end` are the softmax of the start and end logits over the passage. Where a passage does not answer
    a question, some words of the question find no counterpart near the likeliest answer.

    Masking: explicit, `passage_mask` and `question_mask`. Padding has weight 0; a text of padding alone is pooled to 0.

    Args:
        hidden_dim: width of c; s has half of it.
        dropout: share of the values dropped before each of the three products with W, in training.

    Call arguments:
        passage: float tensor `(batch, passage, features)`.
        question: float tensor `(batch, question, features)`.
        start_logits, end_logits: float tensors `(batch, passage)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        Float32 tensor `(batch, 2)`, the `null_logits` of `SpanDecoder`.

    Example:
        >>> NullHead()(passage, question, start_logits, end_logits, passage_mask, question_mask).shape
        (60, 2)

    Reference: this head is ours; comparing aligned words is from Parikh, Tackstrom, Das and Uszkoreit 2016, arXiv
        1606.01933, eq. 2 to 5.
    """

    def __init__(self, hidden_dim: int = 30, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.compare = self._dense(hidden_dim, "relu", "compare")
        self.of_span = self._dense(hidden_dim // 2, "relu", "of_span")
        self.logits = self._dense(2, None, "logits")

    def _dense(self, units, activation, name):
        return Dense(units, activation, kernel_initializer=GlorotUniform(), name=name, dtype=self.dtype_policy)

    def build(self, passage_shape, question_shape, start_logits_shape=None, end_logits_shape=None):
        features = passage_shape[-1]
        self.question_query = self.add_weight(name="question_query", shape=(features, 1), initializer=GlorotUniform())
        self.match = self.add_weight(name="match", shape=(features,), initializer="ones")
        # Not autocast: half precision would round distances and logarithms.
        self.near = self.add_weight(name="near", shape=(), initializer="ones", autocast=False)
        self.decay = self.add_weight(
            name="decay", shape=(), initializer=keras.initializers.Constant(0.1), autocast=False
        )
        self.compare.build((None, None, 2 * features))
        self.of_span.build((None, 2 * features))
        self.logits.build((None, 2 * self.hidden_dim + self.hidden_dim // 2))
        stay_frozen(self)

    def call(self, passage, question, start_logits, end_logits, passage_mask, question_mask, training=None):
        passage, question = zero_padding(passage, passage_mask), zero_padding(question, question_mask)
        bounds = [_probabilities(logits, passage_mask) for logits in (start_logits, end_logits)]
        aligned = self._aligned(passage, question, (bounds[0] + bounds[1]) / 2, passage_mask)
        pairs = ops.concatenate([question * aligned, ops.abs(question - aligned)], axis=-1)
        compared = zero_padding(self.compare(self.drop(pairs, training=training)), question_mask)
        weights = ops.cast(
            masked_softmax(ops.matmul(question, self.question_query)[..., 0], question_mask), pairs.dtype
        )
        ends = [ops.matmul(ops.cast(each, passage.dtype)[:, None], passage)[:, 0] for each in bounds]
        span = self.of_span(self.drop(ops.concatenate(ends, axis=-1), training=training))
        found = [ops.matmul(weights[:, None], compared)[:, 0], ops.max(compared, axis=1), span]
        joined = self.drop(ops.concatenate(found, axis=-1), training=training)
        return ops.cast(self.logits(joined), "float32")

    def _aligned(self, passage, question, evidence, passage_mask):
        """For each question token the passage near the likeliest answer that is like it, `(batch, question, features)`.

        Args:
            evidence: float32 tensor `(batch, passage)`, how likely each token starts or ends the answer.
        """
        places = ops.arange(ops.shape(passage)[1], dtype="float32")
        near, decay = ops.cast(self.near, "float32"), ops.cast(self.decay, "float32")
        closeness = ops.exp(-ops.abs(decay) * ops.abs(places[:, None] - places))
        near = near * ops.log(ops.matmul(evidence, closeness) + _LEAST)
        likeness = ops.matmul(question * self.match, ops.transpose(passage, (0, 2, 1))) / passage.shape[-1] ** 0.5
        logits = ops.cast(likeness, "float32") + near[:, None]
        weights = masked_softmax(logits, passage_mask[:, None])
        return ops.matmul(ops.cast(weights, passage.dtype), passage)

    def compute_output_shape(self, passage_shape, question_shape, start_logits_shape=None, end_logits_shape=None):
        return passage_shape[0], 2

    def compute_output_spec(
        self, passage, question, start_logits, end_logits, passage_mask, question_mask, training=None
    ):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return keras.KerasTensor((passage.shape[0], 2), "float32")

    def get_config(self):
        return super().get_config() | {"hidden_dim": self.hidden_dim, "dropout": self.dropout}


def _probabilities(logits, mask):
    # In float16 the logits of padding are -inf, and a softmax of these alone would not be a number.
    return masked_softmax(ops.maximum(ops.cast(logits, "float32"), MASKED_LOGIT), mask)
