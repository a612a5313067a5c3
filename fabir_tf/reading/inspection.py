"""Looks inside a reader: the weights of every attention, and the start and end probabilities of every token."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from fabir_tf.layers import ConvolutionalAttention, DecoupledEncoder, InteractionLayer, ProcessingLayer
from fabir_tf.layers.attention.decoupled_attention import Decoupled
from fabir_tf.models.graph_nodes import call_of, calls_to
from fabir_tf.models.outputs import END, NULL, START
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples, Features
from fabir_tf.pipelines.text.readable import is_blank
from fabir_tf.pipelines.text.tokenizer import Tokens
from fabir_tf.reading.answers import start_end_probabilities
from fabir_tf.reading.reader import Reader, validate_single

# The cross-attention of a layer in which the question attends to the passage, as in `--interaction=switching`.
_OF_QUESTION = "question_cross_attention"


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What a reader computed for one answer; Q and P are the numbers of tokens of question and passage.

    Attributes:
        question, passage: the tokens, in the order of the arrays' axes.
        start, end: float32 `(P,)`, the probability that the answer starts or ends at each token. With a null head they
            sum to less than 1; the rest is the probability of "no answer".
        attention: float32 weights by layer and kind, queries before keys, in the order of the layers:
            `"processing_layer_3/cross_attention"` is `(heads, P, Q)`, `.../passage_self_attention` `(heads, P, P)` and
            `.../question_self_attention` `(heads, Q, Q)`. In a layer in which the question attends to the passage,
            `.../question_cross_attention` is `(heads, Q, P)`. Empty for a model without such layers.
    """

    question: Tokens
    passage: Tokens
    start: np.ndarray
    end: np.ndarray
    attention: dict[str, np.ndarray]

    def tokens_of(self, kind: str) -> tuple[Tokens, Tokens]:
        """The tokens of the queries and of the keys of one attention.

        Args:
            kind: a key of `attention`.
        """
        queries = self.question if kind.endswith(("question_self_attention", _OF_QUESTION)) else self.passage
        keys = self.passage if kind.endswith(("passage_self_attention", _OF_QUESTION)) else self.question
        return queries, keys

    def __repr__(self) -> str:
        tokens = f"question={len(self.question.words)} tokens, passage={len(self.passage.words)} tokens"
        return f"Inspection({tokens}, attention={list(self.attention)})"


def look_inside(reader: Reader, question: str, passage: str) -> Inspection:
    """Answers one question and returns the intermediate results.

    In column-wise cross-attention, the default, each key's weights sum to 1 over the queries, so each question token's
    over the passage; in all other attentions each query's weights sum to 1 over the keys.

    Args:
        reader: a trained reader.
        question: any text with at least one word.
        passage: any text with at least one word, and at most `reader.max_passage` tokens.

    Returns:
        The tokens, their start and end probabilities and the attention weights.

    Raises:
        UserError: a text holds no word, the passage is too long to be read in one piece, or the reader is an ensemble.

    Reference: FABIR eq. 12 for the attention, section III-G for start and end.
    """
    validate_single(reader)
    data = SquadData("question", (passage,), ("",), (Question("1", question, 0, ()),))
    tokenized = reader.processor.tokenize(data)
    tokens = {"passage": tokenized.texts.tokens_of(0), "question": tokenized.texts.tokens_of(1)}
    for name, text in (("question", question), ("passage", passage)):
        if is_blank(text) or not tokens[name].words:
            raise UserError(f"the {name} holds no word, found {text!r}")
    length = len(tokens["passage"].words)
    longest = int(reader.processor.window_sizes(tokenized.question_lengths, reader.max_passage)[0])
    if length > longest:
        raise UserError(
            f"the passage has {length} tokens, expected at most {longest}: a longer one is read in several windows, "
            "each with its own attention"
        )
    example = Examples(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([length]))
    features = reader.processor.features(tokenized, example)
    inputs = _inputs(reader, features)
    logits = reader.model(inputs, training=False)
    begin = int(features.logit_offsets[0])
    parts = [_as_array(logits[name])[0, begin : begin + length] for name in (START, END)]
    null = _as_array(logits[NULL])[0] if NULL in logits else None
    start, end = start_end_probabilities(parts[0], parts[1], null, 1 / reader.temperature)[:, :length]
    weights = {kind: part[0] for kind, part in attention_weights(reader.model, inputs).items()}
    return Inspection(**tokens, start=start, end=end, attention=weights)


def _inputs(reader: Reader, features: Features) -> dict[str, np.ndarray]:
    """The model's inputs for the only example, without padding."""
    tables = features.tables
    inputs = {}
    for tensor in reader.model.inputs:
        text, _, part = tensor.name.partition("_")
        begin, length = int(tables[f"{text}_starts"][0]), int(tables[f"{text}_lengths"][0])
        inputs[tensor.name] = features.unique[part][features.tokens[begin : begin + length]][None]
    return inputs


def attention_weights(model: keras.Model, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The weights of every attention of a model, for inputs of one's own.

    Args:
        model: a functional model from `build_model`, or one of your own with the library's `DecoupledEncoder`,
            `ReductionLayer`, `ProcessingLayer`, `DecoupledAttention` or `ConvolutionalAttention`.
        inputs: a batch of the model's inputs by name.

    Returns:
        Float32 weights `(batch, heads, queries, keys)` by layer and kind, as in `Inspection.attention`; a
        `ConvolutionalAttention` or `DecoupledAttention` of its own is called `{layer}/attention`. Padding has weight 0
        on the axis that the weights sum to 1 over, and no meaning on the other. Empty for a model without such layers.

    Raises:
        UserError: an input is missing.
    """
    missing = [tensor.name for tensor in model.inputs if tensor.name not in inputs]
    if missing:
        raise UserError(
            f"inputs: {missing[0]} is missing, expected {', '.join(tensor.name for tensor in model.inputs)}"
        )
    inputs = {tensor.name: ops.convert_to_tensor(inputs[tensor.name], tensor.dtype) for tensor in model.inputs}
    attending: list[keras.layers.Layer] = [layer for layer in model.layers if isinstance(layer, tuple(_WEIGHTS))]
    if not attending:
        return {}
    # A model that returns the inputs of every layer that attends.
    calls = {layer.name: [node.arguments for node in calls_to(layer)] for layer in attending}
    tensors = {name: [arguments.keras_tensors for arguments in parts] for name, parts in calls.items()}
    entering = keras.Model(model.inputs, tensors)(inputs, training=False)
    found: dict[str, np.ndarray] = {}
    for layer in attending:
        for arguments, values in zip(calls[layer.name], entering[layer.name], strict=True):
            by_id = {id(tensor): value for tensor, value in zip(arguments.keras_tensors, values, strict=True)}
            named, symbols = (
                _by_name(layer, *arguments.fill_in(by_id)),
                _by_name(layer, arguments.args, arguments.kwargs),
            )
            weights = next(part for kind, part in _WEIGHTS.items() if isinstance(layer, kind))
            attends = "question" if _is_of_question(symbols.get("passage_mask")) else "passage"
            for kind, part in weights(layer, **named).items():
                found[f"{layer.name}/{_KINDS[attends].get(kind, kind)}"] = _as_array(part)
    return found


def _by_name(layer: keras.layers.Layer, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of a call by their names, however they were given."""
    named = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    return {name: value for name, value in named.items() if name != "training"}


def _is_of_question(tensor: Any) -> bool:
    """Whether a symbolic tensor depends on inputs of the question alone."""
    if not isinstance(tensor, keras.KerasTensor):
        return False
    sources = call_of(tensor)[1].input_tensors
    if not sources:
        return tensor.name.startswith("question")
    return all(map(_is_of_question, sources))


def _encoder_weights(layer: DecoupledEncoder, x, mask, text: str) -> dict[str, Any]:
    x = x + layer.encode_wide(x)
    return {f"{text}_self_attention": layer.self_attention.weigh(x, x, mask, mask)}


def _interaction_weights(
    layer: InteractionLayer,
    passage,
    question,
    passage_mask,
    question_mask,
    passage_encodings=None,
    question_encodings=None,
) -> dict[str, Any]:
    # The layer's own `call` up to its cross-attention.
    found = {}
    if isinstance(layer, ProcessingLayer):
        attention = layer.self_attention
        found["question_self_attention"] = attention.weigh(question, question, question_mask, question_mask)
        found["passage_self_attention"] = attention.weigh(passage, passage, passage_mask, passage_mask)
        question = layer.attend(question, question_mask, layer.question_self_norm)
        passage = layer.attend(passage, passage_mask, layer.passage_self_norm)
    question = layer.question_feed_forward_norm(question, layer.question_feed_forward(question))
    return found | {"cross_attention": _weighed(layer.cross_attention, passage, question, passage_mask, question_mask)}


def _decoupled_weights(layer: Any, embeddings, wide_encodings, encodings, mask) -> dict[str, Any]:
    x = embeddings + wide_encodings
    return {"attention": layer.weigh(x, x, mask, mask)}


def _own_weights(layer: ConvolutionalAttention, queries, keys, values, query_mask, key_mask) -> dict[str, Any]:
    return {"attention": _weighed(layer, queries, keys, query_mask, key_mask)}


def _weighed(layer: ConvolutionalAttention, queries, keys, query_mask, key_mask):
    """The weights with queries before keys."""
    weights = layer.weigh(queries, keys, query_mask, key_mask)
    return ops.transpose(weights, (0, 1, 3, 2)) if layer.softmax_axis == "query" else weights


# How the weights are computed, by the layer that attends, from the arguments of its call.
_WEIGHTS: dict[type, Callable[..., dict]] = {
    DecoupledEncoder: _encoder_weights,
    InteractionLayer: _interaction_weights,
    # Before the class that it inherits from.
    Decoupled: _decoupled_weights,
    ConvolutionalAttention: _own_weights,
}

# What the weights are called, by the text that stands in the place of the passage; kinds that are missing stay.
_KINDS = {
    "passage": {},
    "question": {
        "passage_self_attention": "question_self_attention",
        "question_self_attention": "passage_self_attention",
        "cross_attention": _OF_QUESTION,
    },
}


def _as_array(tensor) -> np.ndarray:
    """An array in float32 under every dtype policy."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))
