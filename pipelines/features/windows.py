"""Long passages as overlapping windows, and the windows' logits as one passage again."""

import numpy as np

LONGEST_PASSAGE = 4096
"""Tokens read at once at most: an attention over more of them would take gigabytes."""


def window_offsets(length: int, size: int, overlap: int) -> np.ndarray:
    """Where the windows over a passage begin.

    Every token is in at least one window, neighbours share at least `overlap` tokens, and every window is full: the
    last one ends with the passage.

    Args:
        length: tokens of the passage.
        size: most tokens of a window.
        overlap: tokens that neighbouring windows share, less than `size`.

    Returns:
        Int64 array `(windows,)`, rising from 0; one window where the passage fits.

    Raises:
        ValueError: `overlap` is not between 0 and `size - 1`.
    """
    if not 0 <= overlap < size:
        raise ValueError(f"overlap must be between 0 and size - 1. Received: size={size}, overlap={overlap}")
    if length <= size:
        return np.zeros(1, np.int64)
    count = 1 + -(-(length - size) // (size - overlap))
    return np.minimum(np.arange(count, dtype=np.int64) * (size - overlap), length - size)


def merge_windows(logits: list[np.ndarray], offsets: np.ndarray, length: int) -> np.ndarray:
    """One logit per token: that of the window which shows most of the token's surroundings.

    A span may so begin in one window and end in the next, and one softmax over the whole passage makes the
    probabilities of all windows comparable.

    Args:
        logits: float arrays `(window,)`, one per window.
        offsets: int array `(windows,)`, the passage's token at which each begins.
        length: tokens of the passage.

    Returns:
        Float array `(length,)`.
    """
    merged = np.zeros(length, logits[0].dtype)
    surroundings = np.full(length, -1)
    for window, offset in zip(logits, offsets, strict=True):
        places = np.arange(len(window))
        seen = np.minimum(places, places[::-1])
        part = slice(offset, offset + len(window))
        better = seen > surroundings[part]
        merged[part][better] = window[better]
        surroundings[part][better] = seen[better]
    return merged
