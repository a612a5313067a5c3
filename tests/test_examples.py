"""Which questions are trained on: their rows, their answers' tokens, and the account of the others."""

import numpy as np
import pytest
from tiny import ARTICLES, squad_data

from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import TrainingExamples, in_windows, training_examples
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize

# Tokens: The old mill was built by Anna Keld in 1712 .  /  It was Keld-like .
PASSAGES = (
    "The old mill was built by Anna Keld in 1712.",
    "It was Keld-like.",
    "One two three four five six seven eight.",
)
QUESTIONS = (
    ("name", "Who built it?", 0, (Answer("Anna Keld", 26), Answer("Keld", 31))),
    ("second", "What was Keld like in those days?", 1, (Answer("Keld", 7),)),
    ("none", "Why?", 0, ()),
    ("snapped", "In which century was it?", 0, (Answer("17", 39), Answer("1712", 39))),
    ("wrong", "When?", 0, (Answer("1812", 39),)),
    ("trimmed", "Which mill?", 0, (Answer(" old mill ", 3),)),
    ("blank", " ", 0, (Answer("1712", 39),)),
    ("year", "When?", 0, (Answer("1712", 39),)),
)


def tokenized(passages=PASSAGES, questions=QUESTIONS):
    questions = tuple(Question(*fields) for fields in questions)
    return tokenize_dataset(SquadData("hand-made", passages, ("",) * len(passages), questions))


def not_kept(ledger):
    return {entry["id"]: (entry["kind"], entry["reason"], entry["detail"]) for entry in ledger.to_json()["not_kept"]}


def test_rows_and_answers_by_hand():
    examples, _ = training_examples(tokenized(), 11, 60)
    assert examples.rows.questions.tolist() == [0, 1, 3, 5, 7]
    assert examples.rows.lengths.tolist() == [11, 6, 11, 11, 11]
    assert examples.rows.offsets.tolist() == [0] * 5
    assert examples.firsts.tolist() == [6, 2, 9, 1, 9]
    assert examples.lasts.tolist() == [7, 2, 9, 2, 9]
    arrays = [examples.rows.questions, examples.rows.offsets, examples.rows.lengths, examples.firsts, examples.lasts]
    assert {array.dtype for array in arrays} == {np.dtype(np.int64)}


def test_the_ledger_accounts_for_every_question():
    _, ledger = training_examples(tokenized(), 11, 60)
    report = ledger.to_json()
    assert report["name"] == "hand-made"
    assert report["counts"] == {"kept": 3, "trimmed": 1, "snapped": 1, "dropped": 3}
    assert not_kept(ledger) == {
        "none": ("dropped", "no_answer", "the question has no answer"),
        "snapped": ("snapped", "inside_a_token", "'17' became '1712'"),
        "wrong": ("dropped", "offset_does_not_fit", "'1812' does not stand at 39"),
        "trimmed": ("trimmed", "white_space", "' old mill ' became 'old mill'"),
        "blank": ("dropped", "question_too_long", "question of 0 tokens, expected 1 to 60"),
    }
    # The second reference of "snapped" is what its tokens say.
    assert report["ceiling_exact_match"] == pytest.approx(100 * 5 / 8)


def test_the_ledger_knows_the_first_answer_only():
    # Training learns the first answer; a later one that aligns better does not change that.
    questions = (("q", "Who?", 0, (Answer("nna Keld", 27), Answer("Keld", 31))),)
    examples, ledger = training_examples(tokenized(questions=questions), 11, 60)
    assert (examples.firsts.tolist(), examples.lasts.tolist()) == ([6], [7])
    assert ledger.to_json()["counts"]["snapped"] == 1


@pytest.mark.parametrize(("longest", "kept"), [(11, 2), (10, 1), (9, 1)])
def test_passages_that_are_too_long(longest, kept):
    questions = (QUESTIONS[0], ("q", "Which?", 2, (Answer("six", 24),)))
    examples, ledger = training_examples(tokenized(questions=questions), longest, 60)
    assert len(examples.firsts) == kept
    if longest == 10:
        assert not_kept(ledger) == {"name": ("dropped", "passage_too_long", "passage of 11 tokens is longer than 10")}


@pytest.mark.parametrize(("longest", "kept"), [(9, [0, 1]), (8, [0, 1]), (7, [0]), (4, [0])])
def test_questions_that_are_too_long(longest, kept):
    examples, ledger = training_examples(tokenized(questions=QUESTIONS[:2]), 11, longest)
    assert examples.rows.questions.tolist() == kept
    if longest == 7:
        detail = "question of 8 tokens, expected 1 to 7"
        assert not_kept(ledger) == {"second": ("dropped", "question_too_long", detail)}


@pytest.mark.parametrize(("passage", "question"), [(3, 60), (11, 1)])
def test_nothing_left_is_said_with_the_reasons(passage, question):
    with pytest.raises(UserError, match=r"^hand-made: no question is left to train on\. .*8 dropped"):
        training_examples(tokenized(), passage, question)


def test_spans_say_the_answers_of_ordinary_data():
    data = squad_data(ARTICLES)
    examples, ledger = training_examples(tokenize_dataset(data), 400, 60)
    assert ledger.to_json()["counts"]["kept"] == len(data.questions) == 12
    for question, first, last in zip(data.questions, examples.firsts, examples.lasts, strict=True):
        tokens = tokenize(data.passages[question.passage])
        text = data.passages[question.passage][tokens.starts[first] : tokens.ends[last]]
        assert text == question.answers[0].text
    lengths = [len(tokenize(data.passages[question.passage]).words) for question in data.questions]
    assert examples.rows.lengths.tolist() == lengths
    assert len(set(lengths)) == 4


def test_a_window_holds_the_answer_anywhere_and_no_more_tokens_than_it_may():
    random = np.random.default_rng(7)
    lengths = random.integers(1, 60, 3000)
    firsts = random.integers(0, lengths)
    lasts = random.integers(firsts, lengths)
    whole = TrainingExamples(Examples(np.arange(3000), np.zeros(3000, np.int64), lengths), firsts, lasts)
    found = in_windows(whole, 20)
    rows = found.rows
    np.testing.assert_array_equal(rows.offsets + found.firsts, firsts)
    np.testing.assert_array_equal(rows.offsets + found.lasts, lasts)
    np.testing.assert_array_equal(rows.lengths, np.minimum(lengths, np.maximum(20, lasts - firsts + 1)))
    assert (found.firsts >= 0).all()
    assert (found.lasts < rows.lengths).all()
    assert (rows.offsets >= 0).all()
    assert (rows.offsets + rows.lengths <= lengths).all()
    np.testing.assert_array_equal(rows.offsets, in_windows(whole, 20).rows.offsets)


def test_the_answer_is_at_every_place_of_its_window():
    same = np.ones(1000, np.int64)
    rows = Examples(np.arange(1000), 0 * same, 60 * same)
    assert set(in_windows(TrainingExamples(rows, 25 * same, 26 * same), 20).firsts) == set(range(19))
