import keras
from keras import ops

from fabir_tf.layers.core.ids import PADDING, UNKNOWN


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class WordMatch(keras.layers.Layer):
    """How much of each word occurs in the other text; the layer has no weights.

        word_i  = max_j [w_i = w'_j]                                 w: ids of known words
        whole_i = max_j [c_i = c'_j]                                 c: ids of characters, with case
        begun_i = max_j prefix(c_i, c'_j) / max(|c_i|, |c'_j|)

    `prefix` is the length of the common prefix of two words: a stem that depends on no language.

    Masking: words and characters with id 0 (padding) or 1 (unknown) match nothing.

    Call arguments:
        passage_words: int tensor `(batch, passage)`.
        passage_characters: int tensor `(batch, passage, width)`.
        question_words: int tensor `(batch, question)`.
        question_characters: int tensor `(batch, question, width)`.

    Returns:
        Two float tensors from 0 to 1, `(batch, passage, 3)` and `(batch, question, 3)`.

    Example:
        >>> of_passage, of_question = WordMatch()(**inputs)

    Reference: Chen, Fisch, Weston and Bordes 2017 (DrQA), arXiv 1704.00051, section 3.2, exact match; the rest is ours.
    """

    def call(self, passage_words, passage_characters, question_words, question_characters):
        # Neither of two unknown ids matches the other: -1 is none of these.
        question_words, question_characters = (ops.maximum(x, PADDING) for x in (question_words, question_characters))
        word = _known(passage_words)[:, :, None] == question_words[:, None, :]
        same, prefix = None, ops.zeros_like(word, dtype="int32")
        # Position by position, because an array of all pairs of characters would be twenty times as large.
        columns = ops.unstack(_known(passage_characters)[:, :, None], axis=-1)
        others = ops.unstack(question_characters[:, None], axis=-1)
        for length, (column, other) in enumerate(zip(columns, others, strict=True), 1):
            same = column == other if same is None else (column == other) & same
            prefix = ops.where(same, length, prefix)
        longest = ops.maximum(_lengths(passage_characters)[:, :, None], _lengths(question_characters)[:, None, :])
        begun = ops.cast(prefix, "float32") / ops.cast(ops.maximum(longest, 1), "float32")
        pairs = [ops.cast(part, self.compute_dtype) for part in (word, (prefix == longest) & (longest > 0), begun)]
        return tuple(ops.stack([ops.max(part, axis=axis) for part in pairs], axis=-1) for axis in (2, 1))

    def compute_output_shape(
        self, passage_words_shape, passage_characters_shape, question_words_shape, question_characters_shape
    ):
        return (*passage_words_shape, 3), (*question_words_shape, 3)


def _known(ids):
    """Ids up to UNKNOWN become -1, which matches nothing."""
    return ops.where(ids > UNKNOWN, ids, -1)


def _lengths(characters):
    return ops.sum(ops.cast(characters > PADDING, "int32"), axis=-1)
