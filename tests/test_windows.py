"""Windows over long passages: nothing is left out, and merging is the opposite of cutting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.features.windows import (
    OVERLAP,
    merge_windows,
    reading_examples,
    smallest_null,
    window_offsets,
)


@st.composite
def cuts(draw):
    size = draw(st.integers(1, 40))
    return draw(st.integers(0, 300)), size, draw(st.integers(0, size - 1))


@settings(max_examples=200, deadline=None)
@given(cuts())
def test_windows_cover_everything_and_overlap_enough(cut):
    length, size, overlap = cut
    offsets = window_offsets(length, size, overlap)
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    if length <= size:
        assert offsets.tolist() == [0]
        return
    assert offsets[-1] + size == length
    steps = np.diff(offsets)
    assert (steps > 0).all()
    assert (size - steps >= overlap).all()
    covered = np.zeros(length, int)
    for offset in offsets:
        covered[offset : offset + size] += 1
    assert covered.min() >= 1
    # No window more than needed: one fewer could not reach the end.
    assert size + (len(offsets) - 2) * (size - overlap) < length


@pytest.mark.parametrize(
    ("length", "size", "overlap", "expected"),
    [
        (0, 5, 2, [0]),
        (5, 5, 2, [0]),
        (6, 5, 2, [0, 1]),
        (8, 5, 2, [0, 3]),
        (9, 5, 2, [0, 3, 4]),
        (11, 5, 2, [0, 3, 6]),
        (4, 1, 0, [0, 1, 2, 3]),
        (7, 4, 3, [0, 1, 2, 3]),
        (10, 5, 0, [0, 5]),
    ],
)
def test_offsets_by_hand(length, size, overlap, expected):
    assert window_offsets(length, size, overlap).tolist() == expected


@pytest.mark.parametrize(("size", "overlap"), [(5, 5), (5, 6), (5, -1), (0, 0)])
def test_an_overlap_that_leaves_no_step_is_refused(size, overlap):
    with pytest.raises(ValueError, match=f"Received: size={size}, overlap={overlap}"):
        window_offsets(20, size, overlap)


@settings(max_examples=100, deadline=None)
@given(cuts())
def test_merging_what_was_cut_changes_nothing(cut):
    length, size, overlap = cut
    logits = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    offsets = window_offsets(length, size, overlap)
    merged = merge_windows([logits[offset : offset + size] for offset in offsets], offsets, length)
    np.testing.assert_array_equal(merged, logits)
    assert merged.dtype == logits.dtype


def surroundings(token, offset, size, length):
    """Tokens seen on the poorer side, the passage's own start and end being no loss."""
    left = token - offset if offset else np.inf
    right = offset + size - 1 - token if offset + size < length else np.inf
    return min(left, right)


@settings(max_examples=100, deadline=None)
@given(cuts())
def test_each_token_is_taken_from_the_window_that_shows_most_around_it(cut):
    length, size, overlap = cut
    offsets = window_offsets(length, size, overlap)
    if len(offsets) < 2:
        return
    # Each window says its own number.
    merged = merge_windows([np.full(size, number, float) for number in range(len(offsets))], offsets, length)
    for token, number in enumerate(merged.astype(int)):
        shown = [
            surroundings(token, offset, size, length) if offset <= token < offset + size else -1 for offset in offsets
        ]
        assert shown[number] == max(shown)


def test_choice_by_hand():
    # Windows 0..4, 3..7 and 4..8 of nine tokens; ties go to the earlier window.
    merged = merge_windows([np.full(5, number, np.float32) for number in range(3)], np.array([0, 3, 4]), 9)
    assert merged.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2]


def test_windows_of_another_number_than_offsets_are_refused():
    with pytest.raises(ValueError, match="zip"):
        merge_windows([np.zeros(3)], np.array([0, 1]), 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 400)), max_size=12))
def test_each_question_is_read_in_windows_of_its_own_size(questions):
    """Against a loop over the questions."""
    lengths, sizes = (np.array([pair[part] for pair in questions], np.int64) for part in (0, 1))
    expected = []
    for number, (length, size) in enumerate(questions):
        for offset in window_offsets(length, size, min(OVERLAP, size // 2)).tolist():
            if length:
                expected.append((number, offset, min(length, size)))
    examples = reading_examples(lengths, sizes)
    found = (examples.questions.tolist(), examples.offsets.tolist(), examples.lengths.tolist())
    assert list(zip(*found, strict=True)) == expected
    assert {part.dtype for part in (examples.questions, examples.offsets, examples.lengths)} == {np.dtype(np.int64)}


def test_windows_of_different_sizes_by_hand():
    examples = reading_examples(np.array([10, 10, 0, 10, 300]), np.array([10, 4, 4, 1, 200]))
    # Half of a window of 4 is shared, nothing of a window of 1, and 100 of 200 tokens.
    assert examples.questions.tolist() == [0] + [1] * 4 + [3] * 10 + [4] * 2
    assert examples.offsets.tolist() == [0, 0, 2, 4, 6, *range(10), 0, 100]
    assert examples.lengths.tolist() == [10] + [4] * 4 + [1] * 10 + [200] * 2


@pytest.mark.parametrize(
    ("null_logits", "expected"),
    [
        ([[1.0, 2.0]], [1.0, 2.0]),
        # Sums of 3, 2.5 and 4: neither the smallest start nor the smallest end decides.
        ([[1.0, 2.0], [-1.0, 3.5], [5.0, -1.0]], [-1.0, 3.5]),
        # Of equal sums the first.
        ([[3.0, 1.0], [1.0, 2.0], [2.0, 1.0]], [1.0, 2.0]),
    ],
)
def test_the_window_that_says_no_answer_least_decides(null_logits, expected):
    found = smallest_null(np.array(null_logits, np.float32))
    assert found.tolist() == expected
    assert found.dtype == np.float32
