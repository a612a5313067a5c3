"""Encoded data as batches of NumPy arrays of few shapes, for backends that compile a model anew for every shape."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fabir_tf.pipelines.rows import PASSAGE_ROWS, EncodedRows

# Batches that are made while others are computed.
AHEAD = 4
# Lengths are rounded up to these, so that SQuAD's passages of at most 400 tokens have 11 of them.
FINE, COARSE, LONG = 32, 64, 256
# Numbers of texts are multiples of this.
ROWS = 16


def array_batches(
    rows: EncodedRows, batches: Iterable[np.ndarray], targets: Mapping[str, np.ndarray] | None = None
) -> Iterator[tuple]:
    """Batches as `fabir_tf.pipelines.batches.make_batches` has them, padded further to sizes of which there are few.

    Rows that are added have no token, neither in the passage nor in the question, and targets of 0.

    Args:
        rows, batches, targets: as for `make_batches`.

    Yields:
        (inputs,), or (inputs, targets): dictionaries of arrays.
    """
    with ThreadPoolExecutor(1) as pool:
        ahead = deque()
        for batch in batches:
            ahead.append(pool.submit(_make, rows, batch, targets))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def rounded(length: int) -> int:
    """The next length that texts may have: a multiple of 32 up to 256, of 64 up to 512, then of 256."""
    step = FINE if length <= 256 else COARSE if length <= 512 else LONG
    return max(-(-length // step), 1) * step


def rounded_rows(count: int) -> int:
    """The next number of texts that a batch may have."""
    return -(-count // ROWS) * ROWS


def _make(rows: EncodedRows, batch: np.ndarray, targets: Mapping[str, np.ndarray] | None) -> tuple:
    stretches = np.stack([rows.passage_starts[batch], rows.passage_lengths[batch]], axis=1)
    stretches, passage_rows = np.unique(stretches, axis=0, return_inverse=True)
    passage = _types(rows, *stretches.T)
    question = _types(rows, rows.question_starts[batch], rows.question_lengths[batch])
    types, places = np.unique(np.concatenate([passage, question], axis=None), return_inverse=True)
    places = places.astype(np.int32).reshape(-1)
    # As many as there are tokens, so that their number is not one more size to compile for.
    types = _with_rows(types, len(places))
    inputs = {
        PASSAGE_ROWS: _with_rows(passage_rows.reshape(-1).astype(np.int32), rounded_rows(len(batch))),
        "passage_types": places[: passage.size].reshape(passage.shape),
        "question_types": places[passage.size :].reshape(question.shape),
        "type_words": rows.type_words[types],
        "type_characters": rows.type_characters[types],
    }
    if targets is None:
        return (inputs,)
    return inputs, {name: _with_rows(array[batch], rounded_rows(len(batch))) for name, array in targets.items()}


def _types(rows: EncodedRows, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    types = np.zeros((rounded_rows(len(starts)), rounded(lengths.max())), np.int32)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        types[row, :length] = rows.tokens[start : start + length]
    return types


def _with_rows(values: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([values, np.zeros((count - len(values), *values.shape[1:]), values.dtype)])
