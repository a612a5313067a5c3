"""Trained models as SavedModels, for programs without this library."""

from fabir_tf.export.token_ids import export_token_ids

__all__ = ["export_token_ids"]
