"""Slices, replacements and joins of a text keep the map to its original."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.mapped_text import MappedText, Run, joined, spaced

ORIGINAL = "The &amp; mill,\n  built  in 1846."


def by_hand(content):
    """The offset of each character, one at a time."""
    places = [content.span(index, index + 1)[0] for index in range(len(content.text))]
    return np.array(places, np.int64)


def test_a_copy_has_the_offsets_of_its_part():
    part = MappedText.copy(ORIGINAL, 4, 9)
    assert part.text == "&amp;"
    assert part.offsets().tolist() == [4, 5, 6, 7, 8]
    assert part.span(1, 3) == (5, 7)


def test_an_entity_stands_for_its_whole_source():
    whole = MappedText.copy(ORIGINAL)
    text = joined([whole.part(0, 4), whole.replaced(4, 9, "&"), whole.part(9, 14)])
    assert text.text == "The & mill"
    assert text.offsets().tolist() == [0, 1, 2, 3, 4, 9, 10, 11, 12, 13]
    assert text.span(0, 5) == (0, 9)
    assert text.span(4, 5) == (4, 9)
    assert text.part(3, 6).span(1, 2) == (4, 9)


def test_a_replacement_of_several_characters_has_one_offset():
    text = MappedText.copy(ORIGINAL).replaced(4, 9, "and")
    assert text.offsets().tolist() == [4, 4, 4]
    assert text.part(1, 2).span(0, 1) == (4, 9)


def test_parts_that_touch_are_one_run():
    whole = MappedText.copy(ORIGINAL)
    assert joined([whole.part(0, 3), whole.part(3, 8)]) == whole.part(0, 8)
    assert joined([whole.part(0, 14), whole.part(16, 18)], "\n").runs != (Run(0, 0, 0),)


def test_a_separator_stands_for_what_lies_between():
    whole = MappedText.copy(ORIGINAL)
    text = joined([whole.part(0, 3), whole.part(10, 14)], "; ")
    assert text.text == "The; mill"
    assert text.span(3, 5) == (3, 10)
    assert text.offsets().tolist() == [0, 1, 2, 3, 3, 10, 11, 12, 13]


def test_a_line_break_is_one_space():
    whole = MappedText.copy(ORIGINAL)
    text = spaced(whole.part(10))
    assert text.text == "mill, built in 1846."
    assert text.span(6, 11) == (18, 23)
    assert np.array_equal(text.offsets(), by_hand(text))


def test_an_empty_text():
    empty = MappedText.copy("")
    assert (empty.text, empty.offsets().tolist(), empty.span(0, 0)) == ("", [], (0, 0))
    assert joined([]) == joined([empty, empty], "; ") == spaced(empty) == empty


@pytest.mark.parametrize(("start", "end"), [(0, 0), (3, 3), (5, 5)])
def test_an_empty_span_has_a_place(start, end):
    assert MappedText.copy(ORIGINAL, 10, 15).span(start, end) == (10 + start, 10 + end)


PIECES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12), st.sampled_from(["", "x", "two"])), max_size=8)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(PIECES, st.sampled_from(["", " ", "; "]), st.integers(0, 30), st.integers(0, 30))
def test_any_slices_replacements_and_joins_agree_with_one_character_at_a_time(pieces, separator, start, length):
    whole, position, parts, expected = MappedText.copy("abcdefghij" * 20), 0, [], []
    for gap, size, text in pieces:
        begin, end = position + gap, position + gap + size
        parts.append(whole.replaced(begin, end, text) if text else whole.part(begin, end))
        if expected:
            between = (position, begin) if begin > position else (position, position + 1)
            expected += [(letter, *between) for letter in separator]
        places = [(begin, end)] * len(text) if text else [(place, place + 1) for place in range(begin, end)]
        shown = text or whole.text[begin:end]
        expected += [(letter, *place) for letter, place in zip(shown, places, strict=True)]
        position = end
    text = joined(parts, separator)
    assert text.text == "".join(letter for letter, _, _ in expected)
    cut, rest = text.part(start, start + length), expected[start : start + length]
    assert [cut.span(index, index + 1) for index in range(len(cut))] == [(first, last) for _, first, last in rest]
    assert np.array_equal(cut.offsets(), by_hand(cut))
