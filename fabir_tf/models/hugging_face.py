"""Reads a folder in Hugging Face's layout: the encoder's settings, and its weights by the paths of our layers.

    config.json         `model_type` and the sizes
    model.safetensors   the weights; else tf_model.h5, which needs h5py

Nothing in the folder is run, so that pytorch_model.bin, a pickle, is not read.
"""

import dataclasses
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from fabir_tf.layers.blocks.bert_layer import ACTIVATIONS
from fabir_tf.models.safetensors import read_safetensors
from fabir_tf.models.weights import MODEL
from fabir_tf.models.weights import set_weights as set_named_weights
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import user_path
from fabir_tf.pipelines.json_files import quoted, read_json

CONFIG, SAFETENSORS, HDF5, PICKLE = "config.json", "model.safetensors", "tf_model.h5", "pytorch_model.bin"
# Not by transformers' classes: they would add a head with random weights to an encoder that has none.
_CONVERT = (
    'convert it by: python -c "import torch; from safetensors.torch import save_file; '
    "save_file({{k: v.clone().contiguous() for k, v in "
    "torch.load('{0}/pytorch_model.bin', weights_only=True).items()}}, '{0}/model.safetensors')\""
)
_HEAD = {"qa_outputs": "head/logits"}
_PIECES = "embeddings/word_table"


@dataclasses.dataclass(frozen=True)
class _Family:
    """How one `model_type` names things.

    Attributes:
        layers: what the names of the layers' weights begin with, before the layer's number.
        maps: linear maps of a layer, with the paths in `BertLayer`.
        norms: norms of a layer, with the paths in `BertLayer`.
        keys: keys of config.json by our settings.
        fixed: settings that config.json does not have.
    """

    layers: str
    maps: Mapping[str, str]
    norms: Mapping[str, str]
    keys: Mapping[str, str]
    fixed: Mapping[str, Any]


_FAMILIES = {
    "bert": _Family(
        "encoder.layer",
        {
            "attention.self.query": "attention/query",
            "attention.self.key": "attention/key",
            "attention.self.value": "attention/value",
            "attention.output.dense": "attention/output",
            "intermediate.dense": "hidden",
            "output.dense": "output",
        },
        {"attention.output.LayerNorm": "attention_norm", "output.LayerNorm": "output_norm"},
        {
            "pieces": "vocab_size",
            "d_model": "hidden_size",
            "num_layers": "num_hidden_layers",
            "num_heads": "num_attention_heads",
            "hidden_dim": "intermediate_size",
            "max_positions": "max_position_embeddings",
            "segments": "type_vocab_size",
            "activation": "hidden_act",
            "hidden_dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
            "epsilon": "layer_norm_eps",
        },
        {},
    ),
    "distilbert": _Family(
        "transformer.layer",
        {
            "attention.q_lin": "attention/query",
            "attention.k_lin": "attention/key",
            "attention.v_lin": "attention/value",
            "attention.out_lin": "attention/output",
            "ffn.lin1": "hidden",
            "ffn.lin2": "output",
        },
        {"sa_layer_norm": "attention_norm", "output_layer_norm": "output_norm"},
        {
            "pieces": "vocab_size",
            "d_model": "dim",
            "num_layers": "n_layers",
            "num_heads": "n_heads",
            "hidden_dim": "hidden_dim",
            "max_positions": "max_position_embeddings",
            "activation": "activation",
            "hidden_dropout": "dropout",
            "attention_dropout": "attention_dropout",
        },
        {"segments": 0, "epsilon": 1e-12},
    ),
}

# Settings that change what a model computes, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "pad_token_id": (0, None),
}
_COUNTS = ("pieces", "d_model", "num_layers", "num_heads", "hidden_dim", "max_positions")


@dataclasses.dataclass(frozen=True)
class HuggingFaceModel:
    """What a folder holds.

    Attributes:
        source: the file of the weights, for messages.
        settings: fields of `BertSpanConfig` that describe the encoder.
        arrays: float32 weights by the paths of the layers: `embeddings/...`, `layer_0/...`, and `head/logits/...` where
            the folder is of a question-answering model.
    """

    source: Path
    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def has_head(self) -> bool:
        """Whether the folder is of a question-answering model."""
        return "head/logits/kernel" in self.arrays

    @property
    def named_arrays(self) -> dict[str, np.ndarray]:
        """The weights by the names that `fabir_tf.models.weights` has for them."""
        return {f"{MODEL}{path}": array for path, array in self.arrays.items()}

    def without_head(self) -> "HuggingFaceModel":
        """The encoder alone."""
        arrays = {path: array for path, array in self.arrays.items() if not path.startswith("head/")}
        return dataclasses.replace(self, arrays=arrays)

    def with_pieces(self, pieces: int) -> "HuggingFaceModel":
        """With a table of as many word pieces as the vocabulary has; some folders have rows that no piece uses.

        Raises:
            UserError: the table has fewer rows.
        """
        table = self.arrays[_PIECES]
        if len(table) < pieces:
            raise UserError(
                f"{self.source}: found vectors of {len(table)} word pieces, expected at least {pieces}, as many as the "
                "vocabulary has."
            )
        return dataclasses.replace(self, arrays=self.arrays | {_PIECES: table[:pieces]})


def is_hugging_face(folder: str | os.PathLike) -> bool:
    """Whether a folder is in Hugging Face's layout: its config.json names a `model_type`."""
    try:
        content = json.loads((user_path(folder) / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "model_type" in content


def read_settings(folder: str | os.PathLike) -> dict[str, Any]:
    """Reads the settings alone: fields of `BertSpanConfig` that describe the encoder.

    Args:
        folder: a local folder with config.json.

    Raises:
        UserError: the file is missing or damaged, or the model is not one that this package has.
    """
    return _read_config(user_path(folder) / CONFIG)[1]


def read_hugging_face(folder: str | os.PathLike, needs_head: bool = False) -> HuggingFaceModel:
    """Reads settings and weights.

    Args:
        folder: a local folder with config.json and model.safetensors or tf_model.h5.
        needs_head: whether the weights must be of a question-answering model.

    Raises:
        UserError: the folder or a file is missing or damaged, or the model is not one that this package has.
    """
    place = user_path(folder)
    if not place.is_dir():
        raise UserError(f"{folder}: found no such folder, expected one with {CONFIG} and {SAFETENSORS} or {HDF5}.")
    family, settings = _read_config(place / CONFIG)
    source, found = _read_weights(place, family)
    arrays = dict(_renamed(source, found, family, settings))
    model = HuggingFaceModel(source, settings, arrays)
    if needs_head and not model.has_head:
        raise UserError(
            f"{source}: found no qa_outputs.weight, expected the weights of a question-answering model: fine-tune this "
            f"encoder first (fabir-train --model=bert-span --encoder={folder})."
        )
    return model


def set_weights(model: keras.Model, found: HuggingFaceModel) -> list[str]:
    """Gives a model the weights of a folder.

    Args:
        model: one that was built with the folder's settings.
        found: what the folder holds.

    Returns:
        The paths of the model's weights that the folder lacks, which keep their values: those of a head.

    Raises:
        UserError: the weights are of another model.
    """
    return set_named_weights(model, found.named_arrays, found.source, allow_missing=True)


# === config.json ===


def _read_config(path: Path) -> tuple[str, dict[str, Any]]:
    """The name of the family, and the encoder's settings."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f"{path}: found no JSON object, expected a model's settings.")
    name = content.get("model_type")
    if name not in list(_FAMILIES):
        raise UserError(f"{path}: found model_type {quoted(name)}, expected one of {', '.join(_FAMILIES)}.")
    for key, neutral in _NEUTRAL.items():
        if content.get(key) not in neutral:
            expected = "its absence" if neutral[0] is None else quoted(neutral[0])
            raise UserError(f"{path}: found {key} {quoted(content[key])}, expected {expected}: no other is supported.")
    family = _FAMILIES[name]
    settings = {setting: _value(path, content, key) for setting, key in family.keys.items()} | dict(family.fixed)
    _check_settings(path, family, settings)
    return name, settings


def _value(path: Path, content: Mapping[str, Any], key: str) -> Any:
    if key not in content:
        raise UserError(f"{path}: found no {key}, which a model of type {content['model_type']} needs.")
    return content[key]


def _check_settings(path: Path, family: _Family, settings: Mapping[str, Any]) -> None:
    def refuse(setting: str, expected: str) -> UserError:
        return UserError(f"{path}: found {family.keys[setting]} {quoted(settings[setting])}, expected {expected}.")

    for setting in (*_COUNTS, "segments"):
        least = 0 if setting == "segments" else 1
        if type(settings[setting]) is not int or settings[setting] < least:
            raise refuse(setting, f"a whole number from {least} on")
    if settings["d_model"] % settings["num_heads"]:
        raise refuse("num_heads", f"a divisor of {family.keys['d_model']} {settings['d_model']}")
    if settings["activation"] not in list(ACTIVATIONS):
        raise refuse("activation", f"one of {', '.join(ACTIVATIONS)}")
    for setting, above in (("hidden_dropout", 0.95), ("attention_dropout", 0.95), ("epsilon", 1.0)):
        if type(settings[setting]) not in (int, float) or not 0 <= settings[setting] <= above:
            raise refuse(setting, f"a number from 0 to {above}")


# === Files of weights ===


def _read_weights(folder: Path, family: str) -> tuple[Path, dict[str, np.ndarray]]:
    """The file, and its arrays by PyTorch's names without the model's prefix."""
    if (folder / SAFETENSORS).exists():
        path = folder / SAFETENSORS
        return path, {_own_name(name, family): array for name, array in read_safetensors(path).items()}
    if (folder / HDF5).exists():
        return folder / HDF5, _read_hdf5(folder / HDF5)
    if (folder / f"{SAFETENSORS}.index.json").exists():
        raise UserError(f"{folder}: found weights in several files, expected one file {SAFETENSORS}.")
    expected = f"expected {SAFETENSORS} or {HDF5}"
    if (folder / PICKLE).exists():
        raise UserError(
            f"{folder}: found only {PICKLE}, which could run code when it is read, {expected}; "
            f"{_CONVERT.format(folder)}"
        )
    raise UserError(f"{folder}: found no weights, {expected}.")


def _own_name(name: str, family: str) -> str:
    """A PyTorch name without the model's prefix, with the norms' weights named as today."""
    name = name.removeprefix(f"{family}.")
    return re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name))


# What Keras' names begin with, perhaps twice, before the parts that PyTorch has, too.
_KERAS_NAME = re.compile(r"^(?:.*/)?((?:embeddings|encoder|transformer|qa_outputs)/.+?)(?::0)?$")


def _read_hdf5(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file of Keras, by PyTorch's names and in PyTorch's order of axes."""
    try:
        import h5py

        from fabir_tf.models.hdf5 import read_array
    except ModuleNotFoundError:
        raise UserError(f"{path}: reading it needs h5py: pip install h5py") from None
    arrays = {}

    def take(name: str, item: Any) -> None:
        match = _KERAS_NAME.match(name)
        if match and isinstance(item, h5py.Dataset):
            parts = match[1].replace("layer_._", "layer/").split("/")
            values = read_array(path, item)
            is_kernel = parts[-1] == "kernel"
            parts[-1] = _TORCH_NAMES.get(parts[-1], parts[-1])
            arrays[".".join(parts)] = values.T if is_kernel else values

    try:
        with h5py.File(path, "r") as file:
            file.visititems(take)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise UserError(f"{path}: cannot be read ({error}), expected weights in HDF5.") from None
    return arrays


_TORCH_NAMES = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "beta": "bias"}


# === From PyTorch's names to ours ===


def _renamed(
    source: Path, found: Mapping[str, np.ndarray], family_name: str, settings: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """The weights by our paths, checked against the settings."""
    family = _FAMILIES[family_name]
    dim, hidden = settings["d_model"], settings["hidden_dim"]
    tables = {"word": settings["pieces"], "position": settings["max_positions"]}
    if settings["segments"]:
        tables["token_type"] = settings["segments"]
    for name, length in tables.items():
        own = "segment" if name == "token_type" else name
        array = _taken(source, found, f"embeddings.{name}_embeddings.weight", (length, dim))
        yield f"embeddings/{own}_table", array
    yield from _norm(source, found, "embeddings.LayerNorm", "embeddings", dim)
    for number in range(settings["num_layers"]):
        for name, own in family.maps.items():
            outputs, inputs = {"hidden": (hidden, dim), "output": (dim, hidden)}.get(own, (dim, dim))
            layer = f"{family.layers}.{number}.{name}"
            yield from _linear(source, found, layer, f"layer_{number}/{own}", outputs, inputs)
        for name, own in family.norms.items():
            yield from _norm(source, found, f"{family.layers}.{number}.{name}", f"layer_{number}/{own}", dim)
    for name, own in _HEAD.items():
        if f"{name}.weight" in found:
            yield from _linear(source, found, name, own, 2, dim)


def _linear(
    source: Path, found: Mapping[str, np.ndarray], name: str, path: str, outputs: int, inputs: int
) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{path}/kernel", _taken(source, found, f"{name}.weight", (outputs, inputs)).T
    yield f"{path}/bias", _taken(source, found, f"{name}.bias", (outputs,))


def _norm(
    source: Path, found: Mapping[str, np.ndarray], name: str, path: str, dim: int
) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{path}/gain", _taken(source, found, f"{name}.weight", (dim,))
    yield f"{path}/bias", _taken(source, found, f"{name}.bias", (dim,))


def _taken(source: Path, found: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in found:
        raise UserError(f"{source}: found no {name}, expected one of shape {shape}, as {CONFIG} says.")
    array = found[name]
    if array.shape != shape or array.dtype.kind != "f":
        raise UserError(
            f"{source}: found {name} of shape {array.shape} and type {array.dtype}, expected floats of shape {shape}, "
            f"as {CONFIG} says."
        )
    with warnings.catch_warnings():
        # A float64 beyond float32's range becomes infinite; the check below says so.
        warnings.simplefilter("ignore", RuntimeWarning)
        values = np.asarray(array, "float32")
    if not np.isfinite(values).all():
        raise UserError(f"{source}: found a value of {name} that is not finite, expected finite weights.")
    return values
