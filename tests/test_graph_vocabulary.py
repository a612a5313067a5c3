"""Ids inside a graph are those of `Vocabulary`, for any Unicode."""

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
# Letters whose small letter depends on what stands around them, or is two, and what `str.lower` looks through.
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
    """Knows every second word of the texts, and of all short words over the alphabet those that end in a sigma."""
    small = sorted({word.lower() for word in words_of(TEXTS)})[::2]
    small += [a + b + c for a in ALPHABET for b in ALPHABET for c in "\u03c2\u03c3" if "'" not in a + b]
    words = list(dict.fromkeys(word.lower() for word in small))
    return Vocabulary(tuple(words[:2]), tuple(ALPHABET), words)


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


def test_words_and_characters(look_up, vocabulary):
    assert_same(look_up, vocabulary, list(TEXTS))
    known, _ = look_up(tf.constant(TEXTS))
    assert 0.3 < np.mean(known.numpy() > 1) < 0.9


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.text(st.sampled_from(ALPHABET + " "), max_size=30), max_size=4))
def test_small_letters_of_any_text(look_up, vocabulary, texts):
    assert_same(look_up, vocabulary, texts)


def test_no_text_and_no_word(look_up):
    for texts in ([], [""], [" ", "\n"]):
        words, characters = look_up(tf.constant(texts, tf.string))
        assert words.shape == (0,)
        assert characters.shape == (0, WIDTH)


def test_every_code_point_has_its_small_letter():
    """Each letter that has one, as a text of its own; surrogates are none in UTF-8."""
    code_points = np.setdiff1d(np.arange(0x110000), np.arange(0xD800, 0xE000))
    letters = [chr(code_point) for code_point in code_points if chr(code_point).lower() != chr(code_point)]
    table = GraphVocabulary(Vocabulary((), (), list(dict.fromkeys(letter.lower() for letter in letters))), WIDTH)
    ids = table.word_ids(graph_tokenize(tf.constant(letters)))
    expected = Vocabulary((), (), list(dict.fromkeys(letter.lower() for letter in letters))).word_ids(letters)
    np.testing.assert_array_equal(ids, expected)
    assert (expected > 1).all()
