"""How probable the best spans are, and how far the best one is above "no answer", once for all decoders."""

from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT


def span_probabilities(log_probabilities, start_logits):
    """Probabilities of the best spans, given that the passage holds an answer.

    Args:
        log_probabilities: float32 tensor `(batch, n_best)`, log p_start + log p_end in the softmax over the tokens.
        start_logits: float tensor `(batch, passage)`, -1e9 on padding.

    Returns:
        Float32 tensor `(batch, n_best)`; 0 for a passage without a real token.
    """
    return ops.where(_has_token(start_logits)[:, None], ops.exp(log_probabilities), 0.0)


def answer_score(first, last, start_logits, end_logits, null_logits=None, null_pairs=False):
    """The logits of the best span, less those of "no answer": above 0 where an answer is more likely.

        score = start_i + end_j - null
        null  = null_start + null_end                                               without null_pairs
                max(null_start + null_end, max_i start_i + null_end, null_start + max_j end_j)   with them

    Args:
        first, last: int32 tensors `(batch,)`, i and j, the tokens of the best span.
        start_logits, end_logits: float tensors `(batch, passage)`, -1e9 on padding.
        null_logits: float tensor `(batch, 2)`, start and end logit of "no answer"; None for 0.
        null_pairs: whether a pair of a token and "no answer" counts as no answer, too.

    Returns:
        Float32 tensor `(batch,)`; -1e9 for a passage without a real token.

    Reference: Devlin et al. 2019, arXiv 1810.04805, section 4.3; with `null_pairs` Cheung, eq. 8.
    """
    start, end = (ops.cast(logits, "float32") for logits in (start_logits, end_logits))
    best = sum(
        ops.take_along_axis(logits, token[:, None], axis=1)[:, 0] for logits, token in ((start, first), (end, last))
    )
    if null_logits is not None:
        null_start, null_end = ops.unstack(ops.cast(null_logits, "float32"), axis=1)
        null = null_start + null_end
        if null_pairs:
            null = ops.maximum(null, ops.max(start, axis=1) + null_end)
            null = ops.maximum(null, null_start + ops.max(end, axis=1))
        best -= null
    return ops.where(_has_token(start_logits), best, float(MASKED_LOGIT))


def _has_token(start_logits):
    return ops.any(start_logits > MASKED_LOGIT / 2, axis=-1)
