"""Answers as the columns that a SavedModel returns, and back."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from fabir_tf.reading.answers import Answer, Span

_SURROGATES = re.compile("[\ud800-\udfff]")


def encoded_texts(texts: Sequence[str]) -> np.ndarray:
    """Texts as the inputs of `serving_default`: objects of UTF-8 bytes.

    Half of a pair of surrogates, which UTF-8 does not have, becomes U+FFFD: one character for one, so that offsets stay
    right.
    """
    array = np.empty(len(texts), object)
    array[:] = [_SURROGATES.sub("\ufffd", text).encode() for text in texts]
    return array


def answers_of_columns(columns: Mapping[str, np.ndarray], passages: Sequence[str], n_best: int) -> list[Answer]:
    """The answers that the signature `serving_default` of a SavedModel returned.

    Args:
        columns: its outputs, each `(batch,)` or `(batch, n_best)`; texts are objects of bytes.
        passages: those that it was asked about.
        n_best: how many spans are wanted, at most as many as there are.

    Returns:
        What `Reader.answer_batch` returns for the same questions.
    """
    return [_answer(columns, row, passage, n_best) for row, passage in enumerate(passages)]


def _answer(columns: Mapping[str, np.ndarray], row: int, passage: str, n_best: int) -> Answer:
    spans = []
    for column in range(min(n_best, columns["n_best_start"].shape[1])):
        start, end, probability = (columns[f"n_best_{name}"][row, column] for name in ("start", "end", "probability"))
        # The first one is a span, even with probability 0, unless nothing could be read.
        if probability > 0 or (column == 0 and end > 0):
            spans.append(Span(passage[start:end], int(start), int(end), float(probability)))
    start, end = int(columns["start"][row]), int(columns["end"][row])
    is_answer = bool(columns["is_answer"][row])
    return Answer(
        passage[start:end] if is_answer else "",
        *((start, end) if is_answer else (0, 0)),
        float(columns["probability"][row]),
        no_answer_probability=float(columns["no_answer_probability"][row]),
        is_answer=is_answer,
        n_best=tuple(spans),
        score=float(columns["score"][row]),
    )
