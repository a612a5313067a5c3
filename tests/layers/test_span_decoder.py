"""SpanDecoder: compared with a search through every span."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import SpanDecoder
from fabir_tf.precision import dtype_policy

PADDING = np.float32(-1e9)


def decode_all(start, end, max_answer=15, n_best=1, null=None, **config):
    logits = {"start_logits": np.asarray(start, "float32"), "end_logits": np.asarray(end, "float32")}
    if null is not None:
        logits["null_logits"] = np.asarray(null, "float32")
    return layer_testing.run(SpanDecoder(max_answer, n_best, **config), logits)


def decode(*arguments, **config):
    """The spans without the score."""
    return decode_all(*arguments, **config)[:3]


def random_logits(batch, length, seed, scale=3.0):
    return layer_testing.normal(batch, length, seed=seed, scale=scale)


def assert_decodes(start, end, max_answer, n_best, digits=9):
    """Each row's spans, in order, are those of the exhaustive search."""
    first, last, probability = decode(start, end, max_answer, n_best)
    assert first.shape == last.shape == probability.shape == (len(start), n_best)
    for row in range(len(start)):
        expected = oracles.best_spans(start[row], end[row], max_answer or len(start[row]), digits)[:n_best]
        found = list(zip(first[row].tolist(), last[row].tolist(), strict=True))[: len(expected)]
        assert found == [(i, j) for i, j, _ in expected]
        np.testing.assert_allclose(
            probability[row, : len(expected)], [p for _, _, p in expected], rtol=1e-5, atol=1e-12
        )
        assert (probability[row, len(expected) :] == 0.0).all()


@pytest.mark.parametrize("max_answer", [4, None])
@pytest.mark.parametrize("with_null", [False, True])
@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy, with_null, max_answer):
    inputs = {"start_logits": random_logits(3, 11, seed=1), "end_logits": random_logits(3, 11, seed=2)}
    for logits in inputs.values():
        logits[1, 7:] = PADDING
        logits[2] = PADDING
    if with_null:
        inputs["null_logits"] = random_logits(3, 2, seed=3)
    config = {"max_answer": max_answer, "n_best": 5, "null_pairs": True}
    with dtype_policy(policy):
        layer_testing.run_layer_test(
            SpanDecoder, config, inputs, policy=None, output_dtypes=["int32", "int32", "float32", "float32"]
        )


@pytest.mark.parametrize(
    ("length", "max_answer"),
    [(1, 1), (1, 15), (2, 15), (5, 2), (14, 15), (15, 15), (16, 15), (17, 1), (31, 15), (1, None), (31, None)],
)
def test_the_best_span(length, max_answer):
    assert_decodes(random_logits(61, length, seed=length), random_logits(61, length, seed=97), max_answer, 1)


@pytest.mark.parametrize(("length", "max_answer"), [(1, 15), (5, 1), (5, 15), (17, 3), (1, None), (17, None)])
@pytest.mark.parametrize("n_best", [2, 20])
def test_the_best_spans_in_order(length, max_answer, n_best):
    assert_decodes(random_logits(13, length, seed=length), random_logits(13, length, seed=89), max_answer, n_best)


@pytest.mark.parametrize("max_answer", [1, 2, 15, 16])
@pytest.mark.parametrize("n_best", [1, 3, 50])
def test_many_spans_that_tie(max_answer, n_best):
    start = np.round(random_logits(29, 23, seed=5, scale=1.0))
    start[:, 19:] = PADDING
    end = np.zeros_like(start)
    end[:, 19:] = PADDING
    assert_decodes(start, end, max_answer, n_best, digits=6)


def test_confident_logits():
    assert_decodes(random_logits(61, 19, seed=1, scale=12.0), random_logits(61, 19, seed=2, scale=12.0), 15, 1)


def test_a_search_from_the_best_start_would_miss_it():
    """0.4 * 0.1 with the most probable start, 0.35 * 0.8 with the second one."""
    start, end = np.log([[0.25, 0.35, 0.4]]), np.log([[0.1, 0.8, 0.1]])
    first, last, probability = decode(start, end)
    assert (first, last) == (1, 1)
    np.testing.assert_allclose(probability, 0.35 * 0.8, rtol=1e-5)


@pytest.mark.parametrize("max_answer", [1, 2, 4, 15])
def test_the_last_token_allowed(max_answer):
    """The start is 2 and end logits grow with every token, so the answer has exactly max_answer tokens."""
    start, end = np.full((1, 23), -20.0), np.arange(23.0)[None]
    start[0, 2] = 20.0
    first, last, _ = decode(start, end, max_answer)
    assert (first, last) == (2, 2 + max_answer - 1)


@pytest.mark.parametrize("max_answer", [15, None])
def test_an_end_before_the_start_is_no_answer(max_answer):
    start, end = np.zeros((1, 7)), np.zeros((1, 7))
    start[0, 5], end[0, 1] = 9.0, 10.0
    assert_decodes(start, end, max_answer, 28)
    first, last, _ = decode(start, end, max_answer, 28)
    assert (first <= last).all()


@pytest.mark.parametrize("max_answer", [1, 3, 15, None])
def test_when_every_span_ties(max_answer):
    """The earlier start, then the shorter span."""
    assert_decodes(np.zeros((2, 5)), np.zeros((2, 5)), max_answer, 12)


def test_ties_between_starts_and_between_ends():
    levels = np.random.default_rng(6).integers(0, 2, (41, 9)) * -1.0
    assert_decodes(levels, levels, 4, 7, digits=5)
    assert_decodes(levels, np.zeros_like(levels), 4, 7, digits=5)
    assert_decodes(np.zeros_like(levels), levels, 4, 7, digits=5)


@pytest.mark.parametrize(("max_answer", "n_best"), [(15, 1), (3, 4), (None, 4)])
def test_padding_changes_nothing(max_answer, n_best):
    start, end = random_logits(17, 5, seed=1), random_logits(17, 5, seed=2)
    alone = decode(start, end, max_answer, n_best)
    for extra in (1, 40):
        padding = np.full((17, extra), PADDING)
        padded = decode(np.hstack([start, padding]), np.hstack([end, padding]), max_answer, n_best)
        np.testing.assert_array_equal(padded[0], alone[0])
        np.testing.assert_array_equal(padded[1], alone[1])
        np.testing.assert_allclose(padded[2], alone[2], rtol=1e-5)


@pytest.mark.parametrize(("length", "max_answer"), [(1, 15), (2, 15), (3, 1), (2, None)])
def test_fewer_spans_than_asked_for(length, max_answer):
    first, last, probability = decode(
        random_logits(2, length, seed=1), random_logits(2, length, seed=2), max_answer, n_best=9
    )
    spans = len(oracles.best_spans(np.zeros(length), np.zeros(length), max_answer or length))
    assert (probability[:, :spans] > 0.0).all()
    assert (probability[:, spans:] == 0.0).all()
    assert ((first >= 0) & (first < length) & (last >= 0) & (last < length)).all()


def test_fewer_real_spans_than_asked_for():
    """Two real tokens have three spans; spans over padding do not count."""
    start, end = np.full((1, 7), PADDING), np.full((1, 7), PADDING)
    start[0, :2], end[0, :2] = [1.0, 0.5], [0.2, 0.1]
    _, _, probability = decode(start, end, 15, n_best=5)
    assert (probability[0, :3] > 0.0).all()
    assert (probability[0, 3:] == 0.0).all()


def test_a_row_without_a_real_token_has_no_probable_span():
    start, end = random_logits(2, 7, seed=1), random_logits(2, 7, seed=2)
    start[1], end[1] = PADDING, PADDING
    _, _, probability = decode(start, end, 4, n_best=3)
    assert (probability[0] > 0.0).all()
    assert (probability[1] == 0.0).all()


def test_probabilities_of_all_spans():
    """If max_answer is the passage's length, probabilities sum to the mass of i <= j."""
    start, end = random_logits(1, 7, seed=1), random_logits(1, 7, seed=2)
    _, _, probability = decode(start, end, 7, n_best=28)
    expected = sum(p for _, _, p in oracles.best_spans(start[0], end[0], 7))
    np.testing.assert_allclose(probability.sum(), expected, rtol=1e-5)


def test_the_best_of_hardly_possible_spans():
    """Start and end are certain but in the wrong order: all probabilities underflow in float32."""
    start, end = np.zeros((1, 5)), np.zeros((1, 5))
    start[0], end[0] = [0.0, 1.0, 2.0, 3.0, 120.0], [120.0, 3.0, 5.0, 1.0, 0.0]
    first, last, _ = decode(start, end)
    (expected_first, expected_last, _), *_ = oracles.best_spans(start[0], end[0], 15)
    assert (first, last) == (expected_first, expected_last)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_decodes_in_float32(policy):
    """Logits that differ in the fifth digit: half precision would see ties."""
    start, end = 5.0 + random_logits(31, 17, seed=1, scale=1e-3), 5.0 + random_logits(31, 17, seed=2, scale=1e-3)
    wanted = decode(start, end, 4, 3)
    with dtype_policy(policy):
        found = decode(start, end, 4, 3)
        explicit = decode(start, end, 4, 3, dtype=policy)
    for spans in (found, explicit):
        np.testing.assert_array_equal(spans[0], wanted[0])
        np.testing.assert_array_equal(spans[1], wanted[1])


# === No answer ===


def score_by_search(start, end, max_answer, null, null_pairs):
    """The best allowed pair of logits, less the best pair that stands for "no answer"."""
    start, end, null = (values.astype("float64") for values in (start, end, null))
    best = max(start[i] + end[j] for i in range(len(start)) for j in range(i, min(i + max_answer, len(end))))
    pairs = [null[0] + null[1]]
    if null_pairs:
        pairs += [logit + null[1] for logit in start] + [null[0] + logit for logit in end]
    return best - max(pairs)


@pytest.mark.parametrize("null_pairs", [False, True])
@pytest.mark.parametrize("shift", [0.0, 5.0, -30.0])
@pytest.mark.parametrize(("length", "max_answer", "n_best"), [(1, 15, 1), (2, 15, 5), (11, 4, 7), (31, 15, 20)])
def test_the_score_is_the_distance_to_no_answer(length, max_answer, n_best, shift, null_pairs):
    start, end, null = (random_logits(17, size, seed=size + k) for k, size in enumerate((length, length, 2)))
    null += shift
    *spans, score = decode_all(start, end, max_answer, n_best, null, null_pairs=null_pairs)
    for row in range(17):
        wanted = score_by_search(start[row], end[row], max_answer, null[row], null_pairs)
        np.testing.assert_allclose(score[row], wanted, rtol=1e-5, atol=1e-5)
    for found, wanted in zip(spans, decode(start, end, max_answer, n_best), strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg="null logits changed the spans")


def test_a_pair_with_one_null_may_be_the_likeliest():
    """Start and null end are 5 + 3, the only span 5 - 9, both nulls -9 + 3."""
    start, end, null = np.array([[5.0]]), np.array([[-9.0]]), np.array([[-9.0, 3.0]])
    assert decode_all(start, end, null=null)[3] == pytest.approx(5 - 9 - (-9 + 3))
    assert decode_all(start, end, null=null, null_pairs=True)[3] == pytest.approx(5 - 9 - (5 + 3))


def test_without_null_logits_the_score_is_that_of_the_span():
    start, end = random_logits(13, 9, seed=1), random_logits(13, 9, seed=2)
    first, last, _, score = decode_all(start, end, 4, 5)
    rows = np.arange(13)
    np.testing.assert_allclose(score, start[rows, first[:, 0]] + end[rows, last[:, 0]], rtol=1e-5)


@pytest.mark.parametrize("null", [None, np.full((2, 2), -50.0), np.full((2, 2), PADDING)])
@pytest.mark.parametrize("null_pairs", [False, True])
def test_a_row_without_a_real_token_has_the_lowest_score(null, null_pairs):
    start, end = random_logits(2, 7, seed=1), random_logits(2, 7, seed=2)
    start[1], end[1] = PADDING, PADDING
    _, _, probability, score = decode_all(start, end, 4, 3, null, null_pairs=null_pairs)
    assert score[0] > -1e8
    assert (score[1], *probability[1]) == (PADDING, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("null_pairs", [False, True])
def test_padding_changes_nothing_beside_null_logits(null_pairs):
    start, end, null = random_logits(17, 5, seed=1), random_logits(17, 5, seed=2), random_logits(17, 2, seed=3)
    padding = np.full((17, 40), PADDING)
    alone = decode_all(start, end, 3, 4, null, null_pairs=null_pairs)
    padded = decode_all(np.hstack([start, padding]), np.hstack([end, padding]), 3, 4, null, null_pairs=null_pairs)
    for found, wanted in zip(padded, alone, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
