"""Features as batches of NumPy arrays in few shapes, for backends that compile a model for every shape."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from fabir_tf.pipelines.features.features import PASSAGE_INDEX, SHARED_TEXT, Features, Segments

# Batches that are made while others are computed.
AHEAD = 4
# Lengths are rounded up to multiples of these; SQuAD's passages of at most 400 tokens then have 11 lengths.
FINE, COARSE, LONG = 32, 64, 256
# Numbers of texts are multiples of this.
ROWS = 16
# Shapes of all batches together: compiling FABIR's training step for one takes as long as 2,000 steps (H100).
SHAPES = 6


class Shape(NamedTuple):
    """What a batch is padded to.

    Attributes:
        examples: the number of examples.
        shared: the number of distinct passage windows; 0 where no text is shared.
        lengths: tokens of each text, in the order of `Features.segments`, the shared one first.
    """

    examples: int
    shared: int
    lengths: tuple[int, ...]

    def around(self, other: "Shape") -> "Shape":
        """The smallest shape that both fit into."""
        lengths = tuple(map(max, self.lengths, other.lengths))
        return Shape(max(self.examples, other.examples), max(self.shared, other.shared), lengths)

    @property
    def work(self) -> int:
        """Roughly the cost of a step: FABIR does a quarter of its work on a passage before it meets a question."""
        first, *others = self.lengths
        return first * (self.shared + 3 * self.examples) + self.examples * sum(others)


def array_batches(
    features: Features,
    batches: Iterable[np.ndarray],
    targets: Mapping[str, np.ndarray] | None = None,
    like: Iterable[np.ndarray] = (),
) -> Iterator[tuple]:
    """The batches of `tensor_batches.make_batches`, padded further so that they have few shapes.

    Examples that only fill a batch up have no token in any text, and targets of 0.

    Args:
        features, batches, targets: as for `make_batches`.
        like: typical batches; batches are padded to the `bucket_shapes` of these. A batch that fits into none of them
            is rounded by itself.

    Yields:
        (inputs,), or (inputs, targets): dictionaries of arrays.
    """
    shapes = bucket_shapes(shape_of(features, batch) for batch in like)
    with ThreadPoolExecutor(1) as pool:
        ahead: deque[Future[Any]] = deque()
        for batch in batches:
            ahead.append(pool.submit(_make, features, batch, targets, shapes))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def token_inputs(features: Features, batch: np.ndarray, step: int = 1) -> dict[str, np.ndarray]:
    """One batch as the model itself reads it, without the deduplication of `array_batches`.

    Args:
        features: the examples.
        batch: int64 `(batch,)`, example numbers.
        step: lengths are multiples of it.

    Returns:
        `{text}_{part}`, such as `passage_words`, `(batch, length, ...)`, padded with 0 to the longest text.
    """
    inputs: dict[str, np.ndarray] = {}
    for text, segment in features.segments.items():
        lengths = segment.lengths[batch]
        width = max(-(-int(lengths.max()) // step), 1) * step
        tokens = _padded(features.tokens, segment.starts[batch], lengths, len(batch), width)
        inputs |= {f"{text}_{part}": values[tokens] for part, values in features.unique.items()}
    return inputs


def bucket_shapes(shapes: Iterable[Shape], most: int = SHAPES) -> list[Shape]:
    """Few shapes that all given ones fit into, with little wasted work.

    The pair of shapes whose union adds the least work is merged, until at most `most` shapes are left.

    Args:
        shapes: the shape of each batch.
        most: the number of shapes to keep.

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
            for number, one in enumerate(known)
            for other in known[:number]
        )
        count = left.pop(one) + left.pop(other)
        left[one.around(other)] += count
    return sorted(left, key=lambda shape: shape.work)


def shape_of(features: Features, batch: np.ndarray) -> Shape:
    """The shape of a batch that is padded by itself."""
    shared = features.segments.get(SHARED_TEXT)
    return Shape(
        rounded_rows(len(batch)),
        rounded_rows(len(_distinct(shared, batch)[0])) if shared else 0,
        tuple(rounded(int(segment.lengths[batch].max())) for segment in features.segments.values()),
    )


def rounded(length: int) -> int:
    """The next length that texts may have: a multiple of 32 up to 256, of 64 up to 512, then of 256."""
    step = FINE if length <= 256 else COARSE if length <= 512 else LONG
    return max(-(-length // step), 1) * step


def rounded_rows(count: int) -> int:
    """The next number of texts that a batch may have."""
    return -(-count // ROWS) * ROWS


def _make(
    features: Features, batch: np.ndarray, targets: Mapping[str, np.ndarray] | None, shapes: list[Shape]
) -> tuple:
    own = shape_of(features, batch)
    shape = next((shape for shape in shapes if shape.around(own) == shape), own)
    inputs, padded = {}, {}
    for (text, segment), length in zip(features.segments.items(), shape.lengths, strict=True):
        rows, starts, lengths = shape.examples, segment.starts[batch], segment.lengths[batch]
        if text == SHARED_TEXT:
            distinct, index = _distinct(segment, batch)
            rows, (starts, lengths) = shape.shared, distinct.T
            inputs[PASSAGE_INDEX] = _with_rows(index.reshape(-1).astype(np.int32), shape.examples)
        padded[text] = _padded(features.tokens, starts, lengths, rows, length)
    unique, index = np.unique(np.concatenate(list(padded.values()), axis=None), return_inverse=True)
    index = index.astype(np.int32).reshape(-1)
    # As many as there are tokens, so that their number is not one more size to compile for.
    unique = _with_rows(unique, len(index))
    begin = 0
    for text, tokens in padded.items():
        inputs[f"{text}_token_index"] = index[begin : begin + tokens.size].reshape(tokens.shape)
        begin += tokens.size
    inputs |= {f"unique_{part}": values[unique] for part, values in features.unique.items()}
    if targets is None:
        return (inputs,)
    return inputs, {name: _with_rows(array[batch], shape.examples) for name, array in targets.items()}


def _distinct(segment: Segments, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of each distinct segment of a batch, and the index of every example's segment among these."""
    segments = np.stack([segment.starts[batch], segment.lengths[batch]], axis=1)
    return np.unique(segments, axis=0, return_inverse=True)


def _padded(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, rows: int, width: int) -> np.ndarray:
    padded = np.zeros((rows, width), np.int32)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        padded[row, :length] = tokens[start : start + length]
    return padded


def _with_rows(values: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([values, np.zeros((count - len(values), *values.shape[1:]), values.dtype)])
