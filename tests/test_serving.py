"""The files of export/serving: configuration in TensorFlow Serving's own format, and clients that ask a server.

No container runs here. The servers of these tests implement TensorFlow Serving's protocols and answer with the exported
SavedModel.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from fabir_tf.export import saved_model

SERVING = Path(saved_model.__file__).parent / "serving"
# Seconds that a busy machine may take for an answer.
PATIENCE = 120
PAIR = ("Who built the mill?", "The old mill was built by Anna Keld in 1712.")
PAIRS = [PAIR, ("Where does Lake Orrin lie?", "Lake Orrin lies north of Dunmere; caf\u00e9 \U0001f600."), ("Who?", " ")]


def client(name):
    specification = importlib.util.spec_from_file_location(name, SERVING / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def answer(exported):
    """Texts in, plain values by name out."""

    def answers(questions, passages):
        found = exported.signatures["serving_default"](question=tf.constant(questions), passage=tf.constant(passages))
        return {name: value.numpy().tolist() for name, value in found.items()}

    return answers


def as_text(value):
    if isinstance(value, list):
        return [as_text(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture(scope="module")
def expected(answer):
    columns = answer(*zip(*PAIRS, strict=True))
    return [{name: as_text(values[row]) for name, values in columns.items()} for row in range(len(PAIRS))]


def assert_found(found, expected):
    assert all({"answer", "no_answer_probability", "is_answer", "n_best_answer"} <= row.keys() for row in found)
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for row, other in zip(found, expected, strict=True):
        for name, value in row.items():
            assert value == (pytest.approx(other[name], rel=1e-3) if "probability" in name else other[name])


# === Configuration ===


def fields(name, *definitions):
    """A message type with (name, type or message type, whether repeated) in the order of their numbers."""
    message = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, kind, repeated) in enumerate(definitions, 1):
        entry = message.field.add(name=field, number=number, label=3 if repeated else 1)
        if isinstance(kind, str):
            entry.type, entry.type_name = 11, kind
        else:
            entry.type = kind
    return message


def message_type(name, *messages):
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="made", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    file.message_type.extend(messages)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"made.{name}"))


def test_the_models():
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    found = text_format.Parse((SERVING / "models.config").read_text(), config.ModelServerConfig())
    (model,) = found.model_config_list.config
    assert (model.name, model.base_path) == ("fabir", "/models/fabir")


def test_batching():
    """The fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto, which its package lacks."""
    number, text, boolean, integer = ".google.protobuf.Int64Value", ".google.protobuf.StringValue", 8, 3
    parameters = fields(
        "BatchingParameters",
        ("max_batch_size", number, False),
        ("batch_timeout_micros", number, False),
        ("max_enqueued_batches", number, False),
        ("num_batch_threads", number, False),
        ("thread_pool_name", text, False),
        ("allowed_batch_sizes", integer, True),
        ("pad_variable_length_inputs", boolean, False),
    )
    found = message_type("BatchingParameters", parameters)()
    text_format.Parse((SERVING / "batching.config").read_text(), found)
    assert found.max_batch_size.value == 128
    assert found.batch_timeout_micros.value > 0


def test_monitoring():
    """The fields of tensorflow_serving/config/monitoring_config.proto, which its package lacks."""
    prometheus = fields("PrometheusConfig", ("enable", 8, False), ("path", 9, False))
    monitoring = fields("MonitoringConfig", ("prometheus_config", ".made.PrometheusConfig", False))
    found = message_type("MonitoringConfig", prometheus, monitoring)()
    text_format.Parse((SERVING / "monitoring.config").read_text(), found)
    assert found.prometheus_config.enable
    assert found.prometheus_config.path.startswith("/")


def test_compose_names_the_files_that_are_here():
    text = (SERVING / "compose.yaml").read_text()
    for name in ("models.config", "batching.config", "monitoring.config"):
        assert f"/config/{name}" in text
        assert (SERVING / name).is_file()


# === REST ===


@contextlib.contextmanager
def rest_server(answer, busy=0):
    """Serves the row form of TensorFlow Serving's predict API, after it has been too busy so many times."""
    left = [busy]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if left[0]:
                left[0] -= 1
                self.reply(503, {"error": "the batch queue is full"})
            elif self.path != "/v1/models/fabir:predict":
                self.reply(404, {"error": f"no model at {self.path}"})
            else:
                assert body["signature_name"] == "serving_default"
                columns = answer(*([row[name] for row in body["instances"]] for name in ("question", "passage")))
                rows = zip(*columns.values(), strict=True)
                found = [dict(zip(columns, map(as_text, row), strict=True)) for row in rows]
                self.reply(200, {"predictions": found})

        def reply(self, status, content):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_rest(answer, expected):
    with rest_server(answer, busy=2) as server:
        assert_found(client("rest_client").ask(*zip(*PAIRS, strict=True), server=server, deadline=PATIENCE), expected)
        command = [sys.executable, SERVING / "rest_client.py", *PAIR, f"--server={server}"]
        result = subprocess.run(command, capture_output=True, check=True)
        printed = json.loads(result.stdout)
        assert (printed["answer"], printed["is_answer"]) == (expected[0]["answer"], True)
        assert not expected[2]["is_answer"]


@pytest.mark.slow
def test_rest_without_an_answer(answer):
    rest = client("rest_client")
    refused = pytest.raises(rest.ServingError, match=r"refused the request: no model at /v1/models/other")
    with rest_server(answer) as server, refused:
        rest.ask(*zip(PAIR, strict=True), server=server, model="other", deadline=PATIENCE)
    with pytest.raises(rest.ServingError, match=r"gave no answer within 0.3 s: .*refused"):
        rest.ask(*zip(PAIR, strict=True), server=server, deadline=0.3)
    with rest_server(answer, busy=100) as server, pytest.raises(rest.ServingError, match="the batch queue is full"):
        rest.ask(*zip(PAIR, strict=True), server=server, deadline=0.3)


# === gRPC ===


@contextlib.contextmanager
def grpc_server(answer, busy=0):
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving.apis")
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    left = [busy]

    class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802  (the protocol's name)
            if left[0]:
                left[0] -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "the batch queue is full")
            if request.model_spec.name != "fabir":
                context.abort(grpc.StatusCode.NOT_FOUND, f"no model {request.model_spec.name}")
            texts = [tf.make_ndarray(request.inputs[name]).tolist() for name in ("question", "passage")]
            response = predict_pb2.PredictResponse()
            for name, values in answer(*texts).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(values))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            yield channel
    finally:
        server.stop(None)


@pytest.mark.slow
def test_grpc(answer, expected):
    with grpc_server(answer, busy=2) as channel:
        assert_found(client("grpc_client").ask(channel, *zip(*PAIRS, strict=True), deadline=PATIENCE), expected)


@pytest.mark.slow
def test_grpc_without_an_answer(answer):
    with grpc_server(answer) as channel:
        rpc = client("grpc_client")
        with pytest.raises(rpc.ServingError, match="refused the request: no model other"):
            rpc.ask(channel, *zip(PAIR, strict=True), model="other", deadline=PATIENCE)
    with grpc_server(answer, busy=100) as channel, pytest.raises(rpc.ServingError, match=r"0.3 s: the batch queue"):
        rpc.ask(channel, *zip(PAIR, strict=True), deadline=0.3)
