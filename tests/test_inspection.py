"""What `look_inside` shows is what the equations give: compared with the NumPy oracle of the whole model."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tiny

from fabir_tf import layers
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.reading.inspection import attention_weights, look_inside

sys.path.append(str(Path(__file__).parent / "layers"))

import layer_testing
import oracles

QUESTION = "Who built the mill?"
PASSAGE = "The old mill was built by Anna Keld in 1712."
WORDS = ("the", "mill", "was", "built", "anna", "who")
VARIANTS = {
    "published": {},
    "row-wise": {"cross_attention": "row", "attention_kernel": "3x1", "selector": "linear"},
    "plain": {"attention_kernel": "none"},
    "switching": {"interaction": "switching"},
}
# The order in which the oracle, like the paper, comes by them.
REDUCTION = (
    "decoupled_encoder/passage_self_attention",
    "decoupled_encoder/question_self_attention",
    "reduction_layer/cross_attention",
)
PROCESSING = ("question_self_attention", "passage_self_attention", "cross_attention")
# Where the question attends to the passage.
SWITCHED = ("passage_self_attention", "question_self_attention", "question_cross_attention")


def make_reader(**changes):
    """A reader of two processing layers with weights so large that no two heads or layers look alike."""
    reader = tiny.make_reader(WORDS, num_layers=2, **changes)
    random = np.random.default_rng(5)
    for weight in reader.model.trainable_weights:
        weight.assign(0.3 * random.standard_normal(weight.shape))
    return reader


def by_the_oracle(reader, monkeypatch):
    """Start and end probabilities and attention weights from NumPy alone."""
    found = []

    def recorded(*args, **kwargs):
        found.append(oracle(*args, **kwargs)[0])
        return found[-1][None]

    oracle = oracles.attention_weights
    monkeypatch.setattr(oracles, "attention_weights", recorded)
    inputs, vocabulary = {}, reader.processor.vocabulary
    for name, text in (("question", QUESTION), ("passage", PASSAGE)):
        words = tokenize(text).words
        inputs[f"{name}_words"] = vocabulary.word_ids(words)[None]
        inputs[f"{name}_characters"] = vocabulary.character_ids(words, reader.config.max_word_characters)[None]
    weights = {layer.name: layer_testing.weights_of(layer) for layer in reader.model.layers if layer.weights}
    logits = oracles.fabir(inputs, weights, reader.config.to_dict())
    names = [*REDUCTION]
    second = SWITCHED if reader.config.interaction == "switching" else PROCESSING
    names += [f"processing_layer_{number}/{kind}" for number, kinds in ((1, PROCESSING), (2, second)) for kind in kinds]
    return [np.exp(oracles.log_softmax(part[0])) for part in logits], dict(zip(names, found, strict=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_equals_the_oracle(variant, monkeypatch):
    reader = make_reader(**VARIANTS[variant])
    inside = look_inside(reader, QUESTION, PASSAGE)
    (start, end), attention = by_the_oracle(reader, monkeypatch)
    np.testing.assert_allclose(inside.start, start, atol=1e-4)
    np.testing.assert_allclose(inside.end, end, atol=1e-4)
    assert inside.attention.keys() == attention.keys()
    for name, weights in attention.items():
        assert inside.attention[name].dtype == np.float32
        np.testing.assert_allclose(inside.attention[name], weights, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("interaction", ["repeated", "switching"])
def test_axes_are_the_tokens_and_weights_sum_to_one(interaction):
    inside = look_inside(make_reader(interaction=interaction), QUESTION, PASSAGE)
    assert inside.question == tokenize(QUESTION)
    assert inside.passage == tokenize(PASSAGE)
    passage, question = len(inside.passage.words), len(inside.question.words)
    shapes = {
        "cross_attention": (2, passage, question),
        "passage_self_attention": (2, passage, passage),
        "question_self_attention": (2, question, question),
        "question_cross_attention": (2, question, passage),
    }
    for name, weights in inside.attention.items():
        kind = name.split("/")[1]
        assert weights.shape == shapes[kind]
        assert weights.shape[1:] == tuple(len(tokens.words) for tokens in inside.tokens_of(name))
        axis = 1 if kind.endswith("cross_attention") else 2
        np.testing.assert_allclose(weights.sum(axis=axis), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("null_head", [False, True])
def test_start_and_end_are_those_of_the_answer(null_head):
    reader = make_reader(null_head=null_head)
    inside, answer = look_inside(reader, QUESTION, PASSAGE), reader.answer(QUESTION, PASSAGE)
    first, last = inside.passage.starts.index(answer.start), inside.passage.ends.index(answer.end)
    # The rest is that of "no answer", which competes with the tokens.
    of_tokens = inside.start.sum() * inside.end.sum()
    assert inside.start[first] * inside.end[last] == pytest.approx(of_tokens * answer.probability, rel=1e-4)
    assert (of_tokens < 0.999) == null_head


def test_the_repr_is_one_line_without_arrays():
    text = repr(look_inside(make_reader(), QUESTION, PASSAGE))
    assert text.startswith("Inspection(question=5 tokens, passage=11 tokens, attention=['decoupled_encoder/")
    assert "\n" not in text and "array" not in text


def test_a_text_without_a_word_is_refused():
    reader = make_reader()
    with pytest.raises(UserError, match="the question holds no word, found ' '"):
        look_inside(reader, " ", PASSAGE)
    with pytest.raises(UserError, match="the passage holds no word, found ''"):
        look_inside(reader, QUESTION, "")


def test_a_passage_of_several_windows_is_refused():
    reader = tiny.make_reader(WORDS, max_passage=10)
    with pytest.raises(UserError, match="11 tokens, expected at most 10: a longer one"):
        look_inside(reader, QUESTION, PASSAGE)


# === Arrays and models of one's own ===


def test_weights_of_a_batch_of_arrays_are_those_of_each_text():
    reader = make_reader()
    pairs = [(QUESTION, PASSAGE), ("Who?", PASSAGE + " " + PASSAGE)]
    rows = [look_inside(reader, *pair) for pair in pairs]
    inputs = batch_of(reader, pairs)
    found = attention_weights(reader.model, inputs)
    assert list(found) == list(rows[0].attention)
    for kind, weights in found.items():
        for row, inside in enumerate(rows):
            queries, keys = (len(tokens.words) for tokens in inside.tokens_of(kind))
            np.testing.assert_allclose(
                weights[row, :, :queries, :keys], inside.attention[kind], rtol=1e-4, atol=1e-6, err_msg=kind
            )


def batch_of(reader, pairs):
    """The model's inputs of several pairs, padded."""
    inputs = {}
    for position, text in enumerate(("question", "passage")):
        words = [reader.processor.tokenize_text(pair[position]).words for pair in pairs]
        longest, vocabulary = max(map(len, words)), reader.processor.vocabulary
        width = reader.processor.max_word_characters
        ids = np.zeros((len(pairs), longest), "int64")
        characters = np.zeros((len(pairs), longest, width), "int64")
        for row, tokens in enumerate(words):
            ids[row, : len(tokens)] = vocabulary.word_ids(tokens)
            characters[row, : len(tokens)] = vocabulary.character_ids(tokens, width)
        inputs |= {f"{text}_words": ids, f"{text}_characters": characters}
    return inputs


@pytest.mark.parametrize("softmax_axis", ["key", "query"])
def test_weights_of_a_model_of_ones_own(softmax_axis):
    queries, keys = keras.Input((None, 8), name="queries"), keras.Input((None, 8), name="keys")
    masks = [keras.Input((None,), dtype="bool", name=f"{name}_mask") for name in ("query", "key")]
    attention = layers.ConvolutionalAttention(2, softmax_axis=softmax_axis, name="mine")
    model = keras.Model([queries, keys, *masks], attention(queries, keys, keys, *masks))
    random = np.random.default_rng(5)
    inputs = {"queries": random.normal(size=(3, 4, 8)), "keys": random.normal(size=(3, 6, 8))}
    inputs |= {"query_mask": np.ones((3, 4), bool), "key_mask": np.ones((3, 6), bool), "more": 0}
    (weights,) = attention_weights(model, inputs).values()
    assert weights.shape == (3, 2, 4, 6)
    np.testing.assert_allclose(weights.sum(axis=-1 if softmax_axis == "key" else -2), 1, rtol=1e-5)
    del inputs["keys"]
    with pytest.raises(UserError, match="inputs: keys is missing, expected queries, keys, query_mask, key_mask"):
        attention_weights(model, inputs)


@pytest.mark.parametrize("is_training", [None, False])
def test_blocks_that_are_called_as_their_docstrings_show(is_training):
    """With arguments by their places, perhaps with `training`, they weigh as they attend."""
    passage, question = keras.Input((None, 8), name="passage"), keras.Input((None, 8), name="question")
    masks = [keras.Input((None,), dtype="bool", name=f"{text}_mask") for text in ("passage", "question")]
    block = layers.ProcessingLayer(num_heads=2, hidden_dim=8, name="block")
    decoupled = layers.DecoupledAttention(num_heads=2, name="decoupled")
    training = {} if is_training is None else {"training": is_training}
    outputs = [
        *block(passage, question, *masks, **training),
        *decoupled(passage, passage, passage, masks[0], **training),
    ]
    model = keras.Model([passage, question, *masks], outputs)
    random = np.random.default_rng(5)
    inputs = {"passage": random.normal(size=(3, 6, 8)), "question": random.normal(size=(3, 4, 8))}
    inputs |= {"passage_mask": np.ones((3, 6), bool), "question_mask": np.ones((3, 4), bool)}
    found = attention_weights(model, inputs)
    assert {name: weights.shape[2:] for name, weights in found.items()} == {
        "block/question_self_attention": (4, 4),
        "block/passage_self_attention": (6, 6),
        "block/cross_attention": (6, 4),
        "decoupled/attention": (6, 6),
    }
    x, mask = inputs["passage"], inputs["passage_mask"]
    np.testing.assert_allclose(found["decoupled/attention"], decoupled.weigh(2 * x, 2 * x, mask, mask), rtol=1e-5)


def test_a_model_that_does_not_attend_has_no_weights():
    x = keras.Input((3,), name="x")
    assert attention_weights(keras.Model(x, keras.layers.Dense(2)(x)), {"x": np.ones((1, 3))}) == {}


# === A picture of one head ===


WEIGHTS = np.random.default_rng(1).random((3, 5, 2)).astype("float32")


@pytest.mark.parametrize(("head", "expected"), [(None, WEIGHTS.mean(axis=0)), (0, WEIGHTS[0]), (2, WEIGHTS[2])])
def test_a_figure_shows_the_weights_of_a_head(head, expected):
    pictures = pytest.importorskip("fabir_tf.analysis.pictures")
    figure = pictures.attention_figure(WEIGHTS, list("abcde"), ["$x$", "y"], head, "mine")
    axes = figure.axes[0]
    # The longer text is horizontal.
    np.testing.assert_array_equal(axes.images[0].get_array(), expected.T)
    assert [label.get_text() for label in axes.get_xticklabels()] == list("abcde")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$x$", "y"]
    assert axes.get_title() == ("mine" if head is None else f"mine, head {head}")


@pytest.mark.parametrize(
    ("queries", "head", "message"),
    [
        (list("abcd"), None, r"found the shape \(3, 5, 2\), expected \(heads, 4, 2\)"),
        (list("abcde"), 3, "head: found 3, expected a number from 0 to 2"),
        (list("abcde"), -1, "head: found -1"),
    ],
)
def test_a_figure_of_weights_that_do_not_fit(queries, head, message):
    pictures = pytest.importorskip("fabir_tf.analysis.pictures")
    with pytest.raises(UserError, match=message):
        pictures.attention_figure(WEIGHTS, queries, ["x", "y"], head)
