import keras
from keras import ops

from fabir_tf.layers.core.masking import MASKED_LOGIT
from fabir_tf.layers.core.take import take
from fabir_tf.layers.heads.span_scores import answer_score, span_probabilities


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class SpanDecoder(keras.layers.Layer):
    """The most probable answer spans, found by an exact search over all allowed spans.

        maximise p_start(i) * p_end(j)   subject to   i <= j < i + max_answer

    Ties go to the earlier start, then to the shorter span.

    Masking: no mask is taken. Padding has the logit -1e9 (see `ConvolutionalSelector`), so its probability is 0.

    Args:
        max_answer: longest answer in tokens; None for no limit, which needs memory for passage x passage spans.
        n_best: spans returned per question, the best first.
        null_pairs: whether the likeliest pair of a start and an end counts as "no answer" if only one of the two is.

    Call arguments:
        start_logits: float tensor `(batch, passage)`.
        end_logits: float tensor `(batch, passage)`.
        null_logits: float tensor `(batch, 2)` or None: start and end logit of "no answer".

    Returns:
        First token, last token (int32) and probability (float32) of each span, each `(batch, n_best)`; the
        probabilities are those of the softmax over the tokens, given that there is an answer. Score, float32
        `(batch,)`: the start and end logits of the best span, less those of "no answer" (see `answer_score`), so that
        `sigmoid(-score)` is the no-answer probability before calibration. If a passage has fewer than n_best spans,
        the others have probability 0. If it has no real token, all spans have probability 0 and the score is -1e9.

    Raises:
        ValueError: `max_answer` or `n_best` is less than 1.

    Example:
        >>> first, last, probability, score = SpanDecoder(max_answer=15)(start_logits, end_logits)

    Reference: FABIR eq. 19; thesis eq. 5.22; for null logits Cheung, eq. 8, 12 and 13.
    """

    def __init__(self, max_answer: int | None = 15, n_best: int = 1, null_pairs: bool = False, **kwargs):
        # Float32 under every policy: half precision would lose the digits that order the spans.
        super().__init__(**kwargs | {"dtype": "float32", "autocast": False})
        if (max_answer is not None and max_answer < 1) or n_best < 1:
            raise ValueError(
                f"max_answer and n_best must be at least 1. Received: max_answer={max_answer}, n_best={n_best}"
            )
        self.max_answer = max_answer
        self.n_best = n_best
        self.null_pairs = null_pairs

    def call(self, start_logits, end_logits, null_logits=None):
        start = ops.log_softmax(ops.cast(start_logits, "float32"), axis=-1)
        end = ops.log_softmax(ops.cast(end_logits, "float32"), axis=-1)
        length = ops.shape(start)[1]
        if self.max_answer is None:
            log_probability, first, last = self._best(_all_spans(start, end), length)
        else:
            log_probability, first, last = self._best_short(start, end)
        # A short passage has fewer spans than n_best.
        first, last = (ops.minimum(token, length - 1) for token in (first, last))
        best = (first[:, 0], last[:, 0], start_logits, end_logits, null_logits, self.null_pairs)
        return first, last, span_probabilities(log_probability, start_logits), answer_score(*best)

    def _best_short(self, start, end):
        """As `_best` of all short spans, in memory for `(batch, passage)` and not for `(batch, passage, max_answer)`.

        The n best spans start at the n tokens whose best spans are best.
        """
        # A short passage has fewer starts than n_best.
        start = ops.pad(start, ((0, 0), (0, self.n_best)), constant_values=2 * MASKED_LOGIT)
        end = ops.pad(end, ((0, 0), (0, self.n_best + self.max_answer - 1)), constant_values=2 * MASKED_LOGIT)
        _, chosen = ops.top_k(start + _maximum_ahead(end, self.max_answer), self.n_best)
        # Where spans tie, the earlier start goes first.
        chosen = ops.sort(ops.cast(chosen, "int32"), axis=-1)
        ahead = ops.arange(self.max_answer)
        spans = _take_in_rows(start, chosen)[..., None] + _take_in_rows(end, chosen[..., None] + ahead)
        values, row, further = self._best(spans, self.max_answer)
        first = _take_in_rows(chosen, row)
        return values, first, first + further

    def _best(self, spans, width):
        """The n best entries of `(batch, passage, width)`: their values, rows and columns."""
        batch, length = ops.shape(spans)[:2]
        spans = ops.reshape(spans, (batch, length * width))
        # A passage of one token may have fewer entries than n_best.
        spans = ops.pad(spans, ((0, 0), (0, self.n_best)), constant_values=4 * MASKED_LOGIT)
        values, index = ops.top_k(spans, self.n_best)
        index = ops.cast(index, "int32")
        return values, index // width, index % width

    def compute_output_shape(self, start_logits_shape, end_logits_shape, null_logits_shape=None):
        shape = (start_logits_shape[0], self.n_best)
        return shape, shape, shape, shape[:1]

    def compute_output_spec(self, start_logits, end_logits, null_logits=None):
        shapes = self.compute_output_shape(start_logits.shape, end_logits.shape)
        dtypes = ("int32", "int32", "float32", "float32")
        return tuple(keras.KerasTensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))

    def get_config(self):
        config = {"max_answer": self.max_answer, "n_best": self.n_best, "null_pairs": self.null_pairs}
        return super().get_config() | config


def _maximum_ahead(values, count: int):
    """The largest of each value of `(batch, length)` and the `count - 1` after it, `(batch, length - count + 1)`."""
    width = 1
    while width < count:
        # The last step is shorter: two stretches may overlap.
        step = min(width, count - width)
        values = ops.maximum(values[:, :-step], values[:, step:])
        width += step
    return values


def _take_in_rows(values, columns):
    """The values of `(batch, length)` in columns `(batch, ...)` of their own row."""
    batch, length = ops.shape(values)[:2]
    offsets = ops.reshape(ops.arange(batch) * length, (-1,) + (1,) * (len(columns.shape) - 1))
    return take(ops.reshape(values, (-1,)), offsets + columns)


def _all_spans(start, end):
    """All spans, `(batch, passage, passage)`: entry (i, j) is the span i .. j, which must not end before its start."""
    tokens = ops.arange(ops.shape(start)[1])
    spans = start[:, :, None] + end[:, None]
    return ops.where(tokens[:, None] <= tokens, spans, ops.full_like(spans, 2 * MASKED_LOGIT))
