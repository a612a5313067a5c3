"""Asks a reader in TensorFlow Serving or fabir-serve over gRPC; needs the package tensorflow-serving-api.

python grpc_client.py "Who built the mill?" "The mill was built by Anna Keld."
"""

import argparse
import json
import sys
import time

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

# The server is starting, or its queue is full: the same request can succeed a moment later.
WORTH_A_RETRY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


# What a server answers that does not take the only model for a request without a name.
NEEDS_A_NAME = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
IN_OUR_CONFIGURATION = "fabir"


class ServingError(Exception):
    """The server did not answer or refused the request; the message says which."""


def ask(
    channel: grpc.Channel, questions: list[str], passages: list[str], model: str | None = None, deadline: float = 10.0
) -> list[dict]:
    """Asks questions, each about its own passage.

    Args:
        channel: an open channel, which can be reused for the next questions.
        questions, passages: lists of equal length.
        model: the reader's name in the server's configuration. None takes the only one that fabir-serve serves, and
            "fabir" of TensorFlow Serving, which needs a name.
        deadline: seconds until this gives up, retries included.

    Returns:
        For each question `answer`, `start`, `end`, `probability`, `no_answer_probability`, `is_answer`, ...; see the
        documentation ("Serve a reader"). Where `is_answer` is false, the answer is empty.

    Raises:
        ServingError: there is no answer in time, or the server refuses the request.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model or ""
    request.model_spec.signature_name = "serving_default"
    for name, texts in (("question", questions), ("passage", passages)):
        request.inputs[name].CopyFrom(tf.make_tensor_proto(texts, tf.string))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    end, pause, reason = time.monotonic() + deadline, 0.1, "there was no time to ask"
    while (left := end - time.monotonic()) > 0:
        try:
            return _rows(stub.Predict(request, left))
        except grpc.RpcError as error:
            reason = error.details()
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                break
            if model is None and not request.model_spec.name and error.code() in NEEDS_A_NAME:
                request.model_spec.name = IN_OUR_CONFIGURATION
                continue
            if error.code() not in WORTH_A_RETRY:
                raise ServingError(f"the server refused the request: {reason}") from None
        time.sleep(max(min(pause, end - time.monotonic()), 0))
        pause *= 2
    raise ServingError(f"the server gave no answer within {deadline:g} s: {reason}")


def _rows(response: predict_pb2.PredictResponse) -> list[dict]:
    columns = {name: tf.make_ndarray(tensor).tolist() for name, tensor in response.outputs.items()}
    return [{name: _as_text(values[row]) for name, values in columns.items()} for row in range(len(columns["answer"]))]


def _as_text(value):
    if isinstance(value, list):
        return [_as_text(part) for part in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def main() -> None:
    """Asks one question."""
    parser = argparse.ArgumentParser(description="Asks a reader in TensorFlow Serving over gRPC.")
    parser.add_argument("question")
    parser.add_argument("passage")
    parser.add_argument("--server", default="localhost:8500")
    parser.add_argument("--model", help="the reader's name; by default the only one")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds")
    arguments = parser.parse_args()
    try:
        with grpc.insecure_channel(arguments.server) as channel:
            (found,) = ask(channel, [arguments.question], [arguments.passage], arguments.model, arguments.deadline)
    except ServingError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
