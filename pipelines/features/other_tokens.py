"""Moves start and end distributions from one reader's tokens to those of another."""

import numpy as np


def over_other_tokens(
    distributions: np.ndarray, starts: np.ndarray, ends: np.ndarray, other_starts: np.ndarray, other_ends: np.ndarray
) -> np.ndarray:
    """Start and end distributions of a passage over another cut of it into tokens.

    A start goes to the first of the other tokens that ends behind it, and an end to the last one that begins before it,
    so that a span keeps its text where both have its borders, and otherwise grows as little as it can.

    Args:
        distributions: float `(2, tokens + 1)`, the probabilities of every token to be the start and the end of the
            answer, the last column that of "no answer".
        starts, ends: int `(tokens,)`, the tokens' offsets in the passage.
        other_starts, other_ends: int `(others,)`, those of the other tokens; at least one.

    Returns:
        Float `(2, others + 1)` of the same sums.
    """
    last = len(other_starts) - 1
    columns = (
        np.minimum(np.searchsorted(other_ends, starts, side="right"), last),
        np.maximum(np.searchsorted(other_starts, ends, side="left") - 1, 0),
    )
    moved = np.zeros((2, last + 2), distributions.dtype)
    for side in range(2):
        np.add.at(moved[side], columns[side], distributions[side, :-1])
    moved[:, -1] = distributions[:, -1]
    return moved
