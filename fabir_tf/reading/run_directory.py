"""The folder of a run: its configuration, text processor, checkpoints and reports."""

import functools
import importlib.metadata
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from fabir_tf import onednn
from fabir_tf.configuration import Config, ConfigError
from fabir_tf.models import MODELS, build_model, model_name
from fabir_tf.models.bert_span import reading_config
from fabir_tf.models.hugging_face import CONFIG, HDF5, SAFETENSORS, is_hugging_face, read_hugging_face, read_settings
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.weights import read_weights
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import file_digest, user_path, write_text
from fabir_tf.pipelines.json_files import quoted, read_json, shown
from fabir_tf.pipelines.text.processor import PROCESSOR_FILE, TextProcessor
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.pipelines.text.wordpiece_files import CONFIG_FILE, TOKENIZER_FILE, VOCABULARY_FILE, read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.renamed_settings import translate_settings
from fabir_tf.version import __version__

FORMAT = 2
"""Version of the folder's form; version 0.1 wrote none."""

MEMBERS = "members"
"""The folder of an ensemble's members, whose names are 0, 1, ..."""

# Training has checked the names, so one that is unknown here was known there.
_FROM_OUTSIDE = "; what is not part of fabir_tf needs --import=MODULE"


class RunDirectory:
    """The names of a run's files, and its configuration.

    Args:
        path: the folder; it is created when something is written.

    Raises:
        UserError: the name is empty, which would be the current folder.
    """

    def __init__(self, path: str | os.PathLike):
        if not str(path):
            raise UserError("found an empty name, expected the folder of a run")
        self.path = user_path(path)
        self.config = self.path / "config.json"
        self.lock = self.path / "training.lock"
        self.processor = self.path / "processor"
        self.last = self.path / "checkpoints" / "last.npz"
        self.best = self.path / "checkpoints" / "best.npz"
        self.model = self.path / "model.keras"
        self.history = self.path / "history.csv"
        self.coverage = self.path / "coverage.json"
        self.tensorboard = self.path / "tensorboard"
        self.predictions = self.path / "predictions.json"
        self.calibration = self.path / "calibration.json"
        self.ensemble = self.path / "ensemble.json"

    @property
    def is_started(self) -> bool:
        """Whether the folder holds a run or an ensemble."""
        return self.config.exists() or self.ensemble.exists()

    @property
    def readers(self) -> "list[RunDirectory]":
        """The folders of single readers that answer together: this one, or the members of an ensemble."""
        return [self]

    @property
    def is_old(self) -> bool:
        """Whether version 0.1 wrote the run."""
        return "format" not in self.read_config()

    @property
    def deciding_files(self) -> list[Path]:
        """The files that decide about the reader's answers."""
        folders = (self.processor, self.path / "vocabulary")
        named = [self.config, self.ensemble, self.calibration, self.best]
        return [path for path in named + _sorted_files(folders) if path.is_file()]

    def write_config(self, model: ReaderConfig, training: Config, data: dict, keeps_vectors: bool = False) -> None:
        """Records the run's configuration, and the versions of what decides about its numbers.

        Args:
            model: the model's configuration.
            training: the training's.
            data: hashes of the data, which are compared when the run is resumed.
            keeps_vectors: whether it is trained with a vector cache, which rounds.
        """
        content = {
            "format": FORMAT,
            "versions": versions() | {"vector_cache": "on" if keeps_vectors else "off"},
            "model": {"name": model_name(model)} | model.to_dict(),
            "training": training.to_dict(),
            "data": data,
        }
        write_text(self.config, json.dumps(content, indent=2) + "\n")

    def read_config(self) -> dict:
        """The recorded configuration, as `write_config` wrote it; settings of version 0.1 have their new names.

        Raises:
            UserError: the folder holds no run, or its configuration is damaged or of a later version.
        """
        if self.ensemble.exists():
            raise UserError(
                f"{self.path}: found an ensemble, expected a single reader, such as {self.path / MEMBERS / '0'}"
            )
        if not self.is_started:
            names = "" if self.path.exists() else f", or one of {', '.join(pretrained_readers())}"
            raise UserError(f"{self.path}: found no run, expected a folder written by fabir-train{names}")
        content = read_json(self.config)
        for part in ("model", "training", "data"):
            if not isinstance(content, dict) or not isinstance(content.get(part), dict):
                raise UserError(f"{self.config}: found no object {part!r}, expected the configuration of a run")
        version = content.get("format", 1)
        if not isinstance(version, int) or version > FORMAT:
            raise UserError(
                f"{self.config}: found format {shown(version)}, expected at most {FORMAT}: it needs a later fabir_tf"
            )
        return content | {part: translate_settings(content[part]) for part in ("model", "training")}

    def read_model_config(self, max_answer: int | None = None) -> ReaderConfig:
        """The configuration of the run's model.

        Args:
            max_answer: longest predicted answer, in tokens; None for the run's own.

        Raises:
            UserError: the folder holds no run, or its configuration is damaged or of an unknown model; or the reader
                has no limit.
        """
        config = self._own_config()
        if max_answer is None:
            return config
        config = config.replace(max_answer=max_answer)
        if config.answer_limit is None:
            found = f"{self.path} chooses start and end apart, so that answers have no limit"
            raise UserError(f"--max_answer={max_answer}: {found}, expected none")
        return config

    def _own_config(self) -> ReaderConfig:
        values = dict(self.read_config()["model"])
        name = values.pop("name", None)
        if not isinstance(name, str) or name not in MODELS:
            expected = f"expected one of {', '.join(MODELS)}"
            raise UserError(f"{self.config}: unknown model {name!r}, {expected}{_FROM_OUTSIDE}")
        try:
            return MODELS[name].config.from_dict(values)
        except ConfigError as error:
            hint = _FROM_OUTSIDE if "must be one of" in str(error) else ""
            raise UserError(f"{self.config}: {error}{hint}") from error

    @property
    def weights(self) -> Path:
        """Where the weights are, for messages."""
        return self.best

    def read_weights(self) -> tuple[dict, dict[str, np.ndarray]]:
        """The state and the weights by name of the best checkpoint, as `fabir_tf.models.weights.read_weights` has them.

        Raises:
            UserError: the file is missing or damaged.
        """
        return read_weights(self.best, lambda: build_model(_without_table(self.read_model_config())))

    def read_processor(self, log=None) -> TextProcessor:
        """The run's text processor.

        Args:
            log: called with one sentence if the installed tokenizer cuts text in another way than in training.

        Raises:
            UserError: a file is missing or damaged.
        """
        if not (self.processor / PROCESSOR_FILE).exists() and (self.path / "vocabulary").is_dir():
            # Version 0.1 kept words in this folder, without a note of what they were.
            width = getattr(self.read_model_config(), "max_word_characters", None)
            processor = WordProcessor.load_assets(self.path / "vocabulary", {"max_word_characters": width})
            processor.rules = 1
            return processor
        return read_processor(self.processor, log)


class HuggingFaceDirectory(RunDirectory):
    """A folder of a question-answering model in Hugging Face's layout, read as if it were a run that has ended.

    Nothing is written into it.
    """

    def read_config(self) -> dict:
        """The configuration of the model; nothing is known of its training and its data."""
        config = self.read_model_config()
        return {
            "format": FORMAT,
            "model": {"name": model_name(config)} | config.to_dict(),
            "training": {},
            "data": {},
        }

    @property
    def deciding_files(self) -> list[Path]:
        """See `RunDirectory.deciding_files`."""
        names = (CONFIG, CONFIG_FILE, TOKENIZER_FILE, VOCABULARY_FILE, SAFETENSORS, HDF5)
        return [self.path / name for name in names if (self.path / name).is_file()]

    @functools.cached_property
    def _pieces(self) -> int:
        return len(read_wordpieces(self.path)[0])

    def _own_config(self) -> ReaderConfig:
        return reading_config(read_settings(self.path), self._pieces)

    @property
    def weights(self) -> Path:
        """The folder."""
        return self.path

    def read_weights(self) -> tuple[dict, dict[str, np.ndarray]]:
        """See `RunDirectory.read_weights`.

        Raises:
            UserError: a file is missing or damaged, or is not of a question-answering model.
        """
        found = read_hugging_face(self.path, needs_head=True).with_pieces(self._pieces)
        return {}, found.named_arrays

    def read_processor(self, log=None) -> TextProcessor:
        """The folder's word pieces.

        Raises:
            UserError: a file is missing or damaged.
        """
        return WordPieceProcessor.create(self.read_model_config().to_dict() | {"encoder": str(self.path)})


class EnsembleDirectory(RunDirectory):
    """The folder of an ensemble: the folders of its members, their weights and the calibration of the whole."""

    @property
    def readers(self) -> list[RunDirectory]:
        """The folders of the members.

        Raises:
            UserError: the file of the ensemble is damaged.
        """
        return [self.member(number) for number in range(len(self.read_weights_of_members()))]

    @property
    def deciding_files(self) -> list[Path]:
        """See `RunDirectory.deciding_files`."""
        return super().deciding_files + [path for reader in self.readers for path in reader.deciding_files]

    def member(self, number: int) -> RunDirectory:
        """The folder of a member, counted from 0."""
        return RunDirectory(self.path / MEMBERS / str(number))

    def write_ensemble(self, weights: Sequence[float], chosen: str) -> None:
        """Marks the folder as one of an ensemble, so it is written last.

        Args:
            weights: one for each member.
            chosen: how they were chosen.
        """
        content = {"format": FORMAT, "versions": versions(), "weights": list(weights), "weights_chosen": chosen}
        write_text(self.ensemble, json.dumps(content, indent=2) + "\n")

    def read_weights_of_members(self) -> list[float]:
        """One weight for each member.

        Raises:
            UserError: the file of the ensemble is damaged or of a later version.
        """
        content = read_json(self.ensemble)
        weights = content.get("weights") if isinstance(content, dict) else None
        fits = isinstance(weights, list) and all(type(one) in (int, float) and 0 < one < math.inf for one in weights)
        if not isinstance(weights, list) or not weights or not fits:
            raise UserError(
                f"{self.ensemble}: found {quoted(weights)} as 'weights', expected a list of numbers above 0, one for "
                "each member"
            )
        version = content.get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise UserError(
                f"{self.ensemble}: found format {shown(version)}, expected at most {FORMAT}: it needs a later fabir_tf"
            )
        return weights


def _sorted_files(folders: Sequence[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*"))


def _without_table(config: ReaderConfig) -> ReaderConfig:
    # The frozen table holds no weight of the file, and may be large.
    return config.replace(frozen_words=0) if "frozen_words" in config.to_dict() else config


def versions() -> dict[str, str]:
    """The versions of this package and of what decides about tokens and numbers."""
    found = {"fabir_tf": __version__, "keras": keras.__version__, "backend": keras.backend.backend()}
    if found["backend"] == "tensorflow":
        found["onednn"] = "on" if onednn.is_on() else "off"
    for name in ("tensorflow", "jax", "nltk", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def reader_directory(name: str | os.PathLike) -> RunDirectory:
    """The folder of a trained reader.

    Args:
        name: the folder of a run, of an ensemble or of a question-answering model in Hugging Face's layout, or the name
            of a reader that comes with the package.
    """
    if not os.path.exists(name) and name in pretrained_readers():
        return RunDirectory(pretrained_folder(str(name)))
    if RunDirectory(name).ensemble.exists():
        return EnsembleDirectory(name)
    return HuggingFaceDirectory(name) if is_hugging_face(name) else RunDirectory(name)


def reader_digest(name: str | os.PathLike) -> str:
    """A hash that changes with what decides about a reader's answers.

    Args:
        name: as for `reader_directory`.
    """
    return file_digest(reader_directory(name).deciding_files)


def validate_model(start_from: str, config: ReaderConfig, name: str) -> None:
    """Checks that a run trains the same model as the reader that it starts from.

    Args:
        start_from: the trained reader's folder or name.
        config: its configuration.
        name: the run's model.

    Raises:
        UserError: the reader is another model.
    """
    if model_name(config) != name:
        raise UserError(f"--start_from={start_from}: found a --model={model_name(config)}, expected --model={name}")
