"""`pipelines.text.abbreviations` with TensorFlow operations only."""

import tensorflow as tf

from fabir_tf.pipelines.text.abbreviations import ABBREVIATIONS, BEFORE_NUMBERS, LETTERS_WITH_PERIODS
from fabir_tf.pipelines.text.graph.code_points import flags_at, positions


def _any_of(words: frozenset[str]) -> str:
    # Both cases are listed, because ignoring case would match more than ASCII letters.
    letters = {letter: f"[{letter}{letter.upper()}]" for word in words for letter in word}
    return "|".join("".join(letters[letter] for letter in word) for word in sorted(words))


_ALWAYS = f"{LETTERS_WITH_PERIODS}|{_any_of(ABBREVIATIONS)}"
_BEFORE_NUMBERS = _any_of(BEFORE_NUMBERS)


def with_periods(
    starts: tf.Tensor, ends: tf.Tensor, row_splits: tf.Tensor, code_points: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Joins each abbreviation with the period that follows it.

    Args:
        starts, ends: int64 `(tokens,)`, where each token begins and ends among all characters.
        row_splits: int64 `(batch + 1,)`, text i holds the tokens `row_splits[i]` to `row_splits[i + 1]`.
        code_points: int32 `(n,)`.

    Returns:
        Starts, ends and row splits, in which no abbreviation is followed by a period of its own.
    """
    count = tf.size(starts, tf.int64)
    characters = tf.gather(code_points, starts)
    goes_on = ~flags_at(row_splits, count + 1)
    # For each token but the first: whether it is a period right behind the token before, in the same text.
    is_period = tf.equal(characters[1:], ord(".")) & tf.equal(ends[1:], starts[1:] + 1)
    words = positions(is_period & tf.equal(starts[1:], ends[:-1]) & goes_on[1:-1])
    following = words + 2
    is_digit = tf.gather(tf.pad((characters >= ord("0")) & (characters <= ord("9")), [[0, 1]]), following)
    is_number = is_digit & tf.gather(goes_on, following)
    text = _texts(tf.gather(starts, words), tf.gather(ends, words), code_points)
    is_joined = tf.strings.regex_full_match(text, _ALWAYS)
    is_joined |= is_number & tf.strings.regex_full_match(text, _BEFORE_NUMBERS)
    joined = tf.boolean_mask(words, is_joined)
    ends += tf.cast(flags_at(joined, count), tf.int64)
    is_left = ~flags_at(joined + 1, count)
    left = positions(is_left)
    before = tf.concat([[0], tf.cumsum(tf.cast(is_left, tf.int64))], 0)
    return tf.gather(starts, left), tf.gather(ends, left), tf.gather(before, row_splits)


def _texts(starts: tf.Tensor, ends: tf.Tensor, code_points: tf.Tensor) -> tf.Tensor:
    """The texts of some tokens, string `(tokens,)`."""
    characters = tf.ragged.range(starts, ends)
    return tf.strings.unicode_encode(
        characters.with_flat_values(tf.gather(code_points, characters.flat_values)), "UTF-8"
    )
