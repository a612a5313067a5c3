"""Encoded data as batches of NumPy arrays of few shapes, for backends that compile a model anew for every shape."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fabir_tf.pipelines.features.features import PASSAGE_INDEX, Features

# Batches that are made while others are computed.
AHEAD = 4
# Lengths are rounded up to these, so that SQuAD's passages of at most 400 tokens have 11 of them.
FINE, COARSE, LONG = 32, 64, 256
# Numbers of texts are multiples of this.
ROWS = 16
# Shapes of all batches together: to compile FABIR's training step for one takes as long as 2,000 steps (H100).
SHAPES = 6


class Shape(NamedTuple):
    """What a batch is padded to: numbers of texts, and of their tokens."""

    passages: int
    passage_tokens: int
    questions: int
    question_tokens: int

    def around(self, other: "Shape") -> "Shape":
        """The smallest that both fit into."""
        return Shape(*map(max, self, other))

    @property
    def work(self) -> int:
        """About as much as a step costs: what FABIR does before the texts meet is a quarter of what it does after."""
        return self.passage_tokens * (self.passages + 3 * self.questions) + self.questions * self.question_tokens


def array_batches(
    rows: Features,
    batches: Iterable[np.ndarray],
    targets: Mapping[str, np.ndarray] | None = None,
    like: Iterable[np.ndarray] = (),
) -> Iterator[tuple]:
    """Batches as `fabir_tf.pipelines.features.tensor_batches.make_batches` has them, padded further to sizes of which there are few.

    Examples that are added have no token, neither in the passage nor in the question, and targets of 0.

    Args:
        rows, batches, targets: as for `make_batches`.
        like: batches such as those to come, which are padded to the `bucket_shapes` of these; what fits into none of them
            has its own rounding.

    Yields:
        (inputs,), or (inputs, targets): dictionaries of arrays.
    """
    shapes = bucket_shapes(shape_of(rows, batch) for batch in like)
    with ThreadPoolExecutor(1) as pool:
        ahead = deque()
        for batch in batches:
            ahead.append(pool.submit(_make, rows, batch, targets, shapes))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def bucket_shapes(shapes: Iterable[Shape], most: int = SHAPES) -> list[Shape]:
    """Shapes that all of the given ones fit into, chosen for little to be computed in vain.

    Of all pairs, that is put together which adds the least work, until no more than `most` shapes are left.

    Args:
        shapes: of each batch.
        most: shapes that are kept.

    Returns:
        The shapes, those with the least work first.
    """
    left = Counter(shapes)
    while len(left) > most:
        known = list(left)
        _, one, other = min(
            (
                left[one] * (one.around(other).work - one.work) + left[other] * (one.around(other).work - other.work),
                one,
                other,
            )
            for place, one in enumerate(known)
            for other in known[:place]
        )
        count = left.pop(one) + left.pop(other)
        left[one.around(other)] += count
    return sorted(left, key=lambda shape: shape.work)


def shape_of(rows: Features, batch: np.ndarray) -> Shape:
    """What a batch is padded to when it does not have to be like others."""
    return Shape(
        rounded_rows(len(_stretches(rows, batch)[0])),
        rounded(int(rows.passage_lengths[batch].max())),
        rounded_rows(len(batch)),
        rounded(int(rows.question_lengths[batch].max())),
    )


def rounded(length: int) -> int:
    """The next length that texts may have: a multiple of 32 up to 256, of 64 up to 512, then of 256."""
    step = FINE if length <= 256 else COARSE if length <= 512 else LONG
    return max(-(-length // step), 1) * step


def rounded_rows(count: int) -> int:
    """The next number of texts that a batch may have."""
    return -(-count // ROWS) * ROWS


def _make(rows: Features, batch: np.ndarray, targets: Mapping[str, np.ndarray] | None, shapes: list[Shape]) -> tuple:
    own = shape_of(rows, batch)
    shape = next((shape for shape in shapes if shape.around(own) == shape), own)
    stretches, passage_rows = _stretches(rows, batch)
    passage = _types(rows, *stretches.T, shape.passages, shape.passage_tokens)
    questions = rows.question_starts[batch], rows.question_lengths[batch]
    question = _types(rows, *questions, shape.questions, shape.question_tokens)
    types, places = np.unique(np.concatenate([passage, question], axis=None), return_inverse=True)
    places = places.astype(np.int32).reshape(-1)
    # As many as there are tokens, so that their number is not one more size to compile for.
    types = _with_rows(types, len(places))
    inputs = {
        PASSAGE_INDEX: _with_rows(passage_rows.reshape(-1).astype(np.int32), shape.questions),
        "passage_token_index": places[: passage.size].reshape(passage.shape),
        "question_token_index": places[passage.size :].reshape(question.shape),
        "unique_words": rows.unique_words[types],
        "unique_characters": rows.unique_characters[types],
    }
    if targets is None:
        return (inputs,)
    return inputs, {name: _with_rows(array[batch], shape.questions) for name, array in targets.items()}


def _stretches(rows: Features, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of each passage of a batch, and the place of every question's passage among these."""
    stretches = np.stack([rows.passage_starts[batch], rows.passage_lengths[batch]], axis=1)
    return np.unique(stretches, axis=0, return_inverse=True)


def _types(rows: Features, starts: np.ndarray, lengths: np.ndarray, count: int, width: int) -> np.ndarray:
    types = np.zeros((count, width), np.int32)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        types[row, :length] = rows.tokens[start : start + length]
    return types


def _with_rows(values: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([values, np.zeros((count - len(values), *values.shape[1:]), values.dtype)])
