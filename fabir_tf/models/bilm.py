"""Reads the biLM of ELMo from a folder in its authors' layout (bilm-tf, AllenNLP).

options.json     sizes and clips; the name may have more in front, such as elmo_2x1024_128_2048cnn_1xhighway_
weights.hdf5     the weights; in front of the name, too
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from fabir_tf import layers
from fabir_tf.layers.embeddings.character_embedding import ACTIVATIONS
from fabir_tf.models.hdf5 import read_array
from fabir_tf.models.word_model_sizes import WordModelSizes
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import user_path
from fabir_tf.pipelines.json_files import quoted, read_json
from fabir_tf.pipelines.text.bilm_characters import ROWS, SENTENCE_BORDERS, WIDTH

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
CHARACTERS, LANGUAGE_MODEL = "bilm_characters", "bilm"
"""The names of the two layers in a reader."""


@dataclasses.dataclass(frozen=True)
class BilmSizes(WordModelSizes):
    """What decides the shape of a biLM; the defaults are those of the published "small" one, with 13.6 M parameters.

    Attributes:
        character_dim, filters, highway_layers, activation: those of `layers.CharacterCnn`.
        units, projection, depth, cell_clip, projection_clip, skip_connections: those of
            `layers.BidirectionalLanguageModel`.
    """

    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    highway_layers: int = 1
    activation: str = "relu"
    units: int = 1024
    projection: int = 128
    depth: int = 2
    cell_clip: float = 3.0
    projection_clip: float = 3.0
    skip_connections: bool = True

    def __post_init__(self):
        # JSON has lists.
        object.__setattr__(self, "filters", tuple(map(tuple, self.filters)))

    @property
    def dim(self) -> int:
        """Those of both directions."""
        return 2 * self.projection

    def character_layer(self) -> keras.layers.Layer:
        """The layer that makes words of characters."""
        return layers.CharacterCnn(
            ROWS,
            self.character_dim,
            self.filters,
            self.highway_layers,
            self.projection,
            self.activation,
            name=CHARACTERS,
        )

    def language_model(self) -> keras.layers.Layer:
        """The recurrent layers."""
        return layers.BidirectionalLanguageModel(
            self.units,
            self.projection,
            self.depth,
            self.cell_clip,
            self.projection_clip,
            self.skip_connections,
            name=LANGUAGE_MODEL,
        )


@dataclasses.dataclass(frozen=True)
class Bilm:
    """What a folder holds.

    Attributes:
        sizes: those of options.json.
        arrays: float32 weights by the paths of our layers, such as `bilm/forward_0/kernel`; the borders' vectors, which
            the character layer makes, are not among them.
    """

    sizes: BilmSizes
    arrays: dict[str, np.ndarray]

    def set_weights(self, model: keras.Model) -> None:
        """Gives the two layers of a model the folder's weights, and the borders of texts their vectors."""
        characters, language_model = (model.get_layer(name) for name in (CHARACTERS, LANGUAGE_MODEL))
        variables = {variable.path: variable for layer in (characters, language_model) for variable in layer.weights}
        for path, array in self.arrays.items():
            variables[path].assign(array)
        language_model.borders.assign(characters(SENTENCE_BORDERS[None])[0])


def read_sizes(folder: str | os.PathLike) -> BilmSizes:
    """Reads the options alone.

    Args:
        folder: a local folder with options.json.

    Raises:
        UserError: the file is missing or damaged, or describes no biLM of characters.
    """
    return _sizes(_only(user_path(folder), OPTIONS))


def read_bilm(folder: str | os.PathLike) -> Bilm:
    """Reads options and weights.

    Args:
        folder: a local folder with options.json and weights.hdf5.

    Raises:
        UserError: the folder or a file is missing or damaged, or the weights do not fit the options.
    """
    place = user_path(folder)
    sizes = _sizes(_only(place, OPTIONS))
    path = _only(place, WEIGHTS)
    try:
        with h5py.File(path, "r") as file:
            return Bilm(sizes, dict(_arrays(path, file, sizes)))
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        # What h5py raises for damaged bytes.
        raise UserError(f"{path}: cannot be read ({error}), expected weights in HDF5.") from None


def _only(folder: Path, ending: str) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: found no such folder, expected one with {OPTIONS} and {WEIGHTS} of a biLM.")
    found = sorted(folder.glob(f"*{ending}"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{folder}: found {names}, expected one file whose name ends in {ending}.")
    return found[0]


# === options.json ===


def _sizes(path: Path) -> BilmSizes:
    content = read_json(path)

    def value(*keys: str) -> Any:
        found: Any = content
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                raise UserError(f"{path}: found no {'.'.join(keys)}, which a biLM of characters needs.")
            found = found[key]
        return found

    def number(*keys: str, least: int = 1, kinds: tuple[type, ...] = (int,)) -> Any:
        found = value(*keys)
        if type(found) not in kinds or found < least:
            raise UserError(f"{path}: found {'.'.join(keys)} {quoted(found)}, expected a number from {least} on.")
        return found

    activation = value("char_cnn", "activation")
    if activation not in list(ACTIVATIONS):
        raise UserError(
            f"{path}: found char_cnn.activation {quoted(activation)}, expected one of {', '.join(ACTIVATIONS)}."
        )
    width = value("char_cnn", "max_characters_per_token")
    if width != WIDTH:
        raise UserError(f"{path}: found char_cnn.max_characters_per_token {quoted(width)}, expected {WIDTH}.")
    skip = value("lstm", "use_skip_connections")
    if not isinstance(skip, bool):
        raise UserError(f"{path}: found lstm.use_skip_connections {quoted(skip)}, expected true or false.")
    return BilmSizes(
        character_dim=number("char_cnn", "embedding", "dim"),
        filters=_filters(path, value("char_cnn", "filters")),
        highway_layers=number("char_cnn", "n_highway", least=0),
        activation=activation,
        units=number("lstm", "dim"),
        projection=number("lstm", "projection_dim"),
        depth=number("lstm", "n_layers"),
        cell_clip=float(number("lstm", "cell_clip", least=0, kinds=(int, float))),
        projection_clip=float(number("lstm", "proj_clip", least=0, kinds=(int, float))),
        skip_connections=skip,
    )


def _filters(path: Path, found: Any) -> tuple[tuple[int, int], ...]:
    pairs = found if isinstance(found, list) else []
    is_valid = all(
        isinstance(pair, list) and len(pair) == 2 and all(type(size) is int and size > 0 for size in pair)
        for pair in pairs
    )
    if not pairs or not is_valid or any(width > WIDTH for width, _ in pairs):
        raise UserError(
            f"{path}: found char_cnn.filters {quoted(found)}, expected pairs of a width, at most {WIDTH}, and a number."
        )
    return tuple((width, count) for width, count in pairs)


# === weights.hdf5 ===


def _arrays(path: Path, file: Mapping[str, Any], sizes: BilmSizes) -> Iterator[tuple[str, np.ndarray]]:
    """The weights by the paths of our layers, checked against the sizes."""

    def taken(name: str, *shape: int) -> np.ndarray:
        return _taken(path, file, name, shape)

    values = sum(count for _, count in sizes.filters)
    yield f"{CHARACTERS}/table", taken("char_embed", ROWS, sizes.character_dim)
    for number, (width, count) in enumerate(sizes.filters):
        own = f"{CHARACTERS}/convolution_{number}"
        yield f"{own}/kernel", taken(f"CNN/W_cnn_{number}", 1, width, sizes.character_dim, count)[0]
        yield f"{own}/bias", taken(f"CNN/b_cnn_{number}", count)
    for number in range(sizes.highway_layers):
        highway = f"{CHARACTERS}/highway"
        # Their gate is the share of the transformation, ours that of the input: 1 - sigmoid(x) = sigmoid(-x).
        for name, own, sign in (("transform", "transform", 1), ("carry", "gate", -1)):
            yield f"{highway}/{own}_{number}/kernel", sign * taken(f"CNN_high_{number}/W_{name}", values, values)
            yield f"{highway}/{own}_{number}/bias", sign * taken(f"CNN_high_{number}/b_{name}", values)
    yield f"{CHARACTERS}/projection/kernel", taken("CNN_proj/W_proj", values, sizes.projection)
    yield f"{CHARACTERS}/projection/bias", taken("CNN_proj/b_proj", sizes.projection)
    for direction, own in enumerate(("forward", "backward")):
        for number in range(sizes.depth):
            cell, layer = (
                f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell",
                f"{LANGUAGE_MODEL}/{own}_{number}",
            )
            both = taken(f"{cell}/W_0", 2 * sizes.projection, 4 * sizes.units)
            yield f"{layer}/kernel", both[: sizes.projection]
            yield f"{layer}/steps/cell/recurrent_kernel", both[sizes.projection :]
            yield f"{layer}/bias", taken(f"{cell}/B", 4 * sizes.units)
            yield f"{layer}/steps/cell/output_kernel", taken(f"{cell}/W_P_0", sizes.units, sizes.projection)


def _taken(path: Path, file: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> np.ndarray:
    found: Any = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise UserError(f"{path}: found no {name}, expected floats of shape {shape}, as {OPTIONS} says.")
    if found.shape != shape or found.dtype.kind != "f":
        raise UserError(
            f"{path}: found {name} of shape {found.shape} and type {found.dtype}, expected floats of shape {shape}, "
            f"as {OPTIONS} says."
        )
    values = read_array(path, found)
    if not np.isfinite(values).all():
        raise UserError(f"{path}: found a value of {name} that is not finite, expected finite weights.")
    return values.astype("float32")
