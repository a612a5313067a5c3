"""fabir_tf: small, fast question-answering readers built on attention, for TensorFlow and Keras 3.

    model = fabir_tf.build_model()                       # a functional keras.Model
    reader = fabir_tf.Reader.load("fabir-base")          # a trained reader
    reader.answer("Who wrote it?", "It was written by Ada.")

Importing the package registers its layers with Keras, so a saved `.keras` file loads without further arguments.
Everything that needs Keras or TensorFlow is imported when it is first used: a model alone also builds where only
another Keras backend is installed.
"""

import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fabir_tf import onednn

# TensorFlow reads these when it loads; its start-up notices would hide what the commands print.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

os.environ.update(onednn.settings())

# An installed package contains layers/, pipelines/ and export/. In a checkout they lie beside this folder, so Python
# looks for them in its parent, too.
if not (Path(__file__).parent / "layers").is_dir():
    __path__.append(str(Path(__file__).resolve().parents[1]))

from fabir_tf.version import __version__

if TYPE_CHECKING:
    # `from fabir_tf import layers` means the same, but a type checker run in a checkout would not find the folder.
    import fabir_tf.export as export
    import fabir_tf.layers as layers
    import fabir_tf.pipelines as pipelines
    from fabir_tf import analysis, edge, models, reading, training
    from fabir_tf.analysis.pictures import attention_figure
    from fabir_tf.export import export_reader
    from fabir_tf.models import build_model, list_models
    from fabir_tf.models.fabir import FabirConfig
    from fabir_tf.pipelines.datasets.own_texts import questions_from
    from fabir_tf.pipelines.datasets.sources import load_dataset
    from fabir_tf.pipelines.errors import UserError
    from fabir_tf.pipelines.text.word_vectors import load_vectors
    from fabir_tf.reading.answers import Answer, QuestionAnswerer, Span
    from fabir_tf.reading.calibration import calibrate
    from fabir_tf.reading.document_reader import DocumentReader
    from fabir_tf.reading.ensemble import Ensemble
    from fabir_tf.reading.evaluation import evaluate
    from fabir_tf.reading.inspection import attention_weights, look_inside
    from fabir_tf.reading.packing import pack
    from fabir_tf.reading.question_answering import question_answering
    from fabir_tf.reading.reader import Reader
    from fabir_tf.training.data_options import DataOptions
    from fabir_tf.training.fit_batches import batches_to_fit, fit_processor
    from fabir_tf.training.optimizers import Adam
    from fabir_tf.training.train import train
    from fabir_tf.training.training_config import TrainingConfig

# Where each name that is imported on first use comes from.
_LAZY = {
    "Adam": "fabir_tf.training.optimizers",
    "Answer": "fabir_tf.reading.answers",
    "DataOptions": "fabir_tf.training.data_options",
    "DocumentReader": "fabir_tf.reading.document_reader",
    "Ensemble": "fabir_tf.reading.ensemble",
    "FabirConfig": "fabir_tf.models.fabir",
    "QuestionAnswerer": "fabir_tf.reading.answers",
    "Reader": "fabir_tf.reading.reader",
    "Span": "fabir_tf.reading.answers",
    "TrainingConfig": "fabir_tf.training.training_config",
    "UserError": "fabir_tf.pipelines.errors",
    "attention_figure": "fabir_tf.analysis.pictures",
    "attention_weights": "fabir_tf.reading.inspection",
    "batches_to_fit": "fabir_tf.training.fit_batches",
    "build_model": "fabir_tf.models",
    "calibrate": "fabir_tf.reading.calibration",
    "evaluate": "fabir_tf.reading.evaluation",
    "export_reader": "fabir_tf.export",
    "fit_processor": "fabir_tf.training.fit_batches",
    "list_models": "fabir_tf.models",
    "load_dataset": "fabir_tf.pipelines.datasets.sources",
    "load_vectors": "fabir_tf.pipelines.text.word_vectors",
    "look_inside": "fabir_tf.reading.inspection",
    "pack": "fabir_tf.reading.packing",
    "questions_from": "fabir_tf.pipelines.datasets.own_texts",
    "question_answering": "fabir_tf.reading.question_answering",
    "train": "fabir_tf.training.train",
}
_LAZY_PACKAGES = ("analysis", "edge", "export", "layers", "models", "pipelines", "reading", "training")

__all__ = [
    "Adam",
    "Answer",
    "DataOptions",
    "DocumentReader",
    "Ensemble",
    "FabirConfig",
    "QuestionAnswerer",
    "Reader",
    "Span",
    "TrainingConfig",
    "UserError",
    "__version__",
    "analysis",
    "attention_figure",
    "attention_weights",
    "batches_to_fit",
    "build_model",
    "calibrate",
    "edge",
    "evaluate",
    "export",
    "export_reader",
    "fit_processor",
    "layers",
    "list_models",
    "load_dataset",
    "load_vectors",
    "look_inside",
    "models",
    "pack",
    "pipelines",
    "question_answering",
    "questions_from",
    "reading",
    "train",
    "training",
]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function as soon as a module has been imported, whoever imports it."""

    def __init__(self, name: str, call: Callable[[], object]):
        self._name = name
        self._call = call

    def find_spec(self, fullname, path=None, target=None):
        """Finds the module as Python does, and adds the call to its execution."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self._call()

            # Only this module's loader: each has its own.
            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010
        return spec


def _import_layers() -> None:
    # Where the layers are what imports Keras, they are there already, unfinished.
    if "fabir_tf.layers" not in sys.modules:
        importlib.import_module("fabir_tf.layers")


def _import_old_layers() -> None:
    importlib.import_module("fabir_tf.compatibility")
    importlib.import_module("fabir_tf.saved_optimizers")


sys.meta_path.insert(0, _AfterImport("fabir_tf.layers", _import_old_layers))
if "keras" in sys.modules:
    _import_layers()
else:
    sys.meta_path.insert(0, _AfterImport("keras", _import_layers))


# Type checkers read the imports above instead, and so report names that do not exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _LAZY_PACKAGES:
            return importlib.import_module(f"fabir_tf.{name}")
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module 'fabir_tf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
