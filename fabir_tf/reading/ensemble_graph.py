"""An ensemble of readers as one graph."""

from typing import TYPE_CHECKING

import tensorflow as tf

from fabir_tf.reading.ensemble import CANDIDATES, tokenizer_of
from fabir_tf.reading.ensemble_weights import LEAST
from fabir_tf.reading.graph_reader import (
    TEXT_SPECS,
    Asked,
    GraphReader,
    GraphSpans,
    Signature,
    answer_columns,
)
from fabir_tf.reading.no_answer import UNREAD_SCORE

if TYPE_CHECKING:
    from fabir_tf.reading.ensemble import Ensemble

# Sorts surplus spans behind all others.
_LAST = tf.int64.max


class EnsembleGraph(tf.Module):
    """What `Ensemble.answer_batch` does, in core TensorFlow operations.

    Members that cut text into the same tokens read the tokens of the first of them. The sums are computed in float64.

    Args:
        ensemble: of trained readers.
        n_best: spans returned per question; where the members propose fewer, the surplus is empty.

    Raises:
        UserError: the installed tokenizer cuts words in another way than the graph does.
    """

    def __init__(self, ensemble: "Ensemble", n_best: int = 5):
        super().__init__()
        self.readers = [GraphReader(member, CANDIDATES) for member in ensemble.members]
        keys = [tokenizer_of(member) for member in ensemble.members]
        self._tokens_of = [keys.index(key) for key in keys]
        self._n_best = n_best
        self._nulls = [member.config.null_head for member in ensemble.members]
        self._may_abstain = ensemble.no_answer_threshold is not None
        threshold = 2.0 if ensemble.no_answer_threshold is None else ensemble.no_answer_threshold
        self.threshold = tf.Variable(threshold, trainable=False, dtype=tf.float32, name="no_answer_threshold")
        values = {
            "weights": ensemble.weights,
            "temperature": ensemble.temperature,
            "score_scale_and_bias": ensemble.score_scale_and_bias,
            "no_answer_scale_and_bias": ensemble.no_answer_scale_and_bias,
        }
        self.numbers = {
            name: tf.Variable(value, trainable=False, dtype=tf.float64, name=name) for name, value in values.items()
        }

    def signatures(self) -> dict[str, Signature]:
        """See `GraphAnswerer.signatures`; the members have different tokens, so there is no `token_ids`."""
        return {"serving_default": (self.answer, TEXT_SPECS)}

    def answer(self, question: tf.Tensor, passage: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers questions; see `GraphReader.answer` for the arguments and what is returned."""
        asked: dict[int, Asked] = {}
        for index in self._tokens_of:
            if index not in asked:
                asked[index] = self.readers[index].ask(question, passage)
        texts = [asked[index] for index in self._tokens_of]
        proposed = [reader.best_spans(own) for reader, own in zip(self.readers, texts, strict=True)]
        cut = [reader.questions_cut(own) for reader, own in zip(self.readers, texts, strict=True)]
        readable = tf.stack([found.readable for found in proposed], 1)
        scores = tf.cast(tf.stack([found.score for found in proposed], 1), tf.float64)
        weights = tf.where(readable, self.numbers["weights"], 0.0)
        weights = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, 1, keepdims=True))
        shares, score = self._shares_and_score(weights, scores)
        start, end, probability = _summed(proposed, shares)
        probability = _at_temperature(probability, self.numbers["temperature"])
        best = [values[:, : self._n_best] for values in (start, end, probability)]
        # A passage has fewer spans where all members propose fewer.
        missing = [[0, 0], [0, self._n_best - best[0].shape[1]]]
        start, end, best_probability = (tf.pad(values, missing) for values in best)
        none, share = 1.0 - probability[:, 0], 1.0
        if any(self._nulls):
            scale, bias = tf.unstack(self.numbers["no_answer_scale_and_bias"])
            odds = scale * score - bias
            none = tf.sigmoid(-odds)
            # 1 - none would be 0 where none is next to 1.
            share = tf.cast(tf.sigmoid(odds), tf.float32)[:, None] if self._may_abstain else 1.0
        is_read = tf.reduce_any(readable, 1)
        summed = GraphSpans(
            is_read,
            tf.ones_like(start, tf.bool),
            start,
            end,
            tf.cast(best_probability, tf.float32),
            tf.where(is_read, tf.cast(score, tf.float32), UNREAD_SCORE),
        )
        is_cut = tf.reduce_any(tf.stack(cut), 0)
        return answer_columns(texts[0], summed, tf.cast(none, tf.float32), share, self.threshold, is_cut)

    def _shares_and_score(self, weights: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `shares_and_log_odds`; the second is the score that stands for the log odds."""
        if not any(self._nulls):
            return weights, tf.reduce_sum(weights * scores, 1)
        odds = []
        for number, reader in enumerate(self.readers):
            if self._nulls[number]:
                scale, bias = (tf.cast(value, tf.float64) for value in reader.no_answer)
                odds.append(tf.clip_by_value(scale * scores[:, number] - bias, -700.0, 700.0))
            else:
                odds.append(tf.fill(tf.shape(scores)[:1], tf.constant(float("inf"), tf.float64)))
        odds = tf.stack(odds, 1)
        answered, none = weights * tf.sigmoid(odds), weights * tf.sigmoid(-odds)
        total = tf.maximum(tf.reduce_sum(answered, 1), LEAST)
        log_odds = tf.math.log(total) - tf.math.log(tf.maximum(tf.reduce_sum(none, 1), LEAST))
        scale, bias = tf.unstack(self.numbers["score_scale_and_bias"])
        return answered / total[:, None], (log_odds + bias) / scale


def _summed(proposed: list[GraphSpans], shares: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Start, end and summed probability of the members' spans, `(batch, members * spans)`, the best first.

    Args:
        proposed: of each member.
        shares: float64 `(batch, members)`.
    """
    is_span = tf.concat([found.is_span & found.readable[:, None] for found in proposed], 1)
    start, end = (tf.concat([getattr(found, name) for found in proposed], 1) for name in ("start", "end"))
    parts = [tf.cast(found.probability, tf.float64) * shares[:, i, None] for i, found in enumerate(proposed)]
    probability = tf.where(is_span, tf.concat(parts, 1), 0.0)
    key = tf.where(is_span, start * 2**32 + end, _LAST)
    # By offsets, so that of equal sums the earlier and shorter span is the first.
    order = tf.argsort(key, stable=True)
    key, start, end, probability = (tf.gather(part, order, batch_dims=1) for part in (key, start, end, probability))
    is_equal = tf.cast(key[:, :, None] == key[:, None], tf.float64)
    summed = tf.linalg.matvec(is_equal, probability)
    is_first = tf.concat([tf.ones_like(key[:, :1], tf.bool), key[:, 1:] != key[:, :-1]], 1) & (key < _LAST)
    values, best = tf.math.top_k(tf.where(is_first, summed, -1.0), key.shape[1])
    is_span = values >= 0
    return *(tf.where(is_span, tf.gather(part, best, batch_dims=1), 0) for part in (start, end)), tf.maximum(
        values, 0.0
    )


def _at_temperature(probability: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """See `at_temperature`; `(batch, spans)`, the best first."""
    powers = tf.math.divide_no_nan(probability, probability[:, :1]) ** (1.0 / temperature)
    total, of_powers = (tf.reduce_sum(values, 1, keepdims=True) for values in (probability, powers))
    return tf.math.divide_no_nan(powers * total, of_powers)
