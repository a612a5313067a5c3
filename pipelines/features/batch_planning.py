"""How many examples a batch may hold, and how long its texts are padded: shared by NumPy and graph code."""

from collections.abc import Iterator
from typing import Any

import numpy as np

LONGEST_PASSAGE = 4096
"""Most passage tokens read at once: the attention over more tokens would take gigabytes."""

# Tokens in a batch that is read: enough to use compiled kernels often, few enough for the memory.
BATCH_TOKENS = 48_000
BATCH_EXAMPLES = 512
# Pairs of tokens in a batch that is read: each attention head holds a float32 for each of them, 64 MiB.
BATCH_PAIRS = LONGEST_PASSAGE**2

# Padding in a batch that is read: to read so many tokens more takes about as long as to begin another batch.
BATCH_PADDING = 500

# Training pads lengths to multiples of this, so that kernels compiled for one batch serve others.
TRAINING_STEP = 4
# A small batch takes less time than compiling kernels for its lengths. Its lengths are multiples of a larger step, so
# that the next question finds its kernels compiled.
SMALL_BATCH, SMALL_BATCH_STEP = 8, 16


def fits(examples: Any, longest: Any, total: Any) -> Any:
    """Whether a batch that is read stays within the limits.

    Args:
        examples: number of examples, an int, an array or a tensor.
        longest: tokens of the longest text, of the same type.
        total: tokens of all of them without padding, of the same type.

    Returns:
        A boolean, or booleans in the shape of the arguments.
    """
    tokens = examples * longest
    return (tokens <= BATCH_TOKENS) & (tokens * longest <= BATCH_PAIRS) & (tokens - total <= BATCH_PADDING)


def reading_batches(lengths: np.ndarray, most: int | None = None) -> Iterator[np.ndarray]:
    """Sorts examples by length and cuts them into batches within the limits.

    Args:
        lengths: int `(examples,)`, tokens of each example's longest text.
        most: examples of a batch; None for `BATCH_EXAMPLES`.

    Yields:
        Example numbers, int64; each batch holds at least one.
    """
    order = np.argsort(lengths, kind="stable")
    sorted_lengths = lengths[order].astype(np.int64)
    totals = np.concatenate([[0], np.cumsum(sorted_lengths)])
    begin = 0
    for end in range(1, len(order) + 1):
        is_last = end == len(order)
        if (
            is_last
            or end - begin == (most or BATCH_EXAMPLES)
            or not fits(end - begin + 1, sorted_lengths[end], totals[end + 1] - totals[begin])
        ):
            yield order[begin:end]
            begin = end


def reading_step(examples: Any) -> Any:
    """The step whose multiples the lengths of a batch that is read are.

    Args:
        examples: number of examples, an int or a tensor.
    """
    return 1 + (SMALL_BATCH_STEP - 1) * _as_integer(examples <= SMALL_BATCH)


def _as_integer(condition: Any) -> Any:
    if isinstance(condition, bool | np.bool_):
        return int(condition)
    import tensorflow as tf

    return tf.cast(condition, tf.int64)
