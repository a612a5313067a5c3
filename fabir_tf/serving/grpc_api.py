"""TensorFlow Serving's gRPC API: predict, metadata, status and health.

Read in its `servables/tensorflow/predict_util.cc`, `get_model_metadata_impl.cc` and
`model_servers/get_model_status_impl.cc`.
"""

import asyncio
import functools
import hmac
import math
import time
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
import grpc.aio
import numpy as np
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health  # pyright: ignore[reportAttributeAccessIssue]
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import error_codes_pb2, meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.service import Service
from fabir_tf.serving.signature import DEFAULT
from fabir_tf.serving.tensorflow_rest import status_of, versions_of

SIGNATURE_DEF = "signature_def"


async def start_grpc(
    service: Service, address: str, token: str, timeout: float
) -> tuple[grpc.aio.Server, health.HealthServicer]:
    """Starts the server.

    Args:
        service: what answers.
        address: host and port to listen on.
        token: that every request but those for health has to bring; "" for none.
        timeout: seconds that a request without a deadline may take.

    Returns:
        The server, and what tells whether it is ready.

    Raises:
        RuntimeError: the address cannot be listened on.
    """
    limit = service.limits.body_bytes
    options = [
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", -1),
        # A second server on the same port would get half of the requests.
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(options=options)
    door = functools.partial(_answered, service, token, timeout)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(service, door), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(_Model(service, door), server)
    healths = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healths, server)
    if not server.add_insecure_port(address):
        raise RuntimeError(f"cannot listen on {address}")
    await healths.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    await server.start()
    return server, healths


async def tell_health(healths: health.HealthServicer, is_ready: bool) -> None:
    """Tells those who watch the server's health."""
    status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ("", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"):
        await healths.set(name, status)


async def _answered(
    service: Service, token: str, timeout: float, method: str, context: grpc.aio.ServicerContext, call: Callable
) -> Any:
    """Runs a call: who asks, what goes wrong, and the counters."""
    begin = time.monotonic()
    left = context.time_remaining()
    deadline = begin + (timeout if left is None else min(left, timeout))
    code = "OK"
    try:
        _validate_token(token, context)
        return await call(deadline)
    except RequestError as error:
        code = error.code
        await context.abort(getattr(grpc.StatusCode, code), error.message)
    except grpc.aio.AbortError:
        raise
    except asyncio.CancelledError:
        # The client has given up.
        code = "CANCELLED"
        raise
    except Exception as error:
        code = "INTERNAL"
        await context.abort(grpc.StatusCode.INTERNAL, f"the request failed: {type(error).__name__}")
    finally:
        service.metrics.count_request("grpc", method, code, time.monotonic() - begin)


def _validate_token(token: str, context: grpc.aio.ServicerContext) -> None:
    found = dict(context.invocation_metadata() or ()).get("authorization", "")
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
    if token and not hmac.compare_digest(text.encode(), f"Bearer {token}".encode()):
        message = "the token is missing or wrong: expected the metadata authorization: Bearer ..."
        raise RequestError("UNAUTHENTICATED", message)


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, service: Service, door: Callable):
        self._service = service
        self._door = door

    async def Predict(self, request, context):  # noqa: N802  (the protocol's name)
        return await self._door("predict", context, functools.partial(self._predict, request))

    async def GetModelMetadata(self, request, context):  # noqa: N802
        return await self._door("metadata", context, functools.partial(self._metadata, request))

    async def Classify(self, request, context):  # noqa: N802
        return await self._door("classify", context, _refuse)

    async def Regress(self, request, context):  # noqa: N802
        return await self._door("regress", context, _refuse)

    async def MultiInference(self, request, context):  # noqa: N802
        return await self._door("multi_inference", context, _refuse)

    async def _predict(self, request, deadline: float):
        version = _version(self._service, request)
        most = self._service.limits.body_bytes
        inputs = {name: _as_array(name, tensor, most) for name, tensor in request.inputs.items()}
        name = request.model_spec.signature_name
        with version.used():
            outputs = await self._service.predict(version, name, inputs, request.output_filter, deadline)
        response = predict_pb2.PredictResponse()
        response.model_spec.name = version.model
        response.model_spec.version.value = version.number
        response.model_spec.signature_name = name or DEFAULT
        for output, array in outputs.items():
            response.outputs[output].CopyFrom(tf.make_tensor_proto(array))
        return response

    async def _metadata(self, request, deadline: float):
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != SIGNATURE_DEF:
                raise invalid(f"Metadata field {field} is not supported")
        version = _version(self._service, request)
        definitions = get_model_metadata_pb2.SignatureDefMap()
        for name, serialized in version.description.definitions.items():
            definitions.signature_def[name].CopyFrom(meta_graph_pb2.SignatureDef.FromString(serialized))
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = version.model
        response.model_spec.version.value = version.number
        response.metadata[SIGNATURE_DEF].Pack(definitions)
        return response


class _Model(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, service: Service, door: Callable):
        self._service = service
        self._door = door

    async def GetModelStatus(self, request, context):  # noqa: N802
        return await self._door("status", context, functools.partial(self._status, request))

    async def HandleReloadConfigRequest(self, request, context):  # noqa: N802
        return await self._door("reload", context, _refuse_reload)

    async def _status(self, request, deadline: float):
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        spec = request.model_spec
        number = spec.version.value if spec.HasField("version") else None
        response = get_model_status_pb2.GetModelStatusResponse()
        for one in versions_of(self._service, spec.name, number):
            status = response.model_version_status.add(version=one.number, state=one.state)
            found = status_of(one)
            status.status.error_code = error_codes_pb2.Code.Value(found["error_code"])
            status.status.error_message = found["error_message"]
        return response


def _version(service: Service, request: Any):
    spec = request.model_spec
    name = spec.name or None
    if not name and len(service.models.names) > 1:
        raise invalid("ModelSpec has no name specified.")
    which = spec.WhichOneof("version_choice")
    number = spec.version.value if which == "version" else None
    label = spec.version_label if which == "version_label" else None
    return service.models.find(name, number, label)


async def _refuse(deadline: float) -> NoReturn:
    raise RequestError("UNIMPLEMENTED", "readers answer questions, so ask for Predict")


async def _refuse_reload(deadline: float) -> NoReturn:
    message = "the configuration is read when the server starts; new versions of its models are taken up by themselves"
    raise RequestError("UNIMPLEMENTED", message)


def _as_array(name: str, tensor: tensor_pb2.TensorProto, most: int) -> np.ndarray:
    """The values of a tensor; one whose shape stands for more values than a message could hold is refused."""
    sizes = [part.size for part in tensor.tensor_shape.dim]
    count = math.prod(sizes)
    # One value can stand for many. That of numbers is allowed, up to a limit; texts are given one by one.
    is_text = tensor.dtype == types_pb2.DT_STRING
    if min(sizes, default=0) < 0 or count > most or (is_text and count != len(tensor.string_val)):
        raise invalid(f"input {name}: found a tensor whose values do not fit its shape {sizes}")
    try:
        return tf.make_ndarray(tensor)
    except Exception:
        # It raises what NumPy raises for sizes that do not fit, and TypeError for unknown types.
        raise invalid(f"input {name}: found a tensor whose values do not fit its type and shape") from None
