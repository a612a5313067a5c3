"""Long passages as overlapping windows, and the windows' logits as one passage again."""

import numpy as np

from fabir_tf.pipelines.features.features import Examples

OVERLAP = 128
"""Most tokens that neighboring windows share: room for any answer with its context."""


def window_offsets(length: int, size: int, overlap: int) -> np.ndarray:
    """Where the windows over a passage begin.

    Every token is in at least one window, neighbors share at least `overlap` tokens, and every window is full: the last
    one ends with the passage.

    Args:
        length: tokens of the passage.
        size: most tokens of a window.
        overlap: tokens that neighboring windows share, less than `size`.

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


def reading_examples(lengths: np.ndarray, sizes: np.ndarray) -> Examples:
    """The windows in which questions are read.

    Args:
        lengths: int `(questions,)`, tokens of each question's passage.
        sizes: int `(questions,)`, most tokens of a window, from `TextProcessor.window_sizes`.

    Returns:
        The examples, question by question. A question about a passage without a token has none.
    """
    fits = (lengths > 0) & (lengths <= sizes)
    offsets = [
        np.zeros(1, np.int64) if fit else window_offsets(length, size, min(OVERLAP, size // 2))
        for length, size, fit in zip(lengths.tolist(), sizes.tolist(), fits.tolist(), strict=True)
    ]
    questions = np.repeat(np.arange(len(lengths)), [len(part) for part in offsets])
    flat = np.concatenate(offsets or [np.zeros(0, np.int64)])
    examples = Examples(questions, flat, np.minimum(lengths, sizes)[questions])
    return examples.select(examples.lengths > 0)


def merge_windows(logits: list[np.ndarray], offsets: np.ndarray, length: int) -> np.ndarray:
    """One logit per token: that of the window which shows most of the token's context.

    A span may therefore start in one window and end in the next, and one softmax over the whole passage makes the
    probabilities of all windows comparable.

    Args:
        logits: float arrays `(window,)`, one per window.
        offsets: int array `(windows,)`, the passage token at which each window begins.
        length: tokens of the passage.

    Returns:
        Float array `(length,)`.
    """
    merged = np.zeros(length, logits[0].dtype)
    context = np.full(length, -1)
    for window, offset in zip(logits, offsets, strict=True):
        columns = np.arange(len(window))
        shown = np.minimum(columns, columns[::-1])
        part = slice(offset, offset + len(window))
        better = shown > context[part]
        merged[part][better] = window[better]
        context[part][better] = shown[better]
    return merged


def smallest_null(null_logits: np.ndarray) -> np.ndarray:
    """The null logits of a passage that was read in windows.

    Every window without the answer rightly says "no answer", so the window that says it least decides.

    Args:
        null_logits: float `(windows, 2)`, start and end logits of "no answer".

    Returns:
        Float `(2,)`, those of the window where their sum is smallest.
    """
    return null_logits[np.argmin(null_logits.sum(axis=1))]
