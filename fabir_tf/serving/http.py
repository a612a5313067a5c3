"""The server over HTTP: addresses, limits, who may ask, and what every answer carries."""

import asyncio
import hmac
import json
import time
import zlib
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from h11 import LocalProtocolError
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fabir_tf.serving import answer_api, tensorflow_rest
from fabir_tf.serving.errors import QueueFullError, RequestError, invalid
from fabir_tf.serving.hosts import may_be_asked
from fabir_tf.serving.metrics import CONTENT_TYPE, Metrics
from fabir_tf.serving.service import Service

JSON = "application/json"
HEALTH = ("/healthz", "/readyz")
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/openapi.json": ("openapi.json", JSON),
}
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}

OwnCall = Callable[[Service, bytes, float], Awaitable[Any]]


@dataclass(frozen=True)
class HttpSettings:
    """How the server speaks HTTP.

    Attributes:
        request_timeout: seconds from the first byte of a request to its answer.
        body_timeout: seconds in which a body has to arrive.
        token: that every request but those for health has to bring; "" for none.
        cors_origins: pages of other addresses that may ask; none by default.
        allowed_hosts: names that a request may be addressed to, besides localhost and addresses; None for any.
        log: called with a line about each request; None for no log.
    """

    request_timeout: float = 30.0
    body_timeout: float = 10.0
    token: str = ""
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] | None = None
    log: Callable[[str], object] | None = None


class State:
    """What `/readyz` tells, and how the server has ended.

    Attributes:
        is_draining: whether the server is about to end.
        cut_off: clients that were cut off at its end, because they did not take their answers.
    """

    def __init__(self, service: Service):
        self._service = service
        self.is_draining = False
        self.cut_off = 0

    def why_not_ready(self) -> str:
        """One sentence, or "" if the server is ready."""
        if self.is_draining:
            return "the server is about to end"
        return self._service.models.why_not_ready()


def make_app(service: Service, state: State, settings: HttpSettings) -> ASGIApp:
    """The application.

    Args:
        service: what answers.
        state: what `/readyz` tells.
        settings: how it speaks HTTP.
    """
    routes = [
        Route("/healthz", _health, methods=["GET"]),
        Route("/readyz", _ready(state), methods=["GET"]),
        Route("/metrics", _metrics(service), methods=["GET"]),
        Route("/monitoring/prometheus/metrics", _metrics(service), methods=["GET"]),
        Route("/v1/info", _info(service), methods=["GET"]),
        Route("/v1/answer", _own(service, settings, answer_api.answer), methods=["POST"]),
        Route("/v1/search", _own(service, settings, answer_api.search), methods=["POST"]),
        Route("/v1/attention", _own(service, settings, answer_api.attention), methods=["POST"]),
        *(Route(path, _asset(*asset), methods=["GET"]) for path, asset in PAGE.items()),
        *(Mount(path, _TensorFlowApi(service, settings)) for path in ("/v1", "/V1")),
    ]
    handlers: Any = {
        404: _not_found,
        405: _wrong_method,
        RequestError: _refused,
        ClientDisconnect: _left,
        Exception: _failed,
    }
    app: ASGIApp = _Door(Starlette(routes=routes, exception_handlers=handlers), settings)
    if settings.cors_origins:
        # Before the door: a browser asks without a token whether a page may ask, and lets no page read a refusal that
        # does not name it.
        app = CORSMiddleware(
            app,
            list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return _Frame(app, service.metrics, settings)


class _Frame:
    """What is around every answer: its headers, the counters and the log."""

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: HttpSettings):
        self._app = app
        self._metrics = metrics
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = scope["state_begin"] = time.monotonic()
        status = 499
        names = {name for name, _ in scope["headers"]}
        is_read = not names & {b"content-length", b"transfer-encoding"}

        async def receive_on() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # What is left of a body that nobody reads would keep the connection open.
                own = _SECURITY if is_read else _SECURITY | {"Connection": "close"}
                encoded = [(name.lower().encode(), value.encode()) for name, value in own.items()]
                message = {**message, "headers": [*message["headers"], *encoded]}
            await send(message)

        try:
            await self._app(scope, receive_on, send_on)
        except LocalProtocolError:
            # The body was no HTTP, and the connection has said so before the request was refused for another reason.
            pass
        finally:
            seconds = time.monotonic() - begin
            self._metrics.count_request("rest", _method(scope["path"]), str(status), seconds)
            if self._settings.log:
                client = (scope.get("client") or ("-",))[0]
                # The address holds no text: texts are sent in bodies only.
                path = scope["path"].encode("unicode_escape").decode()[:200]
                self._settings.log(f"{client} {scope['method']} {path} {status} {1000 * seconds:.1f} ms")


class _Door:
    """Who may ask."""

    def __init__(self, app: ASGIApp, settings: HttpSettings):
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_addressed(scope):
            message = (
                "the request is addressed to another host: expected localhost or an address; if the name is this "
                "server's, give it to --allowed_hosts"
            )
            await _error_response(RequestError("PERMISSION_DENIED", message))(scope, receive, send)
            return
        if not self._may_enter(scope):
            error = RequestError("UNAUTHENTICATED", "the token is missing or wrong: expected Authorization: Bearer ...")
            headers = {"WWW-Authenticate": 'Basic realm="fabir-serve", charset="UTF-8", Bearer'}
            await _error_response(error, headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_addressed(self, scope: Scope) -> bool:
        allowed = self._settings.allowed_hosts
        if allowed is None or scope["path"] in HEALTH:
            return True
        return may_be_asked(dict(scope["headers"]).get(b"host", b"").decode("latin-1"), allowed)

    def _may_enter(self, scope: Scope) -> bool:
        token = self._settings.token
        if not token or scope["path"] in HEALTH:
            return True
        found = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, value = found.partition(b" ")
        if kind.lower() == b"basic":
            # A browser asks for a name and a password; the password is the token.
            try:
                value = b64decode(value, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(value.strip(), token.encode())


class _TensorFlowApi:
    """All of `/v1/` that is TensorFlow Serving's."""

    def __init__(self, service: Service, settings: HttpSettings):
        self._service = service
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = scope["raw_path"].decode("ascii", "replace").partition("?")[0]
        call = tensorflow_rest.parse_call(request.method, path)
        body = await _body(request, self._service.limits.body_bytes, self._settings.body_timeout)
        deadline = scope["state_begin"] + self._settings.request_timeout
        found = await tensorflow_rest.answer_call(self._service, call, body, deadline)
        content = found if isinstance(found, bytes) else json.dumps(found).encode()
        await Response(content, media_type=JSON)(scope, receive, send)


def _own(service: Service, settings: HttpSettings, call: OwnCall):
    async def endpoint(request: Request) -> Response:
        body = await _body(request, service.limits.body_bytes, settings.body_timeout)
        try:
            found = await call(service, body, request.scope["state_begin"] + settings.request_timeout)
        except QueueFullError:
            raise RequestError(
                "RESOURCE_EXHAUSTED", "too many questions wait for an answer: ask again in a moment"
            ) from None
        # Half of a surrogate pair, as in the name of a file that is not UTF-8, becomes the escape that JSON has for it.
        content = json.dumps(found, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return Response(content, media_type=JSON, headers={"Cache-Control": "no-store"})

    return endpoint


async def _body(request: Request, limit: int, timeout: float) -> bytes:
    """The body of a request, decompressed.

    Raises:
        RequestError: it is too large, too slow, or no gzip although it says so.
    """
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise RequestError("INVALID_ARGUMENT", f"Content-Encoding: found {encoding[:50]}, expected gzip or none", 415)
    try:
        return await asyncio.wait_for(_read(request, limit, encoding == "gzip"), timeout)
    except asyncio.TimeoutError:
        message = f"the body did not arrive within {timeout:g} s"
        raise RequestError("DEADLINE_EXCEEDED", message, 408) from None


async def _read(request: Request, limit: int, is_gzip: bool) -> bytes:
    parts, size, received = [], 0, 0
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS) if is_gzip else None
    async for chunk in request.stream():
        received += len(chunk)
        if inflate:
            # One byte more tells that it is too much; the rest of a bomb is never made.
            chunk = _inflated(inflate, chunk, limit - size + 1)
        size += len(chunk)
        # Bytes as they came count, too: gzip without end may stand for nothing.
        if max(size, received) > limit:
            message = f"the body has more than {limit:,} bytes, which is the most that is read"
            raise RequestError("INVALID_ARGUMENT", message, 413)
        parts.append(chunk)
    if inflate and not inflate.eof:
        raise invalid("the body is gzip that ends too early")
    return b"".join(parts)


def _inflated(inflate: Any, chunk: bytes, most: int) -> bytes:
    try:
        content = inflate.decompress(chunk, most)
    except zlib.error:
        raise invalid("the body is not gzip, although Content-Encoding says so") from None
    # zlib would collect it.
    if inflate.unused_data:
        raise invalid("the body goes on behind the end of its gzip, expected one gzip and nothing else")
    return content


async def _health(_: Request) -> Response:
    return Response(b'{"status": "alive"}', media_type=JSON)


def _ready(state: State):
    async def endpoint(_: Request) -> Response:
        reason = state.why_not_ready()
        if reason:
            raise RequestError("UNAVAILABLE", reason)
        return Response(b'{"status": "ready"}', media_type=JSON)

    return endpoint


def _metrics(service: Service):
    async def endpoint(_: Request) -> Response:
        for name in service.models.names:
            service.metrics.count_versions(name, len(service.models.available(name)))
        return Response(service.metrics.page(), headers={"Content-Type": CONTENT_TYPE})

    return endpoint


def _info(service: Service):
    async def endpoint(_: Request) -> Response:
        return Response(json.dumps(answer_api.information(service)).encode(), media_type=JSON)

    return endpoint


def _asset(name: str, kind: str):
    content = (resources.files("fabir_tf.serving") / "page" / name).read_bytes()

    async def endpoint(_: Request) -> Response:
        return Response(content, headers={"Content-Type": kind, "Cache-Control": "no-cache"})

    return endpoint


async def _not_found(request: Request, _: Exception) -> Response:
    return _error_response(RequestError("NOT_FOUND", f"nothing is at {request.url.path[:200]}"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    headers = getattr(error, "headers", None) or {}
    allowed = headers.get("Allow", "")
    message = f"found the method {request.method[:20]}, expected {allowed}"
    return _error_response(RequestError("INVALID_ARGUMENT", message, 405), headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _error_response(error)


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _failed(_: Request, error: Exception) -> Response:
    # Starlette raises it again, so its trace stands in the log.
    return _error_response(RequestError("INTERNAL", f"the request failed: {type(error).__name__}"))


def _error_response(error: RequestError, headers: dict[str, str] | None = None) -> Response:
    headers = dict(headers or {})
    if error.http_status in (429, 503):
        headers["Retry-After"] = "1"
    # ASCII, because a message may quote half of a surrogate pair.
    return Response(json.dumps({"error": error.message}).encode(), error.http_status, headers, JSON)


def _method(path: str) -> str:
    """What is asked for, one of a few words, so that nobody can fill the counters with names."""
    if path.lower().startswith("/v1/models"):
        last = path.rpartition(":")[2]
        return last if last in ("predict", "classify", "regress") else "models"
    known = {"/v1/answer": "answer", "/v1/search": "search", "/v1/attention": "attention", "/v1/info": "info"}
    return known.get(path) or ("page" if path in PAGE else "health" if path in HEALTH else "other")
