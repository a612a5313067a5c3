"""Calibration: a temperature that answers were made with is found again, and the figures are those of the papers."""

import dataclasses
import json

import numpy as np
import pytest
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data

from fabir_tf.pipelines.datasets.squad_metrics import exact_match
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading import calibration
from fabir_tf.reading.certainty import auroc, calibration_error, certainty_bins
from fabir_tf.reading.evaluation import evaluate
from fabir_tf.reading.no_answer import NoAnswerCalibration

DATA = squad_data(ARTICLES + DEV_ARTICLES)
NO_ANSWER = NoAnswerCalibration(0.25, 0.8, -0.1, 1.2, 10, 4, 0.4, 0.7, 0.9, 0.02)


def made(true_temperature, questions=4000):
    """Answers among ten spans whose logits are too large by a known factor."""
    random = np.random.default_rng(1)
    logits = random.normal(0, 3, (questions, 10))
    share = np.exp(logits / true_temperature)
    share /= share.sum(axis=1, keepdims=True)
    best = logits.argmax(axis=1)
    is_right = (random.random(questions) < share[np.arange(questions), best]).astype(float)
    scaled = np.exp((logits - logits.max(axis=1, keepdims=True)) / calibration.TEMPERATURES[:, None, None])
    return is_right, (scaled / scaled.sum(axis=2, keepdims=True))[:, np.arange(questions), best]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_known_temperature_is_found(temperature):
    found = calibration.summarize(*made(temperature))
    assert 0.85 < found.temperature / temperature < 1.18
    assert found.after["expected_calibration_error"] < 0.03
    assert found.after["log_loss"] <= found.before["log_loss"]
    if temperature != 1.0:
        assert found.before["expected_calibration_error"] > 0.08
    assert abs(found.after["mean_probability"] - found.exact_match) < 0.03


def test_expected_calibration_error_by_hand():
    """Bins 0.2 to 0.3 (one of two right), 0.9 to 1 (one of one)."""
    is_right, probability = np.array([1.0, 0.0, 1.0]), np.array([0.21, 0.29, 1.0])
    expected = 2 / 3 * abs(0.5 - 0.25) + 1 / 3 * abs(1.0 - 1.0)
    assert calibration_error(certainty_bins(probability, 100 * is_right)) / 100 == pytest.approx(expected)


def test_risk_and_coverage_by_hand():
    """Twenty answers, the surest ten right, the others wrong."""
    is_right = np.repeat([1.0, 0.0], 10)
    probabilities = np.tile(np.linspace(0.9, 0.1, 20), (len(calibration.TEMPERATURES), 1))
    curve = {point["coverage"]: point["risk"] for point in calibration.summarize(is_right, probabilities).risk_coverage}
    assert list(curve) == [round(0.05 * i, 2) for i in range(1, 21)]
    assert (curve[0.05], curve[0.5], curve[0.75], curve[1.0]) == (0.0, 0.0, pytest.approx(1 / 3), 0.5)


@pytest.fixture
def reader():
    """One that reads the longer passages in windows."""
    return make_reader(sorted({word.lower().strip(".,") for text in DATA.passages for word in text.split()}), 12)


def answers_of(reader):
    passages = [DATA.passages[question.passage] for question in DATA.questions]
    return reader.answer_batch([question.text for question in DATA.questions], passages)


def test_a_reader_on_questions(reader):
    reported = []
    found = calibration.calibrate(reader, DATA, lambda done, total: reported.append((done, total)))
    answers = answers_of(reader)
    right = [
        exact_match(answer.text, question.answers[0].text)
        for answer, question in zip(answers, DATA.questions, strict=True)
    ]
    assert (found.questions, found.exact_match) == (len(DATA.questions), np.mean(right))
    mean = np.mean([answer.probability for answer in answers])
    np.testing.assert_allclose(found.before["mean_probability"], mean, rtol=1e-4)
    assert reported[-1][0] == reported[-1][1] > len(DATA.questions)
    reader.max_passage = 512
    calibration.calibrate(reader, DATA, lambda done, total: reported.append((done, total)))
    assert reported[-1] == (len(DATA.questions), len(DATA.questions))


@pytest.mark.slow
def test_a_calibrated_reader_gives_the_probabilities_that_were_found(reader):
    reader.calibration = found = calibration.calibrate(reader, DATA)
    assert found.temperature != pytest.approx(1)
    mean = np.mean([answer.probability for answer in answers_of(reader)])
    np.testing.assert_allclose(found.after["mean_probability"], mean, rtol=1e-4)
    again = calibration.calibrate(reader, DATA)
    assert again.temperature == found.temperature
    np.testing.assert_allclose(again.before["mean_probability"], found.before["mean_probability"], rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda content: content.pop("questions"), "found other fields"),
        (lambda content: content.update(temperature=0.0), "found the temperature the number 0.0"),
        (lambda content: content.update(temperature="warm"), "found the temperature the text 'warm'"),
        (lambda content: content["after"].pop("log_loss"), "found an object as 'after'"),
        (lambda content: content.update(no_answer_threshold=1.5), "found the threshold the number 1.5"),
        (lambda content: content.update(no_answer_threshold="high"), "found the threshold the text 'high'"),
        (lambda content: content.update(no_answer=0.5), "found the number 0.5 as 'no_answer'"),
        (lambda content: content["no_answer"].pop("bias"), "found an object as 'no_answer', expected the numbers"),
        (
            lambda content: content["no_answer"].update(bias=None),
            "found an object as 'no_answer', expected the numbers",
        ),
        (
            lambda content: content["no_answer"].update(threshold=-0.1),
            "found the threshold the number -0.1 in 'no_answer'",
        ),
        (lambda content: content["no_answer"].update(scale=-1.0), "found the scale the number -1.0 in 'no_answer'"),
        (
            lambda content: content["no_answer"].update(temperature=0.0),
            "the number 0.0 in 'no_answer', expected a number above",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, part):
    path = tmp_path / "calibration.json"
    figures = dict.fromkeys(calibration.FIGURES, 0.5)
    whole = calibration.Calibration(0.7, 1, 1.0, figures, figures, [{"coverage": 0.05, "risk": 0.0}], NO_ANSWER)
    whole.save(path)
    assert calibration.Calibration.load(path) == whole
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=part):
        calibration.Calibration.load(path)


def test_questions_without_answers():
    reader = make_reader(["mill"])
    data = squad_data(ARTICLES[:1])
    empty = type(data)(data.name, data.passages, data.titles, ())
    with pytest.raises(UserError, match="found no question with an answer"):
        calibration.calibrate(reader, empty)


def test_a_file_of_version_0_1_has_no_threshold(tmp_path):
    path = tmp_path / "calibration.json"
    figures = dict.fromkeys(calibration.FIGURES, 0.5)
    whole = calibration.Calibration(0.7, 1, 1.0, figures, figures, [])
    content = dataclasses.asdict(whole)
    assert content.pop("no_answer") is None
    path.write_text(json.dumps(content))
    assert calibration.Calibration.load(path) == whole


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_an_earlier_file_has_a_threshold_alone(tmp_path, threshold):
    path = tmp_path / "calibration.json"
    figures = dict.fromkeys(calibration.FIGURES, 0.5)
    content = dataclasses.asdict(calibration.Calibration(0.7, 1, 1.0, figures, figures, []))
    del content["no_answer"]
    path.write_text(json.dumps(content | {"no_answer_threshold": threshold}))
    found = calibration.Calibration.load(path).no_answer
    assert found == (None if threshold is None else NoAnswerCalibration(0.25, temperature=0.7))


# === No answer ===


def half_unanswerable():
    questions = tuple(
        dataclasses.replace(question, answers=question.answers if number % 2 else ())
        for number, question in enumerate(DATA.questions)
    )
    return dataclasses.replace(DATA, questions=questions)


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, 0.2])
def test_a_reader_that_abstains_is_calibrated(share):
    words = sorted({word.lower().strip(".,") for text in DATA.passages for word in text.split()})
    reader = make_reader(words, 12, null_head=True)
    data = half_unanswerable()
    reader.calibration = found = calibration.calibrate(reader, data, unanswerable_share=share)
    assert found.questions == len(DATA.questions) // 2
    chosen = found.no_answer
    assert (chosen.questions, chosen.unanswerable) == (len(DATA.questions), (len(DATA.questions) + 1) // 2)
    # Rounding must not change a decision: no question has a probability at the threshold.
    answers = reader.predict(data)
    assert min(abs(answer.no_answer_probability - chosen.threshold) for answer in answers) > 1e-6
    scores = evaluate(reader, data)
    if share is None:
        assert scores["f1"] == pytest.approx(scores["best_f1"]) == pytest.approx(100 * chosen.f1)
    else:
        assert chosen.unanswerable_share == pytest.approx(0.2)
        # Not NoAns_f1: the official script takes "." for "no answer".
        abstains = [
            not answer.is_answer
            for answer, question in zip(answers, data.questions, strict=True)
            if not question.answers
        ]
        assert 20 * np.mean(abstains) + 0.8 * scores["HasAns_f1"] == pytest.approx(100 * chosen.f1)
    none = np.array([answer.no_answer_probability for answer in answers])
    is_unanswerable = np.array([not question.answers for question in data.questions])
    assert chosen.auroc == pytest.approx(auroc(none, is_unanswerable), abs=1e-6)
    # Calibrating again changes nothing, and questions with an answer alone say nothing about abstaining.
    again = calibration.calibrate(reader, data, unanswerable_share=share)
    assert dataclasses.astuple(again.no_answer) == pytest.approx(dataclasses.astuple(chosen), abs=1e-6)
    assert calibration.calibrate(reader, DATA).no_answer is None


@pytest.mark.slow
def test_a_reader_without_a_null_head_gets_no_threshold(reader):
    assert calibration.calibrate(reader, half_unanswerable()).no_answer is None


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5, -0.5, "0.5", True])
def test_a_share_that_is_none_is_refused(reader, share):
    with pytest.raises(UserError, match="unanswerable_share must be a number between 0 and 1, found"):
        calibration.calibrate(reader, half_unanswerable(), unanswerable_share=share)


def test_the_name_of_a_reader_is_refused():
    with pytest.raises(UserError, match="answerer: found 'fabir-base', expected a reader"):
        calibration.calibrate("fabir-base", half_unanswerable())
