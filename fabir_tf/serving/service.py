"""What every protocol of the server does: finds the version, checks the request, runs it and counts it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import MOST_ANSWERS, OWN_THRESHOLD, Answer
from fabir_tf.serving.errors import LateError, QueueFullError, RequestError, invalid
from fabir_tf.serving.metrics import Metrics
from fabir_tf.serving.models import Models, Version
from fabir_tf.serving.signature import DEFAULT, Signature, missing_signature
from fabir_tf.serving.work import Ask, Attend, Attention, Predict

if TYPE_CHECKING:
    from fabir_tf.pipelines.documents.collection import Searched


SEARCHES_AT_ONCE = 8
"""An index is searched by one at a time; meanwhile the models answer the others."""

MOST_SEARCHES = 128
"""Searches that are begun or wait; beyond that a request is refused."""


@dataclass(frozen=True)
class Limits:
    """What a request may hold.

    Attributes:
        body_bytes: of the whole request, after it is decompressed.
        rows: questions.
        question_characters, passage_characters: of each text.
    """

    body_bytes: int = 16 * 2**20
    rows: int = 1024
    question_characters: int = 10_000
    passage_characters: int = 1_000_000


@dataclass(frozen=True)
class Asked:
    """A question about a passage.

    Attributes:
        question, passage: the texts.
        model: its name; None for the only one.
        n_best: spans to return.
        threshold: no-answer probability above which there is no answer; None always answers.
    """

    question: str
    passage: str
    model: str | None = None
    n_best: int = 1
    threshold: float | str | None = OWN_THRESHOLD


class Service:
    """Answers requests with the models.

    Args:
        models: what is served.
        limits: of a request.
        metrics: what counts them.
        index: the documents that `search` answers from, or None.
        paragraphs: how many of them are read for a question.
    """

    def __init__(
        self,
        models: Models,
        limits: Limits,
        metrics: Metrics,
        index: "Searched | None" = None,
        paragraphs: int = 5,
    ):
        self.models = models
        self.limits = limits
        self.metrics = metrics
        self.index = index
        self._paragraphs = paragraphs
        self._threads = ThreadPoolExecutor(SEARCHES_AT_ONCE, "search")
        self._searches: list[Future] = []

    async def predict(
        self,
        version: Version,
        name: str,
        inputs: dict[str, np.ndarray],
        outputs: Sequence[str],
        deadline: float,
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
            version: that runs it.
            name: of the signature; "" for the default.
            inputs: by name.
            outputs: which are wanted; none for all.
            deadline: in seconds of `time.monotonic`.

        Raises:
            RequestError: the request does not fit, or cannot be answered in time.
        """
        name = name or DEFAULT
        signatures = version.description.signatures
        if name not in signatures:
            raise missing_signature(name)
        wanted = signatures[name].chosen_outputs(list(outputs))
        signatures[name].validate(inputs)
        self._validate_inputs(inputs)
        found, timing = await version.run(Predict(name, inputs), deadline)
        self.metrics.count_batch(version.model, timing)
        return {output: found[output] for output in wanted}

    def signature(self, version: Version, name: str) -> Signature:
        """A signature for a REST request, in whose words an unknown one is refused."""
        name = name or DEFAULT
        if name not in version.description.signatures:
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        return version.description.signatures[name]

    async def answer(self, asked: Sequence[Asked], deadline: float) -> list[Answer | RequestError]:
        """Answers questions.

        Args:
            asked: the questions.
            deadline: in seconds of `time.monotonic`.

        Returns:
            An answer for each, in order, or why there is none.

        Raises:
            RequestError: there are too many, or too much waits for an answer already.
        """
        if len(asked) > self.limits.rows:
            raise invalid(f"found {len(asked):,} questions, expected at most {self.limits.rows:,} in one request")
        faults = [self._fault(one) for one in asked]
        sound = [one for one, fault in zip(asked, faults, strict=True) if not fault]
        answers = iter(await self.answer_unlimited(sound, deadline))
        return [fault or next(answers) for fault in faults]

    async def answer_unlimited(self, asked: Sequence[Asked], deadline: float) -> list[Answer | RequestError]:
        """As `answer`, without the limits of a request, which hold for what a client sends only."""
        found: dict[int, Answer | RequestError] = {}
        groups: dict[tuple[str | None, int, float | str | None], list[int]] = defaultdict(list)
        for number, one in enumerate(asked):
            groups[one.model, one.n_best, one.threshold].append(number)
        for (model, n_best, threshold), numbers in groups.items():
            rows = [asked[number] for number in numbers]
            try:
                answers = await self._ask(model, n_best, threshold, rows, deadline)
            except RequestError as error:
                # What concerns the server, not the row, is told for the whole request.
                if error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
                    raise
                answers = [error] * len(numbers)
            found.update(zip(numbers, answers, strict=True))
        return [found[number] for number in range(len(asked))]

    async def search(
        self, question: str, model: str | None, n_best: int, threshold: float | str | None, deadline: float
    ) -> Answer:
        """Answers a question from the index.

        Raises:
            RequestError: there is no index or it cannot be read, too many searches wait, or the question cannot be
                answered, or not in time.
        """
        if self.index is None:
            raise RequestError("NOT_FOUND", "this server has no documents to search, expected one with --index")
        from fabir_tf.reading.document_reader import DocumentReader

        self._validate_texts(question=question)
        reader: Any = _Waiting(self, asyncio.get_running_loop(), model, threshold, deadline)
        documents = DocumentReader(reader, self._paragraphs, searched=self.index)
        self._searches = [search for search in self._searches if not search.done()]
        if len(self._searches) >= MOST_SEARCHES:
            raise QueueFullError
        search = self._threads.submit(documents.answer, question, None, n_best)
        self._searches.append(search)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(search), deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise LateError from None
        except (UserError, OSError) as error:
            # It names files of this machine.
            self.models.log(f"the index cannot be searched: {error}")
            raise RequestError("UNAVAILABLE", "the documents cannot be searched at the moment") from error

    async def attention(self, question: str, passage: str, model: str | None, deadline: float) -> Attention:
        """Which words of the passage each word of the question attends to.

        Raises:
            RequestError: the model does not show it.
        """
        self._validate_texts(question=question, passage=passage)
        version = self.models.find(model)
        with version.used():
            return (await version.run(Attend(question, passage), deadline))[0]

    def threshold(self, model: str | None, threshold: float | str | None) -> float | None:
        """The threshold that a request is answered with."""
        own = self.models.find(model).description.threshold
        return own if isinstance(threshold, str) else threshold

    async def _ask(
        self, model: str | None, n_best: int, threshold: float | str | None, rows: list[Asked], deadline: float
    ) -> list[Answer | RequestError]:
        version = self.models.find(model)
        most = version.description.n_best
        if most == 0:
            raise RequestError("UNIMPLEMENTED", f"model {version.model} does not answer questions")
        if n_best > (most or MOST_ANSWERS):
            raise invalid(f"n_best: found {n_best}, expected at most {most or MOST_ANSWERS}")
        size = self.models.batching.max_batch_size
        chunks = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
        with version.used():
            works = [
                Ask([row.question for row in chunk], [row.passage for row in chunk], n_best, threshold)
                for chunk in chunks
            ]
            parts = await version.run_all(works, deadline)
        for _, timing in parts:
            self.metrics.count_batch(version.model, timing)
        return [answer for answers, _ in parts for answer in answers]

    def _fault(self, asked: Asked) -> RequestError | None:
        try:
            self._validate_texts(question=asked.question, passage=asked.passage)
        except RequestError as error:
            return error
        return None

    def _validate_texts(self, **texts: str) -> None:
        for name, text in texts.items():
            limit = getattr(self.limits, f"{name}_characters")
            if len(text) > limit:
                raise invalid(f"{name}: found {len(text):,} characters, expected at most {limit:,}")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise invalid(f"{name}: found half of a surrogate pair at {error.start}, expected Unicode") from None

    def _validate_inputs(self, inputs: dict[str, np.ndarray]) -> None:
        for name, array in inputs.items():
            if array.ndim and len(array) > self.limits.rows:
                raise invalid(f"input {name}: found {len(array):,} rows, expected at most {self.limits.rows:,}")
            if array.dtype == object:
                limit = getattr(self.limits, f"{name}_characters", self.limits.passage_characters)
                # A character has up to four bytes.
                longest = max((len(text) for text in array.flat), default=0)
                if longest > 4 * limit:
                    raise invalid(f"input {name}: found a text of {longest:,} bytes, expected at most {4 * limit:,}")


class _Waiting:
    """A model as the `QuestionAnswerer` of a `DocumentReader`, which waits for answers in a thread of its own."""

    def __init__(
        self,
        service: Service,
        loop: asyncio.AbstractEventLoop,
        model: str | None,
        threshold: float | str | None,
        deadline: float,
    ):
        self._service, self._loop = service, loop
        self._model, self._threshold, self._deadline = model, threshold, deadline
        self.calibration = service.models.find(model).description.calibration

    @property
    def no_answer_threshold(self) -> float | None:
        return self._service.threshold(self._model, self._threshold)

    def answer_batch(self, questions: Iterable[str], passages: Iterable[str], n_best: int = 1) -> list[Answer]:
        rows = [
            Asked(question, passage, self._model, n_best, self._threshold)
            for question, passage in zip(questions, passages, strict=True)
        ]
        if not rows:
            return []
        # The paragraphs are the server's own.
        left = self._deadline - time.monotonic()
        if left <= 0.0:
            # Nobody waits any more, and the loop may have ended.
            raise LateError
        waiting = asyncio.run_coroutine_threadsafe(self._service.answer_unlimited(rows, self._deadline), self._loop)
        answers: list[Answer] = []
        for answer in waiting.result(left + 5.0):
            if isinstance(answer, RequestError):
                raise answer
            answers.append(answer)
        return answers
