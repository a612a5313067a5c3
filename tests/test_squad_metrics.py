"""Tests of the scores against values computed by hand and against the official figures of real predictions."""

import collections
import json
import re
import string

import numpy as np
import pytest
from shared_data import SHARED, needs_shared

from fabir_tf.pipelines.datasets import squad_metrics
from fabir_tf.pipelines.datasets.predictions import Prediction, read_predictions
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, read_squad
from fabir_tf.pipelines.errors import UserError


def asked(**references):
    questions = tuple(
        Question(identifier, "?", 0, tuple(Answer(text, -1) for text in texts), not texts)
        for identifier, texts in references.items()
    )
    return SquadData("asked.json", ("passage",), ("",), questions)


def texts_of(path):
    return {identifier: found.text for identifier, found in read_predictions(path).items()}


def failure(call, *arguments):
    with pytest.raises(UserError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


# === One pair ===


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat, a dog\tand AN\u00a0owl!", "cat dog and owl"),
        ("A-B (c)", "ab c"),
        ("theatre another", "theatre another"),
        ("a.", ""),
        ("U.S.A", "usa"),
        ("$1,000", "1000"),
        ("\u201cAda\u2019s\u201d", "\u201cada\u2019s\u201d"),
        ("a\u2013z", "\u2013z"),
        ("\u0130", "i\u0307"),
        ("", ""),
    ],
)
def test_normalization(text, expected):
    assert squad_metrics.normalize_answer(text) == expected


@pytest.mark.parametrize(
    ("prediction", "truth", "match", "overlap"),
    [
        ("Denver Broncos", "the Denver broncos.", 1, 1),
        ("Denver", "Denver Broncos", 0, 2 / 3),  # precision 1, recall 1/2
        ("x x y", "x z", 0, 2 / 5),  # one x in common: precision 1/3, recall 1/2
        ("x x", "x x x", 0, 4 / 5),  # two in common: precision 1, recall 2/3
        ("red", "blue", 0, 0),
        ("the", "red", 0, 0),
    ],
)
def test_exact_match_and_f1_of_one_pair(prediction, truth, match, overlap):
    assert squad_metrics.exact_match(prediction, truth) == match
    assert squad_metrics.f1(prediction, truth) == pytest.approx(overlap, abs=1e-15)
    assert squad_metrics.f1(prediction, truth, empty_equals_empty=True) == pytest.approx(overlap, abs=1e-15)


def test_two_texts_without_words_score_differently_in_the_versions():
    assert squad_metrics.exact_match("the", "") == 1
    assert squad_metrics.f1("the", "") == 0
    assert squad_metrics.f1("the", "", empty_equals_empty=True) == 1


# === SQuAD 1.1 ===


def test_v1_takes_the_best_reference_and_counts_every_question():
    data = asked(a=["Denver Broncos", "Broncos"], b=["1973"], c=["red"], d=["blue"])
    scores = squad_metrics.score_v1(data, {"a": "the Broncos", "b": "in 1973", "c": "", "stranger": "x"})
    # exact: a; F1: 1 + 2/3 + 0, and d is missing.
    assert scores == {"exact_match": 25.0, "f1": pytest.approx(100 * (5 / 3) / 4, abs=1e-12), "total": 4}
    assert squad_metrics.missing_predictions(data, {"a": "", "b": ""}) == ["c", "d"]
    assert squad_metrics.score_v1(data, {}) == {"exact_match": 0.0, "f1": 0.0, "total": 4}


def test_v1_needs_references_and_questions():
    message = failure(squad_metrics.score_v1, asked(a=["x"], lonely=[]), {"a": "x"})
    assert "asked.json" in message
    assert "'lonely'" in message
    assert "no question" in failure(squad_metrics.score_v1, asked(), {})
    assert "no question" in failure(squad_metrics.score_v2, asked(), {})


# === SQuAD 2.0 ===

DATA = asked(a=["Denver Broncos"], b=["1973"], c=[], d=[])
PREDICTIONS = {"a": "Denver", "b": "1973", "c": "something", "d": ""}
NO_ANSWER_PROBABILITIES = {"a": 0.1, "b": 0.6, "c": 0.3, "d": 0.9}


def close(numbers):
    return pytest.approx(numbers, abs=1e-12)


def test_v2_without_probabilities():
    scores = squad_metrics.score_v2(DATA, PREDICTIONS)
    assert scores == close(
        {
            "exact": 50.0,
            "f1": 100 * (2 / 3 + 1 + 0 + 1) / 4,
            "total": 4,
            "HasAns_exact": 50.0,
            "HasAns_f1": 100 * (2 / 3 + 1) / 2,
            "HasAns_total": 2,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
            "NoAns_total": 2,
        }
    )
    assert list(scores)[:3] == ["exact", "f1", "total"]


def test_v2_threshold_is_strict_and_replaces_answers_by_no_answer():
    scores = squad_metrics.score_v2(DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES, 0.3)
    # b and d are above 0.3: the answer of b is dropped, d has none; a and c keep theirs.
    assert scores["exact"] == 25.0
    assert scores["f1"] == close(100 * (2 / 3 + 0 + 0 + 1) / 4)
    assert scores["HasAns_exact"] == 0.0
    assert scores["NoAns_exact"] == 50.0
    assert squad_metrics.score_v2(DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES, 0.29)["NoAns_exact"] == 100.0


def test_v2_best_thresholds():
    scores = squad_metrics.score_v2(DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES)
    # Sums from "never answer" upwards, exact: 2, a 2, c 1, b 2, d 2; F1: 2, a 8/3, c 5/3, b 8/3, d 8/3.
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (50.0, 0.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (close(100 * (8 / 3) / 4), 0.1)
    assert list(scores)[-4:] == ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
    # The applied threshold does not affect the search.
    again = squad_metrics.score_v2(DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES, 0.2)
    assert (again["best_f1"], again["best_f1_thresh"]) == (scores["best_f1"], 0.1)


def test_v2_equal_probabilities_are_passed_in_the_order_of_their_file():
    data = asked(a=["x"], n=[])
    predictions = {"a": "x", "n": "wrong"}
    # 1 at first; a then n: 2, 1; n then a: 0, 1.
    assert squad_metrics.score_v2(data, predictions, {"a": 0.5, "n": 0.5})["best_exact"] == 100.0
    assert squad_metrics.score_v2(data, predictions, {"n": 0.5, "a": 0.5})["best_exact"] == 50.0


def test_v2_search_penalizes_an_answer_without_words_after_normalization():
    data, predictions = asked(n=[], a=["x"]), {"n": "the", "a": "x"}
    scores = squad_metrics.score_v2(data, predictions, {"n": 0.1, "a": 0.2})
    # Both are right, but the sums of the search are 1, n 0, a 1.
    assert scores["exact"] == 100.0
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (50.0, 0.0)


def test_v2_references_without_words_are_left_out():
    data = asked(a=["the", "Rome"], b=["a!"])
    scores = squad_metrics.score_v2(data, {"a": "the", "b": ""})
    # For a only Rome counts. For b no reference is left, so "" is right, but b still counts as answerable.
    assert (scores["exact"], scores["f1"], scores["HasAns_total"]) == (50.0, 50.0, 2)
    assert "NoAns_total" not in scores
    assert "HasAns_total" not in squad_metrics.score_v2(asked(n=[]), {"n": ""})


def test_v2_missing_predictions_score_0_at_any_threshold():
    data = asked(a=["x"], n=[], m=[])
    scores = squad_metrics.score_v2(data, {"a": "x", "n": ""}, {"a": 0.5, "n": 0.5}, -1.0)
    assert scores["exact"] == close(100 / 3)
    assert (scores["total"], scores["NoAns_exact"]) == (3, 50.0)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (close(200 / 3), 0.5)


def test_v2_unknown_ids_and_numpy_numbers_are_accepted():
    predictions, probabilities = PREDICTIONS | {"z": "x"}, NO_ANSWER_PROBABILITIES | {"y": 0.0, "z": 0.0}
    expected = squad_metrics.score_v2(DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES)
    assert squad_metrics.score_v2(DATA, predictions, probabilities) == expected
    exact = {key: np.float32(round(value * 8) / 8) for key, value in NO_ANSWER_PROBABILITIES.items()}
    assert squad_metrics.score_v2(DATA, PREDICTIONS, exact)["best_f1_thresh"] == 0.125


@pytest.mark.parametrize(
    ("probabilities", "parts"),
    [
        ({"a": 0.1, "b": 0.6, "c": 0.3}, ["'d'", "no no-answer probability"]),
        (NO_ANSWER_PROBABILITIES | {"c": float("nan")}, ["'c'", "nan", "finite"]),
        (NO_ANSWER_PROBABILITIES | {"c": float("inf")}, ["'c'", "inf", "finite"]),
        (NO_ANSWER_PROBABILITIES | {"c": None}, ["'c'", "None", "finite"]),
    ],
)
def test_v2_bad_probabilities_are_reported(probabilities, parts):
    message = failure(squad_metrics.score_v2, DATA, PREDICTIONS, probabilities)
    for part in ["asked.json", *parts]:
        assert part in message


def test_v2_threshold_must_be_a_number():
    assert "nan" in failure(squad_metrics.score_v2, DATA, PREDICTIONS, NO_ANSWER_PROBABILITIES, float("nan"))


# === Files ===


def test_predictions_keep_their_order_and_texts(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text('{"z": "Caf\u00e9", "a": ""}', encoding="utf-8")
    assert list(read_predictions(path).items()) == [("z", Prediction("Caf\u00e9")), ("a", Prediction(""))]
    path.write_text('{"z": 0.25, "a": 1}', encoding="utf-8")
    assert squad_metrics.read_no_answer_probabilities(path) == {"z": 0.25, "a": 1}


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        ('["x"]', ["found a list", "expected an object"]),
        ('{"q7": null}', ["'q7'", "null", "a text"]),
        ('{"q7": ["x"]}', ["'q7'", "a list", "a text"]),
        ('{"q7": "x"', ["no valid JSON", "line 1, column"]),
        ("", ["empty"]),
    ],
)
def test_bad_prediction_files_are_reported(tmp_path, raw, parts):
    path = tmp_path / "predictions.json"
    path.write_text(raw, encoding="utf-8")
    message = failure(read_predictions, path)
    for part in ["predictions.json", *parts]:
        assert part in message
    assert "no such file" in failure(read_predictions, tmp_path / "absent.json")
    assert "found a folder" in failure(read_predictions, tmp_path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "true", '"0.5"', "null"])
def test_bad_probability_files_are_reported(tmp_path, value):
    path = tmp_path / "probabilities.json"
    path.write_text(f'{{"q7": {value}}}', encoding="utf-8")
    message = failure(squad_metrics.read_no_answer_probabilities, path)
    for part in ["probabilities.json", "'q7'", "a finite number"]:
        assert part in message


# === The figures of many questions ===


def official_words(text):
    """The words that the official scripts compare."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def official_pair(prediction, truth):
    """Exact match and F1 of one prediction and one reference, as the script of SQuAD 2.0 defines them."""
    found, expected = official_words(prediction), official_words(truth)
    common = sum((collections.Counter(found) & collections.Counter(expected)).values())
    if not found or not expected:
        return float(found == expected), float(found == expected)
    overlap = 2 * common / (len(found) + len(expected)) if common else 0.0
    return float(found == expected), overlap


def guesses(data):
    """Answers that are right, too long, too short, somewhere else, or absent."""
    random = np.random.default_rng(5)
    found = {}
    for question in data.questions:
        passage = data.passages[question.passage]
        answer = question.answers[0] if question.answers else Answer(passage[:20], 0)
        start, end = answer.start, answer.start + len(answer.text)
        spans = [(start, end), (max(start - 4, 0), end + 9), (start + 3, end), (5, 40), (0, 0)]
        start, end = spans[random.integers(len(spans))]
        found[question.id] = passage[start:end]
    return found


def test_scores_of_the_sample_are_those_of_the_definitions():
    data = load_dataset("sample", "train")
    predictions = guesses(data)
    pairs = {
        question.id: max(
            official_pair(predictions[question.id], truth.text) for truth in question.answers or (Answer("", 0),)
        )
        for question in data.questions
    }
    answerable = np.array([bool(question.answers) for question in data.questions])
    scores = 100 * np.array([pairs[question.id] for question in data.questions])
    assert 10 < scores[answerable].mean() < 90 and 10 < scores[~answerable].mean() < 90
    found = squad_metrics.score_v2(data, predictions)
    for prefix, chosen in (("", answerable | True), ("HasAns_", answerable), ("NoAns_", ~answerable)):
        assert found[f"{prefix}total"] == chosen.sum()
        assert found[f"{prefix}exact"] == pytest.approx(scores[chosen, 0].mean(), abs=1e-12)
        assert found[f"{prefix}f1"] == pytest.approx(scores[chosen, 1].mean(), abs=1e-12)
    some = SquadData(data.name, data.passages, data.titles, tuple(q for q in data.questions if q.answers))
    found = squad_metrics.score_v1(some, predictions)
    assert found["exact_match"] == pytest.approx(scores[answerable, 0].mean(), abs=1e-12)
    assert found["f1"] == pytest.approx(scores[answerable, 1].mean(), abs=1e-12)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("name", "match", "overlap", "missing"),
    [
        ("bert-ensemble", 86.20624408703878, 92.19557978351129, 0),
        ("logistic-regression", 40.14191106906339, 50.98153647324482, 13),
    ],
)
def test_official_figures_of_v1(name, match, overlap, missing):
    data = read_squad(SHARED / "squad" / "dev-v1.1.json")
    predictions = texts_of(SHARED / "squad" / f"predictions-v1.1-{name}.json")
    assert squad_metrics.score_v1(data, predictions) == {"exact_match": match, "f1": overlap, "total": 10570}
    assert len(squad_metrics.missing_predictions(data, predictions)) == missing


@pytest.mark.slow
@needs_shared
def test_official_figures_of_v2():
    data = read_squad(SHARED / "squad" / "dev-v2.0.json")
    predictions = texts_of(SHARED / "squad" / "predictions-v2.0-bert-single.json")
    expected = {
        "exact": 78.74168280973637,
        "f1": 81.77528052374727,
        "total": 11873,
        "HasAns_exact": 74.10593792172739,
        "HasAns_f1": 80.18183293833516,
        "HasAns_total": 5928,
        "NoAns_exact": 83.36417157275021,
        "NoAns_f1": 83.36417157275021,
        "NoAns_total": 5945,
    }
    assert squad_metrics.score_v2(data, predictions) == expected
    # Probabilities that agree with the predictions: the best threshold keeps every answer.
    probabilities = {identifier: float(not text) for identifier, text in predictions.items()}
    scores = squad_metrics.score_v2(data, predictions, probabilities)
    assert json.loads(json.dumps(scores)) == scores
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (expected["exact"], 0.0)
