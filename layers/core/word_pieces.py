"""Which pieces form a word, for layers between readers of words and models of word pieces."""

from keras import ops

from fabir_tf.layers.core.shared_values import derived


def word_numbers(begins, mask):
    """The number of each piece's word in its text, from 0.

    Args:
        begins: int tensor `(batch, length)`, 1 where a piece begins a word; the first piece does in any case, because a
            window may start within a word.
        mask: boolean tensor `(batch, length)`, true on real pieces, which come first.

    Returns:
        Int32 tensor `(batch, length)`; padding continues the last word.
    """
    return derived(_word_numbers, begins, mask)


def first_pieces(begins, mask):
    """Which pieces are the first of their word, a boolean tensor; the arguments are those of `word_numbers`."""
    is_first = ops.equal(ops.arange(ops.shape(begins)[1], dtype="int32"), 0)[None]
    return ops.logical_and(mask, ops.logical_or(ops.not_equal(begins, 0), is_first))


def last_pieces(begins, mask):
    """Which pieces are the last of their word, a boolean tensor; the arguments are those of `word_numbers`."""
    # A piece of the same word follows.
    follows = ops.logical_and(mask, ops.logical_not(first_pieces(begins, mask)))
    return ops.logical_and(mask, ops.logical_not(ops.pad(follows[:, 1:], ((0, 0), (0, 1)))))


def _word_numbers(begins, mask):
    return ops.cumsum(ops.cast(first_pieces(begins, mask), "int32"), axis=1) - 1
