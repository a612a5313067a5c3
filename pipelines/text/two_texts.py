"""Passage and question as separate inputs of a model, whatever a token is."""

from collections.abc import Mapping

import numpy as np

from fabir_tf.pipelines.features.features import Examples, Features, Segments
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION
from fabir_tf.pipelines.text.tokenized import TokenizedDataset

TEXTS = ("passage", "question")


def two_text_features(
    tokenized: TokenizedDataset,
    examples: Examples,
    unique: Mapping[str, np.ndarray],
) -> Features:
    """The arrays of examples, whose questions are truncated.

    Args:
        tokenized: the texts.
        examples: what is read.
        unique: arrays `(unique tokens + 1, ...)` by part, in the order of `tokenized.texts.unique`; row 0 is padding.
    """
    texts = tokenized.texts
    passages = tokenized.question_passages[examples.questions]
    questions = len(tokenized.data.passages) + examples.questions
    return Features(
        texts.tokens if len(texts.tokens) else np.zeros(1, np.int32),
        dict(unique),
        {
            "passage": Segments(texts.splits[passages] + examples.offsets, examples.lengths),
            "question": Segments(texts.splits[questions], np.minimum(texts.lengths[questions], LONGEST_QUESTION)),
        },
        passages,
        examples.lengths,
        np.zeros_like(examples.lengths),
    )
