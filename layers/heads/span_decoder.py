import keras
from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class SpanDecoder(keras.layers.Layer):
    """The most probable answer spans, exactly: every allowed span is compared, none is pruned.

        maximise p_start(i) * p_end(j)   subject to   i <= j < i + max_answer

    Ties go to the earlier start, then to the shorter span.

    Masking: none is taken; logits of padding are -1e9 (see `ConvolutionalSelector`), so their probability is 0.

    Args:
        max_answer: longest answer in tokens.
        n_best: spans returned per question, the best first.

    Call arguments:
        start_logits: float tensor `(batch, passage)`.
        end_logits: float tensor `(batch, passage)`.

    Returns:
        First token, last token (int32) and probability (float32), each `(batch, n_best)`. Where a passage has fewer
        than n_best spans the surplus has probability 0; where it has no real token, all have.

    Example:
        >>> first, last, probability = SpanDecoder(max_answer=15)(start_logits, end_logits)

    Reference: FABIR eq. 19; thesis eq. 5.22.
    """

    def __init__(self, max_answer: int = 15, n_best: int = 1, **kwargs):
        # Whatever the policy: in half precision the logits would lose the digits that order the spans.
        super().__init__(**kwargs | {"dtype": "float32", "autocast": False})
        if max_answer < 1 or n_best < 1:
            raise ValueError(
                f"max_answer and n_best must be at least 1. Received: max_answer={max_answer}, n_best={n_best}"
            )
        self.max_answer = max_answer
        self.n_best = n_best

    def call(self, start_logits, end_logits):
        start = ops.log_softmax(ops.cast(start_logits, "float32"), axis=-1)
        end = ops.log_softmax(ops.cast(end_logits, "float32"), axis=-1)
        batch, length = ops.shape(start)
        # The band of allowed spans, (batch, passage, max_answer): entry (i, k) is the span i .. i + k.
        padded = ops.pad(end, ((0, 0), (0, self.max_answer - 1)), constant_values=2 * MASKED_LOGIT)
        shifted = ops.stack([padded[:, k : k + length] for k in range(self.max_answer)], axis=-1)
        spans = ops.reshape(start[..., None] + shifted, (batch, length * self.max_answer))
        # A passage of a single token has max_answer entries: fewer than a large n_best asks for.
        spans = ops.pad(spans, ((0, 0), (0, self.n_best)), constant_values=4 * MASKED_LOGIT)
        score, index = ops.top_k(spans, self.n_best)
        index = ops.cast(index, "int32")
        first = ops.minimum(index // self.max_answer, length - 1)
        last = ops.minimum(first + index % self.max_answer, length - 1)
        real = ops.any(start_logits > MASKED_LOGIT / 2, axis=-1, keepdims=True)
        return first, last, ops.where(real, ops.exp(score), 0.0)

    def compute_output_shape(self, start_logits_shape, end_logits_shape):
        shape = (start_logits_shape[0], self.n_best)
        return shape, shape, shape

    def compute_output_spec(self, start_logits, end_logits):
        shape = (start_logits.shape[0], self.n_best)
        return tuple(keras.KerasTensor(shape, dtype) for dtype in ("int32", "int32", "float32"))

    def get_config(self):
        return super().get_config() | {"max_answer": self.max_answer, "n_best": self.n_best}
