"""Ids of words and characters that mean the same in every vocabulary."""

from keras import ops

PADDING = 0
UNKNOWN = 1


def known_ids(ids, rows: int):
    """Reads every id that a table lacks as unknown: one beyond its last row, and a negative one.

    Args:
        ids: int tensor of any shape.
        rows: rows of the table, for the ids 1 to rows.

    Returns:
        Int tensor of the same shape, 0 on padding.
    """
    is_known = ops.logical_and(ids >= PADDING, ids <= rows)
    return ops.where(is_known, ids, ops.cast(UNKNOWN, ids.dtype))
