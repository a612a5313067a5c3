"""A reader that was exported as a SavedModel, with the calls of a `Reader`."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fabir_tf.export.loading import load_saved_model
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import CoverageLedger
from fabir_tf.pipelines.files import user_path
from fabir_tf.reading.answer_columns import answers_of_columns, encoded_texts
from fabir_tf.reading.answers import (
    Answer,
    Dataset,
    Progress,
    QuestionScores,
    as_pairs,
    as_text,
    validate_dataset,
    validate_n_best,
)
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.graph_reader import GraphAnswerer

BATCH_QUESTIONS = 512
"""Questions that are given to the graph at once."""


class SavedModelReader:
    """Answers questions with a SavedModel that `export_reader` wrote.

    It is a `QuestionAnswerer` for what needs answers. Its threshold, its longest passage and the number of spans are
    part of the SavedModel; it keeps no logits, so it cannot be calibrated, taught from or exported again. Its
    calibration is the one that `export_reader` put beside it.

    Args:
        path: the folder of a version, such as `exported/fabir/1`.
        trust_model: whether it is loaded whatever operations it holds; see `load_saved_model`.

    Attributes:
        n_best: most spans per question.

    Raises:
        UserError: there is no SavedModel of a reader, or it holds operations that could do harm.
    """

    def __init__(self, path: str | os.PathLike, trust_model: bool = False):
        self._trust_model = trust_model
        self._take(user_path(path), load_saved_model(path, trust_model))

    @classmethod
    def of_model(cls, path: str | os.PathLike, model: Any, trust_model: bool = False) -> "SavedModelReader":
        """The reader of a SavedModel that `load_saved_model` has loaded.

        Args:
            path: the folder that it was loaded from, for messages.
            model: what was loaded.
            trust_model: as for `SavedModelReader`, which another process makes of it.

        Raises:
            UserError: it is not one of a reader.
        """
        reader = object.__new__(cls)
        reader._trust_model = trust_model
        reader._take(user_path(path), model)
        return reader

    def _take(self, path: Path, model: Any) -> None:
        self.path = path
        self._model = model
        beside = path / "assets.extra" / "calibration.json"
        self.calibration = Calibration.load(beside) if beside.exists() else None
        answer = model.signatures.get("serving_default")
        outputs = answer.structured_outputs if answer else {}
        if not {"answer", "is_answer", "n_best_answer"} <= set(outputs):
            raise UserError(f"{path}: found the outputs {', '.join(sorted(outputs))}, expected those of a reader")
        self._answer = answer
        self.n_best = int(outputs["n_best_answer"].shape[1])

    def __repr__(self) -> str:
        return f"SavedModelReader({str(self.path)!r})"

    def __reduce__(self):
        # Another process may have another working folder.
        return type(self), (str(self.path.absolute()), self._trust_model)

    @property
    def no_answer_threshold(self) -> float | None:
        """The threshold that is part of the SavedModel; None if it always answers."""
        threshold = float(self._model.threshold.numpy())
        return None if threshold > 1 else threshold

    def answer(self, question: str, passage: str, n_best: int = 1) -> Answer:
        """Answers one question; see `Reader.answer`."""
        return self.answer_batch([as_text("question", question)], [as_text("passage", passage)], n_best)[0]

    def answer_batch(self, questions: Iterable[str], passages: Iterable[str], n_best: int = 1) -> list[Answer]:
        """Answers many questions, each about its own passage; see `Reader.answer_batch`.

        Raises:
            UserError: as `Reader.answer_batch`, or `n_best` is larger than the number that was exported.
        """
        n_best = validate_n_best(n_best)
        asked, texts = as_pairs(questions, passages)
        if n_best > self.n_best:
            raise UserError(f"n_best must be at most {self.n_best}, as the SavedModel was exported; found {n_best}")
        answers: list[Answer] = []
        for begin in range(0, len(asked), BATCH_QUESTIONS):
            chunk = slice(begin, begin + BATCH_QUESTIONS)
            columns = self.columns(encoded_texts(asked[chunk]), encoded_texts(texts[chunk]))
            answers += answers_of_columns(columns, texts[chunk], n_best)
        return answers

    def columns(self, questions: np.ndarray, passages: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs of `serving_default` for objects of UTF-8 bytes."""
        outputs = self._answer(question=tf.constant(questions, tf.string), passage=tf.constant(passages, tf.string))
        return {name: value.numpy() for name, value in outputs.items()}

    def predict(self, dataset: Dataset, n_best: int = 1, progress: Progress | None = None) -> list[Answer]:
        """Answers every question of a dataset, in its order; see `Reader.predict`."""
        validate_dataset("dataset", dataset)
        data = dataset if isinstance(dataset, SquadData) else dataset.data
        answers: list[Answer] = []
        for begin in range(0, len(data.questions), BATCH_QUESTIONS):
            chunk = data.questions[begin : begin + BATCH_QUESTIONS]
            texts = [data.passages[question.passage] for question in chunk]
            answers += self.answer_batch([question.text for question in chunk], texts, n_best)
            if progress:
                progress(len(answers), len(data.questions))
        return answers

    def tokenize(
        self, data: SquadData, cache_dir: str | os.PathLike | None = None, log: Callable[[str], object] = print
    ) -> Dataset:
        """The dataset itself: its texts are tokenized in the graph."""
        return data

    def coverage(self, dataset: Dataset) -> CoverageLedger:
        """Refused: the SavedModel does not return tokens."""
        raise self._lacks("tokens")

    def scores(self, dataset: Dataset, progress: Progress | None = None) -> Iterator[QuestionScores]:
        """Refused: the SavedModel does not return logits."""
        raise self._lacks("logits")

    def in_graph(self, n_best: int = 5) -> GraphAnswerer:
        """Refused: it is a graph already."""
        raise self._lacks("weights")

    def _lacks(self, what: str) -> UserError:
        return UserError(f"{self.path}: a SavedModel gives no {what}, expected the reader that it was exported from")
