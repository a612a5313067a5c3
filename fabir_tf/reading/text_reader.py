"""Reading without a model: from texts to examples, and from the logits of these to answers; NumPy and text only."""

import abc
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fabir_tf.pipelines.arguments import whole_number
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.pipelines.features.alignment import CoverageLedger, measure_coverage
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE, reading_batches
from fabir_tf.pipelines.features.features import END, NULL, START, Features
from fabir_tf.pipelines.features.windows import merge_windows, reading_examples, smallest_null
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.readable import READS_ENGLISH, is_blank, is_without_spaces
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import (
    NO_ANSWER,
    OWN_THRESHOLD,
    Answer,
    Dataset,
    Progress,
    QuestionScores,
    Span,
    answer_of,
    as_pairs,
    as_text,
    questions_about,
    validate_dataset,
    validate_n_best,
)
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.no_answer import UNREAD_SCORE, NoAnswerCalibration, answer_share, no_answer_probability

if TYPE_CHECKING:
    from typing import Self

    from fabir_tf.reading.graph_reader import GraphAnswerer

# Questions tokenized at once while the model reads the chunk before: a small first chunk gives the model work early,
# large ones fill its batches. Tokenizing takes a fifth of the time of reading, so each chunk may be larger.
FIRST_CHUNK, CHUNK_GROWTH, LARGEST_CHUNK = 256, 4, 8192


BatchLogits = Callable[[Features, Sequence[np.ndarray]], Iterable[dict[str, np.ndarray]]]
"""From examples and batches of their numbers to a model's outputs, arrays `(batch, ...)` by name, batch by batch."""

Watch = Callable[[int, np.ndarray, np.ndarray, np.ndarray | None], object]
"""What `TextReader.predict` shows the logits of each question to."""

Decoder = Callable[..., tuple[Any, Any, Any, Any]]
"""From start, end and null logits to first tokens, last tokens, probabilities and scores; see `layers.SpanDecoder`."""


class Logits(NamedTuple):
    """Logits of the passages of some questions: start and end `(questions, passage)`, null `(questions, 2)`."""

    start: np.ndarray
    end: np.ndarray
    null: np.ndarray | None


class TextReader(abc.ABC):
    """What every reader does around its model: tokens, windows and batches before it, spans and probabilities after it.

    Args:
        processor: the text processor that the model was trained with.
        logits: the model.
        make_decoder: from a number of spans to the decoder that finds as many.
        null_head: whether the model has null logits.
        max_answer: longest answer, in tokens; None for no limit.
        max_passage: longer passages are read in overlapping windows, in tokens.
        calibration: makes the probabilities those of held-out questions, and says when the reader abstains; None
            leaves the probabilities as the model gives them and always answers.
        log: called with one sentence for the first passage in a script that the processor cannot read; None warns.
        no_answer_threshold: the reader abstains above this no-answer probability; None always answers, and "own" takes
            the calibration's.

    Raises:
        UserError: `max_passage` is out of its range, or the threshold does not fit.
    """

    def __init__(
        self,
        processor: TextProcessor,
        logits: BatchLogits,
        make_decoder: Callable[[int], Decoder],
        null_head: bool,
        max_answer: int | None,
        max_passage: int,
        calibration: Calibration | None,
        log: Callable[[str], object] | None,
        no_answer_threshold: float | str | None,
    ):
        validate_threshold(no_answer_threshold, null_head)
        self.max_passage = whole_number("max_passage", max_passage, 1, LONGEST_PASSAGE)
        self.processor = processor
        self.calibration = calibration
        self._null_head, self._max_answer = null_head, max_answer
        self._threshold = no_answer_threshold
        _validate_process()
        self._log: Callable[[str], object] | None = log or _warn
        self._logits: Any = logits
        self._make_decoder = make_decoder
        self._decoders: dict[int, Decoder] = {}
        self._tokenizing = ThreadPoolExecutor(1, "fabir_tf-tokenizing")

    @abc.abstractmethod
    def in_graph(self, n_best: int = 5) -> "GraphAnswerer":
        """The same in core TensorFlow operations, for a SavedModel."""

    @property
    def temperature(self) -> float:
        """What logits are divided by before they become probabilities of spans."""
        if not self.calibration:
            return 1.0
        chosen = self._no_answer_calibration if self.no_answer_threshold is not None else None
        return (chosen or self.calibration).temperature

    @property
    def no_answer_threshold(self) -> float | None:
        """The reader abstains above this no-answer probability; None if it always answers."""
        if not isinstance(self._threshold, str):
            return self._threshold
        return self._no_answer_calibration.threshold if self._no_answer_calibration else None

    def with_threshold(self, no_answer_threshold: float | str | None) -> "Self":
        """The same reader, with the same weights in memory, that abstains elsewhere.

        Args:
            no_answer_threshold: as for `load`.

        Raises:
            UserError: the threshold does not fit.
        """
        validate_threshold(no_answer_threshold, self._null_head)
        # Not `copy.copy`, which would load it from its folder as unpickling does.
        other = object.__new__(type(self))
        vars(other).update(vars(self) | {"_threshold": no_answer_threshold})
        return other

    @property
    def no_answer_scale_and_bias(self) -> tuple[float, float]:
        """Those of `no_answer_probability`."""
        chosen = self._no_answer_calibration
        return (chosen.scale, chosen.bias) if chosen else (1.0, 0.0)

    @property
    def _no_answer_calibration(self) -> NoAnswerCalibration | None:
        return self.calibration.no_answer if self.calibration and self._null_head else None

    def answer(self, question: str, passage: str, n_best: int = 1) -> Answer:
        """Answers one question.

        Args:
            question: any text.
            passage: any text of any length.
            n_best: spans to return in `Answer.n_best`.

        Returns:
            The answer. Where a text is blank (it holds no letter and no digit) or the passage is mostly in Han, kana,
            Thai, Lao or Khmer letters, the reader does not answer and all probabilities of spans are 0.

        Raises:
            UserError: `n_best` is out of its range, or a text is no string.
        """
        return self.answer_batch([as_text("question", question)], [as_text("passage", passage)], n_best)[0]

    def answer_batch(self, questions: Iterable[str], passages: Iterable[str], n_best: int = 1) -> list[Answer]:
        """Answers many questions, each about its own passage; equal passages are read together.

        Args:
            questions: texts: a list, a tuple, a generator, a NumPy array, a column of a table. They are taken in their
                own order, whatever labels a table gives them.
            passages: as many texts.
            n_best: spans to return in each `Answer.n_best`.

        Returns:
            An answer per question, in order; each is what `answer` returns for it.

        Raises:
            UserError: the numbers of texts differ, `n_best` is out of its range, or a text is no string; nothing has
                been read then.
            QuestionError: the model reads no such long question; it is named by its place, counted from 0.
        """
        n_best = validate_n_best(n_best)
        asked, texts = as_pairs(questions, passages)
        _validate_process()
        # Questions about the same passage go next to each other.
        index = {passage: number for number, passage in enumerate(dict.fromkeys(texts))}
        order = sorted(range(len(asked)), key=lambda number: index[texts[number]])
        chunks = [order[begin:end] for begin, end in pairwise(_chunk_bounds(len(order)))]
        pairs = ([[part[number] for number in chunk] for part in (asked, texts)] for chunk in chunks)
        tokenized: Iterator[TokenizedDataset] = (self._tokenize_texts(*pair) for pair in pairs)
        if len(chunks) > 1:
            tokenized = self._one_ahead(tokenized)
        answers: dict[int, Answer] = {}
        for chunk, part in zip(chunks, tokenized, strict=True):
            try:
                answers.update(zip(chunk, self.predict(part, n_best), strict=True))
            except QuestionError as error:
                # Its number among those of the chunk.
                raise QuestionError(str(chunk[int(error.question)]), error.reason) from None
        return [answers[number] for number in range(len(asked))]

    def tokenize(
        self, data: SquadData, cache_dir: str | os.PathLike | None = None, log: Callable[[str], object] = print
    ) -> TokenizedDataset:
        """Tokenizes a dataset once, for several calls of `predict`, `scores` and `coverage`.

        Args:
            data: the questions.
            cache_dir: folder that keeps tokens between runs; None keeps none.
            log: called with a line about the progress.
        """
        found = self.processor.tokenize(data, cache_dir, log)
        return dataclasses.replace(found, tokenizer_version=self.processor.tokenizer_version)

    def coverage(self, dataset: Dataset) -> CoverageLedger:
        """What perfect predictions could reach on a dataset: whole tokens, at most `max_answer` of them.

        Args:
            dataset: questions, or what `tokenize` returned for them.
        """
        tokenized = self._tokenized(dataset)
        limits = (self._max_answer, self._null_head)
        return measure_coverage(tokenized.data, tokenized.passage_tokens(), *limits)

    def predict(
        self,
        dataset: Dataset,
        n_best: int = 1,
        progress: Progress | None = None,
        watch: Watch | None = None,
    ) -> list[Answer]:
        """Answers every question of a dataset; none is dropped.

        Args:
            dataset: questions, or what `tokenize` returned for them.
            n_best: spans to return in each `Answer.n_best`.
            progress: called with (examples done, examples in total) after each batch.
            watch: called with the number of each question that can be read, its start and end logits, `(passage,)` or
                longer with padding, and its null logits `(2,)` or None.

        Returns:
            An answer per question, in the dataset's order. Where a text cannot be read (see `answer`), the reader does
            not answer.

        Raises:
            UserError: `n_best` is out of its range.
        """
        n_best = validate_n_best(n_best)
        tokenized = self._tokenized(dataset)
        answers = [NO_ANSWER] * len(tokenized.data.questions)
        for question, spans, score in self.best_spans(tokenized, n_best, progress, watch):
            none, share = self._no_answer(spans[0].probability, score)
            answers[question] = answer_of(spans, none, share, score, self.no_answer_threshold)
        return answers

    def best_spans(
        self, dataset: Dataset, n_best: int, progress: Progress | None = None, watch: Watch | None = None
    ) -> Iterator[tuple[int, list[Span], float]]:
        """The best spans of every question that can be read (see `answer`), in no particular order.

        Args:
            dataset, n_best, progress, watch: as for `predict`.

        Yields:
            The number of a question; its spans, the best first, each with its probability given that there is an
            answer; and `Answer.score`.
        """
        tokenized = self._tokenized(dataset)
        decoder = self._decoder(n_best)
        temperature = self.temperature
        for questions, logits in self._read(tokenized, progress):
            scaled = _divided(logits, temperature)
            firsts, lasts, probabilities, scores = (np.asarray(part) for part in decoder(*scaled))
            scores = _unscaled(scores, temperature)
            for i, question in enumerate(questions):
                spans = _spans(tokenized, question, firsts[i], lasts[i], probabilities[i])[:n_best]
                yield int(question), spans, float(scores[i])
                if watch:
                    watch(int(question), logits.start[i], logits.end[i], _row(logits.null, i))

    def scores(self, dataset: Dataset, progress: Progress | None = None) -> Iterator[QuestionScores]:
        """The scores of every question that can be read (see `answer`), in no particular order.

        Args:
            dataset: questions, or what `tokenize` returned for them.
            progress: called with (examples done, examples in total) after each batch.

        Yields:
            The scores; those of passages read in windows are merged.
        """
        tokenized = self._tokenized(dataset)
        decoder = self._decoder(1)
        texts = tokenized.texts
        for questions, logits in self._read(tokenized, progress):
            firsts, lasts, _, scores = (np.asarray(part) for part in decoder(*logits))
            for i, question in enumerate(questions):
                passage = int(tokenized.question_passages[question])
                part = slice(texts.splits[passage], texts.splits[passage + 1])
                length = int(texts.lengths[passage])
                yield QuestionScores(
                    int(question),
                    logits.start[i, :length],
                    logits.end[i, :length],
                    None if logits.null is None else logits.null[i],
                    texts.starts[part],
                    texts.ends[part],
                    int(firsts[i, 0]),
                    int(lasts[i, 0]),
                    float(scores[i]),
                )

    def window_logits(self, features: Features, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, Logits]]:
        """The logits of examples, each a window of a passage, batch by batch.

        Args:
            features: those of the examples, from the reader's processor.
            lengths: int `(examples,)`, passage tokens of each example.

        Yields:
            The numbers of a batch's examples, `(batch,)`, and their logits; those of passages are padded.
        """
        batches = list(self._batches(features.longest))
        for batch, outputs in zip(batches, self._logits(features, batches), strict=True):
            yield batch, _of_passages(outputs, features.logit_offsets[batch], lengths[batch])

    def _batches(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        """The numbers of the examples that are read at once; see `reading_batches`."""
        return reading_batches(lengths)

    def _no_answer(self, best: float, score: float) -> tuple[float, float]:
        """The no-answer probability, and what all spans together have.

        Args:
            best: probability of the best span, given that there is an answer.
            score: `Answer.score`.
        """
        if not self._null_head:
            return 1.0 - best, 1.0
        scale, bias = self.no_answer_scale_and_bias
        none = float(no_answer_probability(np.float64(score), scale, bias))
        # A reader that always answers assumes that there is an answer.
        return none, 1.0 if self.no_answer_threshold is None else answer_share(score, scale, bias)

    def _decoder(self, n_best: int) -> Callable:
        """A decoder that returns at least `n_best` spans; one for each power of two, so that there are few."""
        count = 1 << (n_best - 1).bit_length()
        if count not in self._decoders:
            # Another thread may have made one in the meantime.
            self._decoders.setdefault(count, self._make_decoder(count))
        return self._decoders[count]

    def _tokenized(self, dataset: Dataset) -> TokenizedDataset:
        validate_dataset("dataset", dataset)
        if not isinstance(dataset, TokenizedDataset):
            # Silent, because standard output belongs to the caller.
            return self.processor.tokenize(dataset, log=_silent)
        if dataset.tokenizer_version not in ("", self.processor.tokenizer_version):
            raise UserError(
                f"{dataset.data.name}: was tokenized for another reader (as {dataset.tokenizer_version}), expected "
                f"what this one's tokenize returns (as {self.processor.tokenizer_version})"
            )
        return dataset

    def _tokenize_texts(self, questions: list[str], passages: list[str]) -> TokenizedDataset:
        return self._tokenized(questions_about(questions, passages))

    def _one_ahead(self, items: Iterator[TokenizedDataset]) -> Iterator[TokenizedDataset]:
        """Makes the next item in another thread while the last one is used."""
        coming = self._tokenizing.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = self._tokenizing.submit(next, items, None)
            yield item

    def _read(self, tokenized: TokenizedDataset, progress: Progress | None) -> Iterator[tuple[np.ndarray, Logits]]:
        """Question numbers with the logits of their whole passages, batch by batch.

        Passages that are read in windows come last, one by one. Questions that cannot be read, or are about such a
        passage, are left out.
        """
        _validate_process()
        lengths = tokenized.passage_lengths[tokenized.question_passages]
        lengths = np.where(self._are_readable(tokenized), lengths, 0)
        sizes = self.processor.window_sizes(tokenized.question_lengths, self.max_passage)
        examples = reading_examples(lengths, sizes)
        features = self.processor.features(tokenized, examples)
        is_whole = examples.lengths == lengths[examples.questions]
        windows: dict[int, list[tuple[int, Logits]]] = {}
        done = 0
        for batch, logits in self.window_logits(features, examples.lengths):
            whole = is_whole[batch]
            if whole.any():
                yield examples.questions[batch[whole]], _select(logits, whole)
            for i in np.flatnonzero(~whole):
                example = batch[i]
                length = examples.lengths[example]
                window = Logits(logits.start[i, :length], logits.end[i, :length], _row(logits.null, i))
                windows.setdefault(int(examples.questions[example]), []).append(
                    (int(examples.offsets[example]), window)
                )
            done += len(batch)
            if progress:
                progress(done, len(examples.lengths))
        for question, parts in windows.items():
            yield np.array([question]), _merge(parts, int(lengths[question]))

    def _are_readable(self, tokenized: TokenizedDataset) -> np.ndarray:
        """Whether each question and its passage can be read, boolean `(questions,)`."""
        data = tokenized.data
        asked = np.array([not is_blank(question.text) for question in data.questions], bool)
        asked &= tokenized.question_lengths > 0
        passages = np.array([not is_blank(passage) for passage in data.passages], bool)
        if self.processor.needs_spaces:
            others = np.array([is_without_spaces(passage) for passage in data.passages], bool)
            passages &= ~others
            self._tell_language(bool(others[tokenized.question_passages[asked]].any()))
        return asked & passages[tokenized.question_passages]

    def _tell_language(self, is_other: bool) -> None:
        """Says once that some passages are not read."""
        if not is_other:
            return
        # Another thread may be here, too.
        log, self._log = self._log, None
        if log:
            log(READS_ENGLISH)


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=2)


def _silent(line: str) -> None:
    pass


# The process that made the first reader.
_process = 0


def validate_threshold(threshold: float | str | None, null_head: bool) -> None:
    """Refuses a threshold that is none, or that the reader has no probability for."""
    if threshold is None or threshold == OWN_THRESHOLD:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not 0 <= threshold <= 1:
        raise UserError(
            f'no_answer_threshold must be a number from 0 to 1, None (always answers) or "own", found {threshold!r}'
        )
    if not null_head:
        raise UserError(
            f"no_answer_threshold={threshold}: this reader has no null head and always answers; --null_head trains one "
            "that has"
        )


def _validate_process() -> None:
    """Refuses to read in a process that was forked after a reader was made.

    The fork has the locks of the backend's threads, but not the threads, so it would wait for them forever.

    Raises:
        UserError: this is such a process.
    """
    global _process
    _process = _process or os.getpid()
    if os.getpid() != _process:
        raise UserError(
            "this process was forked from one that had loaded a reader, so reading would wait forever: load the reader "
            "after the fork only, or give it to a process that multiprocessing.get_context('spawn') starts"
        )


def _chunk_bounds(count: int) -> Iterator[int]:
    """0, and the end of each chunk of this many questions."""
    bound, size = 0, FIRST_CHUNK
    yield bound
    while bound < count:
        bound, size = min(bound + size, count), min(CHUNK_GROWTH * size, LARGEST_CHUNK)
        yield bound


def _row(values: np.ndarray | None, row: int | np.integer) -> np.ndarray | None:
    return None if values is None else values[row]


def _select(logits: Logits, rows: np.ndarray) -> Logits:
    return Logits(logits.start[rows], logits.end[rows], None if logits.null is None else logits.null[rows])


def _divided(logits: Logits, temperature: float) -> Logits:
    null = None if logits.null is None else logits.null / temperature
    return Logits(logits.start / temperature, logits.end / temperature, null)


def _unscaled(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Scores of the model's own logits, from those of divided ones."""
    return np.where(scores > UNREAD_SCORE, scores * temperature, scores)


def _of_passages(outputs: dict[str, np.ndarray], offsets: np.ndarray, lengths: np.ndarray) -> Logits:
    """The logits of the passages' tokens, which some models have in the middle of a longer sequence."""
    parts = [outputs[name] for name in (START, END)]
    if offsets.any():
        columns = np.minimum(offsets[:, None] + np.arange(lengths.max()), parts[0].shape[1] - 1)
        is_token = np.arange(lengths.max()) < lengths[:, None]
        parts = [np.where(is_token, np.take_along_axis(part, columns, axis=1), np.float32(-1e9)) for part in parts]
    return Logits(parts[0], parts[1], outputs.get(NULL))


def _merge(parts: list[tuple[int, Logits]], length: int) -> Logits:
    offsets, windows = zip(*sorted(parts, key=lambda part: part[0]), strict=True)
    starts, ends, nulls = zip(*windows, strict=True)
    start, end = (merge_windows(list(logits), np.array(offsets), length)[None] for logits in (starts, ends))
    return Logits(start, end, None if nulls[0] is None else smallest_null(np.array(nulls))[None])


def _spans(tokenized: TokenizedDataset, question: int, firsts, lasts, probabilities) -> list[Span]:
    passage = int(tokenized.question_passages[question])
    text, begin = tokenized.data.passages[passage], tokenized.texts.splits[passage]
    length = tokenized.passage_lengths[passage]
    spans: list[Span] = []
    for first, last, probability in zip(firsts, lasts, probabilities, strict=True):
        if not (0 <= first < length and last < length) or (spans and probability == 0):
            continue
        start = int(tokenized.texts.starts[begin + first])
        # A decoder that chooses start and end independently may find an end before the start.
        end = max(start, int(tokenized.texts.ends[begin + last]))
        spans.append(Span(text[start:end], start, end, float(probability)))
    return spans
