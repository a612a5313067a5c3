"""Trained readers as SavedModels, for programs without this library, and for programs without TensorFlow."""

from fabir_tf.export.edge import export_edge
from fabir_tf.export.saved_model import export_reader
from fabir_tf.export.saved_model_reader import SavedModelReader

__all__ = ["SavedModelReader", "export_edge", "export_reader"]
