"""What a teacher takes for the first and last token of each answer: the likeliest tokens with their probabilities."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, read_arrays

PLACES = 8
"""Tokens kept of each distribution."""


@dataclasses.dataclass(frozen=True, eq=False)
class TeacherDistributions:
    """A teacher's soft_labels of many questions.

    Attributes:
        ids: the questions' own names.
        lengths: int32 `(questions,)`, tokens of each question's passage.
        places: int32 `(questions, 2, PLACES)`, the likeliest first tokens, and the likeliest last ones.
        probabilities: float32 `(questions, 2, PLACES)`; they sum to 1 for each border.
        source: where they come from, for messages.
    """

    ids: tuple[str, ...]
    lengths: np.ndarray
    places: np.ndarray
    probabilities: np.ndarray
    source: str = "the teacher"

    @classmethod
    def collect(cls, soft_labels: Iterable[tuple[str, np.ndarray, np.ndarray]]) -> "TeacherDistributions":
        """Keeps the likeliest tokens.

        Args:
            soft_labels: of each question its id, and the probabilities of every passage token to be the first and the last
                of the answer, float `(passage,)` each.
        """
        ids, lengths, places, probabilities = [], [], [], []
        for identifier, start, end in soft_labels:
            ids.append(identifier)
            lengths.append(len(start))
            best = [np.argsort(-border, kind="stable")[:PLACES] for border in (start, end)]
            places.append([_filled(chosen) for chosen in best])
            probabilities.append([_filled(border[chosen]) for border, chosen in zip((start, end), best, strict=True)])
        shape = (-1, 2, PLACES)
        kept = np.array(probabilities, np.float32).reshape(shape)
        return cls(
            tuple(ids),
            np.array(lengths, np.int32),
            np.array(places, np.int32).reshape(shape),
            kept / np.maximum(kept.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny),
        )

    def save(self, path: str | os.PathLike) -> None:
        """Writes an `.npz` file, whole or not at all.

        Args:
            path: the file.

        Raises:
            WriteError: it cannot be written.
        """
        names = np.frombuffer("\n".join(self.ids).encode(), np.uint8)
        with atomic_write(path) as file:
            np.savez_compressed(
                file,
                ids=names,
                lengths=self.lengths,
                places=self.places.astype(np.uint16),
                probabilities=self.probabilities.astype(np.float16),
            )

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TeacherDistributions":
        """Reads what `save` wrote.

        Args:
            path: the file.

        Raises:
            UserError: it is missing, damaged or of another kind.
        """
        path = Path(path).expanduser()
        try:
            arrays = read_arrays(path)
            ids = tuple(arrays["ids"].tobytes().decode().split("\n")) if arrays["ids"].size else ()
            lengths, places, probabilities = (arrays[name] for name in ("lengths", "places", "probabilities"))
            if {len(ids)} != {len(part) for part in (lengths, places, probabilities)}:
                raise ValueError("its arrays are of different lengths")
            if places.shape != probabilities.shape or places.shape[1:] != (2, PLACES):
                raise ValueError(f"its places are of shape {places.shape}")
        except FileNotFoundError:
            raise UserError(f"{path}: no such file, expected a teacher's borders (fabir-teach)") from None
        except IsADirectoryError:
            raise UserError(f"{path}: found a folder, expected a file of a teacher's borders (fabir-teach)") from None
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{path}: found a damaged file ({error}), expected a teacher's borders") from None
        kept = (lengths.astype(np.int32), places.astype(np.int32), probabilities.astype(np.float32))
        return cls(ids, *kept, source=str(path))

    def of(self, ids: Sequence[str], lengths: np.ndarray) -> np.ndarray:
        """The soft_labels of given questions, as `fabir_tf.training.losses.StartEndLoss` takes it.

        Args:
            ids: the questions.
            lengths: int `(questions,)`, tokens of each question's passage.

        Returns:
            Float32 `(questions, 2, 2 * PLACES)`: places, then probabilities; nothing but zeros for a question that the
            teacher has no soft_labels of.

        Raises:
            UserError: the teacher has an soft_labels of none, or read a passage as another number of tokens.
        """
        rows = {identifier: row for row, identifier in enumerate(self.ids)}
        found = np.array([rows.get(identifier, -1) for identifier in ids], np.int64)
        if not (found >= 0).any():
            raise UserError(f"{self.source}: found borders for none of the questions that are trained on")
        other = np.flatnonzero((found >= 0) & (self.lengths[found] != lengths))
        if len(other):
            expected = f"{lengths[other[0]]} tokens, as in the data"
            told = f"question {ids[other[0]]!r} with a passage of {self.lengths[found[other[0]]]} tokens"
            raise UserError(f"{self.source}: found {told}, expected {expected}")
        soft_labels = np.concatenate([self.places, self.probabilities], axis=-1, dtype=np.float32)[found]
        soft_labels[found < 0] = 0.0
        return soft_labels


def mean_soft_labels(soft_labels: Sequence[np.ndarray]) -> np.ndarray:
    """What several teachers think of the same questions: of each, the mean of those that have an soft_labels of it.

    Args:
        soft_labels: float32 `(questions, 2, 2 * PLACES)` of each teacher, from `TeacherDistributions.of`.

    Returns:
        Float32 `(questions, 2, 2 * PLACES * teachers)`: the places of all, then their probabilities; a place may come
        several times. Nothing but zeros for a question that no teacher has an soft_labels of.
    """
    places, probabilities = zip(*(np.split(soft_labels, 2, axis=-1) for soft_labels in soft_labels), strict=True)
    heard = sum(part.any(axis=-1, keepdims=True).astype(np.float32) for part in probabilities)
    weighted = [part / np.maximum(heard, 1) for part in probabilities]
    return np.concatenate([*places, *weighted], axis=-1)


def _filled(values: np.ndarray) -> np.ndarray:
    return np.pad(values, (0, PLACES - len(values)))
