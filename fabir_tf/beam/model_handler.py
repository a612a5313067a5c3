"""Beam's way to a model: an exported SavedModel, which each process loads once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from apache_beam.ml.inference.base import ModelHandler, PredictionResult

from fabir_tf.beam.records import Asked, ReadPart
from fabir_tf.export.saved_model_reader import SavedModelReader
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import Answer
from fabir_tf.reading.halves import answer_in_halves

CHARACTERS = 1 << 18
"""Most characters that a batch has with its padding, unless one passage has more."""

Found = Answer | str
"""An answer, or the sentence that says why there is none."""


class SavedModelHandler(ModelHandler[ReadPart, PredictionResult, SavedModelReader]):
    """Answers the questions of parts with a SavedModel, in batches of similar length.

    The threads of a process share one model. What is asked in one part never meets another part, so that a shard is the
    same whatever else is read. Where a batch fails, its halves are tried.

    Args:
        path: the folder of a version, which every worker reaches.
        n_best: spans per question.
        batch_size: most questions of a batch.
        trust_model: whether it is loaded whatever operations it holds.
    """

    def __init__(self, path: str, n_best: int = 1, batch_size: int = 64, trust_model: bool = False):
        super().__init__()
        self._path, self._n_best, self._batch_size, self._trust_model = path, n_best, batch_size, trust_model

    def load_model(self) -> SavedModelReader:
        """Loads the SavedModel after a check of its operations.

        Raises:
            UserError: it is none of a reader, or gives fewer spans than are wanted.
        """
        model = SavedModelReader(self._path, self._trust_model)
        if self._n_best > model.n_best:
            raise UserError(f"--n_best={self._n_best}: {self._path} was exported with --n_best={model.n_best}")
        return model

    def run_inference(
        self, batch: Sequence[ReadPart], model: SavedModelReader, inference_args: dict[str, Any] | None = None
    ) -> Iterable[PredictionResult]:
        """Answers the questions of several parts.

        Args:
            batch: the parts.
            model: what `load_model` loaded.
            inference_args: not used.

        Yields:
            For each part, a `Found` for each of its questions.
        """
        for read in batch:
            yield PredictionResult(read, self._answers(read.asked, model))

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """One part at a time: it has batches of its own."""
        return {"max_batch_size": 1}

    def get_metrics_namespace(self) -> str:
        """The namespace of Beam's counters."""
        return "fabir"

    def _answers(self, asked: Sequence[Asked], model: SavedModelReader) -> list[Found]:
        found: list[Found] = [""] * len(asked)
        for places in batches_of_similar_length([len(one.passage) for one in asked], self._batch_size):
            for place, answer in zip(places, self._batch([asked[place] for place in places], model), strict=True):
                found[place] = answer
        return found

    def _batch(self, asked: Sequence[Asked], model: SavedModelReader) -> list[Found]:
        def answer(part: Sequence[Asked]) -> Iterable[Found]:
            return model.answer_batch([one.question for one in part], [one.passage for one in part], self._n_best)

        # Whatever a model of somebody else's raises: the other questions still have answers.
        return answer_in_halves(asked, answer, Exception, _sentence)


def _sentence(asked: Asked, error: Exception) -> str:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"{asked.source}: number {asked.number}: the reader fails ({reason})."


def batches_of_similar_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Sorts texts by length and cuts them into batches.

    Args:
        lengths: of the texts, in characters.
        size: most texts of a batch.

    Yields:
        The numbers of the texts of each batch; with their padding they have at most `CHARACTERS`, or it is one text.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == size or (len(batch) + 1) * lengths[place] > CHARACTERS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
