"""The folder of a run: its configuration, vocabulary, vectors, checkpoints and reports."""

import json
import os
from pathlib import Path

from fabir_tf.configuration import Config, ConfigError
from fabir_tf.models import MODELS, model_name
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers


class RunDirectory:
    """Names of a run's files, and its configuration.

    Args:
        path: the folder; nothing is made until something is written.

    Raises:
        UserError: the name is empty, which would be the folder that the user is in.
    """

    def __init__(self, path: str | Path):
        if not str(path):
            raise UserError("found an empty name, expected the folder of a run")
        self.path = Path(path).expanduser()
        self.config = self.path / "config.json"
        self.vocabulary = self.path / "vocabulary"
        self.last = self.path / "checkpoints" / "last.npz"
        self.best = self.path / "checkpoints" / "best.npz"
        self.model = self.path / "model.keras"
        self.history = self.path / "history.csv"
        self.coverage = self.path / "coverage.json"
        self.tensorboard = self.path / "tensorboard"
        self.predictions = self.path / "predictions.json"
        self.calibration = self.path / "calibration.json"

    @property
    def is_started(self) -> bool:
        """Whether a run was begun here."""
        return self.config.exists()

    def write_config(self, model: ReaderConfig, training: Config, data: dict) -> None:
        """Records what the run is made of.

        Args:
            model: the model's configuration.
            training: the training's.
            data: fingerprints of the data, to know it again on resumption.
        """
        content = {
            "model": {"name": model_name(model)} | model.to_dict(),
            "training": training.to_dict(),
            "data": data,
        }
        write_text(self.config, json.dumps(content, indent=2) + "\n")

    def read_config(self) -> dict:
        """The recorded configuration, as `write_config` took it.

        Raises:
            UserError: the folder holds no run, or its configuration is damaged.
        """
        if not self.is_started:
            raise UserError(f"{self.path}: found no run, expected a folder written by fabir-train")
        content = read_json(self.config)
        for part in ("model", "training", "data"):
            if not isinstance(content, dict) or not isinstance(content.get(part), dict):
                raise UserError(f"{self.config}: found no object {part!r}, expected the configuration of a run")
        return content

    def read_model_config(self) -> ReaderConfig:
        """The configuration of the run's model.

        Raises:
            UserError: the folder holds no run, or its configuration is damaged or of an unknown model.
        """
        values = dict(self.read_config()["model"])
        name = values.pop("name", None)
        if not isinstance(name, str) or name not in MODELS:
            raise UserError(f"{self.config}: unknown model {name!r}, expected one of {', '.join(MODELS)}")
        try:
            return MODELS[name].config.from_dict(values)
        except ConfigError as error:
            raise UserError(f"{self.config}: {error}") from error


def reader_directory(name: str | os.PathLike) -> RunDirectory:
    """Where a trained reader is.

    Args:
        name: the folder of a run, or a reader that comes with the package.
    """
    if not os.path.exists(name) and name in pretrained_readers():
        return RunDirectory(pretrained_folder(name))
    return RunDirectory(name)


def validate_model(start_from: str, begun: ReaderConfig, name: str) -> None:
    """Checks that a run trains the model that it begins as.

    Args:
        start_from: the trained reader's folder or name.
        begun: its configuration.
        name: the run's model.

    Raises:
        UserError: the reader is another model.
    """
    if model_name(begun) != name:
        raise UserError(f"--start_from={start_from}: found a --model={model_name(begun)}, expected --model={name}")
