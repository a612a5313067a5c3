"""A batch as several complete ones, each for a device of its own."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fabir_tf.pipelines.features.features import SHARED_TEXT, Features, Segments


def passages_of(features: Features, group_ids: np.ndarray | None = None) -> np.ndarray:
    """What the examples of a passage have in common: they are encoded once where they stay together.

    Args:
        features: the examples.
        group_ids: int `(examples,)`; examples with the same id belong to the passage of the first of them. None puts
            every example into a group of its own.

    Returns:
        Int64 `(examples,)`, the same number for examples of the same passage.
    """
    passage = features.segments.get(SHARED_TEXT)
    if group_ids is None:
        return np.arange(len(features)) if passage is None else np.asarray(passage.starts)
    _, first, of_group = np.unique(group_ids, return_index=True, return_inverse=True)
    # Training reads one window of each passage for all of its questions unless windows are cut around the answers.
    # Where a window begins therefore identifies what several examples share.
    return of_group if passage is None else passage.starts[first][of_group]


def split_batches(batches: Iterable[np.ndarray], passages: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """Splits each batch by passage into parts with equal numbers of examples.

    The passages with the most questions are given away first, each to the part that has the fewest questions.

    Args:
        batches: int64 arrays of example numbers.
        passages: int `(examples,)`; examples with the same number stay in one part.
        parts: the number of parts of each batch.

    Yields:
        For each batch `parts` int64 arrays of the same length, which keep the batch's order. They are filled up with
        the number of the empty example, `len(passages)`; a part without a passage consists of it.
    """
    for batch in batches:
        part_of = _parts_of(passages[batch], parts)
        longest = max(1, np.bincount(part_of, minlength=parts).max())
        for part in range(parts):
            chosen = batch[part_of == part]
            yield np.pad(chosen, (0, longest - len(chosen)), constant_values=len(passages))


def _parts_of(passages: np.ndarray, parts: int) -> np.ndarray:
    """The part of each example of a batch."""
    _, of_passage, counts = np.unique(passages, return_inverse=True, return_counts=True)
    sizes, part_of = np.zeros(parts, np.int64), np.zeros(len(counts), np.int64)
    for passage in np.argsort(-counts, kind="stable"):
        part_of[passage] = sizes.argmin()
        sizes[part_of[passage]] += counts[passage]
    return part_of[of_passage]


def with_empty_example(features: Features, targets: Mapping[str, np.ndarray]) -> tuple[Features, dict[str, np.ndarray]]:
    """Adds an example without a token in any text, which fills parts up and does not count in the loss.

    Args:
        features: the examples.
        targets: arrays `(examples, ...)` by name.

    Returns:
        Both with one example more; its targets are 0.
    """
    segments = {
        text: Segments(_with_zero(segment.starts), _with_zero(segment.lengths))
        for text, segment in features.segments.items()
    }
    names = ("passages", "passage_lengths", "logit_offsets")
    parts: dict[str, Any] = {name: _with_zero(getattr(features, name)) for name in names}
    more = dataclasses.replace(features, segments=segments, **parts)
    return more, {name: _with_zero(values) for name, values in targets.items()}


def _with_zero(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, np.zeros((1, *values.shape[1:]), values.dtype)])
