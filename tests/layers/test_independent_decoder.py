"""IndependentDecoder: compared with a search through every pair of a start and an end."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import IndependentDecoder


def decode(logits, n_best, **config):
    return layer_testing.run(IndependentDecoder(n_best, **config), logits)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_best", [1, 3, 7])
def test_the_best_pairs_are_found(seed, n_best):
    logits = {name: layer_testing.normal(3, 8, seed=seed + k) for k, name in enumerate(("start_logits", "end_logits"))}
    first, last, probability, score = decode(logits, n_best)
    for row in range(3):
        pairs = oracles.spans_in_order(*(values[row] for values in logits.values()), lambda i, j: True)[:n_best]
        assert [(i, j) for i, j, _ in pairs] == list(zip(first[row], last[row], strict=True))
        np.testing.assert_allclose(probability[row], [p for _, _, p in pairs], rtol=1e-5)
        np.testing.assert_allclose(score[row], sum(values[row].max() for values in logits.values()), rtol=1e-5)


def test_an_end_may_come_first():
    start, end = np.array([[0.0, 0.0, 9.0]], "float32"), np.array([[9.0, 0.0, 0.0]], "float32")
    first, last, *_ = decode({"start_logits": start, "end_logits": end}, 1)
    assert (first[0, 0], last[0, 0]) == (2, 0)


def test_padding_and_surplus_have_no_probability():
    lowest = np.float32(-1e9)
    logits = np.array([[1.0, 2.0, lowest, lowest], [lowest] * 4], "float32")
    first, last, probability, score = decode({"start_logits": logits, "end_logits": logits}, 6)
    assert ((first >= 0) & (first < 4) & (last >= 0) & (last < 4)).all()
    np.testing.assert_allclose(probability.sum(axis=1), [1.0, 0.0], atol=1e-6)
    assert (probability[0, 4:] == 0).all()
    assert score[1] == lowest


def test_conformance():
    logits = {name: layer_testing.normal(2, 7, seed=k) for k, name in enumerate(("start_logits", "end_logits"))}
    dtypes = ["int32", "int32", "float32", "float32"]
    layer_testing.run_layer_test(IndependentDecoder, {"n_best": 3}, logits, policy=None, output_dtypes=dtypes)


def test_no_pair_at_all_is_refused():
    with pytest.raises(ValueError, match="n_best must be at least 1"):
        IndependentDecoder(0)
