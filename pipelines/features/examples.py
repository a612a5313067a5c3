"""Which questions are trained on, with which tokens as their answer, and why the others are not."""

import dataclasses

import numpy as np

from fabir_tf.pipelines.datasets.squad import Question
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import (
    ANSWER_TOO_LONG,
    MISSING_ANSWER,
    PASSAGE_TOO_LONG,
    QUESTION_TOO_LONG,
    WORD_TOO_LONG,
    CoverageLedger,
    align_answer,
    explain,
    reachable_score,
    reachable_texts,
)
from fabir_tf.pipelines.features.features import NO_ANSWER, Examples
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.tokenizer import Tokens

LEFT_OUT = -2
"""The first and last token of an answer that is not looked for."""

# Seed of the window positions, which belong to the data and not to a run.
_SEED = 0


@dataclasses.dataclass(frozen=True)
class TrainingExamples:
    """The questions that are trained on.

    Attributes:
        examples: what the model reads.
        spans: int64 `(examples, 2)`, first and last token of each answer, counted from the window's first token;
            `NO_ANSWER` for both where the passage holds no answer.
    """

    examples: Examples
    spans: np.ndarray


def training_examples(
    tokenized: TokenizedDataset,
    max_passage: int,
    max_question: int,
    max_answer: int | None,
    null_head: bool = False,
    max_word: int | None = None,
    windows: np.ndarray | None = None,
) -> tuple[TrainingExamples, CoverageLedger]:
    """Aligns the first answer of every question that is short enough.

    Args:
        tokenized: the training set.
        max_passage: most tokens of a passage.
        max_question: most tokens of a question.
        max_answer: most tokens of a predicted answer, None for no limit; longer answers are trained on, and counted.
        null_head: whether questions without an answer are trained on, too.
        max_word: most characters of a token of the passage or the question; None for no limit.
        windows: int64 `(questions,)`, most tokens of a passage that the model reads beside each question; None for
            whole passages. A question with a longer answer is left out.

    Returns:
        The examples, and the ledger with every question.

    Raises:
        UserError: no question is left.

    Reference: FABIR's training set, passages of at most 400 and questions of at most 60 tokens.
    """
    data = tokenized.data
    ledger = CoverageLedger(data.name, max_answer)
    kept = []
    passage_tokens: dict[int, Tokens] = {}
    for number, question in enumerate(data.questions):
        passage_length = int(tokenized.passage_lengths[question.passage])
        question_length = int(tokenized.question_lengths[number])
        if not question.answers and not null_head:
            ledger.add(question, "dropped", reason=MISSING_ANSWER, detail="the question has no answer")
        elif passage_length > max_passage:
            detail = f"the passage has {passage_length} tokens, expected at most {max_passage}"
            ledger.add(question, "dropped", reason=PASSAGE_TOO_LONG, detail=detail)
        elif not 0 < question_length <= max_question:
            detail = f"the question has {question_length} tokens, expected 1 to {max_question}"
            ledger.add(question, "dropped", reason=QUESTION_TOO_LONG, detail=detail)
        elif max_word is not None and (word_length := _longest_word(tokenized, number)) > max_word:
            detail = f"a word has {word_length} characters, expected at most {max_word}"
            ledger.add(question, "dropped", reason=WORD_TOO_LONG, detail=detail)
        elif not question.answers:
            ledger.add(question, "unanswerable", ceiling=(1.0, 1.0))
            if passage_length:
                kept.append((number, passage_length, NO_ANSWER, NO_ANSWER))
        else:
            if question.passage not in passage_tokens:
                passage_tokens = {question.passage: tokenized.texts.tokens_of(question.passage)}
            texts = passage_tokens[question.passage], data.passages[question.passage]
            span = _enter(ledger, question, *texts, passage_length if windows is None else int(windows[number]))
            if span is not None:
                kept.append((number, passage_length, *span))
    if not kept:
        raise UserError(f"{data.name}: no question is left to train on. {ledger.summary()}")
    questions, lengths, firsts, lasts = np.array(kept, np.int64).T
    examples = Examples(questions, np.zeros_like(questions), lengths)
    return TrainingExamples(examples, np.stack([firsts, lasts], axis=1)), ledger


def in_windows(training: TrainingExamples, sizes: np.ndarray) -> TrainingExamples:
    """Cuts passages down to a window of tokens that contains the answer at a random position.

    Args:
        training: whole passages.
        sizes: int64 `(examples,)`, most tokens of each window; a longer answer makes its window longer.

    Returns:
        The examples, with answers counted from the first token of their window. Every call cuts the same windows.
    """
    examples, (firsts, lasts) = training.examples, training.spans.T
    answered = firsts != NO_ANSWER
    lengths = np.minimum(examples.lengths, np.maximum(sizes, np.where(answered, lasts - firsts + 1, 1)))
    lowest = np.where(answered, np.maximum(0, lasts - lengths + 1), 0)
    highest = examples.lengths - lengths
    highest = np.where(answered, np.minimum(firsts, highest), highest)
    offsets = np.random.default_rng(_SEED).integers(lowest, highest, endpoint=True)
    moved = np.where(answered[:, None], training.spans - offsets[:, None], NO_ANSWER)
    return TrainingExamples(Examples(examples.questions, examples.offsets + offsets, lengths), moved)


def true_spans(tokenized: TokenizedDataset, null_head: bool) -> np.ndarray:
    """First and last token of each question's first reference answer.

    Args:
        tokenized: the questions and their references.
        null_head: whether the reader can say that there is no answer.

    Returns:
        Int `(questions, 2)`: `NO_ANSWER` twice for a question without an answer; `LEFT_OUT` twice if the reader must
        answer it, or if the answer does not stand in the passage.
    """
    data = tokenized.data
    spans = np.full((len(data.questions), 2), LEFT_OUT)
    passage, tokens = -1, Tokens([], [], [])
    for number in np.argsort(tokenized.question_passages, kind="stable"):
        question = data.questions[number]
        if not question.answers:
            spans[number] = NO_ANSWER if null_head else LEFT_OUT
            continue
        if question.passage != passage:
            passage, tokens = question.passage, tokenized.texts.tokens_of(question.passage)
        found = align_answer(tokens, data.passages[passage], question.answers[0])
        if found.kind != "dropped":
            spans[number] = found.first, found.last
    return spans


def _longest_word(tokenized: TokenizedDataset, number: int) -> int:
    """Characters of the longest token of a question and its passage."""
    longest = tokenized.texts.longest_tokens
    passage = tokenized.data.questions[number].passage
    return int(max(longest[passage], longest[len(tokenized.data.passages) + number]))


def _enter(
    ledger: CoverageLedger, question: Question, tokens: Tokens, passage: str, window: int
) -> tuple[int, int] | None:
    answer = question.answers[0]
    alignment = align_answer(tokens, passage, answer)
    reason, detail = ("", "") if alignment.kind == "kept" else explain(tokens, passage, answer, alignment)
    if alignment.kind == "dropped":
        ledger.add(question, "dropped", reason=reason, detail=detail)
        return None
    if alignment.length > window:
        detail = f"the answer has {alignment.length} tokens, of which the model reads {window} at once"
        ledger.add(question, "dropped", reason=ANSWER_TOO_LONG, detail=detail)
        return None
    reachable = reachable_texts(tokens, passage, alignment, ledger.max_answer)
    ledger.add(
        question,
        alignment.kind,
        ceiling=reachable_score(reachable, question),
        reason=reason,
        detail=detail,
        is_long=ledger.exceeds(alignment.length),
    )
    return alignment.first, alignment.last
