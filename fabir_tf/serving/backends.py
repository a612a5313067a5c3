"""What answers in a version's process: a reader, a SavedModel, or anything else that answers questions."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from fabir_tf.backends.graph_lock import GRAPH_LOCK
from fabir_tf.export.loading import first_line, load_saved_model, read_saved_model
from fabir_tf.export.saved_model_reader import SavedModelReader
from fabir_tf.export.warm_up import warm_up_texts
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answer_columns import answers_of_columns, encoded_texts
from fabir_tf.reading.answers import OWN_THRESHOLD, Answer, QuestionAnswerer
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.halves import answer_in_halves
from fabir_tf.reading.inspection import look_inside
from fabir_tf.reading.reader import Reader
from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.signature import DEFAULT, Signature, Tensor
from fabir_tf.serving.work import Attention, Description

N_BEST = 5
"""Spans per question of the signatures, as `fabir-export` writes them."""

Answered = Answer | RequestError


class Backend(Protocol):
    """What a version's process runs, in several threads."""

    def describe(self) -> Description:
        """What can be asked of it."""
        ...

    def warm_up(self) -> None:
        """Answers a few requests, so that the first client does not wait for compilation."""
        ...

    def predict(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs a signature.

        Raises:
            RequestError: it cannot be run with these inputs.
        """
        ...

    def answer(
        self, questions: Sequence[str], passages: Sequence[str], n_best: int, threshold: float | str | None
    ) -> list[Answered]:
        """Answers questions; a row that cannot be answered is an error and leaves the others alone."""
        ...

    def attention(self, question: str, passage: str) -> Attention:
        """Shows which words attend to which.

        Raises:
            RequestError: the model cannot show it, or not for these texts.
        """
        ...


class ReaderBackend:
    """A reader, or another `QuestionAnswerer`.

    Its signatures are those of the SavedModel that `fabir-export` would write of it, traced here.

    Args:
        answerer: what answers.
    """

    def __init__(self, answerer: QuestionAnswerer):
        self._answerer = answerer
        self._graph: Any = answerer.in_graph(N_BEST)
        self._functions = {
            name: tf.function(function, autograph=False).get_concrete_function(*specs)
            for name, (function, specs) in self._graph.signatures().items()
        }

    def describe(self) -> Description:
        """See `Backend.describe`."""
        definitions = {name: _definition(function) for name, function in self._functions.items()}
        return _description(definitions, self._answerer, None, _shows_attention(self._answerer))

    def warm_up(self) -> None:
        """See `Backend.warm_up`."""
        for questions, passages in warm_up_texts():
            self._columns(questions, passages)
        # The reader itself, for requests with a threshold of their own.
        self._answerer.answer(questions[0], passages[0])

    def predict(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Backend.predict`."""
        return _run(self._functions[signature], inputs)

    def answer(
        self, questions: Sequence[str], passages: Sequence[str], n_best: int, threshold: float | str | None
    ) -> list[Answered]:
        """See `Backend.answer`."""
        if threshold == OWN_THRESHOLD and n_best <= N_BEST:
            return self._answer_in_graph(questions, passages, n_best)
        try:
            answerer = self._with_threshold(threshold)
        except (RequestError, UserError) as error:
            failed = error if isinstance(error, RequestError) else invalid(str(error))
            return [failed for _ in questions]
        return _by_row(lambda asked, texts: answerer.answer_batch(asked, texts, n_best), questions, passages)

    def _answer_in_graph(self, questions: Sequence[str], passages: Sequence[str], n_best: int) -> list[Answered]:
        """The same answers; threads compute graphs side by side, while only one at a time tokenizes in Python."""
        columns = self._columns(questions, passages)
        found: list[Answered] = list(answers_of_columns(columns, passages, n_best))
        # The graph tells what it did not read; some readers refuse such a question in Python.
        for row in np.flatnonzero(columns["question_cut"]).tolist():
            asked = [questions[row]], [passages[row]]
            (found[row],) = _by_row(lambda one, text: self._answerer.answer_batch(one, text, n_best), *asked)
        return found

    def _columns(self, questions: Sequence[str], passages: Sequence[str]) -> dict[str, np.ndarray]:
        return self.predict(DEFAULT, {"question": encoded_texts(questions), "passage": encoded_texts(passages)})

    def attention(self, question: str, passage: str) -> Attention:
        """See `Backend.attention`."""
        if not _shows_attention(self._answerer):
            raise RequestError("UNIMPLEMENTED", "this model does not show its attention")
        assert isinstance(self._answerer, Reader)
        try:
            # It makes a graph, which only one thread may do at a time.
            with GRAPH_LOCK:
                found = look_inside(self._answerer, question, passage)
        except UserError as error:
            raise invalid(str(error)) from None
        # Of the last layer, whose output the answer is selected from; the mean of its heads.
        weights = [value for name, value in found.attention.items() if name.endswith("/cross_attention")][-1]
        return Attention(_spans(found.question), _spans(found.passage), weights.mean(axis=0).T.tolist())

    def _with_threshold(self, threshold: float | str | None) -> QuestionAnswerer:
        if threshold == OWN_THRESHOLD:
            return self._answerer
        if not isinstance(self._answerer, Reader | Ensemble):
            raise invalid("no_answer_threshold: this model has a threshold of its own only, expected none")
        return self._answerer.with_threshold(threshold)


class SavedModelBackend:
    """A SavedModel: of a reader, or any other that TensorFlow Serving would serve.

    Args:
        path: the folder of its version.
        trust_model: whether it is served whatever operations it holds; see `load_saved_model`.
    """

    def __init__(self, path: str | os.PathLike, trust_model: bool = False):
        self._path = Path(path)
        self._model = load_saved_model(path, trust_model)
        self._functions = dict(self._model.signatures)
        try:
            self._reader: SavedModelReader | None = SavedModelReader.of_model(path, self._model, trust_model)
        except UserError:
            self._reader = None

    def describe(self) -> Description:
        """See `Backend.describe`."""
        definitions = _definitions_in(self._path)
        definitions.pop("__saved_model_init_op", None)
        if not self._reader:
            return _description(definitions, None, 0, False)
        return _description(definitions, self._reader, self._reader.n_best, False)

    def warm_up(self) -> None:
        """See `Backend.warm_up`."""
        if self._reader:
            for questions, passages in warm_up_texts():
                self.answer(questions, passages, 1, OWN_THRESHOLD)

    def predict(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Backend.predict`."""
        return _run(self._functions[signature], inputs)

    def answer(
        self, questions: Sequence[str], passages: Sequence[str], n_best: int, threshold: float | str | None
    ) -> list[Answered]:
        """See `Backend.answer`."""
        reader = self._reader
        if not reader:
            return [RequestError("UNIMPLEMENTED", "this model does not answer questions") for _ in questions]
        if threshold != OWN_THRESHOLD:
            message = "no_answer_threshold: this model is a SavedModel, which keeps its own threshold"
            return [invalid(message) for _ in questions]
        return _by_row(lambda asked, texts: reader.answer_batch(asked, texts, n_best), questions, passages)

    def attention(self, question: str, passage: str) -> Attention:
        """See `Backend.attention`."""
        raise RequestError("UNIMPLEMENTED", "a SavedModel does not show its attention")


def load_reader(
    folder: str, max_passage: int, precision: str, max_answer: int | None, threshold: float | str | None
) -> Backend:
    """Loads what a reader's folder holds; the arguments are those of `Reader.load`."""
    log = functools.partial(print, file=sys.stderr, flush=True)
    return ReaderBackend(Reader.load(folder, max_passage, precision, max_answer, log, threshold))


def _by_row(
    answer: Callable[[Sequence[str], Sequence[str]], Iterable[Answer]],
    questions: Sequence[str],
    passages: Sequence[str],
) -> list[Answered]:
    """Answers all rows, with an error for each that cannot be answered."""

    def answered(rows: Sequence[tuple[str, str]]) -> Iterable[Answered]:
        return answer([question for question, _ in rows], [passage for _, passage in rows])

    return answer_in_halves(list(zip(questions, passages, strict=True)), answered, UserError, _row_error)


def _row_error(row: tuple[str, str], error: UserError) -> Answered:
    return invalid(str(error))


def _run(function: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        outputs = function(**{name: tf.constant(value, _dtype(value)) for name, value in inputs.items()})
    except tf.errors.InvalidArgumentError as error:
        raise invalid(first_line(error)) from None
    except tf.errors.ResourceExhaustedError as error:
        raise RequestError("RESOURCE_EXHAUSTED", first_line(error)) from None
    except tf.errors.OpError as error:
        raise RequestError("INTERNAL", first_line(error)) from None
    return {name: value.numpy() for name, value in outputs.items()}


def _dtype(value: np.ndarray) -> tf.DType:
    return tf.string if value.dtype == object else tf.as_dtype(value.dtype)


def _definition(function: Any) -> meta_graph_pb2.SignatureDef:
    """The definition of a traced function, as it would stand in a SavedModel."""
    definition = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
    inputs = {spec.name: spec for spec in tf.nest.flatten(function.structured_input_signature)}
    for infos, specs, prefix in (
        (definition.inputs, inputs, f"{DEFAULT}_"),
        (definition.outputs, function.structured_outputs, "StatefulPartitionedCall_"),
    ):
        for name, spec in sorted(specs.items()):
            info = infos[name]
            info.name, info.dtype = f"{prefix}{name}:0", spec.dtype.as_datatype_enum
            info.tensor_shape.CopyFrom(spec.shape.as_proto())
    return definition


def _definitions_in(path: Path) -> dict[str, meta_graph_pb2.SignatureDef]:
    return dict(read_saved_model(path).meta_graphs[0].signature_def)


def _description(
    definitions: dict[str, meta_graph_pb2.SignatureDef],
    answerer: QuestionAnswerer | None,
    n_best: int | None,
    shows_attention: bool,
) -> Description:
    return Description(
        signatures={name: Signature(_tensors(one.inputs), _tensors(one.outputs)) for name, one in definitions.items()},
        definitions={name: one.SerializeToString() for name, one in definitions.items()},
        metadata={name: _as_json(one) for name, one in definitions.items()},
        calibration=answerer.calibration if answerer else None,
        threshold=answerer.no_answer_threshold if answerer else None,
        n_best=n_best,
        shows_attention=shows_attention,
    )


def _as_json(definition: meta_graph_pb2.SignatureDef) -> dict[str, Any]:
    return MessageToDict(definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _tensors(infos: Any) -> dict[str, Tensor]:
    return {name: _tensor(info) for name, info in sorted(infos.items())}


def _tensor(info: Any) -> Tensor:
    name = types_pb2.DataType.Name(info.dtype)
    dtype = {"DT_STRING": "string"}.get(name) or tf.as_dtype(info.dtype).name
    shape = None if info.tensor_shape.unknown_rank else tuple(part.size for part in info.tensor_shape.dim)
    return Tensor(dtype, shape)


def _shows_attention(answerer: QuestionAnswerer) -> bool:
    return isinstance(answerer, Reader) and any("processing_layer" in layer.name for layer in answerer.model.layers)


def _spans(tokens: Any) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in zip(tokens.starts, tokens.ends, strict=True)]
