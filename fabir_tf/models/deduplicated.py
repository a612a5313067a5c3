"""A model run on batches without repetition: each passage once for all of its questions, each unique token once."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import keras

from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.layers.core.shared_values import shared_values
from fabir_tf.layers.core.take import take
from fabir_tf.models.graph_nodes import call_of
from fabir_tf.pipelines.features.features import PASSAGE_INDEX, SHARED_TEXT


class DeduplicatedModel(keras.Model):
    """Runs a functional model on fewer passages than questions and on fewer unique tokens than tokens.

    Whatever depends on passages alone is computed once per passage, and repeated for each question where the two meet
    in the model's graph. SQuAD asks five questions about a passage, and nearly half of FABIR's work (the word
    representation and the decoupled self-attention) needs no question. In training the questions of a passage share the
    dropout of that part.

    What depends on a single word, through layers with `per_word`, is computed once per unique token: a third of a large
    batch's tokens are distinct. Training does not do this, because dropout treats every occurrence differently, except
    for layers that say `per_word_in_training`.

    Args:
        model: a functional model whose inputs are called `{text}_{part}`, such as `passage_words`. This model has the
            same variables in the same order.
        training_kernels: what layers compute with in training, for `backend_kernels`.
        training_model: what is computed in training instead, with variables of `model` and the same outputs; None for
            `model` itself.

    Call arguments:
        inputs: `unique_{part}`, `(unique, ...)`: the values of each unique token; `{text}_token_index`, int
            `(texts, length)`: the unique token of each token; and `passage_index`, int `(questions,)`: the passage of
            each question, if the model reads a passage by itself.

    Returns:
        The model's outputs, one row per question.

    Example:
        >>> deduplicated = DeduplicatedModel(fabir_tf.build_model())
        >>> deduplicated(inputs | {"passage_index": np.array([0, 0, 0, 1])})["start_logits"].shape
        (4, 140)
    """

    def __init__(
        self,
        model: keras.Model,
        training_kernels: Mapping[str, Callable] | None = None,
        training_model: keras.Model | None = None,
    ):
        super().__init__(name=f"{model.name}_deduplicated")
        self.model = model
        self.built = True
        self._training_kernels = dict(training_kernels or {})
        # Not as an attribute, whose layers Keras would count again.
        self._training_model = lambda: training_model or model
        self._loss: Any = None

    @property
    def input_specs(self) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Shape and dtype of each input."""
        texts = dict.fromkeys(_text_of(tensor) for tensor in self.model.inputs)
        specs: dict[str, tuple[tuple[int | None, ...], str]]
        specs = {f"{text}_token_index": ((None, None), "int32") for text in texts}
        for tensor in self.model.inputs:
            specs[_unique_name(tensor)] = ((None, *tensor.shape[2:]), tensor.dtype)
        return specs | ({PASSAGE_INDEX: ((None,), "int32")} if SHARED_TEXT in texts else {})

    def compile(self, optimizer, loss, **kwargs):
        """Prepares training.

        Args:
            optimizer: a Keras optimizer.
            loss: takes all targets and all outputs at once, two dictionaries, and returns a scalar, the mean over
                `loss.count(targets)` examples.
            **kwargs: those of `keras.Model.compile`.
        """
        self._loss = loss
        self._mean_loss = keras.metrics.Mean("loss")
        super().compile(optimizer, **kwargs)

    @property
    def metrics(self) -> list[keras.Metric]:
        """The mean loss of the examples so far."""
        # Keras' own mean weights each batch by the length of one of its inputs, which may count tokens or padding.
        return [self._mean_loss] if self._loss else []

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss that `compile` was given, of all outputs together."""
        loss = self._loss(y, y_pred)
        self._mean_loss.update_state(loss, sample_weight=self._loss.count(y))
        return loss

    def call(self, inputs, training=None):
        # Reading has its own.
        kernels = backend_kernels(self._training_kernels) if training else contextlib.nullcontext()
        with shared_values(), kernels:
            graph = self._training_model() if training else self.model
            return self._outputs_of(graph, _Run(inputs, once_per_token=not training))

    def _outputs_of(self, graph: keras.Model, run: "_Run") -> dict[str, Any]:
        # Texts of one word each.
        words = {name: values[:, None] for name, values in run.inputs.items() if name.startswith("unique_")}
        for tensor in graph.inputs:
            run.unique[id(tensor)] = words[_unique_name(tensor)]
            run.texts[id(tensor)] = _text_of(tensor)
        return {name: run.of_questions(tensor) for name, tensor in graph.output.items()}


def _text_of(tensor: keras.KerasTensor) -> str:
    return tensor.name.partition("_")[0]


def _unique_name(tensor: keras.KerasTensor) -> str:
    return f"unique_{tensor.name.partition('_')[2]}"


def _is_per_word(operation: keras.Operation, node) -> bool:
    # Along the last axis of ids lie the words themselves.
    has_features = len(node.outputs[0].shape) > 2
    joins_features = has_features and isinstance(operation, keras.layers.Concatenate) and operation.axis == -1
    return joins_features or getattr(operation, "per_word", False)


class _Run:
    """The values of a model's symbolic tensors, by their ids: one row per unique token, per passage or per question."""

    def __init__(self, inputs, once_per_token: bool):
        self.unique: dict[int, Any] = {}
        self.passages: dict[int, Any] = {}
        self.questions: dict[int, Any] = {}
        # The text that a value per unique token belongs to.
        self.texts: dict[int, str] = {}
        self.inputs = inputs
        self._once_per_token = once_per_token
        self._by_source: dict[tuple[int, ...], Any] = {}

    def of_questions(self, tensor: keras.KerasTensor):
        """The tensor's value with one row per question."""
        self._compute(tensor)
        self._spread(tensor)
        if id(tensor) not in self.questions:
            self.questions[id(tensor)] = take(self.passages[id(tensor)], self.inputs[PASSAGE_INDEX])
        return self.questions[id(tensor)]

    def _spread(self, tensor: keras.KerasTensor) -> None:
        """Gives each token of a text the value of its unique token."""
        if id(tensor) in self.passages or id(tensor) in self.questions:
            return
        text = self.texts[id(tensor)]
        tokens = take(self.unique[id(tensor)][:, 0], self.inputs[f"{text}_token_index"])
        values = self.passages if text == SHARED_TEXT else self.questions
        values[id(tensor)] = tokens

    def _compute(self, tensor: keras.KerasTensor) -> None:
        if any(id(tensor) in values for values in (self.unique, self.passages, self.questions)):
            return
        operation, node = call_of(tensor)
        for source in node.input_tensors:
            self._compute(source)
        sources = {id(source) for source in node.input_tensors}
        is_once = self._once_per_token or getattr(operation, "per_word_in_training", False)
        if is_once and _is_per_word(operation, node) and sources <= self.unique.keys():
            self._compute_once(operation, node)
            return
        for source in node.input_tensors:
            self._spread(source)
        values = self.passages
        if not sources <= self.passages.keys():
            values = self.questions
            for source in node.input_tensors:
                self.of_questions(source)
        _keep(values, node, _called(operation, node, values))

    def _compute_once(self, operation: keras.Operation, node) -> None:
        """All texts consist of the same unique tokens, so a result for one text serves the others, too."""
        key = (id(operation), *(id(self.unique[id(source)]) for source in node.input_tensors))
        if key not in self._by_source:
            self._by_source[key] = _called(operation, node, self.unique)
        _keep(self.unique, node, self._by_source[key])
        for output in node.outputs:
            self.texts[id(output)] = self.texts[id(node.input_tensors[0])]


def _called(operation: keras.Operation, node, values: dict) -> list:
    args, kwargs = node.arguments.fill_in(values)
    # The node recorded `training` when the model was built; layers take it from the call around them instead.
    kwargs.pop("training", None)
    return keras.tree.flatten(operation(*args, **kwargs))


def _keep(values: dict, node, found: list) -> None:
    for output, value in zip(node.outputs, found, strict=True):
        values[id(output)] = value
