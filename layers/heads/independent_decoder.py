import keras
from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT
from fabir_tf.layers.heads.span_scores import answer_score, span_probabilities


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class IndependentDecoder(keras.layers.Layer):
    """The most probable start and end, each chosen without regard to the other.

        maximise p_start(i) * p_end(j)

    An end may come before its start; the pair is then no span. Ties go to the earlier token.

    Masking: no mask is taken. Padding has the logit -1e9, so its probability is 0.

    Args:
        n_best: pairs of start and end returned per question, the best first.

    Call arguments:
        start_logits: float tensor `(batch, passage)`.
        end_logits: float tensor `(batch, passage)`.

    Returns:
        First token, last token (int32) and probability (float32), each `(batch, n_best)`, and the score, float32
        `(batch,)`; all as in `SpanDecoder`, which decodes where there are null logits.

    Raises:
        ValueError: `n_best` is less than 1.

    Example:
        >>> first, last, probability, score = IndependentDecoder()(start_logits, end_logits)

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 3; its variant 4 is constrained as in `SpanDecoder`.
    """

    def __init__(self, n_best: int = 1, **kwargs):
        # Float32 under every policy: half precision would lose the digits that order the pairs.
        super().__init__(**kwargs | {"dtype": "float32", "autocast": False})
        if n_best < 1:
            raise ValueError(f"n_best must be at least 1. Received: n_best={n_best}")
        self.n_best = n_best

    def call(self, start_logits, end_logits):
        # The n best pairs consist of the n best starts and the n best ends.
        starts, firsts = self._best(start_logits)
        ends, lasts = self._best(end_logits)
        batch = ops.shape(starts)[0]
        log_probability, pair = ops.top_k(
            ops.reshape(starts[:, :, None] + ends[:, None], (batch, self.n_best**2)), self.n_best
        )
        first = ops.take_along_axis(firsts, pair // self.n_best, axis=1)
        last = ops.take_along_axis(lasts, pair % self.n_best, axis=1)
        score = answer_score(first[:, 0], last[:, 0], start_logits, end_logits)
        return first, last, span_probabilities(log_probability, start_logits), score

    def _best(self, logits):
        """Log probabilities and indices; entries beyond a short passage have its last index and probability 0."""
        length = ops.shape(logits)[1]
        scores = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        scores = ops.pad(scores, ((0, 0), (0, self.n_best)), constant_values=2 * MASKED_LOGIT)
        best, indices = ops.top_k(scores, self.n_best)
        return best, ops.minimum(ops.cast(indices, "int32"), length - 1)

    def compute_output_shape(self, start_logits_shape, end_logits_shape):
        shape = (start_logits_shape[0], self.n_best)
        return shape, shape, shape, shape[:1]

    def compute_output_spec(self, start_logits, end_logits):
        shapes = self.compute_output_shape(start_logits.shape, end_logits.shape)
        dtypes = ("int32", "int32", "float32", "float32")
        return tuple(keras.KerasTensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))

    def get_config(self):
        return super().get_config() | {"n_best": self.n_best}
