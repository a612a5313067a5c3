"""A version in a process of its own: when it ends, all of its memory is given back, and a crash ends nothing else."""

import asyncio
import contextlib
import importlib
import itertools
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from fabir_tf.serving.errors import RequestError
from fabir_tf.serving.work import Ask, Description, Predict, Work

Load = Callable[[], Any]
"""Makes a `fabir_tf.serving.backends.Backend`; it is pickled."""


class Done(NamedTuple):
    """What came of a piece of work.

    Attributes:
        result: what `work` says of it.
        seconds: how long the model took.
    """

    result: Any
    seconds: float


class VersionProcess:
    """Runs a version's work in a child process.

    Args:
        name: what it is called among the processes.
        load: makes the backend, in the child.
        modules: imported in the child first, for readers of the user's own.
        threads: pieces of work that are done at the same time.
        ended: called in the event loop when the process has ended by itself.
    """

    def __init__(self, name: str, load: Load, modules: Sequence[str], threads: int, ended: Callable[[], object]):
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child, load, tuple(modules), threads), name=name, daemon=True
        )
        self._process.start()
        # So that the child's end alone keeps the pipe open.
        child.close()
        self._loop = asyncio.get_running_loop()
        self._ended = ended
        self._waiting: dict[int, asyncio.Future] = {}
        self._numbers = itertools.count(1)
        self._is_stopped = False
        self._stopping = asyncio.Lock()
        # The pipe may be full, and the event loop must not wait for it.
        self._sending = ThreadPoolExecutor(1, "sending")
        self._waiting[0] = self._loop.create_future()
        threading.Thread(target=self._receive, name="receiving", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it does no more work, because it was stopped or has ended by itself."""
        return self._is_stopped

    async def ready(self) -> Description:
        """Waits until the backend is loaded and has been warmed up.

        Raises:
            RequestError: it cannot be loaded; UNAVAILABLE if the process has ended.
        """
        return (await asyncio.shield(self._waiting[0])).result

    async def run(self, work: Work) -> Done:
        """Runs work; what is given first is done first.

        Raises:
            RequestError: the work failed, or the process has ended.
        """
        if self._is_stopped:
            raise _ended_error()
        number = next(self._numbers)
        future = self._waiting[number] = self._loop.create_future()
        message = pickle.dumps((number, work), pickle.HIGHEST_PROTOCOL)
        self._sending.submit(self._send, message)
        return await future

    async def stop(self) -> None:
        """Ends the process, and waits until it has ended."""
        self._is_stopped = True
        # Two threads must not wait for the same process.
        async with self._stopping:
            self._connection.close()
            self._process.terminate()
            await asyncio.to_thread(self._process.join, 10)
            if self._process.is_alive():
                self._process.kill()
                await asyncio.to_thread(self._process.join)
            self._sending.shutdown(wait=False)

    async def end(self) -> str:
        """Waits until a process that has ended by itself is gone, and tells how it has ended."""
        async with self._stopping:
            await asyncio.to_thread(self._process.join, 10)
        code = self._process.exitcode
        if code is None:
            return "no status"
        return f"signal {-code}" if code < 0 else f"status {code}"

    def _send(self, message: bytes) -> None:
        # If the process has ended, the receiving thread has been told, too.
        with contextlib.suppress(OSError, ValueError):
            self._connection.send_bytes(message)

    def _receive(self) -> None:
        # A closed connection has no handle, which is a TypeError in some versions of Python.
        with contextlib.suppress(EOFError, OSError, TypeError):
            while True:
                number, done, error = pickle.loads(self._connection.recv_bytes())
                self._loop.call_soon_threadsafe(self._resolve, number, done, error)
        # Unless the event loop has ended before.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._close)

    def _resolve(self, number: int, done: Done | None, error: RequestError | None) -> None:
        future = self._waiting[number] if number == 0 else self._waiting.pop(number)
        if future.done():
            return
        if error:
            future.set_exception(error)
            # Nobody may be waiting any more.
            future.exception()
        else:
            future.set_result(done)

    def _close(self) -> None:
        """Tells everyone who waits that the process has ended."""
        is_unexpected, self._is_stopped = not self._is_stopped, True
        for number in list(self._waiting):
            self._resolve(number, None, _ended_error())
        if is_unexpected:
            self._ended()


def _ended_error() -> RequestError:
    return RequestError("UNAVAILABLE", "the process of this model has ended, expected it to be started again")


# === In the child ===

# Two threads that write at the same time would mix their messages.
_SENDING = threading.Lock()


def _serve(connection: Connection, load: Load, modules: Sequence[str], threads: int) -> None:
    """Loads the backend, then does what it is told until the server closes the pipe or ends."""
    # The terminal sends Ctrl-C to all processes; the server ends this one when its requests are answered.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Each operation on one thread: batches are small, so they are read side by side and not in parts. It has to be set
    # before TensorFlow computes for the first time.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    works: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_take, args=(connection, works), daemon=True).start()
    backend, error = _loaded(load, modules)
    if error:
        _reply(connection, 0, None, error)
        return
    _reply(connection, 0, Done(backend.describe(), 0.0), None)
    for _ in range(threads - 1):
        threading.Thread(target=_work, args=(connection, backend, works), daemon=True).start()
    _work(connection, backend, works)


def _work(connection: Connection, backend: Any, works: queue.SimpleQueue) -> None:
    """Does one piece of work after the other."""
    while True:
        number, work = works.get()
        begin = time.perf_counter()
        result, error = _done(backend, work)
        _reply(connection, number, Done(result, time.perf_counter() - begin), error)


def _take(connection: Connection, works: queue.SimpleQueue) -> None:
    """Reads what the server sends as soon as it sends it, so that it need not wait."""
    try:
        while True:
            works.put(pickle.loads(connection.recv_bytes()))
    except (EOFError, OSError):
        # The server has ended, in whatever way.
        os._exit(0)


def _loaded(load: Load, modules: Sequence[str]) -> tuple[Any, RequestError | None]:
    from fabir_tf.pipelines.errors import UserError

    try:
        for module in modules:
            importlib.import_module(module)
        backend = load()
        backend.warm_up()
        return backend, None
    except UserError as error:
        return None, RequestError("INVALID_ARGUMENT", str(error))
    except Exception as error:
        traceback.print_exc()
        return None, RequestError("INTERNAL", f"{type(error).__name__}: {error}")


def _done(backend: Any, work: Work) -> tuple[Any, RequestError | None]:
    try:
        if isinstance(work, Predict):
            return backend.predict(work.signature, work.inputs), None
        if isinstance(work, Ask):
            return backend.answer(work.questions, work.passages, work.n_best, work.threshold), None
        return backend.attention(work.question, work.passage), None
    except RequestError as error:
        return None, error
    except Exception as error:
        # A mistake of ours ends no process: others wait for it. The trace tells its developers.
        traceback.print_exc()
        return None, RequestError("INTERNAL", f"the request failed: {type(error).__name__}")


def _reply(connection: Connection, number: int, done: Done | None, error: RequestError | None) -> None:
    message = pickle.dumps((number, done, error), pickle.HIGHEST_PROTOCOL)
    try:
        with _SENDING:
            connection.send_bytes(message)
    except OSError:
        os._exit(0)
