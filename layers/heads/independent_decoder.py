import keras
from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class IndependentDecoder(keras.layers.Layer):
    """The most probable borders, each by itself: an end may come before its start, and is then the end of nothing.

        maximise p_start(i) * p_end(j)

    Ties go to the earlier border.

    Masking: none is taken; logits of padding are -1e9, so their probability is 0.

    Args:
        n_best: pairs of borders returned per question, the best first.

    Call arguments:
        start_logits: float tensor `(batch, passage)`.
        end_logits: float tensor `(batch, passage)`.

    Returns:
        First token, last token (int32) and probability (float32), each `(batch, n_best)`; as `SpanDecoder`.

    Raises:
        ValueError: `n_best` is less than 1.

    Example:
        >>> first, last, probability = IndependentDecoder()(start_logits, end_logits)

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 3: what its variant 4 adds a constraint to.
    """

    def __init__(self, n_best: int = 1, **kwargs):
        # Whatever the policy: in half precision the logits would lose the digits that order the borders.
        super().__init__(**kwargs | {"dtype": "float32", "autocast": False})
        if n_best < 1:
            raise ValueError(f"n_best must be at least 1. Received: n_best={n_best}")
        self.n_best = n_best

    def call(self, start_logits, end_logits):
        # The n best pairs are made of the n best starts and the n best ends.
        starts, firsts = self._best(start_logits)
        ends, lasts = self._best(end_logits)
        batch = ops.shape(starts)[0]
        score, pair = ops.top_k(ops.reshape(starts[:, :, None] + ends[:, None], (batch, self.n_best**2)), self.n_best)
        first = ops.take_along_axis(firsts, pair // self.n_best, axis=1)
        last = ops.take_along_axis(lasts, pair % self.n_best, axis=1)
        real = ops.any(start_logits > MASKED_LOGIT / 2, axis=-1, keepdims=True)
        return first, last, ops.where(real, ops.exp(score), 0.0)

    def _best(self, logits):
        """Log probabilities and places; a short passage's surplus has the last place and no probability."""
        length = ops.shape(logits)[1]
        scores = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        scores = ops.pad(scores, ((0, 0), (0, self.n_best)), constant_values=2 * MASKED_LOGIT)
        best, places = ops.top_k(scores, self.n_best)
        return best, ops.minimum(ops.cast(places, "int32"), length - 1)

    def compute_output_shape(self, start_logits_shape, end_logits_shape):
        return ((start_logits_shape[0], self.n_best),) * 3

    def compute_output_spec(self, start_logits, end_logits):
        shape = (start_logits.shape[0], self.n_best)
        return tuple(keras.KerasTensor(shape, dtype) for dtype in ("int32", "int32", "float32"))

    def get_config(self):
        return super().get_config() | {"n_best": self.n_best}
