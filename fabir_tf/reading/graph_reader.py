"""The reader as one graph: texts in, the words of the passages that answer the questions out."""

import functools
from typing import NamedTuple

import tensorflow as tf

from fabir_tf.layers.core.masking import MASKED_LOGIT
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.pipelines.features.graph_windows import graph_merge, graph_windows
from fabir_tf.pipelines.features.tensor_batches import batch_inputs, reading_step
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens, graph_tokenize
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary
from fabir_tf.pipelines.text.vocabulary import PADDING
from fabir_tf.reading.reader import BATCH_PAIRS, BATCH_ROWS, BATCH_TOKENS, LONGEST_QUESTION, WINDOW_OVERLAP, Reader


class _Rows(NamedTuple):
    """Stretches of texts, int64 `(rows,)`: where each begins among all tokens, and how many it has."""

    begins: tf.Tensor
    lengths: tf.Tensor


class _Asked(NamedTuple):
    """Questions with what they are asked about.

    Attributes:
        texts: string `(texts,)`, the distinct passages.
        text_of: int64 `(batch,)`, each question's passage.
        tokens: of the distinct passages, then of the questions.
        passages: the tokens of each question's passage.
        questions: those tokens of the questions that are read.
    """

    texts: tf.Tensor
    text_of: tf.Tensor
    tokens: GraphTokens
    passages: _Rows
    questions: _Rows


TEXT_SPECS = (tf.TensorSpec([None], tf.string, "question"), tf.TensorSpec([None], tf.string, "passage"))
"""What `answer` is traced with."""


class RawTextReader(tf.Module):
    """What `Reader.answer_batch` does, in core TensorFlow operations.

    Args:
        reader: a trained reader.
        n_best: spans given per question.
    """

    def __init__(self, reader: Reader, n_best: int = 5):
        super().__init__()
        self.vocabulary = GraphVocabulary(reader.vocabulary, reader.config.max_word_characters)
        self.temperature = tf.Variable(reader.temperature, trainable=False, dtype=tf.float32, name="temperature")
        # Weights and not layers: a SavedModel would be given a function for each layer.
        self.weights = [weight.value for weight in reader.model.weights]
        self._model = functools.partial(reader.model, training=False)
        self._shared_model = functools.partial(DeduplicatedModel(reader.model), training=False)
        self._decode = reader.config.decoder(n_best).call
        self._longest = reader.max_passage

    def answer(self, question: tf.Tensor, passage: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers questions.

        Args:
            question: string `(batch,)`, UTF-8; other bytes are read as U+FFFD.
            passage: string `(batch,)`, or `(1,)` for many questions about one passage.

        Returns:
            `answer` (string, the passage's own bytes), `start` and `end` (int64, code points), `byte_start` and
            `byte_end` (int64), `probability` (float32), each `(batch,)`; and `n_best_answer`, `n_best_start`, ..., each
            `(batch, n_best)`. Where the question or the passage holds no word, and where a passage has fewer spans than
            n_best, the answer is empty and its probability 0.
        """
        asked = self._ask(question, passage)
        begins, lengths = asked.passages
        start, end = self._padded_logits(asked)
        first, last, probability = self._decode(start, end)
        first, last = tf.cast(first, tf.int64), tf.cast(last, tf.int64)
        is_span = (tf.maximum(first, last) < lengths[:, None]) & (asked.questions.lengths > 0)[:, None]
        # The best span is given however improbable it is.
        is_span &= (probability > 0) | (tf.range(tf.shape(first)[1]) == 0)
        n_best = _spans(asked, tf.where(is_span, begins[:, None] + first, -1), begins[:, None] + last)
        n_best["probability"] = tf.where(is_span, probability, 0.0)
        best = {name: values[:, 0] for name, values in n_best.items()}
        return best | {f"n_best_{name}": values for name, values in n_best.items()}

    def token_ids(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The model itself, for clients that tokenize_dataset themselves.

        Args:
            inputs: `passage_words` `(batch, passage)` and `passage_characters` `(batch, passage, width)`, int32,
                `passage_length` `(batch,)`, int32, and the same of the question. What stands beyond a length is not
                read, whatever it is: a server pads with the first element of a tensor, not with 0.

        Returns:
            `start_logits` and `end_logits`, float32 `(batch, passage)`; -1e9 beyond the length.
        """
        ids = {}
        for text in ("passage", "question"):
            words, length = inputs[f"{text}_words"], inputs[f"{text}_length"]
            is_token = tf.sequence_mask(length, tf.shape(words)[1])
            ids[f"{text}_words"] = tf.where(is_token, words, PADDING)
            ids[f"{text}_characters"] = tf.where(is_token[..., None], inputs[f"{text}_characters"], PADDING)
        return self._model(ids)

    def token_id_specs(self) -> dict[str, tf.TensorSpec]:
        """Names, shapes and types of what `token_ids` takes."""
        specs = {}
        for text in ("passage", "question"):
            shapes = {"words": [None, None], "characters": [None, None, self.vocabulary.width], "length": [None]}
            for part, shape in shapes.items():
                specs[f"{text}_{part}"] = tf.TensorSpec(shape, tf.int32, f"{text}_{part}")
        return specs

    def _ask(self, question: tf.Tensor, passage: tf.Tensor) -> _Asked:
        # A passage is read once, however many questions there are about it.
        texts, text_of = tf.unique(passage, tf.int64)
        text_of = tf.broadcast_to(text_of, tf.shape(question))
        tokens = graph_tokenize(tf.concat([texts, question], 0))
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        count = tf.size(texts)
        passages = _Rows(tf.gather(begins, text_of), tf.gather(lengths, text_of))
        questions = _Rows(begins[count:], tf.minimum(lengths[count:], LONGEST_QUESTION))
        return _Asked(texts, text_of, tokens, passages, questions)

    def _padded_logits(self, asked: _Asked) -> tuple[tf.Tensor, ...]:
        begins, lengths = asked.passages
        windows = graph_windows(lengths, self._longest, min(WINDOW_OVERLAP, self._longest // 2))
        shown = _Rows(tf.gather(begins, windows.passages) + windows.offsets, windows.lengths)
        questions = _Rows(*(tf.gather(part, windows.passages) for part in asked.questions))
        splits = tf.concat([[0], tf.cumsum(lengths)], 0)
        chosen = graph_merge(windows, splits[:-1], splits[-1])
        found = (
            tf.RaggedTensor.from_row_splits(tf.gather(logits, chosen) / self.temperature, splits, validate=False)
            for logits in self._window_logits(self._ids(asked.tokens), shown, questions)
        )
        return tuple(logits.to_tensor(MASKED_LOGIT) for logits in found)

    def _ids(self, tokens: GraphTokens) -> dict[str, tf.Tensor]:
        """Tokens as types, which are alike in all their ids; type 0 is padding. See `Features`."""
        ids = tf.concat([self.vocabulary.word_ids(tokens)[:, None], self.vocabulary.character_ids(tokens)], 1)
        ids = tf.pad(ids, [[1, 0], [0, 0]], constant_values=PADDING)
        types, places = tf.raw_ops.UniqueV2(x=ids, axis=[0])
        # Layers have to know the width.
        types = tf.reshape(types, [-1, 1 + self.vocabulary.width])
        return {"tokens": places[1:], "unique_words": types[:, 0], "unique_characters": types[:, 1:]}

    def _window_logits(self, ids: dict, shown: _Rows, asked: _Rows) -> tuple[tf.Tensor, tf.Tensor]:
        """Start and end logits of every window's tokens, one window after the other, in batches of bounded size."""
        sizes = tf.maximum(shown.lengths, asked.lengths)
        order = tf.argsort(sizes, stable=True)
        splits = tf.concat([[0], tf.cumsum(shown.lengths)], 0)
        tables = ids | {"passage_starts": shown.begins, "passage_lengths": shown.lengths}
        tables |= {"question_starts": asked.begins, "question_lengths": asked.lengths}

        def is_left(done, *_):
            return done < tf.size(order)

        def read(done, starts, ends):
            ahead = order[done : done + BATCH_ROWS]
            longest = tf.gather(sizes, ahead)
            tokens = longest * tf.range(1, tf.size(ahead, tf.int64) + 1)
            has_room = (tokens <= BATCH_TOKENS) & (tokens * longest <= BATCH_PAIRS)
            rows = ahead[: tf.maximum(tf.reduce_sum(tf.cast(has_room, tf.int32)), 1)]
            logits = self._shared_model(batch_inputs(tables, rows, reading_step(tf.size(rows))))
            lengths = tf.gather(shown.lengths, rows)
            is_shown = tf.sequence_mask(lengths, tf.shape(logits["start_logits"])[1])
            begins = tf.gather(splits, rows)
            places = tf.ragged.range(begins, begins + lengths).flat_values[:, None]
            starts, ends = (
                tf.tensor_scatter_nd_update(found, places, tf.boolean_mask(logits[name], is_shown))
                for found, name in ((starts, "start_logits"), (ends, "end_logits"))
            )
            return done + tf.size(rows), starts, ends

        zeros = tf.zeros([splits[-1]], tf.float32)
        # One batch at a time: several at once would multiply the memory.
        _, starts, ends = tf.while_loop(is_left, read, (0, zeros, zeros), parallel_iterations=1)
        return starts, ends


def _spans(asked: _Asked, first: tf.Tensor, last: tf.Tensor) -> dict[str, tf.Tensor]:
    """Text and offsets of spans of tokens, `(batch, n_best)`; empty where the first token is -1."""
    tokens, is_span = asked.tokens, first >= 0
    text_start = tf.gather(tokens.text_splits, asked.text_of)[:, None]
    start, end = (
        tf.where(is_span, tf.gather(tf.pad(offsets, [[0, 1]]), tf.where(is_span, places, 0)), 0)
        for offsets, places in ((tokens.starts, first), (tokens.ends, last))
    )
    # A decoder that seeks the borders apart may find the end of nothing.
    end = tf.maximum(start, end)
    byte_start, byte_end = (
        tf.gather(tokens.byte_offsets, text_start + offsets) - tf.gather(tokens.byte_offsets, text_start)
        for offsets in (start, end)
    )
    passages = tf.repeat(tf.gather(asked.texts, asked.text_of), tf.shape(first)[1])
    stretches = [tf.reshape(values, [-1]) for values in (byte_start, byte_end - byte_start)]
    answer = tf.reshape(tf.strings.substr(passages, *stretches), tf.shape(first))
    return {"answer": answer, "start": start, "end": end, "byte_start": byte_start, "byte_end": byte_end}
