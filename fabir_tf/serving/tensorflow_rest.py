"""TensorFlow Serving's REST API: which address asks for what, and the answers in its form.

Read in its `model_servers/http_rest_api_handler.cc`, `http_rest_api_util.cc` and `get_model_status_impl.cc`.
"""

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from fabir_tf.serving.errors import HTTP_STATUS, RequestError, invalid
from fabir_tf.serving.json_tensors import format_predict, parse_json, parse_predict
from fabir_tf.serving.models import Version
from fabir_tf.serving.service import Service

_NAME = r"/v1/models/(?P<name>[^/:]+)"
_VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = re.compile(rf"(?i:{_NAME}{_VERSION}:(?P<method>classify|regress|predict))")
_STATUS = re.compile(rf"(?i:/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?:/(?P<method>metadata))?)")

LARGEST_VERSION = 2**63 - 1
"""Of int64, in which versions are written."""


class Call(NamedTuple):
    """What an address and a method of HTTP ask for.

    Attributes:
        method: "predict", "classify", "regress", "metadata" or "status".
        name: of the model; "" where none is named.
        version, label: which version, or None.
    """

    method: str
    name: str
    version: int | None
    label: str | None


def parse_call(http_method: str, path: str) -> Call:
    """Reads the address of a request.

    Args:
        http_method: such as "POST".
        path: as it came, still percent-encoded.

    Raises:
        RequestError: it asks for nothing that this API has.
    """
    pattern = {"POST": _PREDICTION, "GET": _STATUS}.get(http_method)
    found = pattern.fullmatch(path) if pattern else None
    malformed = invalid(f"Malformed request: {http_method} {path}")
    if not found:
        raise malformed
    version = _version_number(found["version"]) if found["version"] else None
    name, label = (unquote(found[key] or "") for key in ("name", "label"))
    method = found["method"] or "status"
    if http_method == "POST" and not method.islower():
        raise malformed
    # The address may be written in capitals; what it ends in may not.
    method = method if method.islower() else "status"
    return Call(method, name, version, label or None)


def _version_number(digits: str) -> int:
    # Python refuses to read thousands of digits.
    value = digits.lstrip("0") or "0"
    if len(value) > len(str(LARGEST_VERSION)) or int(value) > LARGEST_VERSION:
        raise invalid(f"Failed to convert version: {digits} to numeric.")
    return int(value)


async def answer_call(service: Service, call: Call, body: bytes, deadline: float) -> bytes | dict[str, Any]:
    """Answers a request.

    Args:
        service: what answers.
        call: from `parse_call`.
        body: of a POST request.
        deadline: in seconds of `time.monotonic`.

    Returns:
        JSON, or what becomes JSON.

    Raises:
        RequestError: there is no answer.
    """
    if call.method == "predict":
        return await _predict(service, call, body, deadline)
    if call.method in ("classify", "regress"):
        document = parse_json(body)
        if not isinstance(document, dict) or "examples" not in document:
            raise invalid("When method is classify, key 'examples' is expected and was not found")
        service.models.find(call.name, call.version, call.label)
        raise RequestError("UNIMPLEMENTED", f"{call.method}: readers answer questions, so ask for :predict")
    if not call.name:
        raise invalid("Missing model name in request.")
    if call.method == "metadata":
        version = service.models.find(call.name, call.version, call.label)
        spec = {"name": call.name, "signature_name": "", "version": str(version.number)}
        definitions = {"signature_def": version.description.metadata}
        return {"model_spec": spec, "metadata": {"signature_def": definitions}}
    statuses = [
        {"version": str(one.number), "state": one.state, "status": status_of(one)}
        for one in versions_of(service, call.name, call.version)
    ]
    return {"model_version_status": statuses}


def versions_of(service: Service, name: str, number: int | None) -> list[Version]:
    """The versions whose status is asked for.

    Raises:
        RequestError: there is none.
    """
    versions = [one for one in service.models.versions(name) if number in (None, one.number)]
    if not versions:
        which = "any versions" if number is None else f"version {number}"
        raise RequestError("NOT_FOUND", f"Could not find {which} of model {name}")
    return versions


def status_of(version: Version) -> dict[str, str]:
    """Whether a version could be loaded, as TensorFlow Serving writes it."""
    if not version.error:
        return {"error_code": "OK", "error_message": ""}
    assert version.error.code in HTTP_STATUS
    return {"error_code": version.error.code, "error_message": version.error.message}


async def _predict(service: Service, call: Call, body: bytes, deadline: float) -> bytes:
    versions: list[Version] = []

    def signature(name: str):
        versions.append(service.models.find(call.name, call.version, call.label))
        return service.signature(versions[0], name)

    name, inputs, is_row = parse_predict(body, signature)
    with versions[0].used():
        outputs = await service.predict(versions[0], name, inputs, (), deadline)
    return format_predict(outputs, is_row)
