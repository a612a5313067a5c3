"""The server: its sockets, its start, and an end that loses no request."""

import asyncio
import contextlib
import math
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fabir_tf.pipelines.errors import UserError
from fabir_tf.serving.batching import BatchingSettings
from fabir_tf.serving.errors import RequestError
from fabir_tf.serving.http import HttpSettings, State, make_app
from fabir_tf.serving.metrics import Metrics
from fabir_tf.serving.models import Models, ModelSettings
from fabir_tf.serving.service import Limits, Service

if TYPE_CHECKING:
    from fabir_tf.pipelines.documents.collection import Searched

CONNECTIONS_WAITING = 2048
"""Connections that the system keeps until they are taken up."""


@dataclass(frozen=True)
class ServerSettings:
    """How a server listens and answers.

    Attributes:
        host: the address to listen on.
        rest_port: of HTTP; 0 for any free one.
        grpc_port: of gRPC; 0 for any free one, None for no gRPC.
        http: how it speaks HTTP.
        limits: of a request.
        batching: how requests are joined.
        header_timeout: seconds in which the head of a request has to arrive.
        keep_alive: seconds that a connection without a request stays open.
        shutdown_delay: seconds between the first sign of its end, `/readyz`, and the end of listening.
        index: documents that `/v1/search` answers from, or None.
        paragraphs: how many of them are read for a question.
        modules: imported where a model is loaded.
    """

    host: str = "127.0.0.1"
    rest_port: int = 8501
    grpc_port: int | None = 8500
    http: HttpSettings = field(default_factory=HttpSettings)
    limits: Limits = field(default_factory=Limits)
    batching: BatchingSettings = field(default_factory=BatchingSettings)
    header_timeout: float = 10.0
    keep_alive: float = 75.0
    shutdown_delay: float = 0.0
    index: "Searched | None" = field(default=None, compare=False)
    paragraphs: int = 5
    modules: Sequence[str] = ()


def serve(
    models: Sequence[ModelSettings],
    settings: ServerSettings,
    log: Callable[[str], object] = print,
    ready: Callable[[str, str | None], object] = lambda rest, grpc: None,
) -> int:
    """Serves models until the process is told to end, by SIGTERM or Ctrl-C.

    Args:
        models: what to serve.
        settings: how.
        log: called with a sentence about what happens.
        ready: called with the address of HTTP and of gRPC (or None) when all models are loaded.

    Returns:
        How many clients did not take their answers, and were cut off.

    Raises:
        UserError: a port is taken, or a model cannot be loaded.
    """
    rest_socket = _listening(settings.host, settings.rest_port, "rest_api_port")
    with contextlib.closing(rest_socket):
        return asyncio.run(_serve(models, settings, rest_socket, log, ready))


async def _serve(
    models: Sequence[ModelSettings],
    settings: ServerSettings,
    rest_socket: socket.socket,
    log: Callable[[str], object],
    ready: Callable[[str, str | None], object],
) -> int:
    stop = asyncio.Event()
    with _told_to_stop(stop):
        metrics = Metrics()
        served = Models(models, settings.batching, settings.modules, log, metrics.count_queue)
        service = Service(served, settings.limits, metrics, settings.index, settings.paragraphs)
        state = State(service)
        try:
            async with _http(service, state, settings, rest_socket), _grpc(service, settings) as grpc:
                if await _unless_stopped(stop, _start(served)):
                    await grpc.tell(True)
                    ready(_address(rest_socket), grpc.address)
                    await stop.wait()
                # First the signs, then the end: who asks `/readyz` sends nothing more.
                state.is_draining = True
                await grpc.tell(False)
                await asyncio.sleep(settings.shutdown_delay)
        finally:
            await served.stop()
        return state.cut_off


async def _start(models: Models) -> None:
    try:
        await models.start()
    except RequestError as error:
        raise UserError(error.message) from None


async def _unless_stopped(stop: asyncio.Event, call: Any) -> bool:
    """Waits for a call, or until the server is told to end; returns whether the call has ended."""
    calling, stopping = asyncio.ensure_future(call), asyncio.ensure_future(stop.wait())
    await asyncio.wait([calling, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not calling.done():
        calling.cancel()
        return False
    calling.result()
    return True


# === HTTP ===


class _TimedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; the head of a request has to arrive in time."""

    header_timeout = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for a first request."""
        super().connection_made(transport)
        self._closing: asyncio.TimerHandle | None = None
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what has arrived, and waits for the rest of a head."""
        super().data_received(data)
        self._watch_head()

    def _watch_head(self) -> None:
        is_incomplete = self.conn.their_state is h11.IDLE
        if not is_incomplete:
            self._forget()
        elif self._closing is None:
            self._closing = self.loop.call_later(self.header_timeout, self._close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _close(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn, which leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the models have to be told, too."""
        yield


@contextlib.asynccontextmanager
async def _http(
    service: Service, state: State, settings: ServerSettings, listening: socket.socket
) -> AsyncIterator[None]:
    """Answers HTTP; at the end, until every request that has begun is answered."""
    protocol: Any = type("TimedProtocol", (_TimedProtocol,), {"header_timeout": settings.header_timeout})
    config = uvicorn.Config(
        make_app(service, state, settings.http),
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        # For clients that do not take their answers.
        timeout_graceful_shutdown=math.ceil(settings.http.request_timeout),
        backlog=CONNECTIONS_WAITING,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        state.cut_off = len(server.server_state.connections)


# === gRPC ===


class _Grpc:
    """What `_serve` needs of the gRPC server, also where there is none.

    Attributes:
        address: host and port, or None.
    """

    address: str | None = None

    async def tell(self, is_ready: bool) -> None:
        """Tells those who watch its health."""


class _RunningGrpc(_Grpc):
    def __init__(self, address: str, healths: Any):
        self.address = address
        self._healths = healths

    async def tell(self, is_ready: bool) -> None:
        from fabir_tf.serving.grpc_api import tell_health

        await tell_health(self._healths, is_ready)


@contextlib.asynccontextmanager
async def _grpc(service: Service, settings: ServerSettings) -> AsyncIterator[_Grpc]:
    """Answers gRPC; at the end, until every request that has begun is answered."""
    if settings.grpc_port is None:
        yield _Grpc()
        return
    # Imports TensorFlow, for its messages.
    from fabir_tf.serving.grpc_api import start_grpc

    # Not gRPC's own choice of a port, whose error names none.
    with contextlib.closing(_listening(settings.host, settings.grpc_port, "grpc_port")) as free:
        address = _address(free)
    http = settings.http
    try:
        server, healths = await start_grpc(service, address, http.token, http.request_timeout)
    except RuntimeError as error:
        raise UserError(f"--grpc_port={settings.grpc_port}: {error}, expected a free port") from None
    try:
        yield _RunningGrpc(address, healths)
    finally:
        await server.stop(http.request_timeout)


# === Sockets and signals ===


def _listening(host: str, port: int, flag: str) -> socket.socket:
    """A socket that listens, so that a taken port is told before a model is loaded."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise UserError(f"--host={host}: {error.strerror}, expected an address of this machine") from None
    except UnicodeError:
        # Python encodes a name before the system looks for it: an empty part, a long one, or half a surrogate pair.
        raise UserError(f"--host={host}: found no name of a host, expected an address of this machine") from None
    # With its protocol, by which asyncio knows that it may turn Nagle's algorithm off: answers would wait for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # On Windows it would let two servers share the port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(CONNECTIONS_WAITING)
    except OSError as error:
        listening.close()
        raise UserError(f"--{flag}={port}: {error.strerror} at {host}, expected a free port") from None
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _told_to_stop(stop: asyncio.Event) -> Iterator[None]:
    """Sets the event when a signal asks the process to end."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    former = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, former[number])
