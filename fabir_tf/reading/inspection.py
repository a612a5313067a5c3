"""Looking inside a reader: what every attention weighs, and where the answer could begin and end."""

import dataclasses

import keras
import numpy as np
from keras import ops

from fabir_tf.layers import DecoupledEncoder, InteractionLayer, ProcessingLayer
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenizer import Tokens, tokenize
from fabir_tf.reading.reader import Reader


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What a reader computed on the way to one answer; Q and P count the tokens of question and passage.

    Attributes:
        question, passage: the tokens, in the order of the arrays' axes.
        start, end: float32 `(P,)`, the probability of each token to be the first or the last of the answer.
        attention: float32 weights by layer and kind, queries before keys, in the order of the layers:
            `"processing_layer_3/cross_attention"` is `(heads, P, Q)`, `.../passage_self_attention` `(heads, P, P)` and
            `.../question_self_attention` `(heads, Q, Q)`. Empty for a model without such layers.
    """

    question: Tokens
    passage: Tokens
    start: np.ndarray
    end: np.ndarray
    attention: dict[str, np.ndarray]


def look_inside(reader: Reader, question: str, passage: str) -> Inspection:
    """Reads one passage with a question in mind, and keeps what is otherwise thrown away.

    In column-wise cross-attention, the default, each question token's weights sum to 1 over the passage; in all the
    others each query's weights sum to 1 over the keys.

    Args:
        reader: a trained reader.
        question: any text with at least one word.
        passage: any text with at least one word, and at most `reader.max_passage` tokens.

    Returns:
        The tokens, the border probabilities and the attention weights.

    Raises:
        UserError: a text holds no word, or the passage is too long to be read in one piece.

    Reference: FABIR eq. 12 for the attention, section III-G for the borders.
    """
    texts = {"question": tokenize(question), "passage": tokenize(passage)}
    for name, tokens in texts.items():
        if not tokens.words:
            raise UserError(f"the {name} holds no word, found {question if name == 'question' else passage!r}")
    length = len(texts["passage"].words)
    if length > reader.max_passage:
        raise UserError(
            f"the passage has {length} tokens, expected at most max_passage={reader.max_passage}: a longer one is read "
            "in several windows, each with its own attention"
        )
    inputs = _inputs(reader, texts)
    logits = reader.model(inputs, training=False)
    borders = (logits[name] / reader.temperature for name in ("start_logits", "end_logits"))
    start, end = (_as_array(ops.softmax(border, axis=-1)) for border in borders)
    return Inspection(**texts, start=start, end=end, attention=_all_weights(reader.model, inputs))


def _inputs(reader: Reader, texts: dict[str, Tokens]) -> dict[str, np.ndarray]:
    width = reader.config.max_word_characters
    inputs = {}
    for name, tokens in texts.items():
        inputs[f"{name}_words"] = reader.vocabulary.word_ids(tokens.words)[None]
        inputs[f"{name}_characters"] = reader.vocabulary.character_ids(tokens.words, width)[None]
    return inputs


def _all_weights(model: keras.Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    attending = [layer for layer in model.layers if isinstance(layer, DecoupledEncoder | InteractionLayer)]
    if not attending:
        return {}
    # The same graph, cut open in front of every layer that attends.
    calls = {layer.name: [node.arguments for node in layer._inbound_nodes] for layer in attending}
    tensors = {name: [arguments.keras_tensors for arguments in parts] for name, parts in calls.items()}
    entering = keras.Model(model.inputs, tensors)(inputs, training=False)
    found = {}
    for layer in attending:
        for arguments, values in zip(calls[layer.name], entering[layer.name], strict=True):
            by_id = {id(tensor): value for tensor, value in zip(arguments.keras_tensors, values, strict=True)}
            args, kwargs = arguments.fill_in(by_id)
            weights = _encoder_weights if isinstance(layer, DecoupledEncoder) else _interaction_weights
            found |= {f"{layer.name}/{kind}": _as_array(part) for kind, part in weights(layer, *args, **kwargs).items()}
    return found


def _encoder_weights(layer: DecoupledEncoder, x, mask, text: str) -> dict:
    x = x + layer.encode_wide(x)
    return {f"{text}_self_attention": layer.self_attention.weigh(x, x, mask, mask)}


def _interaction_weights(
    layer: InteractionLayer,
    passage,
    question,
    passage_encodings=None,
    question_encodings=None,
    *,
    passage_mask,
    question_mask,
) -> dict:
    # The layer's own `call` up to its cross-attention, which nothing after it can change.
    found = {}
    if isinstance(layer, ProcessingLayer):
        attention = layer.self_attention
        found["question_self_attention"] = attention.weigh(question, question, question_mask, question_mask)
        found["passage_self_attention"] = attention.weigh(passage, passage, passage_mask, passage_mask)
        question = layer.attend(question, question_mask, layer.question_self_norm)
        passage = layer.attend(passage, passage_mask, layer.passage_self_norm)
    question = layer.question_feed_forward_norm(question, layer.question_feed_forward(question))
    weights = layer.cross_attention.weigh(passage, question, passage_mask, question_mask)
    if layer.cross_attention.softmax_axis == "query":
        weights = ops.transpose(weights, (0, 1, 3, 2))
    return found | {"cross_attention": weights}


def _as_array(tensor) -> np.ndarray:
    """The only example of a batch, in float32 whatever the model computes in."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))[0]
