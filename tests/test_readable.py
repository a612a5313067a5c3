"""Which texts are read at all: those with a letter or digit, and passages whose script has spaces between words."""

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.text.graph.code_points import decode
from fabir_tf.pipelines.text.graph.readable import are_readable
from fabir_tf.pipelines.text.readable import is_blank, is_without_spaces

BLANK = [
    *("", " \n\t\u00a0\u3000", "...", "?!", "—", "_ _", "\u200b", "\ufeff\u2060", "\u200d\u00ad\u200e", "\u0301"),
    *("😀 👩\u200d👩", "«»“”", "$%&", "\x00", "。、", "\ud800"),
    *("\u3164", "\uffa0 \u115f\u1160.", "\u2800"),
]
READABLE = ["a", "7", "½", "²", "...a", "\u200bx", "É", "日", "٣", "Ⅷ", "한", "ไ", "\u3164ㅎ"]
# Each mostly in a script without spaces; digits, marks and spaces are no letters.
WITHOUT_SPACES = [
    *("磨坊由安娜建于一八四〇年。", "アンナが水車を建てた", "ミル ミル 1840 (2024)", "โรงสีสร้างโดยแอนนา"),
    *("ໂຮງສີ ສ້າງ", "រោងម៉ាស៊ីន", "安娜 Ann 建造了磨坊和", "ｱﾝﾅ", "𠀀𠀁 a", "1234567890 ... 水"),
]
WITH_SPACES = [
    *("The mill (磨坊) was built in 1840.", "Мельницу построила Анна", "방앗간은 안나가 지었다", "طاحونة"),
    *("ab 磨坊", "...", "", "हवा चक्की", "Η Άννα έχτισε", "3.14 1840"),
]


def in_graph(texts, needs_spaces=True):
    texts = decode(tf.constant([text.encode("utf-8", "replace") for text in texts], tf.string, [len(texts)]))
    return [part.numpy().tolist() for part in are_readable(texts.values, texts.splits, needs_spaces)]


@pytest.mark.parametrize("text", BLANK)
def test_a_text_without_a_letter_or_digit_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize("text", READABLE)
def test_a_text_with_a_letter_or_digit_is_not_blank(text):
    assert not is_blank(text)


@pytest.mark.parametrize("text", WITHOUT_SPACES)
def test_most_letters_are_of_a_script_without_spaces(text):
    assert is_without_spaces(text)


@pytest.mark.parametrize("text", WITH_SPACES)
def test_most_letters_are_of_a_script_with_spaces(text):
    assert not is_without_spaces(text)


CHARACTERS = st.sampled_from([*"aé5½²٣_.,! ", *"日カー々〇〡ไັລខ្ｶ한Я😀𠀀𛀀、Ⅷ①", "\u3164", "\u0301", "\u200b", "\u200d"])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.one_of(st.text(CHARACTERS, max_size=6), st.text(max_size=6)), max_size=30))
def test_the_graph_judges_alike(texts):
    filled, passages = in_graph(texts)
    assert filled == [not is_blank(text) for text in texts]
    assert passages == [not is_blank(text) and not is_without_spaces(text) for text in texts]
    assert in_graph(texts, needs_spaces=False) == [filled, filled]
