"""When a reader abstains: scale and bias, threshold, and the figures, against searches and sums by hand."""

import itertools

import numpy as np
import pytest

from fabir_tf.reading.certainty import auroc, calibration_error, certainty_bins
from fabir_tf.reading.no_answer import (
    UNREAD_SCORE,
    JudgedSpans,
    best_threshold,
    calibrate_no_answer,
    fit_scale_and_bias,
    no_answer_probability,
)


def logistic(scores, scale, bias):
    return 1 / (1 + np.exp(scale * np.asarray(scores, np.float64) - bias))


def test_the_probability_is_that_of_the_equation():
    scores = np.array([-30.0, -1.5, 0.0, 0.5, 40.0])
    np.testing.assert_allclose(
        no_answer_probability(scores, 0.7, -0.3), logistic(scores, 0.7, -0.3), rtol=1e-9, atol=1e-15
    )
    assert no_answer_probability(np.array([0.0]))[0] == 0.5
    assert no_answer_probability(np.array([UNREAD_SCORE, 1e9])).tolist() == [1.0, 0.0]


def drawn(scale, bias, questions=20_000, seed=0):
    random = np.random.default_rng(seed)
    scores = random.normal(2.0, 5.0, questions)
    return scores, random.random(questions) < logistic(scores, scale, bias)


@pytest.mark.parametrize(("scale", "bias"), [(1.0, 0.0), (0.3, -1.0), (2.5, 3.0), (1e-3, 0.5)])
def test_a_known_scale_and_bias_are_found(scale, bias):
    scores, is_unanswerable = drawn(scale, bias)
    found = fit_scale_and_bias(scores, is_unanswerable, np.ones(len(scores)))
    assert found == (pytest.approx(scale, rel=0.1, abs=0.02), pytest.approx(bias, rel=0.1, abs=0.1))


def test_no_other_scale_and_bias_have_a_lower_loss():
    scores, is_unanswerable = drawn(0.5, 1.0, 200)
    weights = np.random.default_rng(1).random(200)
    scale, bias = fit_scale_and_bias(scores, is_unanswerable, weights)
    counts = [np.sum(~is_unanswerable), np.sum(is_unanswerable)]
    targets = np.where(is_unanswerable, (counts[1] + 1) / (counts[1] + 2), 1 / (counts[0] + 2))

    def loss(scale, bias):
        share = logistic(scores, scale, bias)
        return -np.sum(weights * (targets * np.log(share) + (1 - targets) * np.log(1 - share)))

    lowest = loss(scale, bias)
    for change, other in itertools.product((-1e-3, 0, 1e-3), repeat=2):
        assert loss(scale + change, bias + other) >= lowest - 1e-9


def test_kinds_that_a_score_separates_have_a_finite_scale():
    scores = np.array([3.0, 4.0, 5.0, -3.0, -4.0, UNREAD_SCORE])
    scale, bias = fit_scale_and_bias(scores, scores < 0, np.ones(6))
    assert 0 < scale < 10 and abs(bias) < 10
    assert (no_answer_probability(scores, scale, bias) > 0.5).tolist() == (scores < 0).tolist()


def test_scores_that_say_the_opposite_say_nothing():
    scores = np.linspace(-5, 5, 40)
    scale, bias = fit_scale_and_bias(scores, np.arange(40) >= 30, np.ones(40))
    assert scale == 0
    assert no_answer_probability(scores, scale, bias) == pytest.approx(10 / 40, abs=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_no_threshold_has_a_better_f1(seed):
    """Against every threshold; some probabilities are equal."""
    random = np.random.default_rng(seed)
    none, f1 = np.round(0.1 + 0.8 * random.random(30), 1), random.random(30)
    is_unanswerable, weights = random.random(30) < 0.5, random.random(30)

    def value(threshold):
        return np.sum(weights * np.where(none <= threshold, np.where(is_unanswerable, 0.0, f1), is_unanswerable))

    found = best_threshold(none, f1, is_unanswerable, weights)
    assert value(found) == pytest.approx(max(value(threshold) for threshold in np.linspace(-0.05, 1.05, 111)))
    if 0.0 < found < 1.0:
        assert min(abs(none - found)) > 1e-3


def test_the_threshold_lies_between_the_questions_that_it_separates():
    """Two spans are right and two questions have no answer."""
    f1, is_unanswerable = np.array([0.0, 1.0, 0.0, 1.0]), np.array([True, False, True, False])
    for none, expected in (
        ([0.9, 0.1, 0.2, 0.3], 0.15),
        ([0.9, 0.1, 0.8, 0.3], 0.55),
        ([0.1, 0.6, 0.2, 0.7], 0.05),
    ):
        assert best_threshold(np.array(none), f1, is_unanswerable, np.ones(4)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_the_share_of_pairs_in_order(seed):
    random = np.random.default_rng(seed)
    values, is_true = np.round(random.random(50), 1), random.random(50) < 0.3
    pairs = [
        (values[i] > values[j]) + 0.5 * (values[i] == values[j])
        for i in np.flatnonzero(is_true)
        for j in np.flatnonzero(~is_true)
    ]
    assert auroc(values, is_true) == pytest.approx(np.mean(pairs))
    assert auroc(values, np.ones(50, bool)) == auroc(values, np.zeros(50, bool)) == 0.5


def made_spans(share, questions=8000, seed=2):
    """Questions whose probabilities are known: of "no answer" by a scale and bias, of spans by a temperature."""
    random = np.random.default_rng(seed)
    scores = random.normal(1.0, 3.0, questions)
    is_unanswerable = random.random(questions) < logistic(scores, 0.5, share)
    right = 1 / (1 + np.exp(-random.normal(1.0, 1.5, questions)))
    is_right = np.where(is_unanswerable, 0.0, random.random(questions) < right)
    temperatures = np.array([0.5, 1.0, 2.0, 4.0])
    # At 2 the spans have the probabilities by which they were drawn.
    odds = (right / (1 - right)) ** (2.0 / temperatures[:, None])
    return JudgedSpans(scores, is_unanswerable, is_right, is_right, odds / (1 + odds)), temperatures


def test_what_is_said_is_as_probable_as_it_is_right():
    found = calibrate_no_answer(*made_spans(0.3))
    assert found.temperature == 2.0
    assert found.expected_calibration_error < 0.02
    assert 0.6 < found.auroc < 0.9


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_given_share_is_what_the_questions_would_have(share):
    """Weights do what copies of the questions without an answer would do."""
    spans, temperatures = made_spans(0.0)
    found = calibrate_no_answer(spans, temperatures, share)
    assert found.unanswerable_share == pytest.approx(share)
    none = no_answer_probability(spans.scores, found.scale, found.bias)
    kinds = [none[spans.is_unanswerable].mean(), none[~spans.is_unanswerable].mean()]
    assert share * kinds[0] + (1 - share) * kinds[1] == pytest.approx(share, abs=0.01)
    says = [
        np.where(none <= found.threshold, spans.f1, spans.is_unanswerable)[chosen].mean()
        for chosen in (spans.is_unanswerable, ~spans.is_unanswerable)
    ]
    assert found.f1 == pytest.approx(share * says[0] + (1 - share) * says[1])


def test_more_questions_without_an_answer_lower_the_threshold():
    """In odds of the score: the more there are, the higher an answer must score."""
    spans, temperatures = made_spans(0.0)
    lowest = []
    for share in (0.1, 0.5, 0.9):
        found = calibrate_no_answer(spans, temperatures, share)
        odds = np.log(found.threshold / (1 - found.threshold))
        lowest.append((found.bias - odds) / found.scale)
    assert lowest[0] < lowest[1] < lowest[2]


def test_weighted_bins_are_those_of_repeated_answers():
    probability, right = np.array([0.21, 0.29, 0.95]), np.array([100.0, 0.0, 100.0])
    weights = np.array([2.0, 1.0, 3.0])
    repeated = certainty_bins(np.repeat(probability, [2, 1, 3]), np.repeat(right, [2, 1, 3]))
    assert calibration_error(certainty_bins(probability, right, weights)) == pytest.approx(calibration_error(repeated))
