"""Trained readers as SavedModels, for programs without this library."""

from fabir_tf.export.saved_model import export_reader

__all__ = ["export_reader"]
