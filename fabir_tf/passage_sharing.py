"""A model run so that a passage is read once for all of its questions."""

import keras
from keras import ops

from fabir_tf.pipelines.rows import PASSAGE_ROWS


class PassageSharing(keras.Model):
    """A model that takes fewer passages than questions.

    Whatever depends on passages alone is computed once for each of them; where a passage meets a question in the
    model's graph, it is repeated for all of its questions. SQuAD asks five about a passage, and FABIR's word
    representation and decoupled self-attention, nearly half of its work, know of no question. In training the questions
    of a passage share what dropout leaves of it up to there.

    Args:
        model: a functional model, its inputs named `passage_...` and `question_...`. Its variables are this model's,
            in the same order.

    Call arguments:
        inputs: those of the model, the passages `(passages, ...)` and the questions `(questions, ...)`, and
            `asked_passages`, int `(questions,)`, the place of each question's passage among the passages.

    Returns:
        The model's outputs, one row per question.

    Example:
        >>> sharing = PassageSharing(fabir_tf.build_model())
        >>> sharing(inputs | {"asked_passages": np.array([0, 0, 0, 1])})["start_logits"].shape
        (4, 140)
    """

    def __init__(self, model: keras.Model):
        super().__init__(name=f"{model.name}_sharing_passages")
        self.model = model
        self.built = True

    @property
    def input_specs(self) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Shape and type of each input."""
        specs = {tensor.name: (tensor.shape, tensor.dtype) for tensor in self.model.inputs}
        return specs | {PASSAGE_ROWS: ((None,), "int32")}

    def call(self, inputs, training=None):
        run = _Run(inputs[PASSAGE_ROWS])
        for tensor in self.model.inputs:
            place = run.passages if tensor.name.startswith("passage_") else run.questions
            place[id(tensor)] = inputs[tensor.name]
        return {name: run.of_questions(tensor) for name, tensor in self.model.output.items()}


class _Run:
    """The values of a model's symbolic tensors, by their ids: one row per passage, or one per question."""

    def __init__(self, passage_rows):
        self.passages, self.questions = {}, {}
        self._passage_rows = passage_rows

    def of_questions(self, tensor: keras.KerasTensor):
        """The tensor's value with one row per question."""
        self._compute(tensor)
        if id(tensor) not in self.questions:
            self.questions[id(tensor)] = ops.take(self.passages[id(tensor)], self._passage_rows, axis=0)
        return self.questions[id(tensor)]

    def _compute(self, tensor: keras.KerasTensor) -> None:
        if id(tensor) in self.passages or id(tensor) in self.questions:
            return
        operation, number, _ = tensor._keras_history
        node = operation._inbound_nodes[number]
        for source in node.input_tensors:
            self._compute(source)
        values = self.passages
        if any(id(source) not in self.passages for source in node.input_tensors):
            values = self.questions
            for source in node.input_tensors:
                self.of_questions(source)
        args, kwargs = node.arguments.fill_in(values)
        # As it was while the model was built; what holds is that of this call, which layers take from the one around.
        kwargs.pop("training", None)
        for output, value in zip(node.outputs, keras.tree.flatten(operation(*args, **kwargs)), strict=True):
            values[id(output)] = value
