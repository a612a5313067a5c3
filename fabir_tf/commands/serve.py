"""Serves readers: a page to ask on, an API for answers, and TensorFlow Serving's REST and gRPC protocols.

    fabir-serve --model=fabir-base
    fabir-serve --run_dir=runs/base --index=docs.index
    fabir-serve --model_base_path=exported/fabir
    fabir-serve --model_config_file=models.config --batching_parameters_file=batching.config

The page is at http://127.0.0.1:8501. Only this machine can reach the server unless --host says otherwise. SIGTERM and
Ctrl-C end it when all requests are answered.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("serve")

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from fabir_tf.commands import answering, cli, entry, reader_flags
from fabir_tf.pipelines.documents.collection import Searched
from fabir_tf.pipelines.documents.sharded_index import open_index
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors

if TYPE_CHECKING:
    from fabir_tf.serving.models import ModelSettings
    from fabir_tf.serving.server import ServerSettings

PACKAGES = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "prometheus_client": "prometheus-client",
    "grpc_health": "grpcio-health-checking",
    "tensorflow_serving": "tensorflow-serving-api",
}
"""What the extra `serve` installs, by the name of what is imported."""

MEGABYTE = 2**20


def define_flags() -> None:
    """Flags of the command."""
    reader_flags.define_reader_flags("is served")
    text = "Folder whose numbered folders are SavedModels, such as fabir-export writes; the highest one is served."
    flags.DEFINE_string("model_base_path", None, text)
    text = "TensorFlow Serving's file of several such folders, with labels and versions."
    flags.DEFINE_string("model_config_file", None, text)
    text = "Serve SavedModels that may reach files and run programs; by default those with such operations are refused."
    flags.DEFINE_bool("trust_model", False, text)
    text = "Name of the model in requests; by default that of the reader, or of its folder."
    flags.DEFINE_string("model_name", None, text)
    flags.DEFINE_string(
        "index", None, "File or folder that fabir-index wrote, to search on the page and with /v1/search."
    )
    answering.define_paragraphs_flag()
    _define_listening_flags()
    _define_batching_flags()
    _define_limit_flags()


def _define_listening_flags() -> None:
    flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; 0.0.0.0 lets every machine ask.")
    flags.DEFINE_integer("rest_api_port", 8501, "Port of HTTP; 0 takes a free one.", 0, 65535)
    flags.DEFINE_integer("grpc_port", 8500, "Port of gRPC; 0 takes a free one, -1 serves none.", -1, 65535)
    flags.DEFINE_integer("port", None, "Refused: --rest_api_port is the port of HTTP, --grpc_port that of gRPC.")
    text = "File with a token that every request has to bring, but those for health; by default anyone may ask."
    flags.DEFINE_string("token_file", None, text)
    text = "Origins of other pages that may ask, comma-separated, such as https://example.org; by default none."
    flags.DEFINE_list("cors_origins", [], text)
    text = (
        "Names of this server that a request may be addressed to, comma-separated, besides localhost and addresses. By "
        "default any, but none where only this machine can reach it and there is no token: a page of another address "
        "could otherwise take such a name, and ask."
    )
    flags.DEFINE_list("allowed_hosts", None, text)
    flags.DEFINE_bool("access_log", True, "Print a line for each request, without its texts.")
    text = "Seconds between the moment that /readyz fails and the end of listening, for those who share the load."
    flags.DEFINE_float("shutdown_delay", 0.0, text, 0.0, 3600.0)


def _define_batching_flags() -> None:
    text = "TensorFlow Serving's file of the settings below; flags win."
    flags.DEFINE_string("batching_parameters_file", None, text)
    flags.DEFINE_integer("max_batch_size", None, "Questions that are read together. Default: 128.", 1)
    text = "Microseconds that a question may wait for others while the model is idle. Default: 0."
    flags.DEFINE_integer("batch_timeout_micros", None, text, 0)
    text = "Batches that may wait; beyond that a request is refused. Default: 64."
    flags.DEFINE_integer("max_enqueued_batches", None, text, 1)
    text = "Batches that are read at the same time. Default: one per processor core, at most 8."
    flags.DEFINE_integer("num_batch_threads", None, text, 1)


def _define_limit_flags() -> None:
    flags.DEFINE_float("request_timeout", 30.0, "Seconds that a request may take.", 0.1, 3600.0)
    flags.DEFINE_float("header_timeout", 10.0, "Seconds in which the head of a request has to arrive.", 0.1, 3600.0)
    flags.DEFINE_float("body_timeout", 10.0, "Seconds in which the body of a request has to arrive.", 0.1, 3600.0)
    flags.DEFINE_integer("max_body_mb", 16, "Megabytes of a request, after it is decompressed.", 1, 1024)
    flags.DEFINE_integer("max_questions", 1024, "Questions of a request.", 1)
    flags.DEFINE_integer("max_question_characters", 10_000, "Characters of a question.", 1)
    flags.DEFINE_integer("max_passage_characters", 1_000_000, "Characters of a passage.", 1)


def main(values: flags.FlagValues) -> None:
    """Serves until the process is told to end."""
    if values.port is not None:
        raise UserError(
            f"--port={values.port}: expected --rest_api_port for HTTP or --grpc_port for gRPC, as in TensorFlow "
            "Serving, where --port is that of gRPC"
        )
    missing = [package for name, package in PACKAGES.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f'fabir-serve needs {", ".join(missing)}: install them with pip install "fabir_tf[serve]"')
    if values.index is None:
        cli.refuse_given(values, ("paragraphs",), "belongs to --index, found it without")
    from fabir_tf.serving.server import serve

    begin = time.monotonic()
    models = _models(values)
    with contextlib.ExitStack() as stack:
        index = None
        if values.index is not None:
            index = stack.enter_context(open_index(values.index))
            if not len(index):
                raise UserError(f"--index={values.index}: found no text, expected an index with documents")

        def ready(rest: str, grpc: str | None) -> None:
            names = ", ".join(model.name for model in models)
            seconds = time.monotonic() - begin
            with named_errors("standard output"):
                print(f"{names}: ready after {seconds:.1f} s; the page is at http://{rest}", flush=True)
                if grpc:
                    print(f"gRPC is at {grpc}", flush=True)

        cut_off = serve(models, _settings(values, index), cli.to_stderr, ready)
    end = f"{cut_off} did not take their answers and were cut off" if cut_off else "every request was answered"
    cli.to_stderr(f"ended: {end}")


def _models(values: flags.FlagValues) -> "list[ModelSettings]":
    """What to serve."""
    from fabir_tf.serving.config_files import read_models, validate_name
    from fabir_tf.serving.models import ModelSettings

    given = [name for name in ("model", "run_dir", "model_base_path", "model_config_file") if values[name].value]
    if len(given) != 1:
        raise UserError(
            f"found {' and '.join(f'--{name}' for name in given) or 'no model'}, expected one of --model, --run_dir, "
            "--model_base_path and --model_config_file"
        )
    if values.model_config_file or values.model_base_path:
        # A SavedModel keeps how it reads.
        cli.refuse_given(
            values, reader_flags.READING_FLAGS, f"has no effect with --{given[0]}: give it to fabir-export"
        )
    load_version = functools.partial(_load_saved_model, trust_model=values.trust_model)
    if values.model_config_file:
        if values.model_name:
            raise UserError("--model_name: the models of --model_config_file have names of their own")
        return read_models(values.model_config_file, load_version)
    if values.model_base_path:
        path = Path(values.model_base_path)
        name = validate_name(values.model_name or path.resolve().name, "--model_name")
        return [ModelSettings(name, base_path=path, load_version=load_version)]
    if values.trust_model:
        raise UserError(f"--trust_model has no effect with --{given[0]}: only SavedModels are checked")
    folder = reader_flags.needed_reader_folder(values)
    threshold = reader_flags.no_answer_threshold(values)
    reading = (values.max_passage, values.precision, values.max_answer, threshold)
    name = validate_name(values.model_name or Path(folder).resolve().name, "--model_name")
    return [ModelSettings(name, load=functools.partial(_load_reader, folder, *reading))]


def _load_reader(*arguments: Any) -> Any:
    return _backends().load_reader(*arguments)


def _load_saved_model(path: str, trust_model: bool) -> Any:
    return _backends().SavedModelBackend(path, trust_model)


def _backends() -> Any:
    """The module that imports TensorFlow, which only the process of a model needs."""
    try:
        return importlib.import_module("fabir_tf.serving.backends")
    except Exception as error:
        mistake = entry.mistake_in_settings(error)
        if not mistake:
            raise
        raise UserError(mistake) from None


def _settings(values: flags.FlagValues, index: Searched | None) -> "ServerSettings":
    from fabir_tf.serving.batching import BatchingSettings
    from fabir_tf.serving.config_files import read_batching
    from fabir_tf.serving.hosts import validate_origins
    from fabir_tf.serving.http import HttpSettings
    from fabir_tf.serving.server import ServerSettings
    from fabir_tf.serving.service import Limits

    batching = read_batching(values.batching_parameters_file) if values.batching_parameters_file else BatchingSettings()
    timeout = values.batch_timeout_micros
    chosen = {
        "max_batch_size": values.max_batch_size,
        "batch_timeout": None if timeout is None else timeout / 1e6,
        "max_enqueued_batches": values.max_enqueued_batches,
        "threads": values.num_batch_threads,
    }
    batching = dataclasses.replace(batching, **{name: value for name, value in chosen.items() if value is not None})
    limits = Limits(
        values.max_body_mb * MEGABYTE,
        values.max_questions,
        values.max_question_characters,
        values.max_passage_characters,
    )
    token = _token(values.token_file)
    http = HttpSettings(
        values.request_timeout,
        values.body_timeout,
        token,
        validate_origins(values.cors_origins, "--cors_origins"),
        _allowed_hosts(values, token),
        cli.to_stderr if values.access_log else None,
    )
    return ServerSettings(
        values.host,
        values.rest_api_port,
        None if values.grpc_port < 0 else values.grpc_port,
        http,
        limits,
        batching,
        values.header_timeout,
        shutdown_delay=values.shutdown_delay,
        index=index,
        paragraphs=values.paragraphs,
        modules=cli.imported_modules(values),
    )


def _allowed_hosts(values: flags.FlagValues, token: str) -> tuple[str, ...] | None:
    from fabir_tf.serving.hosts import is_local, validate_names

    if values.allowed_hosts is not None:
        return validate_names(values.allowed_hosts, "--allowed_hosts")
    return () if is_local(values.host) and not token else None


def _token(path: str | None) -> str:
    if path is None:
        return ""
    expected = "expected one token of ASCII letters, digits and signs without spaces"
    try:
        token = Path(path).read_bytes().decode("utf-8", "replace").strip()
    except OSError as error:
        raise UserError(f"--token_file={path}: cannot be read ({error.strerror}), {expected}") from None
    found = _fault_of_token(token)
    if found:
        raise UserError(f"--token_file={path}: found {found}, {expected}")
    return token


def _fault_of_token(token: str) -> str:
    """What is wrong with it, without a part of it; "" if nothing is."""
    if not token:
        return "nothing"
    if not token.isascii():
        return "bytes that are not ASCII"
    return "" if token.isprintable() and " " not in token else "spaces, or signs that cannot be printed"


def run() -> None:
    """Entry point of `fabir-serve`."""
    define_flags()
    cli.run_command(main, __doc__)
