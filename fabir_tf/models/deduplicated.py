"""A model run so that a passage is read once for all of its questions, and a word once for all of its places."""

import keras
from keras import ops

from fabir_tf.pipelines.features.features import PASSAGE_INDEX


class DeduplicatedModel(keras.Model):
    """A model that takes fewer passages than questions, and fewer words than tokens.

    Whatever depends on passages alone is computed once for each of them; where a passage meets a question in the
    model's graph, it is repeated for all of its questions. SQuAD asks five about a passage, and FABIR's word
    representation and decoupled self-attention, nearly half of its work, know of no question. In training the questions
    of a passage share what dropout leaves of it up to there.

    What depends on a word alone, by layers with `per_word`, is computed once for each type of token: a third of a large
    batch's tokens are distinct. Not in training, where dropout leaves something else of each token.

    Args:
        model: a functional model, its inputs named `passage_...` and `question_...`. Its variables are this model's,
            in the same order.

    Call arguments:
        inputs: `unique_...`, `(unique, ...)`, what the model's inputs of that name hold of each type of token;
            `passage_token_index`, int `(passages, passage)`, and `question_token_index`, int `(questions, question)`, the place of
            each token's type among the types; and `passage_index`, int `(questions,)`, the place of each question's
            passage among the passages.

    Returns:
        The model's outputs, one row per question.

    Example:
        >>> sharing = DeduplicatedModel(fabir_tf.build_model())
        >>> sharing(inputs | {"passage_index": np.array([0, 0, 0, 1])})["start_logits"].shape
        (4, 140)
    """

    def __init__(self, model: keras.Model):
        super().__init__(name=f"{model.name}_sharing_passages")
        self.model = model
        self.built = True

    @property
    def input_specs(self) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Shape and type of each input."""
        specs = {f"{text}_token_index": ((None, None), "int32") for text in ("passage", "question")}
        for tensor in self.model.inputs:
            specs[_unique_name(tensor)] = ((None, *tensor.shape[2:]), tensor.dtype)
        return specs | {PASSAGE_INDEX: ((None,), "int32")}

    def call(self, inputs, training=None):
        run = _Run(inputs, once_per_type=not training)
        # Texts of one word each.
        words = {name: values[:, None] for name, values in inputs.items() if name.startswith("unique_")}
        for tensor in self.model.inputs:
            run.types[id(tensor)] = words[_unique_name(tensor)]
            run.texts[id(tensor)] = tensor.name.partition("_")[0]
        return {name: run.of_questions(tensor) for name, tensor in self.model.output.items()}


def _unique_name(tensor: keras.KerasTensor) -> str:
    return f"unique_{tensor.name.partition('_')[2]}"


def _is_per_word(operation: keras.Operation) -> bool:
    joins_features = isinstance(operation, keras.layers.Concatenate) and operation.axis == -1
    return joins_features or getattr(operation, "per_word", False)


class _Run:
    """The values of a model's symbolic tensors, by their ids: one row per type, per passage, or per question."""

    def __init__(self, inputs, once_per_type: bool):
        self.types, self.passages, self.questions = {}, {}, {}
        # The text that a value per type is of.
        self.texts = {}
        self._inputs = inputs
        self._once_per_type = once_per_type
        self._by_source = {}

    def of_questions(self, tensor: keras.KerasTensor):
        """The tensor's value with one row per question."""
        self._compute(tensor)
        self._spread(tensor)
        if id(tensor) not in self.questions:
            self.questions[id(tensor)] = ops.take(self.passages[id(tensor)], self._inputs[PASSAGE_INDEX], axis=0)
        return self.questions[id(tensor)]

    def _spread(self, tensor: keras.KerasTensor) -> None:
        """Gives each token of a text what its type has."""
        if id(tensor) in self.passages or id(tensor) in self.questions:
            return
        text = self.texts[id(tensor)]
        tokens = ops.take(self.types[id(tensor)][:, 0], self._inputs[f"{text}_token_index"], axis=0)
        {"passage": self.passages, "question": self.questions}[text][id(tensor)] = tokens

    def _compute(self, tensor: keras.KerasTensor) -> None:
        if any(id(tensor) in values for values in (self.types, self.passages, self.questions)):
            return
        operation, number, _ = tensor._keras_history
        node = operation._inbound_nodes[number]
        for source in node.input_tensors:
            self._compute(source)
        sources = {id(source) for source in node.input_tensors}
        if self._once_per_type and _is_per_word(operation) and sources <= self.types.keys():
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
        """Both texts are made of the same types: what was computed for one is the other's, too."""
        key = (id(operation), *(id(self.types[id(source)]) for source in node.input_tensors))
        if key not in self._by_source:
            self._by_source[key] = _called(operation, node, self.types)
        _keep(self.types, node, self._by_source[key])
        for output in node.outputs:
            self.texts[id(output)] = self.texts[id(node.input_tensors[0])]


def _called(operation: keras.Operation, node, values: dict) -> list:
    args, kwargs = node.arguments.fill_in(values)
    # As it was while the model was built; what holds is that of this call, which layers take from the one around.
    kwargs.pop("training", None)
    return keras.tree.flatten(operation(*args, **kwargs))


def _keep(values: dict, node, found: list) -> None:
    for output, value in zip(node.outputs, found, strict=True):
        values[id(output)] = value
