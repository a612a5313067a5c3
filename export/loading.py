"""Loads a SavedModel whose operations have been checked before anything of it is run."""

import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from fabir_tf.export.operations import forbidden_operations
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import user_path

MODEL_FILE = "saved_model.pb"
# TensorFlow 1 keeps the names of assets here.
_ASSETS = "saved_model_assets"
# What TensorFlow writes above the message of an operation that fails in a graph.
_HEADINGS = ("Graph execution error", "Detected at node", "<stack traces unavailable>")


def load_saved_model(path: str | os.PathLike, trust_model: bool = False) -> Any:
    """Loads a SavedModel as `tf.saved_model.load` does, if it holds no operation that could do harm.

    Args:
        path: the folder of a version.
        trust_model: whether it is loaded whatever it holds: it may then read and write files and run programs.

    Returns:
        What `tf.saved_model.load` returns.

    Raises:
        UserError: there is no SavedModel, it is damaged, or it holds operations that `OPERATIONS` lacks.
    """
    folder = user_path(path)
    saved = read_saved_model(folder)
    if not trust_model:
        validate_harmless(saved, folder)
    # TensorFlow has errors of many kinds for a file that holds nonsense.
    try:
        return tf.saved_model.load(str(folder))
    except Exception as error:
        raise UserError(f"{folder}: found a SavedModel that cannot be loaded ({first_line(error)})") from None


def read_saved_model(folder: Path) -> saved_model_pb2.SavedModel:
    """Reads what a SavedModel consists of, without running any of it.

    Args:
        folder: of a version.

    Raises:
        UserError: there is none, or it is damaged.
    """
    path = folder / MODEL_FILE
    try:
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except OSError as error:
        raise UserError(f"{folder}: found no SavedModel ({MODEL_FILE}: {error.strerror})") from None
    except DecodeError:
        raise UserError(f"{path}: the file is damaged, expected a SavedModel") from None
    if not saved.meta_graphs:
        raise UserError(f"{path}: found no graph, expected a SavedModel")
    return saved


def validate_harmless(saved: saved_model_pb2.SavedModel, folder: Path) -> None:
    """Checks the operations of a SavedModel, and that its assets lie in its folder.

    Args:
        saved: what `read_saved_model` read.
        folder: where, for messages.

    Raises:
        UserError: an operation is unknown to `OPERATIONS`, or an asset's path leaves the folder.
    """
    forbidden = forbidden_operations(saved)
    if forbidden:
        names = ", ".join(forbidden[:5]) + (", ..." if len(forbidden) > 5 else "")
        raise UserError(
            f"{folder}: found operations that may reach files or run programs ({names}), expected only those that "
            "compute, or --trust_model (in Python trust_model=True) for a SavedModel that you trust"
        )
    for graph in saved.meta_graphs:
        for name in _assets(graph):
            if not _stays_inside(name):
                raise UserError(f"{folder}: found the asset {name!r}, expected a path inside the SavedModel's folder")


def _assets(graph: meta_graph_pb2.MetaGraphDef) -> list[str]:
    names = [asset.filename for asset in graph.asset_file_def]
    for packed in graph.collection_def[_ASSETS].any_list.value if _ASSETS in graph.collection_def else ():
        asset = meta_graph_pb2.AssetFileDef()
        packed.Unpack(asset)
        names.append(asset.filename)
    return names


def _stays_inside(name: str) -> bool:
    # The same folder may be read on either system.
    paths = PurePosixPath(name), PureWindowsPath(name)
    return not any(path.anchor or ".." in path.parts for path in paths) and "://" not in name


def first_line(error: Exception) -> str:
    """The first line of an error's message that says what is wrong, or its class where it has none."""
    message = getattr(error, "message", None) or str(error)
    lines = (line.strip() for line in message.splitlines())
    return next((line for line in lines if line and not line.startswith(_HEADINGS)), type(error).__name__)
