"""The names of a reader's outputs."""

from typing import Any

from fabir_tf.pipelines.features.features import END, NULL, START

__all__ = ["END", "NULL", "START", "reader_outputs"]


def reader_outputs(start: Any, end: Any, null: Any = None) -> dict[str, Any]:
    """A reader's outputs by name.

    Args:
        start, end: logits `(batch, passage)`.
        null: start and end logits of "no answer" `(batch, 2)`, or None for a reader that always answers.
    """
    return {START: start, END: end} | ({} if null is None else {NULL: null})
