"""The server's application without a socket: what the door, the limits and the answers do with what a client sends."""

import asyncio
import functools
import gzip
import json
import time
import zlib
from typing import Any, NamedTuple

import pytest
from serve_backends import load_upper

from fabir_tf.pipelines.documents.collection import Collection
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.errors import UserError
from fabir_tf.serving import service as service_module
from fabir_tf.serving.batching import BatchingSettings
from fabir_tf.serving.errors import LateError
from fabir_tf.serving.http import HttpSettings, State, make_app
from fabir_tf.serving.metrics import Metrics
from fabir_tf.serving.models import Models, ModelSettings
from fabir_tf.serving.service import Limits, Service

ORIGIN = "https://example.org"
LIMIT = 10_000
LONG = "The old mill by the lake was built by Anna Keld, and it burned down. " * 3


class Found(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def error(self) -> str:
        (message,) = json.loads(self.content).values()
        return message


def application(limits=None, index=None, **settings):
    model = ModelSettings("m", load=functools.partial(load_upper, "m"))
    models = Models([model], BatchingSettings(threads=1), (), lambda line: None)
    service = Service(models, limits or Limits(body_bytes=LIMIT), Metrics(), index)
    return make_app(service, State(service), HttpSettings(**settings)), models


async def ask(app, method: str, path: str, *parts: bytes, **headers: str) -> Found:
    """What an application answers to a request whose body comes in parts."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Any] = []

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    fields = {name.replace("_", "-").lower().encode(): value.encode() for name, value in headers.items()}
    if parts:
        fields[b"transfer-encoding"] = b"chunked"
    scope = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": list(fields.items()),
    }
    await app(scope, receive, send)
    names = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Found(sent[0]["status"], names, b"".join(part.get("body", b"") for part in sent[1:]))


def asked(app, *arguments, **headers) -> Found:
    return asyncio.run(ask(app, *arguments, **headers))


def answered(limits, body, path="/v1/answer", index=None) -> Found:
    """What a server with a model that is loaded answers."""

    async def whole():
        app, models = application(limits, index)
        try:
            await models.start()
            return await ask(app, "POST", path, json.dumps(body).encode())
        finally:
            await models.stop()

    return asyncio.run(whole())


# === Pages of other addresses ===


def preflight(app, path="/v1/answer", origin=ORIGIN, **headers) -> Found:
    wanted = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization,content-type"}
    return asked(app, "OPTIONS", path, Origin=origin, **wanted, **headers)


def test_a_browser_may_ask_first_without_the_token():
    app, _ = application(token="open-sesame", cors_origins=(ORIGIN,), allowed_hosts=("qa.example.org",))
    found = preflight(app, Host="qa.example.org")
    assert (found.status, found.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "Authorization" in found.headers["access-control-allow-headers"]
    assert found.headers["x-content-type-options"] == "nosniff"
    # It tells nothing to others, and opens no other door.
    assert "access-control-allow-origin" not in preflight(app, origin="https://example.com").headers
    assert asked(app, "OPTIONS", "/v1/info", Origin=ORIGIN).status == 401
    assert preflight(application(token="open-sesame")[0]).status == 401


@pytest.mark.parametrize(
    ("headers", "parts", "status"),
    [
        ({}, (), 401),
        ({"Authorization": "Bearer open-sesame", "Host": "evil.example"}, (), 403),
        ({"Authorization": "Bearer open-sesame"}, (b" " * (LIMIT + 1),), 413),
        ({"Authorization": "Bearer open-sesame"}, (b"{",), 400),
    ],
)
def test_another_page_may_read_why_it_is_refused(headers, parts, status):
    app, _ = application(token="open-sesame", cors_origins=(ORIGIN,), allowed_hosts=())
    found = asked(app, "POST", "/v1/answer", *parts, Origin=ORIGIN, **headers)
    assert (found.status, found.headers["access-control-allow-origin"]) == (status, ORIGIN)
    assert found.error
    found = asked(app, "POST", "/v1/answer", *parts, Origin="https://example.com", **headers)
    assert (found.status, found.headers.get("access-control-allow-origin")) == (status, None)


# === Limits ===


@pytest.mark.slow
def test_limits_hold_for_what_the_client_sends_not_for_the_servers_own_paragraphs():
    texts = (
        "The mill is old.",
        "Who built the mill? Anna.",
        LONG,
        "The mill has half a \udce9 pair.",
        "A mill, a lake.",
    )
    index = Collection([Document(f"{number}.txt", text) for number, text in enumerate(texts)])
    limits = Limits(rows=1, question_characters=30, passage_characters=20)
    found = answered(limits, {"question": "Who built the mill?", "n_best": 5}, "/v1/search", index)
    assert found.status == 200, found
    assert len(json.loads(found.content)["n_best"]) == 5
    found = answered(limits, {"question": "Who built the mill by the lake?"}, "/v1/search", index)
    assert (found.status, found.error) == (400, "question: found 31 characters, expected at most 30")
    found = answered(limits, {"question": "Who?", "passage": LONG})
    assert (found.status, found.error[:14]) == (400, "passage: found")


class Slow(Collection):
    """Documents whose search takes longer than a request may."""

    def search(self, question, k=20):
        time.sleep(1.5)
        return super().search(question, k)


class Broken(Collection):
    """An index that another process has damaged."""

    def search(self, question, k=20):
        raise UserError("/secret/docs.index: the index is damaged (malformed): delete it, index again.")


async def searched(index, count=1, **settings) -> list[Found]:
    """What a server answers to as many searches at once."""
    app, models = application(index=index, **settings)
    try:
        await models.start()
        body = json.dumps({"question": "Who built the mill?"}).encode()
        return await asyncio.gather(*(ask(app, "POST", "/v1/search", body) for _ in range(count)))
    finally:
        await models.stop()


@pytest.mark.slow
def test_searches_end_in_time_and_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(service_module, "MOST_SEARCHES", 3)
    found = asyncio.run(searched(Slow([Document("a", "The mill.")]), 4, request_timeout=0.5))
    assert [(one.status, one.error) for one in found] == [
        *[(504, "the answer took longer than the request allows")] * 3,
        (429, "too many questions wait for an answer: ask again in a moment"),
    ]


@pytest.mark.slow
def test_a_search_whose_time_has_ended_asks_no_model():
    async def waiting():
        _, models = application()
        service = Service(models, Limits(), Metrics(), None)
        try:
            await models.start()
            return service_module._Waiting(service, asyncio.get_running_loop(), None, None, time.monotonic())
        finally:
            await models.stop()

    with pytest.raises(LateError):
        # The server has stopped meanwhile.
        asyncio.run(waiting()).answer_batch(["Who built the mill?"], ["The mill."])


@pytest.mark.slow
def test_an_index_that_cannot_be_read_is_told_without_its_path():
    [found] = asyncio.run(searched(Broken([Document("a", "The mill.")])))
    assert (found.status, found.error) == (503, "the documents cannot be searched at the moment")


# === Gzip ===


def post(*parts: bytes) -> Found:
    return asked(application()[0], "POST", "/v1/answer", *parts, Content_Encoding="gzip")


@pytest.mark.parametrize(
    "parts",
    [
        (gzip.compress(b"5") + b"x",),
        (gzip.compress(b"5"), b"", b"x"),
        (gzip.compress(b"5"), gzip.compress(b"5")),
    ],
)
def test_nothing_may_follow_the_gzip_of_a_body(parts):
    found = post(*parts)
    assert (found.status, "behind the end of its gzip" in found.error) == (400, True), found


def test_bytes_count_before_they_are_decompressed_too():
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    # Blocks without content: all of them together decompress to nothing.
    empty = [packer.flush(zlib.Z_FULL_FLUSH) or b"\0\0\0\xff\xff"] + [b"\0\0\0\xff\xff" * 1000] * 3
    assert post(*empty).status == 413
    # The end of a gzip is not the end of what may come.
    assert post(gzip.compress(b"5"), *[b"x" * 1000] * 20).status == 400
    assert post(gzip.compress(b"5")).error.startswith("found a number")
    assert post(gzip.compress(b" " * LIMIT)).status == 400
    assert post(gzip.compress(b" " * (LIMIT + 1))).status == 413


# === What is no Unicode ===


@pytest.mark.slow
def test_a_source_that_is_no_unicode_is_escaped():
    index = Collection([Document("caf\udce9.md", "The mill is by the *lac d'\u00e9t\u00e9*.")])
    found = answered(Limits(), {"question": "Where is the mill?"}, "/v1/search", index)
    assert found.status == 200, found
    assert b'"caf\\udce9.md"' in found.content
    answer = json.loads(found.content.decode("utf-8"))
    assert answer["source"] == "caf\udce9.md"
    assert "\u00e9t\u00e9" in answer["sentence"]


def test_a_row_that_quotes_half_a_surrogate_pair():
    row = {"question": "Who?", "passage": "Ada.", "model": "\ud800"}
    found = asked(application()[0], "POST", "/v1/answer", json.dumps([row]).encode())
    assert (found.status, json.loads(found.content)) == (
        200,
        [{"error": "Servable not found for request: Latest(\ud800)"}],
    )


# === Addresses ===


@pytest.mark.parametrize("version", ["9" * 5000, "9" * 19, str(2**63), "0" * 5000 + "9" * 5000])
def test_a_version_that_no_number_holds(version):
    for method, end in (("GET", ""), ("GET", "/metadata"), ("POST", ":predict")):
        found = asked(application()[0], method, f"/v1/models/m/versions/{version}{end}")
        assert (found.status, found.error) == (400, f"Failed to convert version: {version} to numeric.")


def test_a_version_with_zeros_in_front():
    found = asked(application()[0], "GET", f"/v1/models/m/versions/{'0' * 5000}7")
    assert (found.status, found.error) == (404, "Could not find version 7 of model m")
