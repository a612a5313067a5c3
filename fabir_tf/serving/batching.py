"""Micro-batches: requests that arrive while a version is busy are answered together."""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from fabir_tf.serving.errors import LateError, QueueFullError, RequestError
from fabir_tf.serving.process import Done
from fabir_tf.serving.signature import rows_of
from fabir_tf.serving.work import Ask, Predict, Work

GATHERING_SECONDS = 0.02
"""How long a batch may fill while another one is being read."""

MOST_THREADS = 8
"""Batches that are read at the same time by default: each needs memory of its own."""


@dataclass(frozen=True)
class BatchingSettings:
    """How requests are joined.

    Attributes:
        max_batch_size: rows of a batch; a request with more is a batch of its own.
        batch_timeout: seconds that a request may wait for others while the version is idle.
        max_enqueued_batches: batches that may wait; beyond that a request is refused.
        threads: batches that a version reads at the same time.
    """

    max_batch_size: int = 128
    batch_timeout: float = 0.0
    max_enqueued_batches: int = 64
    threads: int = field(default_factory=lambda: min(os.cpu_count() or 1, MOST_THREADS))


@dataclass(frozen=True)
class Timing:
    """Where a request's time went, in seconds.

    Attributes:
        queued: until its batch was sent.
        model: in the version's process.
        rows: of its batch.
    """

    queued: float
    model: float
    rows: int


class Runs(Protocol):
    """What does the work: `VersionProcess`."""

    async def run(self, work: Work) -> Done:
        """Runs work."""
        ...


@dataclass(eq=False)
class _Job:
    work: Work
    rows: int
    key: Hashable
    begin: float
    deadline: float
    future: asyncio.Future


class Batcher:
    """Collects a version's requests into batches.

    Args:
        process: what runs the batches.
        settings: how they are joined.
        watch: called with the number of rows that wait, whenever it changes.
    """

    def __init__(self, process: Runs, settings: BatchingSettings, watch: Callable[[int], object] = lambda rows: None):
        self._process = process
        self._settings = settings
        self._watch = watch
        self._jobs: deque[_Job] = deque()
        self._rows = 0
        # The rows of each batch that is being read.
        self._running: dict[asyncio.Task, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, work: Work, deadline: float) -> tuple[Any, Timing]:
        """Runs work in a batch with that of others.

        Args:
            work: what to do.
            deadline: when it is given up, in seconds of `time.monotonic`.

        Returns:
            What came of it, and how long it took.

        Raises:
            RequestError: too much waits, it has not been done in time, or it failed.
        """
        [done] = await self.run_all([work], deadline)
        return done

    async def run_all(self, works: Sequence[Work], deadline: float) -> list[tuple[Any, Timing]]:
        """Runs the works of one request: all of them are taken, or none.

        Args:
            works, deadline: as for `run`.

        Returns:
            For each what `run` returns.

        Raises:
            RequestError: as `run`; the others are given up.
        """
        sizes = [_rows(work) for work in works]
        limit = self._settings.max_batch_size * self._settings.max_enqueued_batches
        if self._rows and self._rows + sum(sizes) > limit:
            raise QueueFullError
        begin, loop = time.monotonic(), asyncio.get_running_loop()
        jobs = [
            _Job(work, rows, _key(work), begin, deadline, loop.create_future())
            for work, rows in zip(works, sizes, strict=True)
        ]
        self._jobs.extend(jobs)
        self._count(sum(sizes))
        self._start()
        try:
            return await asyncio.wait_for(asyncio.gather(*(job.future for job in jobs)), deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise LateError from None
        finally:
            self._give_up(jobs)

    def _give_up(self, jobs: Sequence[_Job]) -> None:
        """Removes those that still wait: nobody waits for them any more."""
        for job in jobs:
            job.future.cancel()
            if job in self._jobs:
                self._jobs.remove(job)
                self._count(-job.rows)

    def _start(self) -> None:
        """Sends batches as long as the version takes them."""
        while self._jobs and len(self._running) < self._settings.threads:
            left = self._jobs[0].begin + self._patience() - time.monotonic()
            if left > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(left, self._time_out)
                return
            batch = self._next_batch()
            if batch:
                task = asyncio.create_task(self._run_batch(batch))
                self._running[task] = sum(job.rows for job in batch)
                task.add_done_callback(self._finish)

    def _patience(self) -> float:
        """Seconds that the oldest request may wait for others.

        Clients who had their answers a moment ago ask again one after the other. A batch as large as those that are
        being read waits for them: small ones cost more than they save.
        """
        if self._rows >= self._settings.max_batch_size:
            return 0.0
        usual = sum(self._running.values()) / len(self._running) if self._running else 0
        gathering = GATHERING_SECONDS if self._rows < usual else 0.0
        return max(self._settings.batch_timeout, gathering)

    def _time_out(self) -> None:
        self._timer = None
        self._start()

    def _finish(self, task: asyncio.Task) -> None:
        del self._running[task]
        self._start()

    def _next_batch(self) -> list[_Job]:
        """The oldest request and those behind it that can join it: as many as a batch holds, or a thread's share."""
        share = math.ceil(self._rows / (self._settings.threads - len(self._running)))
        most = min(share, self._settings.max_batch_size)
        batch: list[_Job] = []
        rows = 0
        left: deque[_Job] = deque()
        now = time.monotonic()
        while self._jobs:
            job = self._jobs.popleft()
            if job.future.done() or job.deadline <= now:
                self._count(-job.rows)
            elif not batch or (job.key == batch[0].key and rows + job.rows <= most):
                batch.append(job)
                rows += job.rows
            else:
                left.append(job)
        self._jobs = left
        self._count(-rows)
        return batch

    async def _run_batch(self, batch: list[_Job]) -> None:
        begin = time.monotonic()
        rows = sum(job.rows for job in batch)
        try:
            done = await self._process.run(_joined([job.work for job in batch]))
        except RequestError as error:
            if len(batch) == 1 or error.code == "UNAVAILABLE":
                _fail(batch, error)
                return
            # One of them is at fault, and must not fail the others.
            for job in batch:
                await self._run_batch([job])
            return
        parts = _separated(done.result, batch)
        if parts is None:
            for job in batch:
                await self._run_batch([job])
            return
        for job, part in zip(batch, parts, strict=True):
            if not job.future.done():
                job.future.set_result((part, Timing(begin - job.begin, done.seconds, rows)))

    def _count(self, rows: int) -> None:
        self._rows += rows
        self._watch(self._rows)


def _rows(work: Work) -> int:
    if isinstance(work, Ask):
        return len(work.questions)
    return (rows_of(work.inputs) or 1) if isinstance(work, Predict) else 1


def _key(work: Work) -> Hashable:
    """Requests with the same key can be one batch."""
    if isinstance(work, Ask):
        return "ask", work.threshold
    if isinstance(work, Predict) and rows_of(work.inputs):
        return work.signature, tuple((name, array.shape[1:]) for name, array in sorted(work.inputs.items()))
    return object()


def _joined(works: list[Any]) -> Work:
    first = works[0]
    if len(works) == 1:
        return first
    if isinstance(first, Ask):
        questions = [question for work in works for question in work.questions]
        passages = [passage for work in works for passage in work.passages]
        return Ask(questions, passages, max(work.n_best for work in works), first.threshold)
    names = first.inputs
    return Predict(first.signature, {name: np.concatenate([work.inputs[name] for work in works]) for name in names})


def _separated(result: Any, batch: list[_Job]) -> list[Any] | None:
    """The results of the requests of a batch; None if its outputs do not have a row for each of its inputs'."""
    first = batch[0].work
    ends = np.cumsum([job.rows for job in batch])
    parts = [slice(int(end) - job.rows, int(end)) for end, job in zip(ends, batch, strict=True)]
    if isinstance(first, Ask):
        return [_cut(result[part], job.work) for part, job in zip(parts, batch, strict=True)]
    if len(batch) == 1:
        return [result]
    if rows_of(result) != ends[-1]:
        return None
    return [{name: array[part] for name, array in result.items()} for part in parts]


def _cut(answers: list[Any], work: Any) -> list[Any]:
    """Answers with as many spans as were asked for; others of the batch may have asked for more."""
    return [one if isinstance(one, RequestError) else replace(one, n_best=one.n_best[: work.n_best]) for one in answers]


def _fail(batch: list[_Job], error: RequestError) -> None:
    for job in batch:
        if not job.future.done():
            job.future.set_exception(RequestError(error.code, error.message))
            job.future.exception()
