"""Vectors of a frozen word model, computed once for all texts of a training instead of in every step.

FOLDER/vectors-KEY.npy     float16 `(tokens + 1, ...)`: every token of every distinct text, row 0 for padding
FOLDER/vectors-KEY.json    how many of the texts are done; the others are computed when it is opened again
FOLDER/vectors-KEY.lock    names the process that computes them; others wait for it

The key is a hash of the word model's weights, of what it reads of each token, and of which tokens form a text.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np

from fabir_tf.models.reader_config import FrozenPart
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Features, Segments
from fabir_tf.pipelines.features.rows_on_disk import RowsOnDisk
from fabir_tf.pipelines.files import WriteError, user_path, write_text
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.training.process_lock import held

# Tokens that are computed at once; texts are padded to multiples of the step, so that there are few shapes.
BATCH_TOKENS, STEP = 8192, 32
SECONDS_BETWEEN = 30
SECONDS_OF_WAITING = 1.0
DTYPE = np.dtype("float16")


def with_kept_vectors(
    features: Features, frozen: FrozenPart, folder: str, log: Callable[[str], object], seconds: float = SECONDS_BETWEEN
) -> Features:
    """The same examples for the part of a reader that is trained.

    Args:
        features: the examples, as the whole reader reads them.
        frozen: the reader's parts.
        folder: keeps the vectors between runs; made if it is missing.
        log: called with lines about size and progress.
        seconds: between two notes of how far it is, from which an interrupted computation goes on.

    Returns:
        Features with the parts `vectors`, read from the disk, and `mask`, and those that the word model does not read.

    Raises:
        UserError: the disk has not enough room, or a file there is damaged.
        WriteError: the folder cannot be written.
    """
    texts = _Texts(features)
    vectors = _Computation(frozen.text_model, features, texts, user_path(folder), log).result(seconds)
    mask = np.arange(texts.tokens + 1) > 0
    # `RowsOnDisk` stands for an array.
    unique: dict[str, Any] = {"vectors": vectors, "mask": mask}
    read = frozen.text_model.inputs[0].name
    unique |= {name: texts.of_tokens(features, values) for name, values in features.unique.items() if name != read}
    return Features(
        np.arange(1, texts.tokens + 1, dtype=np.int32) if texts.tokens else np.zeros(1, np.int32),
        unique,
        texts.segments,
        features.passages,
        features.passage_lengths,
        features.logit_offsets,
    )


class _Texts:
    """The distinct texts of features, one after the other.

    Attributes:
        starts, lengths: int64 `(texts,)`, where each lies among the tokens of the features.
        places: int64 `(texts,)`, where each lies among the kept vectors, row 0 apart.
        segments: each example's texts among the kept vectors, by name.
        tokens: the number of kept vectors.
    """

    def __init__(self, features: Features):
        parts = [np.stack([part.starts, part.lengths], axis=1) for part in features.segments.values()]
        distinct, index = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        self.starts, self.lengths = distinct.T
        self.places = np.cumsum(self.lengths) - self.lengths
        self.tokens = int(self.lengths.sum())
        own = np.split(index.reshape(-1), len(parts))
        self.segments = {
            text: Segments(self.places[rows], self.lengths[rows])
            for text, rows in zip(features.segments, own, strict=True)
        }

    def of_tokens(self, features: Features, values: np.ndarray) -> np.ndarray:
        """An array of unique tokens, by kept vector."""
        places = np.arange(self.tokens) + np.repeat(self.starts - self.places, self.lengths)
        return values[np.concatenate([[0], features.tokens[places]])]


class _Computation:
    """The vectors of all texts: what is left of it, and how it is done."""

    def __init__(
        self, model: keras.Model, features: Features, texts: _Texts, folder: Path, log: Callable[[str], object]
    ):
        self._model, self._texts, self._log = model, texts, log
        self._tokens, self._values = features.tokens, features.unique[model.inputs[0].name]
        self._shape = (texts.tokens + 1, *model.output.shape[2:])
        key = self._key()
        self._path, self._progress, self._lock = (folder / f"vectors-{key}.{end}" for end in ("npy", "json", "lock"))
        self._has_waited = False
        # The longest first, so that memory suffices for all if it does for the first.
        order = np.argsort(-texts.lengths, kind="stable")
        self._order = order[texts.lengths[order] > 0]

    def result(self, seconds: float) -> RowsOnDisk:
        total = len(self._order)
        if self._done() < total:
            with held(self._lock, f"--vector_cache={self._path.parent}", self._wait):
                # Another process may have computed them by now.
                if (done := self._done()) < total:
                    self._compute(done, seconds)
        else:
            self._log(f"{self._path}: the vectors of {total:,} texts were computed before")
        return RowsOnDisk(self._opened("r"))

    def _wait(self, pid: int) -> None:
        if not self._has_waited:
            self._log(f"{self._path}: process {pid} computes these vectors; waiting for it")
            self._has_waited = True
        time.sleep(SECONDS_OF_WAITING)

    def _key(self) -> str:
        digest = hashlib.sha256(repr((self._shape, self._model.output.dtype)).encode())
        arrays = [self._tokens, self._values, self._texts.starts, self._texts.lengths]
        for array in (*arrays, *map(np.asarray, self._model.weights)):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:24]

    def _done(self) -> int:
        """How many texts an earlier computation has finished."""
        if not (self._progress.exists() and self._path.exists()):
            return 0
        content = read_json(self._progress)
        found = content.get("texts") if isinstance(content, dict) else None
        if type(found) is not int or not 0 <= found <= len(self._order):
            raise UserError(
                f"{self._progress}: found {str(content)[:60]}, expected how many of {len(self._order):,} texts are "
                "done: remove it to compute the vectors again"
            )
        return found

    def _opened(self, mode: Literal["r", "r+"]) -> np.ndarray:
        try:
            found = np.load(self._path, mmap_mode=mode, allow_pickle=False)
        # NumPy reads the header as Python's syntax, which has errors of many kinds.
        except Exception as error:
            raise UserError(f"{self._path}: found no whole array ({error}): remove it to compute it again") from error
        if found.shape != self._shape or found.dtype != DTYPE:
            raise UserError(
                f"{self._path}: found an array {found.shape} of {found.dtype}, expected {self._shape} of {DTYPE}: "
                "remove it to compute it again"
            )
        return found

    def _compute(self, done: int, seconds: float) -> None:
        vectors = self._opened("r+") if done else self._created()
        if done:
            self._log(f"{self._path}: {done:,} of {len(self._order):,} texts are done")
        noted = time.monotonic()
        for batch in self._batches(done):
            for text, found in zip(batch, self._vectors_of(batch), strict=True):
                place, length = self._texts.places[text] + 1, self._texts.lengths[text]
                vectors[place : place + length] = found[:length]
            done += len(batch)
            if time.monotonic() - noted >= seconds or done == len(self._order):
                # First the vectors, so that what is noted is there.
                vectors.flush()  # type: ignore[attr-defined]
                write_text(self._progress, json.dumps({"texts": done}) + "\n")
                self._log(f"the vectors of {done:,} of {len(self._order):,} texts are computed")
                noted = time.monotonic()

    def _created(self) -> np.ndarray:
        size = int(np.prod(self._shape, dtype=np.int64)) * DTYPE.itemsize
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._path.parent).free
            self._log(
                f"--vector_cache: the vectors of {len(self._order):,} texts take {size / 1e9:.2f} GB in "
                f"{self._path.parent}, where {free / 1e9:.1f} GB are free; they are computed once"
            )
            if size > free:
                raise UserError(
                    f"--vector_cache={self._path.parent}: found {free / 1e9:.2f} GB of free space, expected "
                    f"{size / 1e9:.2f} GB for the vectors of all texts"
                )
            self._progress.unlink(missing_ok=True)
            return np.lib.format.open_memmap(self._path, "w+", DTYPE, self._shape)
        except OSError as error:
            raise WriteError(error.errno or 0, error.strerror or str(error), str(self._path)) from error

    def _batches(self, done: int) -> Iterator[np.ndarray]:
        while done < len(self._order):
            rows = max(1, BATCH_TOKENS // self._padded_length(self._order[done]))
            yield self._order[done : done + rows]
            done += rows

    def _vectors_of(self, batch: np.ndarray) -> np.ndarray:
        length = self._padded_length(batch[0])
        # As many as fit, so that the last batch of a length has no shape of its own.
        padded = np.zeros((max(len(batch), BATCH_TOKENS // length), length), np.int32)
        for row, text in enumerate(batch):
            start, count = self._texts.starts[text], self._texts.lengths[text]
            padded[row, :count] = self._tokens[start : start + count]
        return np.asarray(self._model.predict_on_batch(self._values[padded]))[: len(batch)]

    def _padded_length(self, text: int) -> int:
        # A BERT has no positions beyond those of the longest text.
        return int(min(-(-self._texts.lengths[text] // STEP) * STEP, self._texts.lengths.max()))
