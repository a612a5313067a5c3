"""A teacher's start and end distributions of many questions: the likeliest tokens with their probabilities."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, read_arrays, user_path

KEPT = 8
"""Tokens kept of each distribution."""

FORMAT = 2
_EXPECTED = "a file of fabir-teach"


@dataclasses.dataclass(frozen=True, eq=False)
class TeacherDistributions:
    """A teacher's start and end distributions.

    Attributes:
        ids: the questions' ids.
        lengths: int32 `(questions,)`, tokens of each question's passage.
        indices: int32 `(questions, 2, KEPT)`, the likeliest start tokens, and the likeliest end tokens.
        probabilities: float32 `(questions, 2, KEPT)`, their probabilities.
        null_probabilities: float32 `(questions, 2)`, the probability that there is no start, and no end; 0 from a
            teacher without a null head. With those of the kept tokens they sum to 1.
        source: where the distributions come from, for messages.
    """

    ids: tuple[str, ...]
    lengths: np.ndarray
    indices: np.ndarray
    probabilities: np.ndarray
    null_probabilities: np.ndarray
    source: str = "the teacher"

    @classmethod
    def collect(cls, distributions: Iterable[tuple[str, np.ndarray]]) -> "TeacherDistributions":
        """Keeps the likeliest tokens of each distribution.

        Args:
            distributions: for each question its id, and float `(2, passage + 1)`: the probabilities of every passage
                token to be the start and the end of the answer, the last column that of "no answer".
        """
        ids, lengths, indices, probabilities, nulls = [], [], [], [], []
        for identifier, both in distributions:
            tokens, null = both[:, :-1], both[:, -1]
            best = np.argsort(-tokens, axis=1, kind="stable")[:, :KEPT]
            kept = np.take_along_axis(tokens, best, axis=1)
            missing = ((0, 0), (0, KEPT - best.shape[1]))
            ids.append(identifier)
            lengths.append(tokens.shape[1])
            indices.append(np.pad(best, missing))
            probabilities.append(np.pad(kept, missing))
            nulls.append(null)
        kept = np.array(probabilities, np.float32).reshape(-1, 2, KEPT)
        null = np.array(nulls, np.float32).reshape(-1, 2)
        total = np.maximum(kept.sum(axis=-1) + null, np.finfo(np.float32).tiny)
        return cls(
            tuple(ids),
            np.array(lengths, np.int32),
            np.array(indices, np.int32).reshape(-1, 2, KEPT),
            kept / total[..., None],
            null / total,
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
                format=np.array(FORMAT),
                ids=names,
                lengths=self.lengths,
                indices=self.indices.astype(np.uint16),
                probabilities=self.probabilities.astype(np.float16),
                null_probabilities=self.null_probabilities.astype(np.float16),
            )

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TeacherDistributions":
        """Reads what `save` wrote.

        Args:
            path: the file.

        Raises:
            UserError: it is missing, damaged, of another kind, or of version 0.1.
        """
        path = user_path(path)
        try:
            return cls._of_arrays(path, read_arrays(path))
        except FileNotFoundError:
            raise UserError(f"{path}: no such file, expected {_EXPECTED}") from None
        except IsADirectoryError:
            raise UserError(f"{path}: found a folder, expected {_EXPECTED}") from None
        except (OSError, KeyError) as error:
            raise UserError(f"{path}: found a damaged file ({error}), expected {_EXPECTED}") from None
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{path}: found a damaged file ({error}), expected {_EXPECTED}") from None

    @classmethod
    def _of_arrays(cls, path: Path, arrays: dict[str, np.ndarray]) -> "TeacherDistributions":
        if "places" in arrays:
            raise UserError(
                f"{path}: found a teacher file of version 0.1, which this version does not read: make it "
                "again with fabir-teach"
            )
        if int(arrays["format"]) != FORMAT:
            raise UserError(f"{path}: found format {int(arrays['format'])}, expected {FORMAT}")
        ids = tuple(arrays["ids"].tobytes().decode().split("\n")) if arrays["ids"].size else ()
        names = ("lengths", "indices", "probabilities", "null_probabilities")
        lengths, indices, probabilities, nulls = (arrays[name] for name in names)
        if {len(ids)} != {len(part) for part in (lengths, indices, probabilities, nulls)}:
            raise ValueError("its arrays are of different lengths")
        if indices.shape != probabilities.shape or indices.shape[1:] != (2, KEPT) or nulls.shape[1:] != (2,):
            raise ValueError(f"its indices are of shape {indices.shape}")
        kept = (lengths.astype(np.int32), indices.astype(np.int32), probabilities.astype(np.float32))
        return cls(ids, *kept, nulls.astype(np.float32), source=str(path))

    def soft_labels(self, ids: Sequence[str], lengths: np.ndarray) -> np.ndarray:
        """The soft labels of given questions, as `fabir_tf.training.losses.StartEndLoss` takes them.

        Args:
            ids: the questions.
            lengths: int `(questions,)`, tokens of each question's passage.

        Returns:
            Float32 `(questions, 2, 2 * KEPT + 1)`: token indices, their probabilities, and that of "no answer"; all
            zeros for a question that the teacher does not know.

        Raises:
            UserError: the teacher knows none of the questions, or read a passage as another number of tokens.
        """
        rows = {identifier: row for row, identifier in enumerate(self.ids)}
        found = np.array([rows.get(identifier, -1) for identifier in ids], np.int64)
        if not (found >= 0).any():
            raise UserError(f"{self.source}: found none of the questions that are trained on")
        other = np.flatnonzero((found >= 0) & (self.lengths[found] != lengths))
        if len(other):
            expected = f"{lengths[other[0]]} tokens, as in the data"
            question = f"question {ids[other[0]]!r} with a passage of {self.lengths[found[other[0]]]} tokens"
            raise UserError(
                f"{self.source}: found {question}, expected {expected}: its reader cuts text by other rules"
            )
        parts = (self.indices, self.probabilities, self.null_probabilities[..., None])
        labels = np.concatenate(parts, axis=-1, dtype=np.float32)[found]
        labels[found < 0] = 0.0
        return labels


def mean_soft_labels(soft_labels: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of several teachers' soft labels; for each question, of those teachers that know it.

    Args:
        soft_labels: float32 `(questions, 2, 2 * KEPT + 1)` of each teacher, from `TeacherDistributions.soft_labels`.

    Returns:
        Float32 `(questions, 2, 2 * KEPT * teachers + 1)`: the indices of all teachers, then their probabilities, then
        that of "no answer"; an index may occur several times. All zeros for a question that no teacher knows.
    """
    indices, probabilities, nulls = zip(*(split_soft_labels(labels) for labels in soft_labels), strict=True)
    known = [np.any(part, axis=-1, keepdims=True) | (null > 0) for part, null in zip(probabilities, nulls, strict=True)]
    teachers = np.maximum(sum(part.astype(np.float32) for part in known), 1)
    weighted = [part / teachers for part in probabilities]
    return np.concatenate([*indices, *weighted, sum(nulls) / teachers], axis=-1)


def split_soft_labels(labels):
    """Takes soft labels apart; works on arrays and on tensors.

    Args:
        labels: float `(..., 2 * kept + 1)`.

    Returns:
        Indices and probabilities `(..., kept)`, and the probability of "no answer" `(..., 1)`.
    """
    kept = labels.shape[-1] // 2
    return labels[..., :kept], labels[..., kept : 2 * kept], labels[..., 2 * kept :]
