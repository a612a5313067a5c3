"""What a reader says, a span of the passage or that there is none; and the contract of everything that answers."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fabir_tf.pipelines.arguments import validate_type, whole_number
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import CoverageLedger
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.no_answer import UNREAD_SCORE

if TYPE_CHECKING:
    from fabir_tf.reading.calibration import Calibration
    from fabir_tf.reading.graph_reader import GraphAnswerer

Dataset = SquadData | TokenizedDataset
Progress = Callable[[int, int], None]

OWN_THRESHOLD = "own"
"""Stands for the threshold of a reader's calibration."""

MOST_ANSWERS = 1000
"""Most spans that can be asked for per question."""


@dataclasses.dataclass(frozen=True)
class Span:
    """A span of a passage.

    Attributes:
        text: `passage[start:end]`, never rewritten.
        start, end: offsets in Unicode code points, the end exclusive.
        probability: of this span among all that the model compares, from 0 to 1.
    """

    text: str
    start: int
    end: int
    probability: float

    def to_dict(self) -> dict[str, Any]:
        """The span as JSON values."""
        return {"answer": self.text, "start": self.start, "end": self.end, "probability": self.probability}


@dataclasses.dataclass(frozen=True)
class Answer(Span):
    """The best span, or no answer.

    A reader that abstains has the empty text, and `n_best` all the same.

    Attributes:
        probability: that what is returned is right, "no answer" included. A reader that always answers gives that of
            the span, assuming that there is an answer.
        no_answer_probability: that the passage holds no answer, from 0 to 1; for a reader without a null head, 1 minus
            the probability of the best span.
        is_answer: whether the reader answers.
        n_best: the best spans, as many as were asked for, of distinct tokens.
        score: the logits of the best span, less those of "no answer": the higher, the more likely the passage answers
            the question, also compared with other passages. Without a null head, the logits of the best span.
    """

    no_answer_probability: float = 0.0
    is_answer: bool = True
    n_best: tuple[Span, ...] = ()
    score: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values, the same in every command and server."""
        return super().to_dict() | {
            "no_answer_probability": self.no_answer_probability,
            "is_answer": self.is_answer,
            "score": self.score,
            "n_best": [span.to_dict() for span in self.n_best],
        }


NO_ANSWER = Answer("", 0, 0, 0.0, no_answer_probability=1.0, is_answer=False, score=UNREAD_SCORE)
"""The answer where question or passage cannot be read: one is blank, or the passage in a script without spaces."""


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionScores:
    """A reader's scores of one question, before any calibration.

    The softmax of start or end logits gives the probabilities of the tokens; null logits join it.

    Attributes:
        question: the question's number in the dataset.
        start_logits, end_logits: float32 `(passage,)`, one for each token.
        null_logits: float32 `(2,)`, start and end logit of "no answer"; None for a reader without a null head.
        starts, ends: int32 `(passage,)`, the tokens' offsets in code points.
        first, last: the tokens of the best span.
        score: `Answer.score`.
    """

    question: int
    start_logits: np.ndarray
    end_logits: np.ndarray
    null_logits: np.ndarray | None
    starts: np.ndarray
    ends: np.ndarray
    first: int
    last: int
    score: float

    @property
    def has_null(self) -> bool:
        """Whether the reader has a null head."""
        return self.null_logits is not None

    @property
    def best(self) -> tuple[int, int]:
        """Start and end of the best span, in code points."""
        start = int(self.starts[self.first])
        return start, max(start, int(self.ends[self.last]))

    def best_probabilities(self, temperatures: np.ndarray) -> np.ndarray:
        """The probability of the best span, given that there is an answer, at each temperature."""
        scales = (1.0 / temperatures)[:, None, None]
        both = start_end_probabilities(self.start_logits, self.end_logits, None, scales)
        return both[:, 0, self.first] * both[:, 1, self.last]

    def probabilities(self, scale: float | np.ndarray = 1.0) -> np.ndarray:
        """Start and end probabilities of the tokens, and of "no answer" in the last column if there are null logits.

        Args:
            scale: the logits are multiplied by it; may have leading axes, `(..., 1, 1)`.

        Returns:
            Float `(..., 2, passage)` or `(..., 2, passage + 1)`.
        """
        return start_end_probabilities(self.start_logits, self.end_logits, self.null_logits, scale)


class Scores(Protocol):
    """What calibration reads of one question: `QuestionScores`, or the `SummedSpans` of an ensemble."""

    @property
    def question(self) -> int:
        """The question's number in the dataset."""
        ...

    @property
    def score(self) -> float:
        """`Answer.score`."""
        ...

    @property
    def has_null(self) -> bool:
        """Whether the answerer can say that there is no answer."""
        ...

    @property
    def best(self) -> tuple[int, int]:
        """Start and end of the best span, in code points."""
        ...

    def best_probabilities(self, temperatures: np.ndarray) -> np.ndarray:
        """The probability of the best span, given that there is an answer, at each temperature."""
        ...


@runtime_checkable
class QuestionAnswerer(Protocol):
    """Anything that answers questions about passages: a `Reader`, an ensemble of readers.

    Evaluation, prediction, analysis, calibration and export take one and never look inside.
    """

    calibration: "Calibration | None"

    @property
    def no_answer_threshold(self) -> float | None:
        """It abstains above this no-answer probability; None if it always answers."""
        ...

    def answer(self, question: str, passage: str, n_best: int = 1) -> Answer:
        """Answers one question."""
        ...

    def answer_batch(self, questions: Iterable[str], passages: Iterable[str], n_best: int = 1) -> list[Answer]:
        """Answers many questions, each about its own passage."""
        ...

    def predict(self, dataset: Dataset, n_best: int = 1, progress: Progress | None = None) -> list[Answer]:
        """Answers every question of a dataset, in its order."""
        ...

    def tokenize(
        self, data: SquadData, cache_dir: str | os.PathLike | None = None, log: Callable[[str], object] = print
    ) -> Dataset:
        """Tokenizes a dataset once, for several of the calls below."""
        ...

    def coverage(self, dataset: Dataset) -> CoverageLedger:
        """What perfect predictions could reach on a dataset."""
        ...

    def scores(self, dataset: Dataset, progress: Progress | None = None) -> Iterator[Scores]:
        """The scores of every question that can be read, in no particular order."""
        ...

    def in_graph(self, n_best: int = 5) -> "GraphAnswerer":
        """The same in core TensorFlow operations, for a SavedModel."""
        ...


def answer_of(spans: Sequence[Span], none: float, share: float, score: float, threshold: float | None) -> Answer:
    """What a reader says of a question that it can read.

    Args:
        spans: the best first, each with its probability given that there is an answer.
        none: the no-answer probability.
        share: what all spans together have.
        score: `Answer.score`.
        threshold: the reader abstains above this no-answer probability; None if it always answers.
    """
    spans = tuple(Span(span.text, span.start, span.end, span.probability * share) for span in spans)
    best = spans[0]
    if threshold is not None and none > threshold:
        return Answer("", 0, 0, none, none, is_answer=False, n_best=spans, score=score)
    return Answer(best.text, best.start, best.end, best.probability, none, n_best=spans, score=score)


def start_end_probabilities(
    start_logits: np.ndarray, end_logits: np.ndarray, null_logits: np.ndarray | None, scale: float | np.ndarray = 1.0
) -> np.ndarray:
    """The softmax of one question's logits; see `QuestionScores.probabilities`."""
    logits = np.stack([start_logits, end_logits])
    if null_logits is not None:
        logits = np.concatenate([logits, null_logits[:, None]], axis=1)
    logits = scale * logits
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def validate_n_best(n_best: int) -> int:
    """Checks a number of spans per question.

    Args:
        n_best: a whole number, also one of NumPy.

    Returns:
        The number.

    Raises:
        UserError: it is no whole number from 1 to `MOST_ANSWERS`.
    """
    return whole_number("n_best", n_best, 1, MOST_ANSWERS)


def validate_reader(name: str, value: Any) -> None:
    """Checks that an argument is a reader, and not its model or its name, which the commands take.

    Args:
        name: of the argument, for the message.
        value: what was given.

    Raises:
        UserError: it is something else.
    """
    if not any(hasattr(value, call) for call in ("answer", "answer_batch", "scores")):
        raise UserError(f"{name}: found {quoted(value)}, expected a reader, as fabir_tf.Reader.load makes it")


def validate_dataset(name: str, value: Any) -> None:
    """Checks that an argument is a dataset.

    Args:
        name: of the argument, for the message.
        value: what was given.

    Raises:
        UserError: it is none.
    """
    validate_type(name, value, Dataset, "questions, as fabir_tf.load_dataset makes them")


def as_text(name: str, value: Any) -> str:
    """Checks that a value is a text.

    Args:
        name: of the value, for the message.
        value: a string, also one of NumPy.

    Returns:
        A plain string.

    Raises:
        UserError: it is no string.
    """
    if not isinstance(value, str):
        raise UserError(f"{name}: found {_with_type(value)}, expected a text")
    return str.__str__(value)


def as_texts(name: str, values: Any) -> list[str]:
    """Reads texts in their own order.

    Args:
        name: what one of the texts is, for messages.
        values: a list, a tuple, a generator, a NumPy array, a column of a table, or any other iterable of strings. It
            is read once, from its beginning to its end, and never by index: the labels of a table's rows may be in
            another order.

    Returns:
        The texts.

    Raises:
        UserError: it is no such iterable, or one of the values is no string.
    """
    expected = f"expected an iterable of texts, such as a list, with one per {name}"
    # A table gives the names of its columns, a set its texts in any order.
    refused = isinstance(values, str | bytes | bytearray | memoryview | Mapping | set | frozenset)
    if refused or getattr(values, "ndim", 1) != 1:
        raise UserError(f"{name}s: found {_with_type(values)}, {expected}")
    try:
        found = iter(values)
    except TypeError:
        raise UserError(f"{name}s: found {_with_type(values)}, {expected}") from None
    return [as_text(f"{name} {number}", value) for number, value in enumerate(found)]


def as_pairs(questions: Any, passages: Any) -> tuple[list[str], list[str]]:
    """Reads questions and the passage of each.

    Args:
        questions, passages: as for `as_texts`.

    Returns:
        Both, equally many.

    Raises:
        UserError: as for `as_texts`, or their numbers differ.
    """
    asked, texts = as_texts("question", questions), as_texts("passage", passages)
    if len(asked) != len(texts):
        raise UserError(f"expected as many questions as passages, found {len(asked)} and {len(texts)}")
    return asked, texts


def questions_about(questions: Sequence[str], passages: Sequence[str]) -> SquadData:
    """Questions without references as a dataset, each with its passage; equal passages are one.

    Args:
        questions: the texts.
        passages: as many texts.
    """
    index = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
    asked = tuple(
        Question(str(number), question, index[passage], ())
        for number, (question, passage) in enumerate(zip(questions, passages, strict=True))
    )
    return SquadData("questions", tuple(index), ("",) * len(index), asked)


def _with_type(value: Any) -> str:
    return f"{quoted(value)} of type {type(value).__name__}"
