"""The decoders of `fabir_tf.layers` in NumPy: the same spans, probabilities and scores."""

import dataclasses
from typing import Any

import numpy as np

# As `fabir_tf.layers.core.masking.MASKED_LOGIT`, which needs Keras.
MASKED_LOGIT = np.float32(-1e9)

Decoded = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""First tokens, last tokens and probabilities, `(batch, n_best)` each, and scores, `(batch,)`."""


@dataclasses.dataclass(frozen=True)
class SpanDecoder:
    """The most probable spans, found by an exact search; see `fabir_tf.layers.SpanDecoder`.

    Args:
        max_answer: longest answer in tokens; None for no limit.
        n_best: spans per question.
        null_pairs: whether a pair of a token and "no answer" counts as no answer, too.

    Call arguments:
        start_logits, end_logits: float32 `(batch, passage)`, -1e9 on padding.
        null_logits: float32 `(batch, 2)`, or None.

    Reference: FABIR eq. 19.
    """

    max_answer: int | None = 15
    n_best: int = 1
    null_pairs: bool = False

    def __call__(
        self, start_logits: np.ndarray, end_logits: np.ndarray, null_logits: np.ndarray | None = None
    ) -> Decoded:
        start, end = _log_softmax(start_logits), _log_softmax(end_logits)
        length = start.shape[1]
        width = length if self.max_answer is None else self.max_answer
        spans = _all_spans(start, end) if self.max_answer is None else _short_spans(start, end, width)
        values, index = _best(spans.reshape(len(spans), -1), self.n_best)
        first, last = index // width, index % width
        if self.max_answer is not None:
            last = first + last
        # A short passage has fewer spans than n_best.
        first, last = (np.minimum(token, length - 1) for token in (first, last))
        score = _score(first[:, 0], last[:, 0], start_logits, end_logits, null_logits, self.null_pairs)
        return first, last, _probabilities(values, start_logits), score


@dataclasses.dataclass(frozen=True)
class IndependentDecoder:
    """The most probable starts and ends, each without regard to the other; see `fabir_tf.layers.IndependentDecoder`.

    Args:
        n_best: pairs of start and end per question.

    Call arguments:
        start_logits, end_logits, null_logits: as for `SpanDecoder`; there are no null logits.
    """

    n_best: int = 1

    def __call__(self, start_logits: np.ndarray, end_logits: np.ndarray, null_logits: None = None) -> Decoded:
        length = start_logits.shape[1]
        starts, firsts = _best(_log_softmax(start_logits), self.n_best)
        ends, lasts = _best(_log_softmax(end_logits), self.n_best)
        firsts, lasts = np.minimum(firsts, length - 1), np.minimum(lasts, length - 1)
        values, pair = _best((starts[:, :, None] + ends[:, None]).reshape(len(starts), -1), self.n_best)
        first = np.take_along_axis(firsts, pair // self.n_best, axis=1)
        last = np.take_along_axis(lasts, pair % self.n_best, axis=1)
        score = _score(first[:, 0], last[:, 0], start_logits, end_logits)
        return first, last, _probabilities(values, start_logits), score


DECODERS: dict[str, type[SpanDecoder] | type[IndependentDecoder]] = {
    decoder.__name__: decoder for decoder in (SpanDecoder, IndependentDecoder)
}
"""By the name of the layer."""


def settings_of(decoder: Any) -> dict[str, Any]:
    """The settings of a decoder, but for the number of spans, as JSON values.

    Args:
        decoder: a layer of this name, or one of the classes here.

    Returns:
        `kind`, its name, and the arguments.

    Raises:
        KeyError: the decoder has no form in NumPy.
    """
    kind = type(decoder).__name__
    names = [field.name for field in dataclasses.fields(DECODERS[kind]) if field.name != "n_best"]
    return {"kind": kind} | {name: getattr(decoder, name) for name in names}


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float32) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _short_spans(start: np.ndarray, end: np.ndarray, max_answer: int) -> np.ndarray:
    """The band of allowed spans, `(batch, passage, max_answer)`: entry (i, k) is the span i .. i + k."""
    padded = np.pad(end, ((0, 0), (0, max_answer - 1)), constant_values=2 * MASKED_LOGIT)
    return start[..., None] + np.lib.stride_tricks.sliding_window_view(padded, max_answer, axis=1)


def _all_spans(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """All spans, `(batch, passage, passage)`: entry (i, j) is the span i .. j, which must not end before its start."""
    tokens = np.arange(start.shape[1])
    return np.where(tokens[:, None] <= tokens, start[:, :, None] + end[:, None], 2 * MASKED_LOGIT)


def _best(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest entries of each row with their indices, the largest first; of equal ones the earlier first."""
    # A row may have fewer entries than are asked for.
    values = np.pad(values, ((0, 0), (0, count)), constant_values=4 * MASKED_LOGIT)
    if count == 1:
        index = values.argmax(axis=1)[:, None]
    else:
        lowest = np.partition(values, -count, axis=1)[:, -count]
        index = np.stack([_largest(row, bound, count) for row, bound in zip(values, lowest, strict=True)])
    return np.take_along_axis(values, index, axis=1), index


def _largest(row: np.ndarray, bound: np.float32, count: int) -> np.ndarray:
    candidates = np.flatnonzero(row >= bound)
    return candidates[np.argsort(-row[candidates], kind="stable")[:count]]


def _probabilities(log_probabilities: np.ndarray, start_logits: np.ndarray) -> np.ndarray:
    return np.where(_has_token(start_logits)[:, None], np.exp(log_probabilities), np.float32(0))


def _score(
    first: np.ndarray,
    last: np.ndarray,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    null_logits: np.ndarray | None = None,
    null_pairs: bool = False,
) -> np.ndarray:
    """See `fabir_tf.layers.heads.span_scores.answer_score`."""
    rows = np.arange(len(first))
    score = start_logits[rows, first] + end_logits[rows, last]
    if null_logits is not None:
        null = null_logits.sum(axis=1)
        if null_pairs:
            null = np.maximum(null, start_logits.max(axis=1) + null_logits[:, 1])
            null = np.maximum(null, null_logits[:, 0] + end_logits.max(axis=1))
        score = score - null
    return np.where(_has_token(start_logits), score, MASKED_LOGIT)


def _has_token(start_logits: np.ndarray) -> np.ndarray:
    return np.any(start_logits > MASKED_LOGIT / 2, axis=1)
