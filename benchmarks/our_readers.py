"""Our readers as contenders of rivals.py; imported only in their own processes."""

from collections.abc import Callable
from functools import cached_property

from common import timed
from workload import Training, fresh_reader, set_threads

from fabir_tf.pipelines.text.tokenized import TokenizedDataset

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


class OurReader:
    """One of our readers with its questions.

    Args:
        name: one of `workload.READERS`.
        precision: "float32" or "bfloat16".
        threads: number of threads.
        tokenized: the questions to answer.
        to_train_on: the questions to train on.
    """

    def __init__(
        self, name: str, precision: str, threads: int, tokenized: TokenizedDataset, to_train_on: TokenizedDataset
    ):
        set_threads(threads)
        self._name = name
        self._policy = POLICIES[precision]
        self._to_train_on = to_train_on
        self._reader = fresh_reader(name, tokenized, self._policy)
        self._tokenized = tokenized
        self._is_warm = False

    def measure(self, task: str) -> dict[str, float]:
        """Times one pass over the questions; `task` is "inference" or "training", and its first call also warms up."""
        if task == "training":
            training = self._training
            return timed(lambda: training.train(training.epoch()))
        if not self._is_warm:
            self._answer()
            self._is_warm = True
        return timed(self._answer)

    def _answer(self) -> int:
        """Reads in the reader's own batches and decodes the best spans."""
        return len(self._reader.predict(self._tokenized))

    @cached_property
    def _training(self) -> Training:
        return Training(self._name, self._to_train_on, self._policy)


def our_reader(
    name: str, precision: str, threads: int, tokenized: TokenizedDataset, to_train_on: TokenizedDataset
) -> Callable[[str], dict[str, float]]:
    """A function that measures a task, with an `OurReader` of these arguments."""
    return OurReader(name, precision, threads, tokenized, to_train_on).measure
