"""Which questions are trained on, with which tokens as their answer, and what became of the rest."""

import dataclasses

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import (
    NO_ANSWER,
    PASSAGE_TOO_LONG,
    QUESTION_TOO_LONG,
    CoverageLedger,
    align_answer,
    explain,
    reachable_score,
    span_text,
)
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.tokenized import TokenizedDataset

# Of the places of the windows, which belong to the data and not to a run.
_SEED = 0


@dataclasses.dataclass(frozen=True)
class TrainingExamples:
    """The questions that are trained on.

    Attributes:
        rows: what the model reads.
        firsts, lasts: int64 `(rows,)`, first and last token of each answer.
    """

    rows: Examples
    firsts: np.ndarray
    lasts: np.ndarray


def training_examples(
    tokenized: TokenizedDataset, max_passage: int, max_question: int
) -> tuple[TrainingExamples, CoverageLedger]:
    """Aligns the first answer of every question that is short enough.

    Args:
        tokenized: the training set.
        max_passage: most tokens of a passage.
        max_question: most tokens of a question.

    Returns:
        The examples and the account of every question.

    Raises:
        UserError: no question is left.

    Reference: FABIR's training set, passages of at most 400 and questions of at most 60 tokens.
    """
    data = tokenized.data
    ledger = CoverageLedger(data.name)
    kept = []
    passage_tokens = {}
    for number, question in enumerate(data.questions):
        passage_length = int(tokenized.passage_lengths[question.passage])
        question_length = int(tokenized.question_lengths[number])
        if not question.answers:
            ledger.add(question, "dropped", reason=NO_ANSWER, detail="the question has no answer")
        elif passage_length > max_passage:
            detail = f"passage of {passage_length} tokens is longer than {max_passage}"
            ledger.add(question, "dropped", reason=PASSAGE_TOO_LONG, detail=detail)
        elif not 0 < question_length <= max_question:
            detail = f"question of {question_length} tokens, expected 1 to {max_question}"
            ledger.add(question, "dropped", reason=QUESTION_TOO_LONG, detail=detail)
        else:
            if question.passage not in passage_tokens:
                passage_tokens = {question.passage: tokenized.texts.tokens_of(question.passage)}
            span = _enter(ledger, question, passage_tokens[question.passage], data.passages[question.passage])
            if span is not None:
                kept.append((number, passage_length, *span))
    if not kept:
        raise UserError(f"{data.name}: no question is left to train on. {ledger.summary()}")
    questions, lengths, firsts, lasts = np.array(kept, np.int64).T
    return TrainingExamples(Examples(questions, np.zeros_like(questions), lengths), firsts, lasts), ledger


def in_windows(examples: TrainingExamples, longest: int) -> TrainingExamples:
    """Cuts passages down to a window of tokens that holds the answer, somewhere.

    Args:
        examples: whole passages.
        longest: tokens of a window; a longer answer is a window of its own.

    Returns:
        The examples, the answers counted from the first token of their window. The same windows at every call.
    """
    rows = examples.rows
    lengths = np.minimum(rows.lengths, np.maximum(longest, examples.lasts - examples.firsts + 1))
    lowest = np.maximum(0, examples.lasts - lengths + 1)
    highest = np.minimum(examples.firsts, rows.lengths - lengths)
    offsets = np.random.default_rng(_SEED).integers(lowest, highest, endpoint=True)
    return TrainingExamples(
        Examples(rows.questions, rows.offsets + offsets, lengths), examples.firsts - offsets, examples.lasts - offsets
    )


def _enter(ledger: CoverageLedger, question, tokens, passage: str) -> tuple[int, int] | None:
    answer = question.answers[0]
    alignment = align_answer(tokens, passage, answer)
    reason, detail = ("", "") if alignment.kind == "kept" else explain(tokens, passage, answer, alignment)
    if alignment.kind == "dropped":
        ledger.add(question, "dropped", reason=reason, detail=detail)
        return None
    ceiling = reachable_score([span_text(tokens, passage, alignment)], question)
    ledger.add(question, alignment.kind, ceiling=ceiling, reason=reason, detail=detail)
    return alignment.first, alignment.last
