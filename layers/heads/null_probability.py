"""What "no answer" does to the probabilities of the best spans, once for all decoders."""

from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT


def probabilities(scores, start_logits, end_logits, null_logits=None):
    """Probabilities of the best spans, and of "no answer".

    With null logits, `x` for the start or the end:

        p_x(null) = exp(null_x) / (exp(null_x) + sum_t exp(x_t))
        none      = p_start(null) * p_end(null)
        span      = exp(score) * (1 - p_start(null)) * (1 - p_end(null))

    `span` is the span's probability in the softmax over tokens and null. Scores are normalized over the tokens alone,
    so null logits cannot change the order of the spans.

    Args:
        scores: float32 tensor `(batch, n_best)`, log p_start + log p_end in the softmax over the tokens, best first.
        start_logits: float tensor `(batch, passage)`, -1e9 on padding.
        end_logits: float tensor `(batch, passage)`.
        null_logits: float tensor `(batch, 2)`, start and end logit of "no answer"; or None.

    Returns:
        Probabilities `(batch, n_best)` and no-answer probability `(batch,)`, both float32. Without null logits the
        latter is 1 minus the first span's probability. A passage without a real token has probabilities 0 and 1.
    """
    real = ops.any(start_logits > MASKED_LOGIT / 2, axis=-1, keepdims=True)
    if null_logits is None:
        spans = ops.where(real, ops.exp(scores), 0.0)
        return spans, 1.0 - spans[:, 0]
    tokens = [ops.logsumexp(ops.cast(logits, "float32"), axis=-1) for logits in (start_logits, end_logits)]
    margins = ops.stack(tokens, axis=-1) - ops.cast(null_logits, "float32")
    # Logarithms, because a product of small probabilities would underflow before it is multiplied by a score.
    answer, none = (ops.sum(ops.log_sigmoid(each), axis=-1, keepdims=True) for each in (margins, -margins))
    return ops.where(real, ops.exp(scores + answer), 0.0), ops.where(real, ops.exp(none), 1.0)[:, 0]
