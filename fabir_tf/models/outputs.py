"""The names of a reader's outputs."""

from typing import Any

START, END, NULL = "start_logits", "end_logits", "null_logits"


def reader_outputs(start: Any, end: Any, null: Any = None) -> dict[str, Any]:
    """A reader's outputs by name.

    Args:
        start, end: logits `(batch, passage)`.
        null: start and end logits of "no answer" `(batch, 2)`, or None for a reader that always answers.
    """
    return {START: start, END: end} | ({} if null is None else {NULL: null})
