"""Trained readers as SavedModels, for programs without this library."""

from fabir_tf.export.saved_model import export_reader
from fabir_tf.export.saved_model_reader import SavedModelReader

__all__ = ["SavedModelReader", "export_reader"]
