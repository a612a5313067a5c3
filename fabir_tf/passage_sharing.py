"""A model run so that a passage is read once for all of its questions."""

import keras
import tensorflow as tf

from fabir_tf.pipelines.batches import PASSAGE_ROWS


class PassageSharing:
    """A model that takes fewer passages than questions.

    Whatever depends on passages alone is computed once for each of them; where a passage meets a question in the
    model's graph, it is repeated for all of its questions. SQuAD asks five about a passage, and FABIR's word
    representation and decoupled self-attention, nearly half of its work, know of no question.

    Args:
        model: a functional model, its inputs named `passage_...` and `question_...`.

    Call arguments:
        inputs: those of the model, the passages `(passages, ...)` and the questions `(questions, ...)`, and
            `passage_rows`, int `(questions,)`, the place of each question's passage among the passages.

    Returns:
        The model's outputs, one row per question, as they are outside training.

    Example:
        >>> sharing = PassageSharing(fabir_tf.build_model())
        >>> sharing(inputs | {"passage_rows": tf.constant([0, 0, 0, 1])})["start_logits"].shape
        (4, 140)
    """

    def __init__(self, model: keras.Model):
        self._inputs = {tensor.name: tensor for tensor in model.inputs}
        self._output = model.output

    @property
    def signature(self) -> dict[str, tf.TensorSpec]:
        """Names, shapes and types of the inputs."""
        specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in self._inputs.items()}
        return specs | {PASSAGE_ROWS: tf.TensorSpec([None], tf.int32, PASSAGE_ROWS)}

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        run = _Run(inputs[PASSAGE_ROWS])
        for name, tensor in self._inputs.items():
            place = run.passages if name.startswith("passage_") else run.questions
            place[id(tensor)] = inputs[name]
        return {name: run.of_questions(tensor) for name, tensor in self._output.items()}


class _Run:
    """The values of a model's symbolic tensors, by their ids: one row per passage, or one per question."""

    def __init__(self, passage_rows: tf.Tensor):
        self.passages: dict[int, tf.Tensor] = {}
        self.questions: dict[int, tf.Tensor] = {}
        self._passage_rows = passage_rows

    def of_questions(self, tensor: keras.KerasTensor) -> tf.Tensor:
        """The tensor's value with one row per question."""
        self._compute(tensor)
        if id(tensor) not in self.questions:
            self.questions[id(tensor)] = tf.gather(self.passages[id(tensor)], self._passage_rows)
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
        for output, value in zip(node.outputs, keras.tree.flatten(operation(*args, **kwargs)), strict=True):
            values[id(output)] = value
