"""A trained reader: questions and passages in, answers out."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import keras
import numpy as np

from fabir_tf.backends import backend
from fabir_tf.models import build_model
from fabir_tf.models.precision import dtype_policy
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples, make_features
from fabir_tf.pipelines.features.windows import LONGEST_PASSAGE, merge_windows, window_offsets
from fabir_tf.pipelines.text.tokenized import EncodedData, TokenizedDataset, encode, tokenize_texts
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_vectors import WordVectors, load_saved_vectors
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.run_directory import RunDirectory, reader_directory
from fabir_tf.training.checkpoint import load_weights
from fabir_tf.training.training_config import POLICIES

# Tokens that neighbouring windows of a long passage share at most: room for any answer with its surroundings.
WINDOW_OVERLAP = 128
# Passage tokens in a batch: many, because kernels are compiled for most batches anew; few enough for the memory.
BATCH_TOKENS = 48_000
BATCH_ROWS = 512
# Pairs of tokens in a batch: each head holds a float32 for each of them, 64 MiB.
BATCH_PAIRS = LONGEST_PASSAGE**2
# Questions tokenized at once, while the chunk before is read by the model: soon something to read, then full batches.
# Tokenising takes a fifth of the time of reading, so that a chunk may have some times the questions of that before.
FIRST_CHUNK, CHUNK_GROWTH, LARGEST_CHUNK = 256, 4, 8192
# Tokens of a question that are read: far more than people ask with, few enough for the attention's memory.
LONGEST_QUESTION = 512


@dataclasses.dataclass(frozen=True)
class Span:
    """A stretch of a passage.

    Attributes:
        text: `passage[start:end]`, never rewritten.
        start, end: character offsets (Unicode code points), the end exclusive.
        probability: of this span among all that the model compares, from 0 to 1.
    """

    text: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True)
class Answer(Span):
    """The best span, and the runners-up.

    Attributes:
        n_best: the spans asked for, the best (this one) first; distinct in their offsets.
    """

    n_best: tuple[Span, ...] = ()


T = TypeVar("T")

NO_ANSWER = Answer("", 0, 0, 0.0)


class Reader:
    """Answers questions with the words of a passage.

    Args:
        model: what `fabir_tf.build_model` returned, trained.
        vocabulary: the ids that the model was trained with.
        config: the model's configuration.
        max_passage: passages of more tokens are read in overlapping windows.
        calibration: how far its probabilities can be believed, and the temperature that makes them so; None leaves
            them as the model has them.

    Example:
        >>> reader = fabir_tf.Reader.load("runs/base")
        >>> reader.answer("Who built the mill?", "The mill was built by Anna Keld.").text
        'Anna Keld'
    """

    def __init__(
        self,
        model: keras.Model,
        vocabulary: Vocabulary,
        config: ReaderConfig,
        max_passage: int = 512,
        calibration: Calibration | None = None,
    ):
        if not 1 <= max_passage <= LONGEST_PASSAGE:
            raise UserError(f"max_passage must be from 1 to {LONGEST_PASSAGE}, found {max_passage}")
        self.model = model
        self.vocabulary = vocabulary
        self.config = config
        self.max_passage = max_passage
        self.calibration = calibration
        self._logits = backend.Logits(model)
        self._decoder = functools.cache(lambda n_best: backend.traced(config.decoder(n_best)))

    @classmethod
    def load(cls, run_dir: str | os.PathLike, max_passage: int = 512, precision: str = "float32") -> "Reader":
        """Loads the best checkpoint of a run.

        Args:
            run_dir: what `fabir-train` or `fabir-pack` wrote, or the name of a reader that comes with the package
                (`fabir_tf.reading.pretrained.pretrained_readers()`).
            max_passage: passages of more tokens are read in overlapping windows.
            precision: the layers' dtype policy, whatever the run was trained with: "float32", "mixed_bfloat16" or
                "mixed_float16". Softmax, norms and logits are float32 in each.

        Returns:
            The reader.

        Raises:
            UserError: a file of the run is missing or damaged, or the precision is unknown.
        """
        if precision not in POLICIES:
            raise UserError(f"precision must be one of {', '.join(POLICIES)}, found {precision!r}")
        run = reader_directory(run_dir)
        return cls.from_run(run, run.read_model_config(), max_passage, precision)

    @classmethod
    def from_run(
        cls, run: RunDirectory, config: ReaderConfig, max_passage: int = 512, precision: str = "float32"
    ) -> "Reader":
        """Loads a reader whose configuration is known.

        Args:
            run: where its other files are.
            config: the model's configuration.
            max_passage, precision: as for `load`.

        Returns:
            The reader.

        Raises:
            UserError: a file is missing or damaged.
        """
        vectors = load_saved_vectors(run.vocabulary)
        vocabulary = Vocabulary.load(run.vocabulary, vectors.words)
        _validate_sizes(run, config, vectors, vocabulary)
        with dtype_policy(precision):
            model = build_model(config)
        set_frozen_table(model, vectors.table)
        load_weights(run.best, model)
        calibration = Calibration.load(run.calibration) if run.calibration.exists() else None
        return cls(model, vocabulary, config, max_passage, calibration)

    @property
    def temperature(self) -> float:
        """What logits are divided by before they become probabilities."""
        return self.calibration.temperature if self.calibration else 1.0

    def answer(self, question: str, passage: str, n_best: int = 1) -> Answer:
        """Answers one question.

        Args:
            question: any text with at least one word.
            passage: any text with at least one word, of any length.
            n_best: spans to return in `Answer.n_best`.

        Returns:
            The answer.

        Raises:
            UserError: the question or the passage holds no word.
        """
        return self.answer_batch([question], [passage], n_best)[0]

    def answer_batch(self, questions: Sequence[str], passages: Sequence[str], n_best: int = 1) -> list[Answer]:
        """Answers many questions, each about its own passage; equal passages are read together.

        Args:
            questions: texts with at least one word each.
            passages: as many texts, with at least one word each.
            n_best: spans to return in each `Answer.n_best`.

        Returns:
            An answer per question, in order; the same as `answer` gives one by one.

        Raises:
            UserError: the numbers of texts differ, or a text holds no word.
        """
        if len(questions) != len(passages):
            raise UserError(f"expected as many questions as passages, found {len(questions)} and {len(passages)}")
        for name, texts in (("question", questions), ("passage", passages)):
            for number, text in enumerate(texts):
                if not isinstance(text, str) or not text.strip():
                    raise UserError(f"{name} {number} holds no word, found {text!r}")
        # Questions about one passage beside each other.
        index = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
        order = sorted(range(len(questions)), key=lambda number: index[passages[number]])
        chunks = [order[begin:end] for begin, end in pairwise(_chunk_bounds(len(order)))]
        texts = ([[part[number] for number in chunk] for part in (questions, passages)] for chunk in chunks)
        encoded = (self._encode_texts(*chunk) for chunk in texts)
        if len(chunks) > 1:
            encoded = one_ahead(encoded)
        answers = {}
        for chunk, part in zip(chunks, encoded, strict=True):
            answers.update(zip(chunk, self.predict(part, n_best), strict=True))
        return [answers[number] for number in range(len(questions))]

    def _encode_texts(self, questions: list[str], passages: list[str]) -> EncodedData:
        index = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
        asked = tuple(
            Question(str(number), question, index[passage], ())
            for number, (question, passage) in enumerate(zip(questions, passages, strict=True))
        )
        data = SquadData("questions", tuple(index), ("",) * len(index), asked)
        return self.encode(TokenizedDataset(data, tokenize_texts([*data.passages, *questions])))

    def encode(self, tokenized: TokenizedDataset) -> EncodedData:
        """Looks a dataset's tokens up in this reader's vocabulary."""
        return encode(tokenized, self.vocabulary, self.config.max_word_characters)

    def predict(
        self, encoded: EncodedData, n_best: int = 1, progress: Callable[[int, int], None] | None = None
    ) -> list[Answer]:
        """Answers every question of a dataset; none is dropped.

        Args:
            encoded: from `encode`.
            n_best: spans to return in each `Answer.n_best`.
            progress: told (rows done, rows in all) after each batch.

        Returns:
            An answer per question, in the dataset's order. Where the passage holds no token it is the empty text with
            probability 0.
        """
        decoder = self._decoder(n_best)
        answers = [NO_ANSWER] * len(encoded.tokenized.data.questions)
        for questions, start, end in self._read_whole(encoded, progress):
            spans = [np.asarray(part) for part in decoder(start, end)]
            for i, question in enumerate(questions):
                answers[question] = _answer(encoded.tokenized, question, *(part[i] for part in spans))
        return answers

    def predict_at_temperatures(
        self,
        encoded: EncodedData,
        temperatures: np.ndarray,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[list[str], np.ndarray]:
        """Answers every question, and tells how probable the answers are at given temperatures.

        Args:
            encoded: from `encode`.
            temperatures: float `(temperatures,)`, each of them in place of the reader's own.
            progress: told (rows done, rows in all) after each batch.

        Returns:
            The best answers' texts, and their probabilities, float64 `(temperatures, questions)`; where the passage
            holds no token, the empty text and 0.
        """
        decoder = self._decoder(1)
        answers = [""] * len(encoded.tokenized.data.questions)
        probabilities = np.zeros((len(temperatures), len(answers)))
        scales = (self.temperature / temperatures)[:, None]
        for questions, start, end in self._read_whole(encoded, progress):
            firsts, lasts, own = (np.asarray(part) for part in decoder(start, end))
            for i, question in enumerate(questions):
                answers[question] = _answer(encoded.tokenized, question, firsts[i], lasts[i], own[i]).text
                share = _softmax(scales * start[i])[:, firsts[i, 0]] * _softmax(scales * end[i])[:, lasts[i, 0]]
                probabilities[:, question] = share
        return answers, probabilities

    def borders(
        self, encoded: EncodedData, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Where a dataset's answers could begin and end.

        Args:
            encoded: from `encode`.
            progress: told (questions done, questions in all) after each batch.

        Yields:
            The question's number, and the probabilities of each passage token to be the first and the last of the
            answer, float32 `(passage,)`; in no particular order. Passages that are not read in one piece are left out.
        """
        lengths = encoded.tokenized.passage_lengths[encoded.tokenized.question_passages]
        questions = np.flatnonzero((lengths > 0) & (lengths <= self.max_passage))
        rows = Examples(questions, np.zeros_like(questions), lengths[questions])
        for batch, start, end in self._read(encoded, rows, progress):
            for i, row in enumerate(batch):
                length = rows.lengths[row]
                yield int(questions[row]), _softmax(start[i, :length]), _softmax(end[i, :length])

    def _read_whole(
        self, encoded: EncodedData, progress: Callable[[int, int], None] | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Numbers of questions with the logits of their whole passages, `(questions, passage)`, batch by batch.

        Passages that are read in windows come last, one by one; questions about one without a token are left out.
        """
        rows = self._rows(encoded.tokenized)
        lengths = encoded.tokenized.passage_lengths[encoded.tokenized.question_passages[rows.questions]]
        is_whole = rows.lengths == lengths
        windows: dict[int, list[tuple[int, np.ndarray, np.ndarray]]] = {}
        for batch, start, end in self._read(encoded, rows, progress):
            whole = is_whole[batch]
            if whole.any():
                yield rows.questions[batch[whole]], start[whole], end[whole]
            for i in np.flatnonzero(~whole):
                row = batch[i]
                part = (int(rows.offsets[row]), start[i, : rows.lengths[row]], end[i, : rows.lengths[row]])
                windows.setdefault(int(rows.questions[row]), []).append(part)
        for question, parts in windows.items():
            yield np.array([question]), *_merge(encoded.tokenized, question, parts)

    def _read(
        self, encoded: EncodedData, rows: Examples, progress: Callable[[int, int], None] | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Row numbers with their start and end logits, `(rows, passage)`, batch by batch."""
        asked = np.minimum(encoded.tokenized.question_lengths[rows.questions], LONGEST_QUESTION)
        batches = list(_batches_by_length(np.maximum(rows.lengths, asked)))
        done = 0
        found = self._logits(make_features(encoded, rows, LONGEST_QUESTION), batches)
        for batch, logits in zip(batches, found, strict=True):
            yield batch, logits["start_logits"] / self.temperature, logits["end_logits"] / self.temperature
            done += len(batch)
            if progress:
                progress(done, len(rows.lengths))

    def _rows(self, tokenized: TokenizedDataset) -> Examples:
        lengths = tokenized.passage_lengths[tokenized.question_passages]
        overlap = min(WINDOW_OVERLAP, self.max_passage // 2)
        offsets = [window_offsets(length, self.max_passage, overlap) for length in lengths]
        windows = np.array([len(part) for part in offsets], np.int64)
        questions = np.repeat(np.arange(len(lengths)), windows)
        flat = np.concatenate(offsets or [np.zeros(0, np.int64)])
        rows = Examples(questions, flat, np.minimum(lengths[questions], self.max_passage))
        return Examples(*(part[rows.lengths > 0] for part in (rows.questions, rows.offsets, rows.lengths)))


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Has the next item made, in another thread, while the last one is used.

    Args:
        items: none of them None.

    Yields:
        The items.
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _chunk_bounds(count: int) -> Iterator[int]:
    """0, and where each chunk of so many questions ends."""
    border, size = 0, FIRST_CHUNK
    yield border
    while border < count:
        border, size = min(border + size, count), min(CHUNK_GROWTH * size, LARGEST_CHUNK)
        yield border


def _validate_sizes(run: RunDirectory, config: ReaderConfig, vectors: WordVectors, vocabulary: Vocabulary) -> None:
    """Refuses files of two runs: an id beyond the model's tables would be looked up as anything."""
    sizes = {
        "trainable_words": vocabulary.trainable_rows,
        "characters": vocabulary.character_rows,
        "frozen_words": vocabulary.frozen_rows,
        "word_dim": vectors.dimension if vectors.words else config.word_dim,
    }
    for name, size in sizes.items():
        if size != getattr(config, name):
            raise UserError(
                f"{run.vocabulary}: found {name}={size}, expected {getattr(config, name)} as in {run.config.name}"
            )


def set_frozen_table(model: keras.Model, table: np.ndarray) -> None:
    """Gives a model its frozen word vectors.

    Args:
        model: what `fabir_tf.build_model` returned.
        table: float `(frozen_words, word_dim)`; may be empty.
    """
    if len(table):
        model.get_layer("word_embedding").frozen_table.assign(table)


def _batches_by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Row numbers sorted by length, cut where a batch would hold too many tokens or pairs of tokens."""
    order = np.argsort(lengths, kind="stable")
    begin = 0
    for end in range(1, len(order) + 1):
        is_last = end == len(order)
        if is_last or end - begin == BATCH_ROWS or not _has_room(end - begin + 1, lengths[order[end]]):
            yield order[begin:end]
            begin = end


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _has_room(rows: int, length: int) -> bool:
    return rows * length <= BATCH_TOKENS and rows * length**2 <= BATCH_PAIRS


def _merge(tokenized: TokenizedDataset, question: int, parts: list) -> tuple[np.ndarray, np.ndarray]:
    length = int(tokenized.passage_lengths[tokenized.question_passages[question]])
    offsets, starts, ends = zip(*sorted(parts, key=lambda part: part[0]), strict=True)
    return tuple(merge_windows(list(logits), np.array(offsets), length)[None] for logits in (starts, ends))


def _answer(tokenized: TokenizedDataset, question: int, firsts, lasts, probabilities) -> Answer:
    passage = int(tokenized.question_passages[question])
    text, begin = tokenized.data.passages[passage], tokenized.texts.splits[passage]
    length = tokenized.passage_lengths[passage]
    spans = []
    for first, last, probability in zip(firsts, lasts, probabilities, strict=True):
        if not (0 <= first < length and last < length) or (spans and probability == 0):
            continue
        start = int(tokenized.texts.starts[begin + first])
        # A decoder that seeks the borders apart may find the end of nothing.
        end = max(start, int(tokenized.texts.ends[begin + last]))
        spans.append(Span(text[start:end], start, end, float(probability)))
    best = spans[0]
    return Answer(best.text, best.start, best.end, best.probability, tuple(spans))
