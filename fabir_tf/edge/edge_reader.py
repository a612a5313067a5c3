"""A reader that was exported for a runtime without TensorFlow, with the calls of a `Reader`."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fabir_tf.edge.runtimes import RUNTIMES, Runtime
from fabir_tf.edge.settings import CALIBRATION_FILE, PROCESSOR_FOLDER, EdgeSettings
from fabir_tf.pipelines.arguments import whole_number
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.array_batches import token_inputs
from fabir_tf.pipelines.features.batch_planning import reading_batches
from fabir_tf.pipelines.features.features import END, NULL, START, Features
from fabir_tf.pipelines.files import user_path
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.reading.answers import OWN_THRESHOLD
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.text_reader import TextReader, validate_threshold

if TYPE_CHECKING:
    from fabir_tf.reading.graph_reader import GraphAnswerer


class EdgeReader(TextReader):
    """Answers questions with a model that `fabir-export --format=onnx`, `litert` or `openvino` wrote.

    It is a `QuestionAnswerer`, with the answers and probabilities of the reader that was exported; `load` makes one.

    Args:
        settings: how the reader reads.
        processor: its text processor.
        model: its model.
        calibration: its calibration, if it has one.
        log: as for `load`.
        no_answer_threshold: as for `load`.

    Example:
        >>> reader = fabir_tf.edge.EdgeReader.load("exported/fabir/1")
        >>> reader.answer("Who built the mill?", "The mill was built by Anna Keld.").text
        'Anna Keld'
    """

    def __init__(
        self,
        settings: EdgeSettings,
        processor: TextProcessor,
        model: Runtime,
        calibration: Calibration | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ):
        super().__init__(
            processor,
            self._computed,
            settings.make_decoder,
            settings.null_head,
            settings.max_answer,
            settings.max_passage,
            calibration,
            log,
            no_answer_threshold,
        )
        validate_threshold(settings.no_answer_threshold, settings.null_head)
        self.settings = settings
        self._model = model
        self._exported = calibration
        # What another process loads this reader from; see `__reduce__`.
        self._source: tuple[str, int | None] | None = None

    def __repr__(self) -> str:
        return f"EdgeReader({self.settings.model}, {self.settings.target}, max_passage={self.max_passage})"

    def __reduce__(self):
        """Pickles the folder and the arguments that the reader was loaded with, and its calibration.

        Raises:
            UserError: the reader has no folder.
        """
        if self._source is None:
            raise UserError(f"{self!r} was not loaded from a folder, expected one of EdgeReader.load to pickle")
        # The exported calibration stays the copy's own one, with which its threshold goes.
        state = {} if self.calibration is self._exported else {"calibration": self.calibration}
        return type(self).load, (*self._source, None, self._threshold), state

    @property
    def no_answer_threshold(self) -> float | None:
        """The reader abstains above this no-answer probability; None if it always answers."""
        if self._threshold == OWN_THRESHOLD and self.calibration is self._exported:
            # Of the export, whose reader may have had another one than its calibration.
            return self.settings.no_answer_threshold
        return super().no_answer_threshold

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        threads: int | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ) -> "EdgeReader":
        """Loads an exported reader.

        Args:
            folder: what `fabir-export` wrote, such as `exported/fabir/1`.
            threads: processor threads of one computation; None leaves it to the runtime.
            log: called with one sentence if the installed tokenizer cuts text in another way than in training, and for
                the first passage in a script that the reader cannot read; None warns.
            no_answer_threshold: the reader abstains above this no-answer probability; None always answers, and "own"
                takes the one that was exported.

        Returns:
            The reader.

        Raises:
            UserError: a file is missing or damaged, the runtime is not installed, or the threshold does not fit.
        """
        if threads is not None:
            threads = whole_number("threads", threads, 1)
        path = user_path(folder)
        settings = EdgeSettings.load(path)
        processor = read_processor(path / PROCESSOR_FOLDER, log or warnings.warn)
        calibration = path / CALIBRATION_FILE
        if settings.calibrated and not calibration.exists():
            raise UserError(f"{path}: found no {CALIBRATION_FILE}, expected that of the reader which was exported")
        measured = Calibration.load(calibration) if calibration.exists() else None
        model = RUNTIMES[settings.target](path, threads)
        _validate_names(str(path / model.file), model, settings, processor)
        reader = cls(settings, processor, model, measured, log, no_answer_threshold)
        reader._source = str(path.absolute()), threads
        return reader

    def in_graph(self, n_best: int = 5) -> "GraphAnswerer":
        """Refused: the model's weights are in another format.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self!r} cannot be exported again, expected the reader that it was exported from")

    def _computed(self, features: Features, batches: Sequence[np.ndarray]) -> Iterable[dict[str, np.ndarray]]:
        return (self._model(token_inputs(features, batch, self._model.step)) for batch in batches)

    def _batches(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        return reading_batches(lengths, self._model.largest_batch)


def _validate_names(name: str, model: Runtime, settings: EdgeSettings, processor: TextProcessor) -> None:
    """Refuses the model of another reader."""
    unknown = set(model.inputs) - set(processor.input_specs)
    expected = {START, END} | ({NULL} if settings.null_head else set())
    if unknown or set(model.outputs) != expected:
        raise UserError(
            f"{name}: found the inputs {', '.join(model.inputs)} and the outputs {', '.join(model.outputs)}, expected "
            f"inputs among {', '.join(processor.input_specs)}, and the outputs {', '.join(sorted(expected))}"
        )
