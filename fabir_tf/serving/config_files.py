"""TensorFlow Serving's configuration files: models, and how requests are joined."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors
from fabir_tf.serving.batching import BatchingSettings
from fabir_tf.serving.models import ModelSettings, VersionPolicy

PLATFORMS = ("", "tensorflow")


def read_models(path: str, load_version: Callable[[str], Any]) -> list[ModelSettings]:
    """The models of a file for `--model_config_file`, a `ModelServerConfig` in text form.

    Args:
        path: of the file. Paths of models that are not absolute begin at the current folder.
        load_version: makes the backend of a folder with a SavedModel.

    Raises:
        UserError: the file is missing or wrong, or asks for something that this server does not have.
    """
    from tensorflow_serving.config import model_server_config_pb2

    config = _parsed(path, model_server_config_pb2.ModelServerConfig(), "a ModelServerConfig of TensorFlow Serving")
    models = [_model(path, one, load_version) for one in config.model_config_list.config]
    if not models:
        raise UserError(f"{path}: found no model, expected model_config_list {{ config {{ ... }} }}")
    names = [model.name for model in models]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise UserError(f"{path}: found the model {min(repeated)!r} twice, expected different names")
    return models


def read_batching(path: str) -> BatchingSettings:
    """The settings of a file for `--batching_parameters_file`, a `BatchingParameters` in text form.

    `thread_pool_name`, `allowed_batch_sizes` and `pad_variable_length_inputs` have no effect here: a version has a
    process of its own, its graph takes batches of any size, and only inputs of equal shapes share a batch.

    Args:
        path: of the file.

    Raises:
        UserError: the file is missing or wrong.
    """
    found = _parsed(path, _batching_message(), "BatchingParameters of TensorFlow Serving")
    values: dict[str, Any] = {}
    fields = {name: name for name in ("max_batch_size", "max_enqueued_batches")} | {"num_batch_threads": "threads"}
    for name, setting in fields.items():
        if found.HasField(name):
            value = values[setting] = getattr(found, name).value
            if value < 1:
                raise UserError(f"{path}: found {name} {value}, expected a positive number")
    if found.HasField("batch_timeout_micros"):
        values["batch_timeout"] = found.batch_timeout_micros.value / 1e6
        if values["batch_timeout"] < 0:
            raise UserError(f"{path}: found a negative batch_timeout_micros, expected a number from 0")
    return BatchingSettings(**values)


def validate_name(name: str, source: str) -> str:
    """Checks the name of a model, which stands in addresses.

    Raises:
        UserError: it is empty, or holds `/` or `:`.
    """
    if not name or set(name) & set("/:"):
        raise UserError(f"{source}: found the name {name!r}, expected one without / and :")
    return name


def _model(path: str, config: Any, load_version: Callable[[str], Any]) -> ModelSettings:
    name = validate_name(config.name, path)
    if config.model_platform not in PLATFORMS:
        raise UserError(f"{path}: model {name}: found the platform {config.model_platform!r}, expected tensorflow")
    if not config.base_path:
        raise UserError(f"{path}: model {name}: base_path is missing, expected the folder of its versions")
    return ModelSettings(
        name,
        base_path=Path(config.base_path),
        load_version=load_version,
        policy=_policy(config.model_version_policy),
        labels=dict(config.version_labels),
    )


def _policy(policy: Any) -> VersionPolicy:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return VersionPolicy(latest=None)
    if choice == "specific":
        return VersionPolicy(specific=tuple(policy.specific.versions))
    return VersionPolicy(latest=max(policy.latest.num_versions, 1))


def _parsed(path: str, message: Any, expected: str) -> Any:
    with named_errors(path):
        raw = Path(path).read_bytes()
    # A number in it that is too large has an error of its own, as has text that is nested too deeply.
    try:
        return text_format.Parse(raw.decode(), message)
    except (text_format.ParseError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}, expected {expected}") from None


def _batching_message() -> Any:
    """An empty `BatchingParameters`, which the package of TensorFlow Serving's messages lacks."""
    number, text = ".google.protobuf.Int64Value", ".google.protobuf.StringValue"
    message = descriptor_pb2.DescriptorProto(name="BatchingParameters")
    fields = (
        ("max_batch_size", number),
        ("batch_timeout_micros", number),
        ("max_enqueued_batches", number),
        ("num_batch_threads", number),
        ("thread_pool_name", text),
    )
    for position, (name, kind) in enumerate(fields, 1):
        message.field.add(name=name, number=position, label=1, type=11, type_name=kind)
    message.field.add(name="allowed_batch_sizes", number=6, label=3, type=3)
    message.field.add(name="pad_variable_length_inputs", number=7, label=1, type=8)
    file = descriptor_pb2.FileDescriptorProto(name="batching_parameters.proto", package="fabir_tf", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    file.message_type.append(message)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fabir_tf.BatchingParameters"))()
