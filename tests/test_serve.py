"""fabir-serve through its command: both protocols, its own API, what it refuses, and how it ends."""

import gzip
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from serving_process import serving
from tiny import EXPORTED_N_BEST

import fabir_tf
from fabir_tf.export import saved_model
from fabir_tf.pipelines.documents.sharded_index import open_index

pytestmark = pytest.mark.slow

KIT = Path(saved_model.__file__).parent / "serving"
MILL = "The old mill was built by Anna Keld in 1712."
QUESTION = "Who built the mill?"
# Seconds that a busy machine may take for an answer.
PATIENCE = 120


def load(name):
    specification = importlib.util.spec_from_file_location(name, KIT / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PROTOCOL = load("check_protocol")


@pytest.fixture(scope="module")
def of_saved_model(exported):
    with serving(f"--model_base_path={exported.folder.parent}", "--model_name=fabir", grpc=True) as server:
        yield server


@pytest.fixture(scope="module")
def index(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "mill.md").write_text(f"# Mill\n\n{MILL}\n")
    (folder / "lake.txt").write_text("Lake Orrin lies north of Dunmere.")
    path = folder / "texts.index"
    assert commands("index", f"--input={folder}", f"--index={path}").status == 0
    return path


@pytest.fixture(scope="module")
def of_run(tiny_run, index):
    limits = (
        "--max_passage_characters=300000",
        "--max_question_characters=300",
        "--max_questions=50",
        "--max_body_mb=2",
    )
    slow = ("--header_timeout=1", "--body_timeout=1")
    with serving(f"--run_dir={tiny_run.path}", "--model_name=run", f"--index={index}", *limits, *slow) as server:
        yield server


# === TensorFlow Serving's protocols ===


@pytest.mark.parametrize("line", PROTOCOL.read_lines(), ids=lambda line: line["name"])
def test_protocol(of_saved_model, line):
    assert not PROTOCOL.check(line, of_saved_model.url, "fabir", "7")


def test_the_protocol_has_40_lines_with_sources():
    lines = PROTOCOL.read_lines()
    assert len(lines) >= 40
    assert all(line["source"] for line in lines)
    assert len({line["name"] for line in lines}) == len(lines)


def test_the_command_that_replays_it(of_saved_model):
    command = [sys.executable, KIT / "check_protocol.py", "--server", of_saved_model.url]
    run = subprocess.run([*command, "--version", "7"], capture_output=True, text=True, check=True)
    total = len(PROTOCOL.read_lines())
    assert run.stdout == f"{total} of {total} answers are as TensorFlow Serving's\n"
    run = subprocess.run([*command, "--model", "other"], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "found status 404, expected 200" in run.stdout


def test_predict_returns_what_the_saved_model_returns(of_saved_model, exported):
    import tensorflow as tf

    questions = [QUESTION, "Where does Lake Orrin lie?", "Who?"]
    passages = [MILL, "Lake Orrin lies north of Dunmere; caf\u00e9 \U0001f600.", " "]
    found = exported.signatures["serving_default"](question=tf.constant(questions), passage=tf.constant(passages))
    body = {"inputs": {"question": questions, "passage": passages}}
    status, answer = of_saved_model.ask("/v1/models/fabir:predict", body)
    assert status == 200
    assert answer["outputs"].keys() == found.keys()
    for name, values in answer["outputs"].items():
        expected = found[name].numpy().tolist()
        if found[name].dtype == tf.string:
            expected = json.loads(json.dumps(expected, default=bytes.decode))
        if found[name].dtype == tf.float32:
            np.testing.assert_allclose(values, expected, rtol=1e-4)
        else:
            assert values == expected


def test_grpc_with_the_stubs_of_tensorflow_serving(of_saved_model, exported):
    import grpc
    import tensorflow as tf
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        model_management_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
        regression_pb2,
    )

    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(of_saved_model.grpc, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        models = model_service_pb2_grpc.ModelServiceStub(channel)

        def request(questions, passages, **spec):
            asked = predict_pb2.PredictRequest()
            asked.model_spec.name = spec.get("name", "fabir")
            asked.model_spec.signature_name = spec.get("signature", "")
            if "version" in spec:
                asked.model_spec.version.value = spec["version"]
            if "label" in spec:
                asked.model_spec.version_label = spec["label"]
            asked.inputs["question"].CopyFrom(tf.make_tensor_proto(questions))
            asked.inputs["passage"].CopyFrom(tf.make_tensor_proto(passages))
            asked.output_filter.extend(spec.get("outputs", ()))
            return asked

        def refused(call, asked):
            with pytest.raises(grpc.RpcError) as error:
                call(asked, timeout=PATIENCE)
            return error.value.code().name, error.value.details()

        expected = exported.signatures["serving_default"](question=tf.constant([QUESTION]), passage=tf.constant([MILL]))
        found = stub.Predict(request([QUESTION], [MILL]), timeout=PATIENCE)
        assert (found.model_spec.name, found.model_spec.version.value) == ("fabir", 7)
        assert found.model_spec.signature_name == "serving_default"
        assert found.outputs.keys() == expected.keys()
        for name, tensor in found.outputs.items():
            values = tf.make_ndarray(tensor)
            if values.dtype == object:
                assert values.tolist() == expected[name].numpy().tolist()
            else:
                np.testing.assert_allclose(values, expected[name].numpy(), rtol=1e-4)
        only = stub.Predict(request([QUESTION], [MILL], outputs=["answer"], version=7), timeout=PATIENCE)
        assert list(only.outputs) == ["answer"]
        # Beyond the 4 MB of gRPC's defaults.
        long = stub.Predict(request(["Who?"] * 3, ["x. " * 700_000, MILL, MILL]), timeout=PATIENCE)
        assert len(tf.make_ndarray(long.outputs["answer"])) == 3
        assert refused(stub.Predict, request(["a"], ["b"], name="other")) == (
            "NOT_FOUND",
            "Servable not found for request: Latest(other)",
        )
        assert refused(stub.Predict, request(["a"], ["b"], version=9))[1].endswith("Specific(fabir, 9)")
        assert refused(stub.Predict, request(["a"], ["b"], label="x")) == (
            "INVALID_ARGUMENT",
            "Unrecognized servable version label: x",
        )
        assert refused(stub.Predict, request(["a"], ["b"], signature="x")) == (
            "FAILED_PRECONDITION",
            'Serving signature key "x" not found.',
        )
        code, message = refused(stub.Predict, request(["a"], ["b"], outputs=["x"]))
        assert (code, message.startswith("output tensor alias not found in signature: x ")) == (
            "INVALID_ARGUMENT",
            True,
        )
        lacking = request(["a"], ["b"])
        del lacking.inputs["passage"]
        code, message = refused(stub.Predict, lacking)
        assert (code, "Missing but required: {passage}" in message) == ("INVALID_ARGUMENT", True)
        code, message = refused(stub.Predict, request([1], ["b"]))
        assert (code, "input question" in message) == ("INVALID_ARGUMENT", True)
        torn = request(["a"], ["b"])
        # One value may stand for many: these would fill the memory.
        for size in (10**9, 10**18, -1):
            torn.inputs["question"].tensor_shape.dim[0].size = size
            assert refused(stub.Predict, torn)[0] == "INVALID_ARGUMENT"
        numbers = request([1], ["b"])
        numbers.inputs["question"].tensor_shape.dim[0].size = 10**10
        assert refused(stub.Predict, numbers)[0] == "INVALID_ARGUMENT"

        asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        asked.model_spec.name = "fabir"
        metadata = stub.GetModelMetadata(asked, timeout=PATIENCE)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        assert metadata.metadata["signature_def"].Unpack(signatures)
        assert set(signatures.signature_def) == {"serving_default", "token_ids"}
        asked.metadata_field[:] = ["weights"]
        assert refused(stub.GetModelMetadata, asked)[0] == "INVALID_ARGUMENT"
        status = get_model_status_pb2.GetModelStatusRequest()
        status.model_spec.name = "fabir"
        (one,) = models.GetModelStatus(status, timeout=PATIENCE).model_version_status
        assert (one.version, one.state, one.status.error_code) == (7, 30, 0)
        status.model_spec.name = "other"
        assert refused(models.GetModelStatus, status) == ("NOT_FOUND", "Could not find any versions of model other")
        for call, message in (
            (stub.Classify, classification_pb2.ClassificationRequest()),
            (stub.Regress, regression_pb2.RegressionRequest()),
            (models.HandleReloadConfigRequest, model_management_pb2.ReloadConfigRequest()),
        ):
            code, sentence = refused(call, message)
            assert (code, len(sentence) > 20) == ("UNIMPLEMENTED", True)
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_the_kits_clients_use_the_only_model(of_saved_model):
    import grpc

    rest, rpc = load("rest_client"), load("grpc_client")
    (found,) = rest.ask([QUESTION], [MILL], of_saved_model.url, deadline=PATIENCE)
    with grpc.insecure_channel(of_saved_model.grpc) as channel:
        (same,) = rpc.ask(channel, [QUESTION], [MILL], deadline=PATIENCE)
        assert (found["answer"], found["start"]) == (same["answer"], same["start"])
        with pytest.raises(rpc.ServingError, match="Latest"):
            rpc.ask(channel, [QUESTION], [MILL], "other")
    with pytest.raises(rest.ServingError, match="Latest"):
        rest.ask([QUESTION], [MILL], of_saved_model.url, "other")


# === Its own API ===


def test_answers_are_those_of_the_reader(of_run, tiny_run):
    from fabir_tf.reading.reader import Reader

    reader = Reader.load(tiny_run.path)
    status, found = of_run.ask("/v1/answer", {"question": QUESTION, "passage": MILL, "n_best": 3})
    assert status == 200
    expected = reader.answer(QUESTION, MILL, 3).to_dict()
    assert found.keys() == expected.keys()
    assert found["answer"] == expected["answer"]
    assert found["score"] == pytest.approx(expected["score"], rel=1e-3)
    assert [span["start"] for span in found["n_best"]] == [span["start"] for span in expected["n_best"]]
    # More spans than the signature has are read by the reader itself.
    status, found = of_run.ask("/v1/answer", {"question": QUESTION, "passage": MILL, "n_best": 9, "model": "run"})
    assert [span["end"] for span in found["n_best"]] == [span.end for span in reader.answer(QUESTION, MILL, 9).n_best]


def test_a_list_is_answered_in_order_and_a_bad_row_fails_alone(of_run):
    rows = [
        {"question": QUESTION, "passage": MILL},
        {"question": "Who?"},
        5,
        {"question": "Who?", "passage": "\U0001f600 Ada came.", "n_best": 2},
        {"question": "x" * 301, "passage": MILL},
        {"question": "Who?", "passage": "Ada.", "model": "nobody"},
        {"question": "", "passage": ""},
    ]
    status, found = of_run.ask("/v1/answer", rows)
    assert (status, len(found)) == (200, len(rows))
    assert [row.get("error", "") for row in found] == [
        "",
        "passage is missing, expected a text",
        "found a number, expected a JSON object with passage, question",
        "",
        "question: found 301 characters, expected at most 300",
        "Servable not found for request: Latest(nobody)",
        "",
    ]
    assert MILL[found[0]["start"] : found[0]["end"]] == found[0]["answer"]
    assert found[3]["n_best"][0]["answer"] in "\U0001f600 Ada came."
    assert not found[6]["is_answer"]
    assert of_run.ask("/v1/answer", []) == (200, [])


def test_search_answers_as_in_python(of_run, tiny_run, index):
    question = "Who built the old mill?"
    status, found = of_run.ask("/v1/search", {"question": question, "n_best": 5})
    assert (status, found["source"]) == (200, "mill.md")
    assert found["n_best"][0]["sentence"]
    with open_index(index) as searched:
        documents = fabir_tf.DocumentReader(fabir_tf.Reader.load(tiny_run.path), searched=searched)
        expected = documents.answer(question, n_best=5).n_best
    assert [(span["source"], span["answer"]) for span in found["n_best"]] == [
        (span.source, span.text) for span in expected
    ]
    probabilities = [span["probability"] for span in found["n_best"]]
    assert probabilities == pytest.approx([span.probability for span in expected], abs=1e-5)


def test_attention(of_run):
    question, passage = "Who built the mill \U0001f600?", f"\U0001f600 {MILL}"
    status, found = of_run.ask("/v1/attention", {"question": question, "passage": passage})
    if status == 501:
        pytest.skip("the model of the run shows no attention")
    assert status == 200
    assert [len(row) for row in found["weights"]] == [len(found["passage"])] * len(found["question"])
    assert all(sum(row) == pytest.approx(1.0, abs=0.05) for row in found["weights"])
    assert "Keld" in {passage[start:end] for start, end in found["passage"]}


def test_a_saved_model_answers_too(of_saved_model, exported):
    status, found = of_saved_model.ask("/v1/answer", {"question": QUESTION, "passage": MILL, "n_best": EXPORTED_N_BEST})
    expected = exported.reader.answer(QUESTION, MILL, EXPORTED_N_BEST)
    assert (status, found["answer"]) == (200, expected.text)
    assert [span["start"] for span in found["n_best"]] == [span.start for span in expected.n_best]
    for extra, message in (
        ({"n_best": EXPORTED_N_BEST + 1}, f"expected at most {EXPORTED_N_BEST}"),
        ({"no_answer_threshold": 0.5}, "a SavedModel, which keeps its own threshold"),
    ):
        status, found = of_saved_model.ask("/v1/answer", {"question": QUESTION, "passage": MILL} | extra)
        assert status == 400
        assert message in found["error"]
    assert of_saved_model.ask("/v1/search", {"question": "a"})[0] == 404
    assert of_saved_model.ask("/v1/attention", {"question": "a", "passage": "b"})[0] == 501


def test_what_is_served_and_how_it_is(of_run):
    status, found = of_run.ask("/v1/info")
    assert (status, found["search"]) == (200, True)
    assert [(model["name"], model["versions"]) for model in found["models"]] == [("run", [1])]
    assert of_run.ask("/healthz") == (200, {"status": "alive"})
    assert of_run.ask("/readyz") == (200, {"status": "ready"})
    of_run.ask("/v1/answer", {"question": QUESTION, "passage": MILL})
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        status, page = of_run.ask(path)
        text = page.decode()
        assert 'fabir_serve_requests_total{code="200",method="answer",protocol="rest"}' in text
        assert 'fabir_serve_request_seconds_bucket{le="0.5",stage="model"}' in text
        assert 'fabir_serve_batch_rows_count{model="run"}' in text
        assert 'fabir_serve_queue_rows{model="run",version="1"} 0.0' in text
        assert 'fabir_serve_available_versions{model="run"} 1.0' in text
    assert of_run.ask("/openapi.json")[1]["openapi"] == "3.1.0"


def test_the_description_names_what_is_answered(of_run):
    schemas = of_run.ask("/openapi.json")[1]["components"]["schemas"]
    answer = of_run.ask("/v1/answer", {"question": QUESTION, "passage": MILL})[1]
    assert answer.keys() == set(schemas["Span"]["required"]) | set(schemas["Answer"]["allOf"][1]["required"])
    found = of_run.ask("/v1/search", {"question": QUESTION})[1]
    assert found.keys() == answer.keys() | set(schemas["DocumentAnswer"]["allOf"][1]["required"])


def test_the_log_holds_no_text(of_run):
    of_run.ask("/v1/answer", {"question": "Who is the secret one?", "passage": "The secret one is Ada."})
    of_run.ask("/v1/nowhere")
    # The last line is written after its answer was sent.
    end = time.monotonic() + PATIENCE
    while "GET /v1/nowhere 400" not in "".join(of_run.lines) and time.monotonic() < end:
        time.sleep(0.05)
    log = "".join(of_run.lines)
    assert "POST /v1/answer 200" in log
    assert "GET /v1/nowhere 400" in log
    assert "secret" not in log


def test_headers(of_run):
    import urllib.request

    with urllib.request.urlopen(of_run.url) as response:
        headers = response.headers
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Access-Control-Allow-Origin"] is None
    assert headers["Server"] is None


# === What it refuses ===


def deep(levels):
    return b"[" * levels + b"]" * levels


ONE = {"question": "Who?", "passage": "Ada came."}
HOSTILE = {
    "no JSON": b"{",
    "nothing": b"",
    "a number": b"5",
    "a text": b'"a"',
    "null": b"null",
    "true": b"true",
    "no UTF-8": b'{"question": "\xff", "passage": "a"}',
    "UTF-16": '{"question": "a", "passage": "b"}'.encode("utf-16"),
    "two documents": b"{} {}",
    "a comment": b'{"question": "a", /* b */ "passage": "c"}',
    "a comma too many": b'{"question": "a", "passage": "b",}',
    "single quotes": b"{'question': 'a', 'passage': 'b'}",
    "half a surrogate pair": b'{"question": "\\ud800", "passage": "a"}',
    "deep lists": deep(100_000),
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "100 levels": deep(100),
    "a huge number": b'{"question": "a", "passage": "b", "n_best": 1' + b"0" * 100_000 + b"}",
    "a huge exponent": b'{"question": "a", "passage": "b", "no_answer_threshold": 1e999999}',
    "a long question": json.dumps(ONE | {"question": "x" * 301}).encode(),
    "a long passage": json.dumps(ONE | {"passage": "x" * 300_001}).encode(),
    "too many questions": json.dumps([ONE] * 51).encode(),
    "too many bytes": json.dumps(ONE | {"passage": "x" * 2_200_000}).encode(),
    "no gzip": (b"{}", {"Content-Encoding": "gzip"}),
    "half of a gzip": (gzip.compress(json.dumps(ONE).encode())[:-12], {"Content-Encoding": "gzip"}),
    "a gzip bomb": (gzip.compress(b" " * 300_000_000), {"Content-Encoding": "gzip"}),
    "a bomb in a bomb": (gzip.compress(gzip.compress(b" " * 10_000_000)), {"Content-Encoding": "gzip"}),
    "deflate": (zlib.compress(b"{}"), {"Content-Encoding": "deflate"}),
    "an unknown encoding": (b"{}", {"Content-Encoding": "br"}),
    **{
        f"{name}={value!r}": json.dumps(ONE | {name: value}).encode()
        for name, values in {
            "question": (None, 5, 0.5, True, [], ["a"], {}, {"b64": "QQ=="}),
            "passage": (None, 5, False, [], {"a": "b"}),
            "model": (5, [], {}, True, "", "nobody", "../../etc/passwd", "run:predict", "\x00"),
            "n_best": (0, -1, 1.5, "5", None, True, [], 1001),
            "no_answer_threshold": (-0.1, 1.1, "0.5", True, [], {}),
            "colour": ("red",),
            "__proto__": ({},),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_gets_one_clear_error(of_run, name):
    body, headers = HOSTILE[name] if isinstance(HOSTILE[name], tuple) else (HOSTILE[name], {})
    begin = time.monotonic()
    status, found = of_run.ask("/v1/answer", body, **headers)
    assert 400 <= status < 500, found
    assert set(found) == {"error"}
    assert found["error"]
    assert len(found["error"]) < 600
    assert time.monotonic() - begin < 20
    assert of_run.ask("/healthz")[0] == 200


def test_there_are_60_hostile_requests():
    assert len(HOSTILE) >= 60


def raw(server, content, wait=5.0, shut=False):
    """What a server answers to bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), wait) as connection:
        connection.sendall(content)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


HEAD = b"POST /v1/answer HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b""),
        (b"POST /v1/answer HT", b""),
        (HEAD + b"Content-Le", b""),
        (HEAD + b"Content-Length: 100\r\n\r\n{", b" 408 "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", b" 408 "),
        (HEAD + b"Content-Length: x\r\n\r\n", b" 400 "),
        (HEAD + b"Content-Length: -5\r\n\r\n", b" 400 "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b" 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b" 400 "),
        (b"GET / HTP\r\n\r\n", b" 400 "),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b" 400 "),
        (HEAD + b"X: " + b"a" * 200_000 + b"\r\n\r\n", b" 400 "),
        (HEAD + b"Content-Length: 99999999\r\n\r\n" + b" " * 3_000_000, b" 413 "),
    ],
)
def test_a_slow_or_broken_connection_is_closed(of_run, content, expected):
    begin = time.monotonic()
    try:
        found = raw(of_run, content)
    except (ConnectionResetError, BrokenPipeError):
        # It was closed before all was sent.
        found = expected
    assert time.monotonic() - begin < 4
    assert expected in found[:40]
    assert of_run.ask("/healthz")[0] == 200


def test_a_connection_that_is_half_closed(of_run):
    body = json.dumps(ONE).encode()
    found = raw(of_run, HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body, shut=True)
    assert found == b"" or b" 200 " in found[:20]
    assert of_run.ask("/healthz")[0] == 200


def test_who_is_slow_does_not_hold_up_the_others(of_run):
    slow = [socket.create_connection(("127.0.0.1", of_run.port)) for _ in range(50)]
    try:
        for connection in slow:
            connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        begin = time.monotonic()
        assert of_run.ask("/v1/answer", ONE)[0] == 200
        assert time.monotonic() - begin < 5
    finally:
        for connection in slow:
            connection.close()


# === Token, other origins, full queues ===


def test_idle_grpc_connections_keep_nobody_waiting(of_saved_model):
    import grpc

    rpc, (host, port) = load("grpc_client"), of_saved_model.grpc.split(":")
    # Nothing, half of what opens HTTP/2, something else, and an opening without a request.
    openings = (
        b"",
        b"PRI * HT",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5),
    )
    slow = [socket.create_connection((host, int(port))) for _ in range(60)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall(openings[number % len(openings)])
        with grpc.insecure_channel(of_saved_model.grpc) as channel:
            (found,) = rpc.ask(channel, [QUESTION], [MILL], deadline=PATIENCE)
            assert found["answer"]
    finally:
        for connection in slow:
            connection.close()


def test_a_token_and_a_small_queue(exported, tmp_path):
    (tmp_path / "token").write_text("open-sesame\n")
    arguments = (f"--token_file={tmp_path / 'token'}", "--cors_origins=https://example.org", "--max_enqueued_batches=1")
    arguments += ("--max_batch_size=1", "--num_batch_threads=1", "--shutdown_delay=4")
    with serving(f"--model_base_path={exported.folder.parent}", *arguments, grpc=True) as server:
        for path in ("/", "/v1/info", "/v1/answer", "/v1/models/fabir", "/metrics"):
            assert server.ask(path)[0] == 401
        for path in ("/healthz", "/readyz"):
            assert server.ask(path)[0] == 200
        right = {"Authorization": "Bearer open-sesame"}
        assert server.ask("/v1/info", **right)[0] == 200
        # As browsers send it: any name, and the token for a password.
        assert server.ask("/", **{"Authorization": "Basic eDpvcGVuLXNlc2FtZQ=="})[0] == 200
        for wrong in ("Bearer open", "Bearer", "open-sesame", "Basic ???", "Basic b3Blbi1zZXNhbWU="):
            assert server.ask("/v1/info", **{"Authorization": wrong})[0] == 401
        _refused_by_grpc(server)
        _from_another_origin(server, right)
        _more_than_the_queue_holds(server, right)
        _ends_in_order(server, right)


def test_a_request_to_another_host_is_refused(of_run):
    # As a page sends it whose name has come to stand for 127.0.0.1.
    for host in (
        "evil.example",
        "localhost.evil.example:8501",
        "127.0.0.1.evil.example",
        "a b",
        "[::1",
        "evil.example.",
    ):
        status, found = of_run.ask("/v1/answer", ONE, Host=host)
        assert status == 403 and "addressed to another host" in found["error"], host
        assert of_run.ask("/healthz", Host=host)[0] == 200
    for host in ("localhost", "LOCALHOST:1", "qa.localhost", "127.0.0.1", "[::1]:8501", "10.1.2.3:80", "localhost."):
        assert of_run.ask("/v1/info", Host=host)[0] == 200, host


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\n{", b"-1\r\n", b"5\r\nhello0\r\n"])
def test_a_refused_request_with_a_broken_body_leaves_no_stack_trace(of_run, body):
    """The server's log is looked at when it ends."""
    found = raw(of_run, HEAD.replace(b"localhost", b"evil.example") + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert b" 403 " in found[:20] or b" 400 " in found[:20]
    assert of_run.ask("/healthz")[0] == 200


def test_names_of_hosts_and_origins():
    from fabir_tf.pipelines.errors import UserError
    from fabir_tf.serving import hosts

    assert hosts.may_be_asked("QA.example.org:443", hosts.validate_names([" qa.Example.org. "], "--allowed_hosts"))
    assert hosts.may_be_asked("", ()) and not hosts.may_be_asked("qa.example.org", ())
    for host, local in (
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        # As the system resolves them.
        ("127.1", True),
        ("0.0.0.0", False),
        ("0", False),
        ("nobody.invalid", False),
        ("10.0.0.1", False),
    ):
        assert hosts.is_local(host) is local
    for wrong in ("", "https://qa.example.org", "qa.example.org:80", "*", "a/b"):
        with pytest.raises(UserError, match="--allowed_hosts: found"):
            hosts.validate_names([wrong], "--allowed_hosts")
    right = ("https://example.org", "http://localhost:3000", "*")
    assert hosts.validate_origins(right, "--cors_origins") == right
    for wrong in (
        "",
        "example.org",
        "https://example.org/",
        "ftp://example.org",
        "https://me@example.org",
        "http://a:b",
    ):
        with pytest.raises(UserError, match="--cors_origins: found"):
            hosts.validate_origins([wrong], "--cors_origins")


def _refused_by_grpc(server):
    import grpc
    from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

    with grpc.insecure_channel(server.grpc) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "nobody"
        with pytest.raises(grpc.RpcError) as error:
            stub.GetModelStatus(request, timeout=PATIENCE)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as error:
            stub.GetModelStatus(request, timeout=PATIENCE, metadata=[("authorization", "Bearer open-sesame")])
        assert error.value.code() is grpc.StatusCode.NOT_FOUND


def _from_another_origin(server, right):
    import urllib.request

    request = urllib.request.Request(server.url + "/v1/info", headers=right | {"Origin": "https://example.org"})
    with urllib.request.urlopen(request) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "https://example.org"
    request.headers["Origin"] = "https://example.com"
    with urllib.request.urlopen(request) as response:
        assert response.headers["Access-Control-Allow-Origin"] is None


def _more_than_the_queue_holds(server, right):
    name = server.ask("/v1/info", **right)[1]["models"][0]["name"]
    long = {"question": "Who?", "passage": "The owl hunts at night. " * 2_000}
    with ThreadPoolExecutor(12) as pool:
        own = list(pool.map(lambda _: server.ask("/v1/answer", long, **right), range(12)))
        theirs = list(
            pool.map(lambda _: server.ask(f"/v1/models/{name}:predict", {"instances": [long]}, **right), range(12))
        )
    assert {status for status, _ in own} == {200, 429}
    assert {status for status, _ in theirs} == {200, 503}
    sentences = {found["error"] for status, found in own if status == 429}
    assert sentences == {"too many questions wait for an answer: ask again in a moment"}


def _ends_in_order(server, right):
    long = {"question": "Who?", "passage": "The owl hunts at night. " * 4_000}
    found = []
    asking = threading.Thread(target=lambda: found.append(server.ask("/v1/answer", long, **right)))
    asking.start()
    time.sleep(0.1)
    os.kill(server.process.pid, signal.SIGTERM)
    time.sleep(0.4)
    # It tells so first, and goes on answering for a while.
    assert server.ask("/readyz") == (503, {"error": "the server is about to end"})
    assert server.ask("/healthz")[0] == 200
    asking.join(60)
    assert found[0][0] == 200


@pytest.mark.long
def test_a_client_that_does_not_take_its_answer_is_cut_off_at_the_end(exported):
    texts = {"question": ["Who?"] * 300, "passage": [" ".join(["x" * 3_000] * 20)]}
    body = json.dumps({"inputs": texts}).encode()
    head = f"POST /v1/models/fabir:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    folder = f"--model_base_path={exported.folder.parent}"
    with serving(
        folder, "--model_name=fabir", "--request_timeout=20", end="1 did not take their answers and were cut off"
    ) as server:
        slow = socket.create_connection(("127.0.0.1", server.port))
        slow.sendall(head.encode() + body)
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
    slow.close()


# === Mistakes of the user ===


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "found no model, expected one of --model, --run_dir, --model_base_path and --model_config_file"),
        (("--model=fabir-base", "--run_dir=x"), "found --model and --run_dir, expected one of"),
        (
            ("--model=fabir-base", "--port=8500"),
            "--port=8500: expected --rest_api_port for HTTP or --grpc_port for gRPC",
        ),
        (("--model=nobody",), "--model=nobody: no such reader comes with the package"),
        (("--run_dir=nowhere",), "nowhere: found no run"),
        (("--model_base_path=nowhere",), "nowhere: found no version of model nowhere"),
        (
            ("--model=fabir-base", "--model_name=a/b"),
            "--model_name: found the name 'a/b', expected one without / and :",
        ),
        (("--model_base_path=x", "--max_passage=100"), "--max_passage has no effect with --model_base_path"),
        (("--model=fabir-base", "--paragraphs=3"), "--paragraphs belongs to --index, found it without"),
        (
            ("--model=fabir-base", "--trust_model"),
            "--trust_model has no effect with --model: only SavedModels are checked",
        ),
        (("--model_config_file=nowhere",), "nowhere"),
        (("--model=fabir-base", "--index=nowhere"), "nowhere"),
        (("--model=fabir-base", "--batching_parameters_file=nowhere"), "nowhere"),
        (("--model=fabir-base", "--token_file=nowhere"), "--token_file=nowhere: cannot be read (No such file"),
        (
            ("--model=fabir-base", "--token_file=."),
            "--token_file=.: cannot be read (Is a directory), expected one token",
        ),
        (("--model=fabir-base", "--host=nowhere.invalid"), "--host=nowhere.invalid"),
        *(
            (("--model=fabir-base", f"--host={host}"), f"--host={host}: found no name of a host, expected an address")
            for host in ("a..b", ".", ".example.org", "x" * 64, f"{'x' * 64}.example.org")
        ),
    ],
)
def test_mistakes(commands, arguments, message):
    assert message in commands("serve", *arguments).error


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"open-sesam\xe9\n", "bytes that are not ASCII"),
        ("open-sesam\u00e9".encode(), "bytes that are not ASCII"),
        ("open-sesame".encode("utf-16"), "bytes that are not ASCII"),
        ("open-sesame".encode("utf-16-le"), "spaces, or signs that cannot be printed"),
        (b"open sesame", "spaces, or signs that cannot be printed"),
        (b" \n", "nothing"),
    ],
)
def test_a_file_without_a_token(commands, tmp_path, content, found):
    path = tmp_path / "token"
    path.write_bytes(content)
    error = commands("serve", "--model=fabir-base", f"--token_file={path}").error
    expected = "expected one token of ASCII letters, digits and signs without spaces"
    assert error == f"--token_file={path}: found {found}, {expected}"


@pytest.mark.long
def test_a_saved_model_that_reads_files_needs_trust(commands, tmp_path):
    import tensorflow as tf

    module = tf.Module()
    specs = [tf.TensorSpec([None], tf.string, "x")]
    module.run = tf.function(lambda x: {"y": tf.map_fn(tf.io.read_file, x)}, input_signature=specs, autograph=False)
    tf.saved_model.save(module, str(tmp_path / "files" / "1"), {"serving_default": module.run})
    error = commands("serve", f"--model_base_path={tmp_path / 'files'}").error
    assert "found operations that may reach files or run programs (ReadFile), expected" in error
    (tmp_path / "text").write_text("open sesame")
    with serving(f"--model_base_path={tmp_path / 'files'}", "--trust_model") as server:
        found = server.ask("/v1/models/files:predict", {"instances": [str(tmp_path / "text")]})
    assert found == (200, {"predictions": ["open sesame"]})


@pytest.mark.long
def test_a_model_that_dies_while_it_is_loaded_ends_the_start(tmp_path):
    # The module of a user's reader that ends the process which loads it, and not the server's own.
    text = "import multiprocessing, os\nif multiprocessing.parent_process():\n    os._exit(3)\n"
    (tmp_path / "dying_module.py").write_text(text)
    flags = ("--model=fabir-base", "--import=dying_module", "--import=json", "--rest_api_port=0", "--grpc_port=-1")
    command = [sys.executable, "-m", "fabir_tf.commands.serve", *flags]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "CUDA_VISIBLE_DEVICES": ""}
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    sentence = "model fabir-base version 1 cannot be loaded: its process ended with status 3 while it was loading"
    lines = [*(f"{sentence}; it is tried again in {pause} s" for pause in (2, 4)), f"error: {sentence}, 3 times"]
    assert (found.returncode, found.stderr.splitlines()) == (2, lines)


def test_a_taken_port(commands):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = commands("serve", "--model=fabir-base", f"--rest_api_port={port}").error
    assert error == f"--rest_api_port={port}: Address already in use at 127.0.0.1, expected a free port"


def test_files_of_tensorflow_serving(tmp_path):
    from fabir_tf.pipelines.errors import UserError
    from fabir_tf.serving.config_files import read_batching, read_models

    (model,) = read_models(str(KIT / "models.config"), str)
    assert (model.name, str(model.base_path), model.policy.latest) == ("fabir", "/models/fabir", 2)
    batching = read_batching(str(KIT / "batching.config"))
    assert (batching.max_batch_size, batching.batch_timeout, batching.threads) == (128, 0.005, 2)
    path = tmp_path / "models.config"
    path.write_text(
        'model_config_list { config { name: "a" base_path: "x" version_labels { key: "stable" value: 3 } '
        "model_version_policy { specific { versions: 3 versions: 5 } } } }"
    )
    (model,) = read_models(str(path), str)
    assert (dict(model.labels), model.policy.specific) == ({"stable": 3}, (3, 5))
    for text, message in (
        ("", "found no model"),
        ("model_config_list { config { nme: 5 } }", "expected a ModelServerConfig of TensorFlow Serving"),
        ('model_config_list { config { name: "a" } }', "base_path is missing"),
        ('model_config_list { config { name: "a:b" base_path: "x" } }', "expected one without / and :"),
        ('model_config_list { config { name: "a" base_path: "x" model_platform: "other" } }', "expected tensorflow"),
        ('model_config_list { config { name: "a" base_path: "x" } config { name: "a" base_path: "y" } }', "twice"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_models(str(path), str)
    path.write_text("max_batch_size { value: 0 }")
    with pytest.raises(UserError, match="found max_batch_size 0, expected a positive number"):
        read_batching(str(path))
