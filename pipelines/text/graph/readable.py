"""`pipelines.text.readable` with TensorFlow operations only."""

import functools

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.text.graph.code_points import PagedTable, all_characters, being, matching
from fabir_tf.pipelines.text.readable import LETTER_OR_DIGIT, LETTERS_WITHOUT_SPACES

# What a character counts for: a letter or digit, and a letter of a script without spaces (1) or another letter (-1).
# The characters are: others, digits, letters that show nothing, other letters, letters of a script without spaces.
_COUNTS = ((0, 0), (1, 0), (0, -1), (1, -1), (1, 1))


@functools.cache
def _table() -> PagedTable:
    characters = all_characters()
    readable = matching(LETTER_OR_DIGIT)(characters)
    letters = being(str.isalpha)(characters)
    kinds = readable.astype(np.int32) + 2 * letters
    return PagedTable(kinds + (letters & matching(LETTERS_WITHOUT_SPACES)(characters)))


def are_readable(code_points: tf.Tensor, text_splits: tf.Tensor, needs_spaces: bool) -> tf.Tensor:
    """Whether texts hold a letter or digit, and most letters are of a script with spaces between words.

    Args:
        code_points: int32 `(n,)`, the characters of all texts.
        text_splits: int64 `(batch + 1,)`, text i holds the code points `text_splits[i]` to `text_splits[i + 1]`.
        needs_spaces: whether the script matters.

    Returns:
        Two booleans `(batch,)`: whether texts are not blank, and whether they can be read as passages.
    """
    counts = tf.gather(tf.constant(_COUNTS, tf.int32), _table()(code_points))
    before = tf.gather(tf.pad(tf.cumsum(counts), [[1, 0], [0, 0]]), text_splits)
    of_texts = before[1:] - before[:-1]
    is_filled = of_texts[:, 0] > 0
    return is_filled, is_filled & (of_texts[:, 1] <= 0) if needs_spaces else is_filled
