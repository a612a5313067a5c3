"""A reader as one graph: texts in, the words of the passages that answer the questions out."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import tensorflow as tf

from fabir_tf.backends.tensorflow import PORTABLE_KERNELS
from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.layers.core.masking import MASKED_LOGIT
from fabir_tf.layers.core.shared_values import shared_values
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.outputs import END, NULL, START
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.batch_planning import BATCH_EXAMPLES, fits, reading_step
from fabir_tf.pipelines.features.tensor_batches import batch_inputs
from fabir_tf.pipelines.features.windows import OVERLAP
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.pipelines.text.graph.parity import texts_cut_differently
from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.readable import are_readable
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.graph.windows import GraphWindows, graph_merge, graph_windows, smallest_null
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.reading.no_answer import UNREAD_SCORE

if TYPE_CHECKING:
    from fabir_tf.reading.reader import Reader

TEXT_SPECS = (tf.TensorSpec([None], tf.string, "question"), tf.TensorSpec([None], tf.string, "passage"))
"""The arguments that `answer` is traced with."""

Signature = tuple[Callable[..., dict[str, tf.Tensor]], tuple[Any, ...]]


class GraphAnswerer(Protocol):
    """Something that answers questions inside a graph; a `tf.Module` that export saves."""

    def signatures(self) -> dict[str, Signature]:
        """The functions to export and the specs to trace them with, by the name of their signature.

        `serving_default` takes `TEXT_SPECS` and returns what `GraphReader.answer` returns.
        """
        ...


class Asked(NamedTuple):
    """Questions and the passages that they are about.

    Attributes:
        texts: string `(texts,)`, the distinct passages.
        text_of: int64 `(batch,)`, each question's passage.
        tokens: those of the distinct passages, followed by those of the questions.
        begins, lengths: int64 `(batch,)`, where each question's passage begins among all tokens, and its tokens; 0
            tokens where question or passage cannot be read.
        question_lengths: int64 `(batch,)`, tokens of each question.
    """

    texts: tf.Tensor
    text_of: tf.Tensor
    tokens: GraphTokens
    begins: tf.Tensor
    lengths: tf.Tensor
    question_lengths: tf.Tensor


class GraphSpans(NamedTuple):
    """The best spans of some questions.

    Attributes:
        readable: boolean `(batch,)`, whether question and passage can be read.
        is_span: boolean `(batch, n_best)`; the others are surplus, with probability 0.
        start, end: int64 `(batch, n_best)`, in code points.
        probability: float32 `(batch, n_best)`, given that there is an answer.
        score: float32 `(batch,)`, `Answer.score`.
    """

    readable: tf.Tensor
    is_span: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    probability: tf.Tensor
    score: tf.Tensor


class GraphReader(tf.Module):
    """What `Reader.answer_batch` does, in core TensorFlow operations.

    Args:
        reader: a trained reader.
        n_best: spans returned per question.

    Raises:
        UserError: the installed tokenizer cuts words in another way than the graph does.
    """

    def __init__(self, reader: "Reader", n_best: int = 5):
        super().__init__()
        self.processor = reader.processor.in_graph()
        _validate_same_tokens(reader.processor, self.processor)
        self._needs_spaces = reader.processor.needs_spaces
        self.temperature = tf.Variable(reader.temperature, trainable=False, dtype=tf.float32, name="temperature")
        # A reader that always answers has a threshold above every probability.
        threshold = 2.0 if reader.no_answer_threshold is None else reader.no_answer_threshold
        self.threshold = tf.Variable(threshold, trainable=False, dtype=tf.float32, name="no_answer_threshold")
        self.no_answer = [
            tf.Variable(value, trainable=False, dtype=tf.float32, name=name)
            for name, value in zip(("no_answer_scale", "no_answer_bias"), reader.no_answer_scale_and_bias, strict=True)
        ]
        self._has_null, self._may_abstain = reader.config.null_head, reader.no_answer_threshold is not None
        # Weights and not layers, because a SavedModel would get a function for each layer.
        self.weights = [weight.value for weight in reader.model.weights]
        self._input_specs = reader.processor.input_specs
        self._input_names = [tensor.name for tensor in reader.model.inputs]
        self._model = functools.partial(reader.model, training=False)
        deduplicated: Any = DeduplicatedModel(reader.model)
        self._deduplicated = functools.partial(deduplicated, training=False)
        self._decode = reader.config.decoder(n_best).call
        self._outputs = tuple(name for name in (START, END, NULL) if name in reader.model.output)
        self._max_passage = reader.max_passage

    def signatures(self) -> dict[str, Signature]:
        """See `GraphAnswerer.signatures`; `token_ids` is for clients that tokenize themselves."""
        return {
            "serving_default": (self.answer, TEXT_SPECS),
            "token_ids": (self.token_ids, (self.token_id_specs(),)),
        }

    def answer(self, question: tf.Tensor, passage: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers questions.

        Args:
            question: string `(batch,)`, UTF-8; other bytes are read as U+FFFD.
            passage: string `(batch,)`, or `(1,)` for many questions about one passage.

        Returns:
            `answer` (string, the passage's own bytes), `start` and `end` (int64, code points), `byte_start` and
            `byte_end` (int64), `probability`, `no_answer_probability` and `score` (float32), `is_answer` and
            `question_cut` (boolean; the question was longer than what was read of it), each `(batch,)`; and
            `n_best_answer`, `n_best_start`, ..., each `(batch, n_best)`. Where the reader abstains, and where question
            or passage cannot be read as in `Reader.answer`, the answer is empty. Where a passage has fewer spans
            than n_best, the surplus is empty with probability 0.
        """
        asked = self.ask(question, passage)
        found = self.best_spans(asked)
        none, share = self._no_answer(found.probability[:, 0], found.score)
        cut = self.questions_cut(asked)
        return answer_columns(asked, found, none, share, self.threshold, cut)

    def best_spans(self, asked: Asked) -> "GraphSpans":
        """See `Reader.best_spans`."""
        first, last, probability, score = self._decode(*self._logits(asked))
        first, last = tf.cast(first, tf.int64), tf.cast(last, tf.int64)
        readable = asked.lengths > 0
        is_span = tf.maximum(first, last) < asked.lengths[:, None]
        # The best span is returned even if its probability rounds to 0.
        is_span &= (probability > 0) | (tf.range(tf.shape(first)[1]) == 0)
        start, end = _offsets(asked, is_span, asked.begins[:, None] + first, asked.begins[:, None] + last)
        score = tf.where(readable, score * self.temperature, UNREAD_SCORE)
        return GraphSpans(readable, is_span, start, end, tf.where(is_span, probability, 0.0), score)

    def questions_cut(self, asked: Asked) -> tf.Tensor:
        """Which questions are longer than what is read of them, boolean `(batch,)`."""
        return self.processor.questions_cut(asked.question_lengths)

    def _no_answer(self, best: tf.Tensor, score: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | float]:
        """See `Reader._no_answer`; the spans' share is `(batch, 1)`, or 1."""
        if not self._has_null:
            return 1.0 - best, 1.0
        scale, bias = self.no_answer
        odds = scale * score - bias
        # 1 - none would be 0 where none is next to 1.
        return tf.sigmoid(-odds), tf.sigmoid(odds)[:, None] if self._may_abstain else 1.0

    def token_ids(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The model itself, for clients that tokenize themselves.

        Args:
            inputs: the processor's inputs, such as `passage_words` `(batch, passage)`, and the length of each text,
                such as `passage_length` `(batch,)`, int32. Values beyond a length are ignored: a server pads with the
                first element of a tensor, not with 0.

        Returns:
            `start_logits` and `end_logits`, float32 `(batch, passage)`, -1e9 beyond the length; and, of a reader with a
            null head, `null_logits` `(batch, 2)`.
        """
        ids = {}
        for name in self._input_names:
            values, length = inputs[name], inputs[f"{name.partition('_')[0]}_length"]
            is_token = tf.sequence_mask(length, tf.shape(values)[1])
            is_token = tf.reshape(
                is_token, tf.concat([tf.shape(is_token), tf.ones([len(values.shape) - 2], tf.int32)], 0)
            )
            ids[name] = tf.where(is_token, values, tf.zeros([], values.dtype))
        with shared_values(), backend_kernels(PORTABLE_KERNELS):
            return self._model(ids)

    def token_id_specs(self) -> dict[str, tf.TensorSpec]:
        """Names, shapes and dtypes of the inputs of `token_ids`."""
        specs = {}
        for name in self._input_names:
            text = name.partition("_")[0]
            specs[f"{text}_length"] = tf.TensorSpec([None], tf.int32, f"{text}_length")
        for name, (shape, dtype) in self._input_specs.items():
            if name in self._input_names:
                specs[name] = tf.TensorSpec(shape, dtype, name)
        return specs

    def ask(self, question: tf.Tensor, passage: tf.Tensor) -> Asked:
        """Tokenizes the arguments of `answer`."""
        # A passage is read once, however many questions there are about it.
        texts, text_of = tf.unique(passage, tf.int64)
        with tf.control_dependencies([_validated_numbers(question, passage)]):
            text_of = tf.broadcast_to(text_of, tf.shape(question))
        tokens = self.processor.tokenize(tf.concat([texts, question], 0))
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        question_lengths = lengths[tf.size(texts) :]
        is_filled, is_passage = are_readable(tokens.code_points, tokens.text_splits, self._needs_spaces)
        is_asked = (question_lengths > 0) & is_filled[tf.size(texts) :] & tf.gather(is_passage, text_of)
        of_passages = tf.where(is_asked, tf.gather(lengths, text_of), 0)
        return Asked(texts, text_of, tokens, tf.gather(begins, text_of), of_passages, question_lengths)

    def _logits(self, asked: Asked) -> list[tf.Tensor]:
        """Start and end logits `(batch, passage)` of whole passages, and null logits `(batch, 2)` if there are any."""
        sizes = self.processor.window_sizes(asked.question_lengths, self._max_passage)
        windows = graph_windows(asked.lengths, sizes, OVERLAP)
        examples = GraphExamples(
            windows.passages, tf.gather(asked.text_of, windows.passages), windows.offsets, windows.lengths
        )
        features = self.processor.features(asked.tokens, tf.size(asked.texts), examples)
        start, end, *null = self._window_logits(features, windows)
        splits = tf.concat([[0], tf.cumsum(asked.lengths)], 0)
        chosen = graph_merge(windows, splits[:-1], splits[-1])
        found = []
        for logits in (start, end):
            values = tf.gather(logits, chosen) / self.temperature
            ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            # One column at least, which the decoder needs.
            width = tf.maximum(tf.reduce_max(asked.lengths), 1)
            found.append(ragged.to_tensor(MASKED_LOGIT, shape=tf.stack([tf.size(asked.lengths, tf.int64), width])))
        passages = tf.size(asked.lengths, tf.int64)
        return found + [smallest_null(windows, logits, passages) / self.temperature for logits in null]

    def _window_logits(self, features: GraphFeatures, windows: GraphWindows) -> list[tf.Tensor]:
        """Start and end logits of every window's tokens, one window after the other, and the windows' null logits.

        Windows are read in batches of bounded size, one batch at a time: several at once would multiply the memory.
        """
        tables = features.tables
        lengths = [values for name, values in tables.items() if name.endswith("_lengths")]
        longest = functools.reduce(tf.maximum, lengths)
        order = tf.argsort(longest, stable=True)
        splits = tf.concat([[0], tf.cumsum(windows.lengths)], 0)
        count = tf.size(order)

        def is_left(done, *_):
            return done < count

        def read(done, *found):
            ahead = order[done : done + BATCH_EXAMPLES]
            sizes = tf.gather(longest, ahead)
            fit = fits(tf.range(1, tf.size(ahead, tf.int64) + 1), sizes, tf.cumsum(sizes))
            rows = ahead[: tf.maximum(tf.reduce_sum(tf.cast(fit, tf.int32)), 1)]
            inputs = batch_inputs(tables, rows, reading_step(tf.size(rows)))
            with backend_kernels(PORTABLE_KERNELS):
                logits = self._deduplicated(inputs)
            # Row and column of each token; ragged tensors would need five times as many operations.
            row, column = tf.unstack(tf.where(tf.sequence_mask(tf.gather(windows.lengths, rows))), axis=1)
            source = tf.stack([row, column + tf.gather(tf.gather(features.logit_offsets, rows), row)], 1)
            target = (column + tf.gather(tf.gather(splits, rows), row))[:, None]
            updated = [
                tf.tensor_scatter_nd_update(values, target, tf.gather_nd(logits[name], source))
                for values, name in zip(found[:2], (START, END), strict=True)
            ]
            updated += [
                tf.tensor_scatter_nd_update(values, rows[:, None], logits[name])
                for values, name in zip(found[2:], self._outputs[2:], strict=True)
            ]
            return done + tf.size(rows), *updated

        zeros = [tf.zeros([splits[-1]], tf.float32)] * 2
        zeros += [tf.zeros([tf.size(order), 2], tf.float32)] * (len(self._outputs) - 2)
        _, *found = tf.while_loop(is_left, read, (0, *zeros), parallel_iterations=1)
        return found


def _validated_numbers(question: tf.Tensor, passage: tf.Tensor) -> Any:
    """An operation that fails with a sentence where questions and passages do not belong together."""
    questions, passages = tf.size(question), tf.size(passage)
    fits_together = (passages == questions) | (passages == 1)
    sentence = "expected as many passages as questions, or one for all of them; found passages and questions:"
    return tf.debugging.Assert(fits_together, [sentence, passages, questions])


def _where(condition: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The values where the condition holds, else 0 or the empty text."""
    return tf.where(condition, values, tf.zeros([], values.dtype))


def answer_columns(
    asked: Asked,
    found: GraphSpans,
    none: tf.Tensor,
    share: tf.Tensor | float,
    threshold: tf.Tensor,
    question_cut: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """What `GraphReader.answer` returns.

    Args:
        asked: the questions.
        found: their best spans.
        none: float32 `(batch,)`, no-answer probabilities.
        share: what all spans together have, float32 `(batch, 1)` or a number.
        threshold: float32 scalar, the reader abstains above it.
        question_cut: boolean `(batch,)`.
    """
    n_best = _texts(asked, found.start, found.end)
    n_best["probability"] = found.probability * share
    none = tf.where(found.readable, none, 1.0)
    is_answer = found.readable & (none <= threshold)
    best = {name: _where(is_answer, values[:, 0]) for name, values in n_best.items()}
    # Where the reader abstains, that it is right to.
    best["probability"] += tf.where(found.readable & ~is_answer, none, 0.0)
    best |= {"no_answer_probability": none, "score": found.score, "is_answer": is_answer, "question_cut": question_cut}
    return best | {f"n_best_{name}": values for name, values in n_best.items()}


def _offsets(asked: Asked, is_span: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Offsets of spans of tokens in code points, int64 `(batch, n_best)`; 0 where there is none."""
    start, end = (
        tf.where(is_span, tf.gather(tf.pad(offsets, [[0, 1]]), tf.where(is_span, index, 0)), 0)
        for offsets, index in ((asked.tokens.starts, first), (asked.tokens.ends, last))
    )
    # A decoder that chooses start and end independently may find an end before the start.
    return start, tf.maximum(start, end)


def _texts(asked: Asked, start: tf.Tensor, end: tf.Tensor) -> dict[str, tf.Tensor]:
    """Text and offsets of spans, `(batch, n_best)`."""
    tokens = asked.tokens
    text_start = tf.gather(tokens.text_splits, asked.text_of)[:, None]
    byte_start, byte_end = (
        tf.gather(tokens.byte_offsets, text_start + offsets) - tf.gather(tokens.byte_offsets, text_start)
        for offsets in (start, end)
    )
    passages = tf.repeat(tf.gather(asked.texts, asked.text_of), tf.shape(start)[1])
    segments = [tf.reshape(values, [-1]) for values in (byte_start, byte_end - byte_start)]
    answer = tf.reshape(tf.strings.substr(passages, *segments), tf.shape(start))
    return {"answer": answer, "start": start, "end": end, "byte_start": byte_start, "byte_end": byte_end}


def _validate_same_tokens(processor: TextProcessor, graph: GraphProcessor) -> None:
    """Compares the tokenizers of Python and of the graph: NLTK's may change with every version."""
    data = load_dataset("sample", "dev")
    texts = [*data.passages, *(question.text for question in data.questions)]
    different = texts_cut_differently(processor, texts, graph)
    if different:
        raise UserError(
            f"the tokenizer {processor.tokenizer_version} cuts {quoted(different[0])} into other tokens than the graph "
            "does, expected the same: install the NLTK version that this version of fabir_tf was tested with"
        )
