"""Requests that are answered together: each gets its own answer, whatever its neighbors are."""

import asyncio
import time

import numpy as np
import pytest
from serve_backends import Upper

from fabir_tf.serving.batching import Batcher, BatchingSettings
from fabir_tf.serving.errors import QueueFullError, RequestError
from fabir_tf.serving.process import Done
from fabir_tf.serving.work import Ask, Predict

SETTINGS = BatchingSettings(max_batch_size=8, max_enqueued_batches=2, threads=2)


class Here:
    """Does the work in this process, and remembers how many rows each batch had."""

    def __init__(self, seconds=0.02):
        self.backend, self.seconds, self.batches, self.running, self.most = Upper("v1"), seconds, [], 0, 0

    async def run(self, work):
        rows = len(work.questions) if isinstance(work, Ask) else len(next(iter(work.inputs.values())))
        self.batches.append(rows)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        if isinstance(work, Ask):
            return Done(self.backend.answer(work.questions, work.passages, work.n_best, work.threshold), 0.0)
        try:
            return Done(self.backend.predict(work.signature, work.inputs), 0.0)
        except ValueError:
            raise RequestError("INTERNAL", "a mistake of the model") from None


def texts(*values):
    return Predict("serving_default", {"x": np.array([value.encode() for value in values], object)})


def ask(*works, settings=SETTINGS, runs=None, seconds=10.0):
    """What each of several requests at the same time got: outputs, or an error."""

    async def all_at_once():
        batcher = Batcher(runs or Here(), settings)
        deadline = time.monotonic() + seconds
        return await asyncio.gather(*(batcher.run(work, deadline) for work in works), return_exceptions=True)

    return [found if isinstance(found, Exception) else found[0] for found in asyncio.run(all_at_once())]


def test_each_request_gets_its_own_rows():
    runs = Here()
    works = [texts(*(f"{number}-{row}" for row in range(number % 3 + 1))) for number in range(20)]
    for work, found in zip(works, ask(*works, settings=BatchingSettings(8, threads=2), runs=runs), strict=True):
        assert found["y"].tolist() == [b"v1 " + text.upper() for text in work.inputs["x"].tolist()]
    assert max(runs.batches) > 3
    assert max(runs.batches) <= 8
    assert sum(runs.batches) == sum(len(work.inputs["x"]) for work in works)
    assert runs.most == 2


def test_one_request_alone_does_not_wait():
    runs = Here(0.0)
    settings = BatchingSettings(batch_timeout=0.0, threads=2)
    for _ in range(20):
        ask(texts("a"), settings=settings, runs=runs)
    assert runs.batches == [1] * 20


def test_a_timeout_collects_requests():
    runs = Here()

    async def one_after_the_other():
        batcher = Batcher(runs, BatchingSettings(8, batch_timeout=2.0, threads=1))
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(batcher.run(texts(str(number)), time.monotonic() + 10)))
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)

    asyncio.run(one_after_the_other())
    assert runs.batches == [5]


@pytest.mark.parametrize(("bad", "code"), [("refused", "INVALID_ARGUMENT"), ("broken", "INTERNAL")])
def test_a_bad_request_fails_alone(bad, code):
    works = [texts("a"), texts("b"), texts(bad), texts("c"), texts("d")]
    settings = BatchingSettings(threads=1)
    found = ask(*works, settings=settings)
    assert isinstance(found[2], RequestError)
    assert found[2].code == code
    assert [one["y"].tolist() for one in found if isinstance(one, dict)] == [[b"v1 A"], [b"v1 B"], [b"v1 C"], [b"v1 D"]]


def test_outputs_without_a_row_for_each_input_are_asked_for_alone():
    found = ask(texts("a"), texts("short"), texts("b"), settings=BatchingSettings(threads=1))
    assert [one["y"].tolist() for one in found] == [[b"v1 A"], [b"v1 SHORT"], [b"v1 B"]]


def test_a_full_queue_refuses_at_once():
    runs = Here(0.2)
    found = ask(*(texts(str(number)) for number in range(40)), runs=runs)
    refused = [one for one in found if isinstance(one, QueueFullError)]
    # The queue holds 2 batches of 8 rows.
    assert len(refused) >= 40 - 2 * 8 - 2 * 8
    assert all(one.code == "UNAVAILABLE" for one in refused)
    assert len(refused) < 40


def test_the_parts_of_a_request_are_all_taken_or_none():
    """A long list is cut into batches; a part of it is never read for nobody."""
    runs = Here(0.05)

    async def lists():
        batcher = Batcher(runs, SETTINGS)
        deadline = time.monotonic() + 10
        # The queue holds 2 batches of 8 rows; an empty one takes more.
        long, late = ([texts(*"abcdefgh")] * 5, [texts(*"abcdefgh"), texts("i")])
        return await asyncio.gather(
            *(batcher.run_all(works, deadline) for works in (long, late)), return_exceptions=True
        )

    first, second = asyncio.run(lists())
    assert [len(found["y"]) for found, _ in first] == [8] * 5
    assert isinstance(second, QueueFullError)
    assert runs.batches == [8] * 5


def test_a_part_that_fails_ends_the_others():
    runs = Here(0.05)
    works = [texts("a"), texts("refused"), *[texts("c")] * 9]

    async def parts():
        batcher = Batcher(runs, BatchingSettings(1, threads=1))
        with pytest.raises(RequestError):
            await batcher.run_all(works, time.monotonic() + 10)
        await asyncio.sleep(0.1)

    asyncio.run(parts())
    # At most the one that had begun by then.
    assert len(runs.batches) <= 3


def test_a_request_larger_than_a_batch_is_one_of_its_own():
    runs = Here()
    works = [texts(*"abcdefghijkl"), texts("m")]
    assert len(ask(*works, runs=runs)[0]["y"]) == 12
    assert 12 in runs.batches


def test_a_deadline_ends_the_wait_and_leaves_the_others():
    runs = Here(0.3)

    async def late():
        batcher = Batcher(runs, BatchingSettings(1, threads=1))
        soon, later = time.monotonic() + 0.1, time.monotonic() + 10
        works = [batcher.run(texts("a"), later), batcher.run(texts("b"), soon), batcher.run(texts("c"), later)]
        return await asyncio.gather(*works, return_exceptions=True)

    first, second, third = asyncio.run(late())
    assert second.code == "DEADLINE_EXCEEDED"
    assert [first[0]["y"].tolist(), third[0]["y"].tolist()] == [[b"v1 A"], [b"v1 C"]]
    # Nobody waited for it any more, so it was not read.
    assert runs.batches == [1, 1]


def test_answers_of_a_batch_have_as_many_spans_as_each_asked_for():
    works = [
        Ask(["one"], ["passage"], 1, 0.5),
        Ask(["bad", "two"], ["passage"] * 2, 3, 0.5),
        Ask(["x"], ["p"], 2, None),
    ]
    first, second, third = ask(*works, settings=BatchingSettings(threads=1))
    assert [len(first[0].n_best), len(second[1].n_best), len(third[0].n_best)] == [1, 3, 2]
    assert isinstance(second[0], RequestError)
    assert second[1].text == "two"


def test_requests_of_different_shapes_are_not_mixed():
    runs = Here()
    wide = Predict("s", {"x": np.zeros((1, 3))})
    narrow = Predict("s", {"x": np.zeros((1, 2))})

    async def shapes():
        batcher = Batcher(runs, BatchingSettings(threads=1))
        deadline = time.monotonic() + 10
        await asyncio.gather(*(batcher.run(work, deadline) for work in (wide, narrow, wide)), return_exceptions=True)

    asyncio.run(shapes())
    assert max(runs.batches) <= 2
