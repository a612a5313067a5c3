"""A trained reader: questions and passages in, answers out."""

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from fabir_tf import onednn
from fabir_tf.backends import backend
from fabir_tf.backends.bfloat16 import precision_to_read_in
from fabir_tf.backends.graph_lock import GRAPH_LOCK
from fabir_tf.models import build_model, model_name
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.weights import set_frozen_tables, set_weights, weights_of
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.precision import POLICIES, dtype_policy
from fabir_tf.reading.answers import OWN_THRESHOLD, validate_n_best
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.reading.run_directory import EnsembleDirectory, RunDirectory, reader_directory
from fabir_tf.reading.text_reader import TextReader, validate_threshold

if TYPE_CHECKING:
    from fabir_tf.reading.graph_reader import GraphReader


class Reader(TextReader):
    """Answers questions with the words of a passage.

    Args:
        model: from `fabir_tf.build_model`, trained.
        processor: the text processor that the model was trained with.
        config: the model's configuration.
        max_passage: longer passages are read in overlapping windows, in tokens.
        calibration: makes the probabilities those of held-out questions, and says when the reader abstains; None
            leaves the probabilities as the model gives them and always answers.
        log: called with one sentence for the first passage in a script that the processor cannot read; None warns.
        no_answer_threshold: the reader abstains above this no-answer probability; None always answers, and "own" takes
            the calibration's.

    Raises:
        UserError: `max_passage` is out of its range, the threshold does not fit, or one of the model and its
            configuration has a null head.

    Example:
        >>> reader = fabir_tf.Reader.load("fabir-base")
        >>> reader.answer("Who built the mill?", "The mill was built by Anna Keld.").text
        'Anna Keld'
    """

    def __init__(
        self,
        model: keras.Model,
        processor: TextProcessor,
        config: ReaderConfig,
        max_passage: int = 512,
        calibration: Calibration | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ):
        _validate_outputs(model, config)
        super().__init__(
            processor,
            backend.Logits(model),
            lambda count: backend.traced(config.decoder(count), has_null=config.null_head),
            config.null_head,
            config.answer_limit,
            max_passage,
            calibration,
            log,
            no_answer_threshold,
        )
        self.model = model
        self.config = config
        # What another process loads this reader from; see `__reduce__`.
        self._folder: str | None = None

    def __repr__(self) -> str:
        return f"Reader({model_name(self.config)}, max_passage={self.max_passage}, max_answer={self.config.max_answer})"

    def __reduce__(self):
        """Pickles the folder and the arguments that the reader was loaded with, and its calibration.

        Raises:
            UserError: the reader has no folder, or its weights are no longer those of the folder.
        """
        if self._folder is None:
            raise UserError(
                "a reader that was not loaded from a folder cannot be pickled: expected one of Reader.load, which is "
                "pickled as the name of its folder"
            )
        loaded = reader_directory(self._folder).read_weights()[1]
        weights = weights_of(self.model)
        if not all(np.array_equal(weights[name], array) for name, array in loaded.items() if name in weights):
            raise UserError(
                f"the weights of the reader's model have changed since it was loaded from {self._folder}: a pickle "
                "names that folder, expected its weights"
            )
        arguments = (self._folder, self.max_passage, self.precision, self.config.answer_limit, None, self._threshold)
        return type(self).load, arguments, {"calibration": self.calibration}

    @classmethod
    def load(
        cls,
        run_dir: str | os.PathLike,
        max_passage: int = 512,
        precision: str = "float32",
        max_answer: int | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ) -> "Reader":
        """Loads the best checkpoint of a run.

        Args:
            run_dir: what `fabir-train` or `fabir-pack` wrote, the name of a reader that comes with the package
                (`fabir_tf.reading.pretrained.pretrained_readers()`), or the folder of a BERT or DistilBERT for question
                answering in Hugging Face's layout, which always answers until it has a threshold.
            max_passage: longer passages are read in overlapping windows, in tokens.
            precision: the layers' dtype policy, whatever the run was trained with: "float32", "mixed_bfloat16" or
                "mixed_float16". Softmax, norms and logits are float32 in each. A processor that does not compute in
                bfloat16 reads in float32 instead.
            max_answer: longest predicted answer, in tokens; None for the run's own.
            log: called with one sentence if the precision is another one, if the installed tokenizer cuts text in
                another way than in training, and for the first passage in a script that the reader cannot read; None
                warns of the first and the last.
            no_answer_threshold: the reader abstains above this no-answer probability; None always answers, and "own"
                takes the one that was chosen by calibration, if there is one.

        Returns:
            The reader; an `Ensemble`, which answers as a reader does, where the folder holds one.

        Raises:
            UserError: a file of the run is missing or damaged, or an argument does not fit.
        """
        if precision not in POLICIES:
            raise UserError(f"precision must be one of {', '.join(POLICIES)}, found {precision!r}")
        run = reader_directory(run_dir)
        chosen = precision_to_read_in(precision, log or warnings.warn)
        return cls.open(run, max_passage, chosen, max_answer, log, no_answer_threshold)

    @classmethod
    def open(
        cls,
        run: RunDirectory,
        max_passage: int = 512,
        precision: str = "float32",
        max_answer: int | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ) -> "Reader":
        """Loads what a folder holds, in this very precision, also where another one would be faster; see `load`."""
        if isinstance(run, EnsembleDirectory):
            from fabir_tf.reading.ensemble import Ensemble

            # Not a `Reader`, but it has all calls of a `QuestionAnswerer`.
            found: Any = Ensemble.from_directory(run, max_passage, precision, max_answer, log, no_answer_threshold)
            return found
        config = run.read_model_config(max_answer)
        return cls.from_run(run, config, max_passage, precision, log, no_answer_threshold)

    @classmethod
    def from_run(
        cls,
        run: RunDirectory,
        config: ReaderConfig,
        max_passage: int = 512,
        precision: str = "float32",
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ) -> "Reader":
        """Loads a reader whose configuration is known.

        Args:
            run: the folder of its other files.
            config: the model's configuration.
            max_passage, log, no_answer_threshold: as for `load`.
            precision: the layers' dtype policy, also where another one would be faster.

        Returns:
            The reader.

        Raises:
            UserError: a file is missing or damaged, or the threshold does not fit.
        """
        # Before the files are read, which takes a while.
        validate_threshold(no_answer_threshold, config.null_head)
        if sentence := onednn.advice():
            warnings.warn(sentence, stacklevel=3)
        # Also the files, because Python 3.11 may fail to parse the headers of arrays in several threads at once.
        with GRAPH_LOCK:
            processor = run.read_processor(log or warnings.warn)
            _validate_sizes(run, config, processor)
            with dtype_policy(precision):
                model = build_model(config)
            set_frozen_tables(model, processor.frozen_tables)
            set_weights(model, run.read_weights()[1], run.weights)
        calibration = Calibration.load(run.calibration) if run.calibration.exists() else None
        _tell_earlier_threshold(run, calibration, log or warnings.warn)
        reader = cls(model, processor, config, max_passage, calibration, log, no_answer_threshold)
        reader._logits.answer_at_once()
        reader._folder = _lasting_name(run)
        return reader

    @property
    def precision(self) -> str:
        """The dtype policy that the layers compute in, such as "float32"."""
        return self.model.dtype_policy.name

    def in_graph(self, n_best: int = 5) -> "GraphReader":
        """The reader in core TensorFlow operations, for a SavedModel.

        Args:
            n_best: spans to return per question.

        Raises:
            UserError: `n_best` is out of its range, or the graph cuts text into other tokens than the installed
                tokenizer does.
        """
        from fabir_tf.reading.graph_reader import GraphReader

        return GraphReader(self, validate_n_best(n_best))


def validate_single(reader: Any) -> Reader:
    """Refuses an ensemble, which has neither one model nor one text processor.

    Raises:
        UserError: it is no `Reader`.
    """
    if not isinstance(reader, Reader):
        raise UserError(f"found {reader!r}, expected a single reader, such as a member of an ensemble")
    return reader


def _tell_earlier_threshold(run: RunDirectory, calibration: Calibration | None, log: Callable[[str], object]) -> None:
    if calibration and calibration.no_answer and not calibration.no_answer.questions:
        log(
            f"{run.calibration}: an earlier version chose the no-answer threshold for another probability, so the "
            "reader abstains at other questions than before: calibrate it again"
        )


def _lasting_name(run: RunDirectory) -> str:
    """The name of a reader for another process, which may have another current folder or another installation."""
    if run.path.name in pretrained_readers() and run.path == pretrained_folder(run.path.name):
        return run.path.name
    return str(run.path.absolute())


def _validate_sizes(run: RunDirectory, config: ReaderConfig, processor: TextProcessor) -> None:
    """Refuses files of two runs: an id beyond the model's tables would be looked up as something else."""
    sizes = dict(processor.sizes)
    table = processor.frozen_tables.get("word_embedding")
    if table is not None:
        sizes["word_dim"] = table.shape[1]
    for name, size in sizes.items():
        if size != getattr(config, name):
            raise UserError(
                f"{run.path}: found {name}={size} in the text processor, expected {getattr(config, name)} as in "
                f"{run.config.name}"
            )


def _validate_outputs(model: keras.Model, config: ReaderConfig) -> None:
    """Refuses the configuration of another model, which would be found out by the first question only."""
    has_null = "null_logits" in model.output
    if has_null != config.null_head:
        raise UserError(
            f"Reader: found a model with{'' if has_null else 'out'} a null head and the configuration of one "
            f"with{'' if config.null_head else 'out'}, expected the configuration that the model was built with"
        )
