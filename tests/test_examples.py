"""Which questions are trained on: what is read of them, their answers' tokens, and the account of the others."""

import numpy as np
import pytest
from tiny import ARTICLES, squad_data

from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import TrainingExamples, in_windows, training_examples
from fabir_tf.pipelines.features.features import NO_ANSWER, Examples
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.word_processor import WordTokenizer

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
    return tokenize_dataset(SquadData("hand-made", passages, ("",) * len(passages), questions), WordTokenizer())


def not_kept(ledger):
    return {entry["id"]: (entry["kind"], entry["reason"], entry["detail"]) for entry in ledger.to_json()["not_kept"]}


def test_examples_and_answers_by_hand():
    training, _ = training_examples(tokenized(), 11, 60, 30)
    examples = training.examples
    assert examples.questions.tolist() == [0, 1, 3, 5, 7]
    assert examples.lengths.tolist() == [11, 6, 11, 11, 11]
    assert examples.offsets.tolist() == [0] * 5
    assert training.spans.tolist() == [[6, 7], [2, 2], [9, 9], [1, 2], [9, 9]]
    arrays = [examples.questions, examples.offsets, examples.lengths, training.spans]
    assert {array.dtype for array in arrays} == {np.dtype(np.int64)}


def test_a_null_head_learns_from_questions_without_an_answer():
    training, ledger = training_examples(tokenized(), 11, 60, 30, null_head=True)
    examples = training.examples
    assert examples.questions.tolist() == [0, 1, 2, 3, 5, 7]
    assert examples.lengths.tolist() == [11, 6, 11, 11, 11, 11]
    assert training.spans.tolist() == [[6, 7], [2, 2], [NO_ANSWER] * 2, [9, 9], [1, 2], [9, 9]]
    report = ledger.to_json()
    assert report["counts"] == {"kept": 3, "unanswerable": 1, "trimmed": 1, "snapped": 1, "dropped": 2}
    assert not_kept(ledger).keys() == {"snapped", "wrong", "trimmed", "blank"}
    assert report["ceiling_exact_match"] == pytest.approx(100 * 6 / 8)
    assert "3 kept, 1 without an answer, 1 trimmed" in ledger.summary()


@pytest.mark.parametrize("null_head", [False, True])
def test_limits_hold_for_questions_without_an_answer_too(null_head):
    questions = (QUESTIONS[0], ("long", "Which of them was it then?", 0, ()), ("far", "Who?", 2, ()))
    training, ledger = training_examples(tokenized(questions=questions), 11, 6, 30, null_head)
    # The question has seven tokens; passage 2 has nine.
    assert training.examples.questions.tolist() == ([0, 2] if null_head else [0])
    reasons = {"question_too_long": 1} if null_head else {"no_answer": 2}
    assert ledger.to_json()["reasons"] == reasons
    _, ledger = training_examples(tokenized(questions=(*questions[:1], questions[2])), 11, 6, 30, null_head)
    assert ledger.to_json()["counts"]["unanswerable"] == null_head


def test_a_blank_passage_answers_nothing_and_is_not_read():
    questions = (("kept", "Who?", 0, (Answer("Anna Keld", 26),)), ("blank", "Who?", 1, ()))
    data = tokenized((PASSAGES[0], " "), questions)
    training, ledger = training_examples(data, 11, 60, 30, null_head=True)
    assert training.examples.questions.tolist() == [0]
    assert ledger.to_json()["counts"]["unanswerable"] == 1


@pytest.mark.parametrize("max_answer", [1, 2])
def test_longer_answers_than_may_be_predicted_are_trained_on_and_counted(max_answer):
    training, ledger = training_examples(tokenized(), 11, 60, max_answer)
    assert training.spans.tolist() == [[6, 7], [2, 2], [9, 9], [1, 2], [9, 9]]
    report = ledger.to_json()
    # "Anna Keld" and "old mill" have two tokens.
    assert (report["max_answer"], report["long_answers"]) == (max_answer, 2 if max_answer == 1 else 0)
    assert len(report["long_answer_ids"]) == report["long_answers"]
    lines = [line for line in ledger.summary().splitlines() if f"--max_answer={max_answer} " in line]
    assert len(lines) == (max_answer == 1)
    # "Keld" alone is another reference; neither "old" nor "mill" is one.
    assert report["ceiling_exact_match"] == pytest.approx(100 * (5 if max_answer == 2 else 4) / 8)


def test_the_ledger_accounts_for_every_question():
    _, ledger = training_examples(tokenized(), 11, 60, 30)
    report = ledger.to_json()
    assert report["name"] == "hand-made"
    assert report["counts"] == {"kept": 3, "unanswerable": 0, "trimmed": 1, "snapped": 1, "dropped": 3}
    assert not_kept(ledger) == {
        "none": ("dropped", "no_answer", "the question has no answer"),
        "snapped": ("snapped", "inside_a_token", "'17' became '1712'"),
        "wrong": ("dropped", "offset_does_not_fit", "'1812' does not stand at 39"),
        "trimmed": ("trimmed", "white_space", "' old mill ' became 'old mill'"),
        "blank": ("dropped", "question_too_long", "the question has 0 tokens, expected 1 to 60"),
    }
    # The second reference of "snapped" is what its tokens say.
    assert report["ceiling_exact_match"] == pytest.approx(100 * 5 / 8)


def test_the_ledger_knows_the_first_answer_only():
    # Training learns the first answer; a later one that aligns better does not change that.
    questions = (("q", "Who?", 0, (Answer("nna Keld", 27), Answer("Keld", 31))),)
    training, ledger = training_examples(tokenized(questions=questions), 11, 60, 30)
    assert training.spans.tolist() == [[6, 7]]
    assert ledger.to_json()["counts"]["snapped"] == 1


@pytest.mark.parametrize(("longest", "kept"), [(11, 2), (10, 1), (9, 1)])
def test_passages_that_are_too_long(longest, kept):
    questions = (QUESTIONS[0], ("q", "Which?", 2, (Answer("six", 24),)))
    training, ledger = training_examples(tokenized(questions=questions), longest, 60, 30)
    assert len(training.spans) == kept
    if longest == 10:
        detail = "the passage has 11 tokens, expected at most 10"
        assert not_kept(ledger) == {"name": ("dropped", "passage_too_long", detail)}


@pytest.mark.parametrize(("window", "kept"), [(2, 1), (1, 0)])
def test_answers_that_are_longer_than_what_is_read_at_once(window, kept):
    questions = (QUESTIONS[0], ("q", "Which?", 2, (Answer("six", 24),)))
    # Anna Keld, and one token.
    training, ledger = training_examples(tokenized(questions=questions), 11, 60, 30, windows=np.array([window, 11]))
    assert len(training.spans) == kept + 1
    if not kept:
        detail = "the answer has 2 tokens, of which the model reads 1 at once"
        assert not_kept(ledger) == {"name": ("dropped", "answer_too_long", detail)}


@pytest.mark.parametrize(("longest", "kept"), [(9, [0, 1]), (8, [0, 1]), (7, [0]), (4, [0])])
def test_questions_that_are_too_long(longest, kept):
    training, ledger = training_examples(tokenized(questions=QUESTIONS[:2]), 11, longest, 30)
    assert training.examples.questions.tolist() == kept
    if longest == 7:
        detail = "the question has 8 tokens, expected 1 to 7"
        assert not_kept(ledger) == {"second": ("dropped", "question_too_long", detail)}


@pytest.mark.parametrize(("passage", "question"), [(3, 60), (11, 1)])
def test_nothing_left_is_said_with_the_reasons(passage, question):
    with pytest.raises(UserError, match=r"^hand-made: no question is left to train on\. .*8 dropped"):
        training_examples(tokenized(), passage, question, 30)


def test_spans_say_the_answers_of_ordinary_data():
    data = squad_data(ARTICLES)
    training, ledger = training_examples(tokenize_dataset(data, WordTokenizer()), 400, 60, 30)
    assert ledger.to_json()["counts"]["kept"] == len(data.questions) == 12
    for question, (first, last) in zip(data.questions, training.spans, strict=True):
        tokens = tokenize(data.passages[question.passage])
        text = data.passages[question.passage][tokens.starts[first] : tokens.ends[last]]
        assert text == question.answers[0].text
    lengths = [len(tokenize(data.passages[question.passage]).words) for question in data.questions]
    assert training.examples.lengths.tolist() == lengths
    assert len(set(lengths)) == 4


def random_examples(count=3000):
    """Whole passages with answers anywhere; every fifth has none."""
    random = np.random.default_rng(7)
    lengths = random.integers(1, 60, count)
    firsts = random.integers(0, lengths)
    spans = np.stack([firsts, random.integers(firsts, lengths)], axis=1)
    spans[::5] = NO_ANSWER
    return TrainingExamples(Examples(np.arange(count), np.zeros(count, np.int64), lengths), spans)


@pytest.mark.parametrize("sizes", [np.full(3000, 20), np.random.default_rng(3).integers(1, 70, 3000)])
def test_a_window_holds_the_answer_anywhere_and_no_more_tokens_than_it_may(sizes):
    whole = random_examples()
    found = in_windows(whole, sizes)
    examples, lengths = found.examples, whole.examples.lengths
    np.testing.assert_array_equal(examples.questions, whole.examples.questions)
    answered = whole.spans[:, 0] != NO_ANSWER
    firsts, lasts = whole.spans.T
    np.testing.assert_array_equal(examples.offsets[answered] + found.spans[answered, 0], firsts[answered])
    np.testing.assert_array_equal(examples.offsets[answered] + found.spans[answered, 1], lasts[answered])
    shortest = np.where(answered, lasts - firsts + 1, 1)
    np.testing.assert_array_equal(examples.lengths, np.minimum(lengths, np.maximum(sizes, shortest)))
    assert (found.spans[answered, 0] >= 0).all()
    assert (found.spans[answered, 1] < examples.lengths[answered]).all()
    assert (examples.offsets >= 0).all()
    assert (examples.offsets + examples.lengths <= lengths).all()
    np.testing.assert_array_equal(examples.offsets, in_windows(whole, sizes).examples.offsets)


def test_a_window_without_an_answer_is_anywhere_in_its_passage():
    whole = random_examples()
    found = in_windows(whole, np.full(3000, 20))
    assert (found.spans[::5] == NO_ANSWER).all()
    long = np.flatnonzero(whole.examples.lengths == 59)
    offsets = found.examples.offsets[long[long % 5 == 0]]
    assert offsets.min() <= 5
    assert offsets.max() >= 34
    # Every place, where there are many.
    same = np.ones(1000, np.int64)
    many = TrainingExamples(Examples(np.arange(1000), 0 * same, 25 * same), np.full((1000, 2), NO_ANSWER))
    assert set(in_windows(many, 20 * same).examples.offsets) == set(range(6))


def test_passages_that_fit_stay_whole():
    whole = random_examples()
    found = in_windows(whole, whole.examples.lengths)
    np.testing.assert_array_equal(found.examples.offsets, 0)
    np.testing.assert_array_equal(found.examples.lengths, whole.examples.lengths)
    np.testing.assert_array_equal(found.spans, whole.spans)


def test_the_answer_is_everywhere_in_its_window():
    same = np.ones(1000, np.int64)
    examples = Examples(np.arange(1000), 0 * same, 60 * same)
    spans = np.stack([25 * same, 26 * same], axis=1)
    assert set(in_windows(TrainingExamples(examples, spans), 20 * same).spans[:, 0]) == set(range(19))
