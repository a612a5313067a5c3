"""Answers as spans of whole tokens, and the arithmetic of the ledger."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import OWN_QUESTIONS, SHARED, needs_shared

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, read_squad
from fabir_tf.pipelines.features.alignment import (
    DROPPED,
    Alignment,
    CoverageLedger,
    align_answer,
    explain,
    measure_coverage,
    reachable_score,
    reachable_texts,
    span_text,
)
from fabir_tf.pipelines.text.invisible import JOINERS, SEPARATORS
from fabir_tf.pipelines.text.tokenizer import Tokens, tokenize

#          0         1         2
#          0123456789012345678901
PASSAGE = "He ran 20miles north."
TOKENS = Tokens(["He", "ran", "20miles", "north", "."], [0, 3, 7, 15, 20], [2, 6, 14, 20, 21])


def align(text, start, **options):
    return align_answer(TOKENS, PASSAGE, Answer(text, start), **options)


def question(*answers, name="q"):
    return Question(name, "Where?", 0, tuple(Answer(text, start) for text, start in answers))


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("He", 0, (0, 0, "kept")),
        ("ran 20miles", 3, (1, 2, "kept")),
        (".", 20, (4, 4, "kept")),
        (PASSAGE, 0, (0, 4, "kept")),
        (" ran ", 2, (1, 1, "trimmed")),
        ("north. ", 15, (3, 4, "trimmed")),
        ("\u00a0north", 14, (3, 3, "trimmed")),
        ("20", 7, (2, 2, "snapped")),
        ("miles north", 9, (2, 3, "snapped")),
        ("ran 20", 3, (1, 2, "snapped")),
        ("an 20mil", 4, (1, 2, "snapped")),
        (" 20", 6, (2, 2, "snapped")),
        ("", 3, (-1, -1, "dropped")),
        (" ", 2, (-1, -1, "dropped")),
        ("ran", 4, (-1, -1, "dropped")),
        ("ran", -1, (-1, -1, "dropped")),
        (".", 21, (-1, -1, "dropped")),
        ("He", 1000, (-1, -1, "dropped")),
        ("north.", -6, (-1, -1, "dropped")),
        ("south", 15, (-1, -1, "dropped")),
    ],
)
def test_alignment_of(text, start, expected):
    assert align(text, start) == expected


def test_elsewhere_takes_another_occurrence_only_if_it_is_better():
    passage = "that a cat a dog"
    tokens = tokenize(passage)
    inside_that = Answer("a", 2)
    assert align_answer(tokens, passage, inside_that) == (0, 0, "snapped")
    assert align_answer(tokens, passage, inside_that, elsewhere=True) == (1, 1, "kept")
    assert align_answer(tokens, passage, Answer("a", 11), elsewhere=True) == (3, 3, "kept")
    assert align_answer(tokens, passage, Answer("a", 99), elsewhere=True) == (1, 1, "kept")
    assert align_answer(tokens, passage, Answer(" a", -1), elsewhere=True) == (1, 1, "trimmed")
    assert align_answer(tokens, passage, Answer("t", 9), elsewhere=True) == (2, 2, "snapped")
    assert align_answer(tokens, passage, Answer("bird", 0), elsewhere=True) == DROPPED


def test_the_second_of_two_equal_words_is_the_second_token():
    assert align_answer(tokenize("the the"), "the the", Answer("the", 4)) == (1, 1, "kept")


def bare(text):
    """A text without white space and invisible marks around it."""
    marks = SEPARATORS + JOINERS
    while text != text.strip().strip(marks):
        text = text.strip().strip(marks)
    return text


MARKS = ["\u00ad", "\u200b"]
FRAGMENTS = [*MARKS, "the", "a", "that", " ", "  ", "\r\n", "\u00a0", '"', "''", "``", "“", "-", "😀", "e\u0301", "."]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), min_size=1, max_size=40),
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=16).map("".join),
)


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.data())
def test_an_alignment_is_the_smallest_span_of_tokens_that_holds_the_answer(passage, data):
    start = data.draw(st.integers(0, len(passage) - 1))
    end = data.draw(st.integers(start, len(passage)))
    tokens, text = tokenize(passage), passage[start:end]
    alignment = align_answer(tokens, passage, Answer(text, start))
    # A token belongs to the answer if it shares a character with it.
    touched = [i for i, (a, b) in enumerate(zip(tokens.starts, tokens.ends, strict=True)) if a < end and start < b]
    if not text.strip() or not touched:
        assert not bare(text)
        assert alignment == DROPPED
        return
    assert (alignment.first, alignment.last) == (touched[0], touched[-1])
    same = span_text(tokens, passage, alignment) == bare(text)
    assert alignment.kind == (("kept" if text == bare(text) else "trimmed") if same else "snapped")


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.text(max_size=5), st.integers(-3, 45))
def test_no_answer_and_no_offset_fails(passage, text, start):
    tokens = tokenize(passage)
    for elsewhere in (False, True):
        alignment = align_answer(tokens, passage, Answer(text, start), elsewhere=elsewhere)
        if alignment.kind != "dropped":
            assert bare(text) in span_text(tokens, passage, alignment)


def test_reachable_score_takes_the_best_span_and_the_best_reference():
    # "he ran 20miles" shares 2 words with "he ran 2" (3 words): P = R = 2/3.
    asked = question(("ran 20", 3), ("He ran 2", 0))
    assert reachable_score(["ran 20miles", "He ran 20miles"], asked) == (0.0, pytest.approx(2 / 3))
    # "ran 20miles" with "ran 20": P = R = 1/2; with "He ran 2": P = 1/2, R = 1/3, F1 = 2/5.
    assert reachable_score(["ran 20miles"], asked) == (0.0, pytest.approx(1 / 2))
    assert reachable_score(["He ran 2"], asked) == (1.0, 1.0)
    assert reachable_score([], asked) == (0.0, 0.0)
    # The metrics drop punctuation, so this widening costs nothing.
    assert reachable_score(["north."], question(("north", 15))) == (1.0, 1.0)


DATA = SquadData(
    "some.json",
    (PASSAGE, "another - no"),
    ("", ""),
    (
        question(("miles", 9), ("north", 15), name="one of two is kept"),
        question(("ran 20", 3), ("He ran 2", 0), name="snapped"),
        question((" north", 14), ("20", 7), name="trimmed"),
        question((" ", 2), name="empty"),
        question(name="none"),
        question(("south", 15), name="off"),
        Question("other passage", "What?", 1, (Answer("no", 1), Answer("no", 10), Answer("No", 10))),
    ),
)


def test_the_ledger_of_a_whole_data_set():
    ledger = measure_coverage(DATA, [TOKENS, tokenize(DATA.passages[1])], 10)
    written = json.loads(json.dumps(ledger.to_json()))
    assert ledger.total == written["total"] == 7
    assert written["counts"] == {"kept": 2, "unanswerable": 0, "trimmed": 1, "snapped": 1, "dropped": 3}
    # kept: north, no, no; trimmed: " north"; snapped: miles, ran 20, He ran 2, 20; dropped: " ", south, No.
    assert written["answers"] == {"kept": 3, "unanswerable": 0, "trimmed": 1, "snapped": 4, "dropped": 3}
    assert (written["max_answer"], written["long_answers"]) == (10, 0)
    assert written["reasons"] == {"empty_answer": 1, "no_answer": 1, "offset_does_not_fit": 1}
    # Three questions reach 1, "snapped" reaches F1 2/3, the dropped ones 0.
    assert written["ceiling_exact_match"] == pytest.approx(100 * 3 / 7)
    assert written["ceiling_f1"] == pytest.approx(100 * (3 + 2 / 3) / 7)
    assert [(entry["id"], entry["kind"], entry["reason"]) for entry in written["not_kept"]] == [
        ("snapped", "snapped", "inside_a_token"),
        ("trimmed", "trimmed", "white_space"),
        ("empty", "dropped", "empty_answer"),
        ("none", "dropped", "no_answer"),
        ("off", "dropped", "offset_does_not_fit"),
    ]
    assert written["not_kept"][0]["detail"] == "'ran 20' became 'ran 20miles'"
    assert written["not_kept"][4]["detail"] == "'south' does not stand at 15"
    assert ledger.summary().splitlines() == [
        "some.json: 7 questions: 2 kept, 1 trimmed, 1 snapped to whole tokens, 3 dropped.",
        "Dropped: empty answer 1, no answer 1, offset does not fit 1.",
        "The best that whole tokens can reach: exact match 42.86, F1 52.38.",
    ]


def test_a_reader_with_a_null_head_is_right_about_questions_without_an_answer():
    ledger = measure_coverage(DATA, [TOKENS, tokenize(DATA.passages[1])], 10, null_head=True)
    written = json.loads(json.dumps(ledger.to_json()))
    assert written["total"] == 7
    assert written["counts"] == {"kept": 2, "unanswerable": 1, "trimmed": 1, "snapped": 1, "dropped": 2}
    assert written["answers"] == {"kept": 3, "unanswerable": 0, "trimmed": 1, "snapped": 4, "dropped": 3}
    assert written["reasons"] == {"empty_answer": 1, "offset_does_not_fit": 1}
    # One more than without: "none" reaches 1.
    assert written["ceiling_exact_match"] == pytest.approx(100 * 4 / 7)
    assert written["ceiling_f1"] == pytest.approx(100 * (4 + 2 / 3) / 7)
    assert [entry["id"] for entry in written["not_kept"]] == ["snapped", "trimmed", "empty", "off"]
    assert ledger.summary().splitlines()[0] == (
        "some.json: 7 questions: 2 kept, 1 without an answer, 1 trimmed, 1 snapped to whole tokens, 2 dropped."
    )


def test_answers_longer_than_a_reader_may_predict():
    asked = (
        question(("He ran 20miles", 0), name="three tokens"),
        question(("He ran 20miles north.", 0), ("ran", 3), name="one of two is short"),
        question(("20miles north", 7), name="two tokens"),
        question(name="none"),
        question(("south", 15), name="off"),
    )
    data = SquadData("long.json", (PASSAGE,), ("",), asked)
    ledger = measure_coverage(data, [TOKENS], 2)
    written = ledger.to_json()
    assert (written["max_answer"], written["long_answers"]) == (2, 1)
    assert len(written["long_answer_ids"]) == 1
    # The answer of three tokens stays kept; its first two reach P = 1, R = 2/3, F1 = 4/5.
    assert written["counts"] == {"kept": 3, "unanswerable": 0, "trimmed": 0, "snapped": 0, "dropped": 2}
    assert written["ceiling_exact_match"] == pytest.approx(100 * 2 / 5)
    assert written["ceiling_f1"] == pytest.approx(100 * (2 + 4 / 5) / 5)
    (line,) = [line for line in ledger.summary().splitlines() if "--max_answer" in line]
    assert line == "Answers of more than --max_answer=2 tokens, which cannot be predicted whole: 1."
    assert "--max_answer" not in measure_coverage(data, [TOKENS], 3).summary()


@pytest.mark.parametrize(
    ("max_answer", "expected"),
    [
        (1, ["ran", "20miles", "north"]),
        (2, ["ran 20miles", "20miles north"]),
        (3, ["ran 20miles north"]),
        (9, ["ran 20miles north"]),
    ],
)
def test_the_parts_of_an_answer_that_can_be_predicted(max_answer, expected):
    alignment = align("ran 20miles north", 3)
    assert alignment.length == 3
    assert reachable_texts(TOKENS, PASSAGE, alignment, max_answer) == expected


@pytest.mark.parametrize(
    ("text", "max_answer", "ceiling"),
    [
        ('"The', 2, (100, 0)),
        ("The Keld Mill", 2, (100, 100)),
        ('"The Keld Mill"', 2, (100, 100)),
        ('"The Keld Mill" (of 1840)', 5, (0, 600 / 7)),
    ],
)
def test_scoring_drops_articles_and_punctuation_from_a_long_answer(text, max_answer, ceiling):
    passage = 'He painted "The Keld Mill" (of 1840).'
    asked = Question("q", "What?", 0, (Answer(text, passage.index(text)),))
    data = SquadData("long.json", (passage,), ("",), (asked,))
    written = measure_coverage(data, [tokenize(passage)], max_answer).to_json()
    assert (written["ceiling_exact_match"], written["ceiling_f1"]) == pytest.approx(ceiling)


def test_entries_made_by_hand():
    ledger = CoverageLedger("train.json", 30)
    ledger.add(question(name="a"), "kept", ceiling=(1.0, 1.0))
    ledger.add(question(name="b"), "snapped", ceiling=(0.0, 0.5), reason="inside_a_token")
    for name, detail in (("c", "passage of 512 tokens is longer than 400"), ("d", "passage of 401 tokens is longer")):
        ledger.add(question(name=name), "dropped", reason="passage_too_long", detail=detail)
    ledger.add(question(name="e"), "dropped", reason="question_too_long")
    written = ledger.to_json()
    assert written["total"] == 5
    assert written["counts"] == {"kept": 1, "unanswerable": 0, "trimmed": 0, "snapped": 1, "dropped": 3}
    assert set(written["answers"].values()) == {0}
    assert written["reasons"] == {"passage_too_long": 2, "question_too_long": 1}
    assert (written["ceiling_exact_match"], written["ceiling_f1"]) == (20.0, 30.0)
    assert [entry["id"] for entry in written["not_kept"]] == ["b", "c", "d", "e"]
    assert written["not_kept"][1]["detail"] == "passage of 512 tokens is longer than 400"
    assert "Dropped: passage too long 2, question too long 1." in ledger.summary()
    assert "exact match 20.00, F1 30.00" in ledger.summary()


def test_unanswerable_questions_are_counted_by_their_reasons():
    ledger = CoverageLedger("train.json", 30)
    ledger.add(question(name="none"), "unanswerable")
    assert "unanswerable" not in ledger.to_json()
    assert ": 0 kept, 1 without an answer, 0 trimmed" in ledger.summary()
    for number, reason in enumerate(["exchange"] + 1200 * ["article"] + 2 * ["sentence"]):
        ledger.add(Question(str(number), "Who?", 0, (), True, reason=reason), "unanswerable")
    # Of what is dropped or kept, the ledger's own reason counts.
    dropped = Question("dropped", "Who?", 0, (), True, reason="article")
    ledger.add(dropped, "dropped", reason="passage_too_long")
    ledger.add(Question("kept", "Who?", 0, (Answer("He", 0),), reason="article"), "kept")
    assert ledger.to_json()["unanswerable"] == {"article": 1200, "sentence": 2, "exchange": 1}
    assert "1,204 without an answer (article 1,200, sentence 2, exchange 1), 0 trimmed" in ledger.summary()
    assert ledger.to_json()["counts"]["unanswerable"] == 1204


def test_an_empty_ledger_has_a_summary_without_reasons():
    ledger = CoverageLedger("none.json", 30)
    assert ledger.summary().splitlines() == [
        "none.json: 0 questions: 0 kept, 0 trimmed, 0 snapped to whole tokens, 0 dropped.",
        "The best that whole tokens can reach: exact match 0.00, F1 0.00.",
    ]
    assert ledger.to_json()["ceiling_f1"] == 0.0


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("lost", {"reason": "x"}, "kind is 'lost'"),
        ("dropped", {}, "reason is empty"),
        ("snapped", {"ceiling": (1.0, 1.0)}, "reason is empty"),
        ("dropped", {"reason": "x", "ceiling": (0.0, 0.1)}, "ceiling is"),
    ],
)
def test_an_entry_that_does_not_add_up_is_refused(kind, options, message):
    ledger = CoverageLedger("x", 30)
    with pytest.raises(ValueError, match=message):
        ledger.add(question(), kind, **options)
    assert ledger.total == 0


def test_explanations():
    assert explain(TOKENS, PASSAGE, Answer("", 0), DROPPED) == ("empty_answer", "the answer is empty")
    trimmed = explain(TOKENS, PASSAGE, Answer(" ran", 2), Alignment(1, 1, "trimmed"))
    assert trimmed == ("white_space", "' ran' became 'ran'")


@pytest.mark.parametrize(
    ("data", "questions", "answers", "unanswerable"),
    [
        (load_dataset("sample", "train"), 1026, 946, 80),
        (load_dataset("sample", "dev"), 288, 262, 26),
        (read_squad(OWN_QUESTIONS), 100, 154, 0),
    ],
    ids=["train", "dev", "own"],
)
def test_answers_of_our_own_data_are_whole_tokens(data, questions, answers, unanswerable):
    written = measure_coverage(data, [tokenize(passage) for passage in data.passages], 400).to_json()
    answerable = questions - unanswerable
    assert (written["total"], sum(written["answers"].values()), data.unanswerable) == (questions, answers, unanswerable)
    assert written["answers"]["kept"] == answers
    # A reader without a null head answers every question.
    assert written["ceiling_exact_match"] == written["ceiling_f1"] == pytest.approx(100 * answerable / questions)


@pytest.mark.slow
@needs_shared
# Version 2 keeps the period of "Tiffany & Co.", which a few annotators left out.
@pytest.mark.parametrize(("rules", "share"), [(1, 0.996), (2, 0.995)])
def test_answers_of_the_development_set_stand_on_whole_tokens(rules, share):
    data = read_squad(SHARED / "squad/dev-v1.1.json")
    written = measure_coverage(data, [tokenize(passage, rules) for passage in data.passages], 400).to_json()
    assert written["total"] == 10_570
    assert sum(written["answers"].values()) == 34_726
    assert written["answers"]["kept"] / 34_726 >= share
    assert written["counts"]["kept"] / 10_570 >= 0.998
    assert written["ceiling_exact_match"] >= 99.9
    assert written["ceiling_f1"] >= written["ceiling_exact_match"]


@pytest.mark.slow
@needs_shared
def test_answers_to_train_on_stand_on_whole_tokens_at_their_offsets():
    data = read_squad(SHARED / "train/squad-train-60.json")
    questions = [asked for asked in data.questions if asked.passage % 8 == 0]
    tokens = {asked.passage: tokenize(data.passages[asked.passage]) for asked in questions}
    kinds = [
        align_answer(tokens[asked.passage], data.passages[asked.passage], answer).kind
        for asked in questions
        for answer in asked.answers
    ]
    assert len(kinds) > 5000
    assert "dropped" not in kinds
    assert kinds.count("kept") / len(kinds) >= 0.996
