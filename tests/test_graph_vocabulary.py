"""Tests of the vocabulary in a graph: the ids of `Vocabulary`, for any Unicode."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.text.graph.tokenizer import graph_tokenize
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary

WIDTH = 5
# Letters whose lower case depends on their context or is two characters, and characters that `str.lower` ignores.
ALPHABET = "\u03a3\u03c3\u03c2\u0130i\u0307aAB.:\u0301\u00ad\u2019\u0345\u02b0\u1e9e1\x00\U0001f600"
TEXTS = (
    "The \u0130STANBUL caf\u00e9, CAF\u00c9!",
    "\u039f\u0394\u039f\u03a3 \u039f\u03a3\u039f \u03a3 A.\u03a3 A\u03a3. A\u03a3B x\u03a3\u0301 x\u03a3\u0301x",
    "a\x00b abcabcabc \U0001f600 \uffff \U0010ffff",
    "",
    "unknown UNKNOWN words",
)


def words_of(texts):
    return [word for text in texts for word in tokenize(text).words]


@pytest.fixture(scope="module")
def vocabulary():
    """Contains every second word of the texts, and all words of three letters of the alphabet that end in a sigma."""
    chosen = sorted({word.lower() for word in words_of(TEXTS)})[::2]
    chosen += [a + b + c for a in ALPHABET for b in ALPHABET for c in "\u03c2\u03c3"]
    words = list(dict.fromkeys(word.lower() for word in chosen))
    return Vocabulary(tuple(words[:2]), tuple(ALPHABET), words)


def test_a_vocabulary_without_words_knows_none():
    table = GraphVocabulary(Vocabulary((), ("a",), []), WIDTH)
    ids = table.word_ids(graph_tokenize(tf.constant(["The mill, a mill"])))
    assert ids.numpy().tolist() == Vocabulary((), ("a",), []).word_ids(words_of(["The mill, a mill"])).tolist()
    assert set(ids.numpy().tolist()) == {1}


@pytest.fixture(scope="module")
def look_up(vocabulary):
    table = GraphVocabulary(vocabulary, WIDTH)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def ids(texts):
        tokens = graph_tokenize(texts)
        return table.word_ids(tokens), table.character_ids(tokens)

    return ids


def assert_same(look_up, vocabulary, texts):
    words, characters = look_up(tf.constant(texts, tf.string))
    expected = words_of(texts)
    np.testing.assert_array_equal(words, vocabulary.word_ids(expected))
    np.testing.assert_array_equal(characters, vocabulary.character_ids(expected, WIDTH))


@pytest.mark.slow
def test_ids_of_words_and_characters(look_up, vocabulary):
    assert_same(look_up, vocabulary, list(TEXTS))
    known, _ = look_up(tf.constant(TEXTS))
    assert 0.3 < np.mean(known.numpy() > 1) < 0.9


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.text(st.sampled_from(ALPHABET + " "), max_size=30), max_size=4))
def test_ids_of_any_text(look_up, vocabulary, texts):
    assert_same(look_up, vocabulary, texts)


def test_empty_batches_and_texts_have_no_ids(look_up):
    for texts in ([], [""], [" ", "\n"]):
        words, characters = look_up(tf.constant(texts, tf.string))
        assert words.shape == (0,)
        assert characters.shape == (0, WIDTH)


def test_every_letter_is_looked_up_in_lower_case():
    """Each letter with another lower case is a text of its own; UTF-8 has no surrogates."""
    code_points = np.setdiff1d(np.arange(0x110000), np.arange(0xD800, 0xE000))
    letters = [chr(code_point) for code_point in code_points if chr(code_point).lower() != chr(code_point)]
    vocabulary = Vocabulary((), (), list(dict.fromkeys(letter.lower() for letter in letters)))
    ids = GraphVocabulary(vocabulary, WIDTH).word_ids(graph_tokenize(tf.constant(letters)))
    expected = vocabulary.word_ids(letters)
    np.testing.assert_array_equal(ids, expected)
    assert (expected > 1).all()
