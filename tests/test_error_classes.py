"""Classes of errors: the papers' own examples, and that every wrong answer has exactly one class."""

import pytest

from fabir_tf.analysis.error_classes import CLASSES, SHEET_COLUMNS, count_errors, error_class, sheet
from fabir_tf.analysis.judged import judge
from fabir_tf.pipelines.datasets.predictions import Prediction
from fabir_tf.pipelines.datasets.squad import squad_from_json

PASSAGE = (
    "Dogs crossed the land bridge roughly 12,000 years ago, although the earliest finds date from 9,400 years ago. "
    "The stone mill was built by Anna Keld in Houston, Texas. Magnetic resonance imaging (MRI) showed the rest."
)


def make(*questions):
    qas = [
        {
            "id": str(number),
            "question": text,
            "answers": [{"text": answer, "answer_start": PASSAGE.index(answer)} for answer in answers],
            "is_impossible": not answers,
        }
        for number, (text, *answers) in enumerate(questions)
    ]
    return squad_from_json({"data": [{"title": "A", "paragraphs": [{"context": PASSAGE, "qas": qas}]}]}, "v2")


@pytest.mark.parametrize(
    ("reference", "predicted", "name"),
    [
        # Amorosa, Espis, Orlandi and Pinardi 2021, section 4.
        ("12,000 years ago", "9,400 years ago", "right kind, wrong span"),
        ("12,000", "9,400", "right kind, wrong span"),
        ("Houston", "Houston, Texas", "too long"),
        ("Houston, Texas", "Texas", "too short"),
        ("MRI", "Magnetic resonance imaging", "reference too narrow"),
        ("the land bridge", "land bridge roughly", "too long"),
        ("Anna Keld", "Houston, Texas", "right kind, wrong span"),
        ("Anna Keld", "12,000", "wrong kind"),
        ("stone mill", "the rest", "right kind, wrong span"),
        ("stone mill", "Anna Keld", "wrong kind"),
        ("Houston", None, "missing"),
    ],
)
def test_answers_to_answerable_questions(reference, predicted, name):
    (question,) = make(("Where is the mill?", reference)).questions
    assert error_class(question, PASSAGE, predicted) == name


def test_the_nearest_reference_decides():
    (question,) = make(("Where?", "Houston, Texas", "Houston")).questions
    assert error_class(question, PASSAGE, "in Houston, Texas") == "too long"


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Which dentist polished umbrellas?", "not found: other words"),
        ("Which dogs crossed and showed resonance at the mill?", "not found: several sentences"),
        ("Where was the stone mill built?", "not found: other"),
    ],
)
def test_no_answer_to_an_answerable_question(question, name):
    (asked,) = make((question, "Houston")).questions
    assert error_class(asked, PASSAGE, "") == name


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Where was the stone mill never built?", "unanswerable: negation"),
        ("Why didn't the dogs cross the land bridge?", "unanswerable: negation"),
        ("Which dentist polished umbrellas?", "unanswerable: other words"),
        ("Who built the stone mill of Houston, Dallas?", "unanswerable: small twist"),
    ],
)
def test_an_answer_to_an_unanswerable_question(question, name):
    (asked,) = make((question,)).questions
    assert error_class(asked, PASSAGE, "Anna Keld") == name


def test_every_wrong_answer_is_counted_once():
    data = make(("Where?", "Houston"), ("Who?", "Anna Keld"), ("Who built it?",), ("When?", "9,400 years ago"))
    answers = {"0": Prediction("Houston, Texas"), "1": Prediction("anna keld"), "2": Prediction("Keld")}
    judged = judge("ours", data, answers)
    rows = count_errors(data, [judged])
    assert sum(row["errors"] for row in rows) == 3
    assert sum(row["share"] for row in rows) == pytest.approx(100)
    assert [row["class"] for row in rows] == [name for name in CLASSES if name in {row["class"] for row in rows}]
    assert {row["class"] for row in rows} == {"too long", "missing", "unanswerable: small twist"}


def test_the_sheet_holds_wrong_answers_drawn_by_a_seed():
    data = make(*[(f"Who built mill {number}?", "Anna Keld") for number in range(40)])
    judged = judge(
        "ours", data, {str(number): Prediction("Keld" if number % 2 else "Anna Keld") for number in range(40)}
    )
    rows = sheet(data, judged, most=7)
    assert len(rows) == 7 and list(rows[0]) == list(SHEET_COLUMNS)
    assert all(int(row["id"]) % 2 for row in rows)
    assert {row["class"] for row in rows} == {"too short"}
    assert rows == sheet(data, judged, most=7) != sheet(data, judged, most=7, seed=2)
    assert len(sheet(data, judged, most=100)) == 20
