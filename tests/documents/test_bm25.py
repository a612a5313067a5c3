"""BM25 ranks as a plain sum over the words does, and finds words in any spelling."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.bm25 import BM25, BM25Settings, best
from fabir_tf.pipelines.documents.search_words import LONGEST_WORD, QUESTION_WORDS, question_words, text_words

STABLE = {"max_examples": 150, "deadline": None, "derandomize": True, "database": None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Mill's 2 wheels", ["the", "mill", "s", "2", "wheel"]),
        ("install installs installed installing", ["install"] * 4),
        ("query queries", ["queri"] * 2),
        ("use uses used using", ["use", "use", "used", "using"]),
        ("house houses housing", ["hous"] * 3),
        ("stopped stopping stops stop", ["stop"] * 4),
        ("falls falling, passes passed", ["fall", "fall", "pass", "pass"]),
        ("quickly quick", ["quick"] * 2),
        ("bus glass seas string bring", ["bus", "glass", "sea", "string", "bring"]),
        ("Café naïve Ångström ﬁne ＡＢ straße", ["caf", "naiv", "angstrom", "fin", "ab", "strass"]),
        ("snake_case x-ray 3.14 a/b", ["snak", "cas", "x", "ray", "3", "14", "a", "b"]),
        ("x in ℂ, 𝐇𝟐, ⓉⒽⒺ ℡", ["x", "in", "c", "h2", "the", "tel"]),
        ("磨坊 mill", ["磨", "坊", "mill"]),
        ("\ud800 \x00 ... —", []),
        ("a" * 200, ["a" * LONGEST_WORD]),
    ],
)
def test_words(text, words):
    assert text_words(text) == words


def test_no_letter_has_a_case_left():
    """An index ignores the case of ASCII's letters, so a word in another case would be found there only."""
    letters = (chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)
    words = [word for letter in letters for word in text_words(f"{letter} x")]
    assert [word for word in words if word != word.casefold()] == []


def test_a_question_loses_the_words_that_make_it_one():
    assert question_words("When was the Mill built, and when the mills?") == ["was", "the", "mill", "built", "and"]
    assert question_words("What does who do?") == ["what", "doe", "who", "do"]
    assert all(word == word.lower() for word in QUESTION_WORDS)


@settings(**STABLE)
@given(st.text(max_size=40))
def test_words_do_not_depend_on_case_and_what_stands_between(text):
    words = text_words(text)
    assert words == text_words(text.lower()) or not text.isascii()
    assert words == text_words(f"  {text}! ")
    assert all(word and word.isalnum() and not word[0].isspace() for word in words)
    assert set(question_words(text)) <= set(words)


def by_hand(texts, question, k1, b):
    """The score of each text, summed word by word, as a share of what no text can reach."""
    documents = [text_words(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores, highest = [], 0.0
    for word in question_words(question):
        having = sum(word in other for other in documents)
        highest += math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
    for document in documents:
        score = 0.0
        for word in question_words(question):
            having = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            count = document.count(word)
            if count:
                score += idf * count / (count + k1 * (1 - b + b * len(document) / mean))
        scores.append(score / highest if highest else 0.0)
    return scores


TEXTS = st.lists(
    st.lists(st.sampled_from(["mill", "wheel", "Wheels", "1846", "the", "é", "磨"]), max_size=12).map(" ".join),
    min_size=1,
    max_size=12,
)


@settings(**STABLE)
@given(TEXTS, st.text(st.sampled_from("mill wheel 1846 the é磨 x"), max_size=20), st.floats(0, 3), st.floats(0, 1))
def test_scores_equal_a_plain_sum(texts, question, k1, b):
    expected = by_hand(texts, question, k1, b)
    ranked = BM25(texts, BM25Settings(k1, b)).rank(question, len(texts))
    assert sorted(found.number for found in ranked) == [number for number, score in enumerate(expected) if score > 0]
    for found in ranked:
        assert found.score == pytest.approx(expected[found.number], rel=1e-9, abs=1e-12)
    order = [(-found.score, found.number) for found in ranked]
    assert order == sorted(order)
    assert BM25(texts, BM25Settings(k1, b)).rank(question, 2) == ranked[:2]


def test_a_constant_example():
    ranker = BM25(["mill mill wheel", "mill", "lake"], BM25Settings(1.0, 0.0))
    # Of one word: two thirds of what no text reaches, and a half.
    assert ranker.rank("mill?") == [(0, pytest.approx(2 / 3)), (1, pytest.approx(1 / 2))]
    # A word that occurs nowhere counts against both.
    share = math.log(1 + 1.5 / 2.5) / (math.log(1 + 1.5 / 2.5) + math.log(1 + 3.5 / 0.5))
    assert ranker.rank("boat mill?") == [(0, pytest.approx(share * 2 / 3)), (1, pytest.approx(share / 2))]
    assert len(ranker) == 3


def test_scores_of_more_texts_compare():
    """The usual sum grows with the collection; here a text that fits as well has about the same score."""
    texts = ["the old mill", *["a cold lake"] * 9]
    few, many = (BM25(texts[:size] + texts[1:] * (size // 10)).rank("old mill")[0].score for size in (10, 1000))
    assert few == pytest.approx(many, rel=0.02)


def test_equal_texts_keep_their_order():
    ranker = BM25(["lake", *["mill"] * 50, "mill"])
    assert [found.number for found in ranker.rank("mill", 5)] == [1, 2, 3, 4, 5]


def test_without_texts_or_words_nothing_is_found():
    assert BM25([]).rank("mill") == []
    assert BM25(["", "..."]).rank("mill") == []
    assert BM25(["mill"]).rank("?!") == []
    assert BM25(["mill"]).rank("lake") == []


@settings(**STABLE)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30), st.integers(1, 10))
def test_the_best_are_those_of_a_full_sort(scores, k):
    expected = sorted(((-score, number) for number, score in enumerate(scores) if score > 0))[:k]
    assert [(-found.score, found.number) for found in best(np.array(scores), k)] == expected


@pytest.mark.parametrize("settings", [{"k1": -1}, {"k1": math.nan}, {"k1": math.inf}, {"b": -0.1}, {"b": 1.1}])
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match="is a number from 0"):
        BM25Settings(**settings)


def test_k_is_checked():
    with pytest.raises(ValueError, match="k is a number from 1"):
        BM25(["mill"]).rank("mill", 0)
