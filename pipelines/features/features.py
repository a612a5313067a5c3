"""What a model reads, row by row: a question and a stretch of its passage."""

import dataclasses

import numpy as np

from fabir_tf.pipelines.text.tokenized import EncodedData

# First of the inputs in the alphabet: Keras weighs a batch's loss by the length of the first one.
PASSAGE_INDEX = "passage_index"
"""Input of a batch: the place of each question's passage among the batch's passages."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """Questions, and the stretches of their passages.

    Attributes:
        questions: int64 `(rows,)`, the question's number in the dataset.
        offsets: int64 `(rows,)`, the first token read of the passage.
        lengths: int64 `(rows,)`, the number of tokens read.
    """

    questions: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


@dataclasses.dataclass(frozen=True)
class Features:
    """Examples with all that batches are made of, as plain arrays.

    Attributes:
        tokens: int32 `(tokens,)`, the types of the tokens of all texts.
        unique_words: int32 `(types + 1,)`, the word id of each type; type 0 is padding.
        unique_characters: int32 `(types + 1, width)`, its character ids.
        passage_starts, passage_lengths: int64 `(rows,)`, where each row's stretch of a passage lies among the tokens.
        question_starts, question_lengths: int64 `(rows,)`, where its question lies.
    """

    tokens: np.ndarray
    unique_words: np.ndarray
    unique_characters: np.ndarray
    passage_starts: np.ndarray
    passage_lengths: np.ndarray
    question_starts: np.ndarray
    question_lengths: np.ndarray


def make_features(encoded: EncodedData, rows: Examples, max_question: int | None = None) -> Features:
    """Finds rows among a dataset's tokens.

    Args:
        encoded: the tokens and their ids.
        rows: what is read.
        max_question: tokens of a question that are read; None reads all.

    Returns:
        The rows.
    """
    tokenized, texts = encoded.tokenized, encoded.tokenized.texts
    passages = tokenized.question_passages[rows.questions]
    questions = len(tokenized.data.passages) + rows.questions
    question_lengths = texts.lengths[questions]
    return Features(
        texts.tokens,
        encoded.unique_words,
        encoded.unique_characters,
        texts.splits[passages] + rows.offsets,
        rows.lengths,
        texts.splits[questions],
        question_lengths if max_question is None else np.minimum(question_lengths, max_question),
    )
