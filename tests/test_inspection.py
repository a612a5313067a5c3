"""What `look_inside` shows is what the equations give: compared with the NumPy oracle of the whole model."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.reading.inspection import look_inside

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
}
# The order in which the oracle, like the paper, comes by them.
REDUCTION = (
    "decoupled_encoder/passage_self_attention",
    "decoupled_encoder/question_self_attention",
    "reduction_layer/cross_attention",
)
PROCESSING = ("question_self_attention", "passage_self_attention", "cross_attention")


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
    names += [f"processing_layer_{number}/{kind}" for number in (1, 2) for kind in PROCESSING]
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


def test_axes_are_the_tokens_and_weights_sum_to_one():
    inside = look_inside(make_reader(), QUESTION, PASSAGE)
    assert inside.question == tokenize(QUESTION)
    assert inside.passage == tokenize(PASSAGE)
    passage, question = len(inside.passage.words), len(inside.question.words)
    shapes = {
        "cross_attention": (2, passage, question),
        "passage_self_attention": (2, passage, passage),
        "question_self_attention": (2, question, question),
    }
    for name, weights in inside.attention.items():
        kind = name.split("/")[1]
        assert weights.shape == shapes[kind]
        axis = 1 if kind == "cross_attention" else 2
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
