"""Smoothed targets and the loss against the formulas in float64, summed term by term."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.training.losses import SMOOTHINGS, StartEndLoss, smoothed_targets

POSITIONS = [0, 4, 2, 6, 0, 10, 1]
LENGTHS = [11, 5, 3, 7, 1, 11, 2]
WIDTH = 13
BOTH = ("start", "end")


def expected_targets(position, length, smoothing, amount, deviation, offset=0):
    target = np.zeros(WIDTH)
    if position < 0:
        return target
    target[position] = 1.0
    others = [column for column in range(offset, offset + length) if column != position]
    if smoothing == "none" or not others:
        return target
    weights = [1.0 if smoothing == "uniform" else np.exp(-((c - position) ** 2) / (2 * deviation**2)) for c in others]
    for column, weight in zip(others, weights, strict=True):
        target[column] = amount * weight / sum(weights)
    target[position] = 1 - amount
    return target


def call(*settings, compiled=False, dtype="int64", offset=0):
    positions, lengths = (np.array(values, dtype) for values in (POSITIONS, LENGTHS))
    arguments = (positions + offset, np.full_like(positions, offset), lengths, WIDTH, *settings)
    run = tf.function(smoothed_targets) if compiled else smoothed_targets
    return run(*arguments).numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(("amount", "deviation"), [(0.1, 1.0), (0.35, 2.5), (0.99, 0.7), (0.0, 1.0)])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("offset", [0, 2])
def test_targets_follow_the_formula(smoothing, amount, deviation, compiled, offset):
    targets = call(smoothing, amount, deviation, compiled=compiled, offset=offset)
    assert targets.dtype == np.float32
    rows = zip(POSITIONS, LENGTHS, strict=True)
    expected = np.array(
        [expected_targets(place + offset, length, smoothing, amount, deviation, offset) for place, length in rows]
    )
    np.testing.assert_allclose(targets, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(targets.sum(axis=1, dtype=np.float64), 1, rtol=1e-6)


def by_hand(position, length, width, offset=0):
    part = (tf.constant([value]) for value in (position, offset, length))
    return smoothed_targets(*part, width, "gaussian", 0.1, 1.0).numpy()


def test_the_gaussian_by_hand():
    # y = 1 of 3 tokens: both neighbours are at distance 1 and share the amount equally.
    np.testing.assert_allclose(by_hand(1, 3, 4), [[0.05, 0.9, 0.05, 0.0]], atol=1e-7)
    # y = 0: distances 1 and 2, exp(-1/2) and exp(-2).
    np.testing.assert_allclose(by_hand(0, 3, 3), [[0.9, 0.08175745, 0.01824255]], atol=1e-6)
    # The passage begins in column 2: what stands before it gets nothing.
    np.testing.assert_allclose(by_hand(2, 3, 6, offset=2), [[0, 0, 0.9, 0.08175745, 0.01824255, 0]], atol=1e-6)


def test_the_default_is_the_papers():
    np.testing.assert_array_equal(call(), call("gaussian", 0.1, 1.0))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_padding_is_exactly_zero(smoothing):
    padding = np.arange(WIDTH)[None] >= np.array(LENGTHS)[:, None]
    assert padding.any(axis=1).all()
    assert not call(smoothing, 0.5, 100.0)[padding].any()


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_passage_of_one_token_keeps_all_of_it(smoothing):
    assert call(smoothing)[4].tolist() == [1.0] + [0.0] * (WIDTH - 1)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_no_answer_has_no_target_among_the_tokens(smoothing):
    targets = smoothed_targets(np.array([-1, 1]), np.array([0, 0]), np.array([5, 5]), 6, smoothing, 0.5).numpy()
    assert not targets[0].any()
    assert targets[1].sum() == pytest.approx(1, rel=1e-6)


def test_a_deviation_too_small_for_any_neighbour_moves_nothing():
    np.testing.assert_array_equal(call("gaussian", 0.1, 1e-3), call("none"))


def test_far_tokens_of_a_long_passage_are_zero_and_not_nan():
    targets = by_hand(0, 5000, 5000)
    assert np.isfinite(targets).all()
    np.testing.assert_allclose(targets.sum(), 1, rtol=1e-6)
    assert targets[0, -1] == 0


def test_integers_of_either_width():
    np.testing.assert_array_equal(call("gaussian", dtype="int32"), call("gaussian", dtype="int64"))


def test_an_unknown_smoothing_is_refused():
    with pytest.raises(ValueError, match=r"smoothing must be one of .*gaussian.*Received: smoothing='cosine'"):
        call("cosine")


# === The loss ===


def one_target(y_true, row, name, smoothing, width, has_null):
    """The target distribution of one example by the documented rules, before groups are formed."""
    position, offset, length = (int(y_true[part][row]) for part in (name, "offset", "length"))
    target = np.zeros(width + 1)
    target[:width] = expected_targets(position, length, smoothing, 0.1, 1.0, offset)[:width]
    target[width] = position < 0
    if "soft_labels" in y_true:
        labels = np.asarray(y_true["soft_labels"], np.float64)[row, BOTH.index(name)]
        kept = len(labels) // 2
        target *= 1 - labels[kept:].sum()
        for column, probability in zip(labels[:kept].astype(int), labels[kept : 2 * kept], strict=True):
            target[column] += probability
        target[width] += labels[-1]
    return target if has_null else target[:width]


def expected_loss(y_true, y_pred, smoothing="gaussian", shared_norm=0.0):
    """Cross-entropy of start and end, example by example, and of answers among all tokens of their group."""
    real = [row for row, length in enumerate(y_true["length"]) if length]
    has_null, total = "null_logits" in y_pred, 0.0
    for number, name in enumerate(BOTH):
        tokens = np.asarray(y_pred[f"{name}_logits"], np.float64)
        width = tokens.shape[1]
        for row in real:
            target = one_target(y_true, row, name, smoothing, width, has_null)
            logits = np.append(tokens[row], y_pred["null_logits"][row][number] if has_null else [])
            total -= (target * log_softmax(logits)).sum()
            if shared_norm and y_true[name][row] >= 0:
                group = [other for other in real if y_true["group_ids"][other] == y_true["group_ids"][row]]
                shared = log_softmax(tokens[group].reshape(-1)).reshape(len(group), width)[group.index(row)]
                total -= shared_norm * (target[:width] * shared).sum()
    return total / len(real)


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def targets_of(starts, lengths, ends=None, offsets=None, **others):
    """Targets of the loss; an answer ends where it starts unless said otherwise."""
    starts = np.array(starts)
    parts = {"start": starts, "end": starts if ends is None else np.array(ends)}
    parts |= {"offset": np.zeros_like(starts) if offsets is None else np.array(offsets), "length": np.array(lengths)}
    return parts | others


def outputs_of(lengths, width, offsets=None, null=False, seed=0):
    """Random logits, masked outside of the passages."""
    random = np.random.default_rng(seed)
    offsets = np.zeros(len(lengths), int) if offsets is None else np.array(offsets)
    columns = np.arange(width)[None]
    outside = (columns < offsets[:, None]) | (columns >= (offsets + lengths)[:, None])
    outputs = {}
    for name in BOTH:
        logits = random.normal(size=(len(lengths), width)).astype("float32") * 2
        outputs[f"{name}_logits"] = np.where(outside, np.float32(-1e9), logits)
    return outputs | ({"null_logits": random.normal(size=(len(lengths), 2)).astype("float32")} if null else {})


def with_rows(parts, count, fill):
    """Adds examples that only fill the batch up, with targets of 0 as `array_batches` has them."""
    return {name: np.concatenate([values, fill(values)[:count]]) for name, values in parts.items()}


def loss_and_gradients(loss, y_true, y_pred):
    variables = {name: tf.Variable(values) for name, values in y_pred.items()}
    with tf.GradientTape() as tape:
        found = loss(y_true, variables)
    return float(found), {name: part.numpy() for name, part in tape.gradient(found, variables).items()}


def validate_gradients(loss, y_true, y_pred, smoothing, shared_norm=0.0):
    """Compares every gradient with finite differences of the oracle."""
    _, gradients = loss_and_gradients(loss, y_true, y_pred)
    for name, values in y_pred.items():
        for index in np.ndindex(values.shape):
            if values[index] < -1e8:
                assert gradients[name][index] == 0
                continue
            up, down = ({**y_pred, name: np.array(values, np.float64)} for _ in range(2))
            up[name][index] += 1e-5
            down[name][index] -= 1e-5
            losses = [expected_loss(y_true, moved, smoothing, shared_norm) for moved in (up, down)]
            expected = (losses[0] - losses[1]) / 2e-5
            assert gradients[name][index] == pytest.approx(expected, abs=2e-5), (name, index)


END_POSITIONS = [3, 4, 2, 6, 0, 10, 1]


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_loss_is_the_mean_cross_entropy(smoothing):
    y_true, y_pred = targets_of(POSITIONS, LENGTHS, END_POSITIONS), outputs_of(LENGTHS, WIDTH)
    found = float(StartEndLoss(smoothing)(y_true, y_pred))
    assert found == pytest.approx(expected_loss(y_true, y_pred, smoothing), rel=1e-6)
    # Examples that only fill a batch up, whatever their logits are.
    filled = with_rows(y_true, 4, np.zeros_like), with_rows(y_pred, 4, lambda logits: logits * 3 + 1)
    assert float(StartEndLoss(smoothing)(*filled)) == pytest.approx(found, rel=1e-6)


def test_two_of_three_tokens_by_hand():
    # Start: p = 1/4, 1/2, 1/4, the answer in the middle; end: p = 1/2, 1/4, 1/4, the answer at the end.
    y_pred = {
        "start_logits": np.log(np.array([[1.0, 2.0, 1.0]], "float32")),
        "end_logits": np.log(np.array([[2.0, 1.0, 1.0]], "float32")),
    }
    found = StartEndLoss("none")(targets_of([1], [3], [2]), y_pred)
    assert float(found) == pytest.approx(np.log(2) + np.log(4), rel=1e-6)


def test_no_answer_is_one_more_class():
    # Tokens of weight 1, 2, 1 and a null of weight 4: p(null) = 1/2, p(token 1) = 1/4, for start and end.
    logits = np.log(np.array([[1.0, 2.0, 1.0]] * 2, "float32"))
    y_pred = {"start_logits": logits, "end_logits": logits, "null_logits": np.full((2, 2), np.log(4.0), "float32")}
    found = StartEndLoss("none")(targets_of([-1, 1], [3, 3]), y_pred)
    assert float(found) == pytest.approx((2 * np.log(2) + 2 * np.log(4)) / 2, rel=1e-6)


STARTS, ENDS = [2, -1, 4, -1, 0, 1], [3, -1, 4, -1, 2, 1]
SIZES, OFFSETS = [5, 3, 7, 6, 4, 2], [1, 2, 0, 0, 0, 1]


def soft_labels(null):
    """Half of the target, for all but one example: two tokens each, one of them twice, and "no answer"."""
    random = np.random.default_rng(8)
    columns = random.integers(np.array(OFFSETS)[:, None, None], np.add(OFFSETS, SIZES)[:, None, None], (6, 2, 2))
    columns = np.concatenate([columns, columns[..., :1]], axis=-1)
    probabilities = 0.5 * random.dirichlet(np.ones(4 if null else 3), (6, 2))
    if not null:
        probabilities = np.pad(probabilities, ((0, 0), (0, 0), (0, 1)))
    probabilities[4] = 0
    return np.concatenate([columns, probabilities], axis=-1).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("labels", [None, "tokens", "tokens and null"])
@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize("groups", [None, [0, 0, 1, 2, 2, 3], [5, 5, 5, 1, 1, 1], [0] * 6, [0, 1, 0, 1, 2, 2]])
def test_the_loss_of_every_combination(groups, has_null, labels, smoothing):
    """Offsets, no answer, soft labels and groups; the group [1, 1] of the last case has no answer at all."""
    others = {} if groups is None else {"group_ids": np.array(groups)}
    shared_norm = 0.7 if groups else 0.0
    others |= {} if labels is None else {"soft_labels": soft_labels("null" in labels)}
    y_true = targets_of(STARTS, SIZES, ENDS, OFFSETS, **others)
    y_pred = outputs_of(SIZES, WIDTH - 4, OFFSETS, has_null)
    loss = StartEndLoss(smoothing, shared_norm=shared_norm)
    found, gradients = loss_and_gradients(loss, y_true, y_pred)
    assert found == pytest.approx(expected_loss(y_true, y_pred, smoothing, shared_norm), rel=1e-5)
    filled = with_rows(y_true, 3, np.zeros_like), with_rows(y_pred, 3, lambda logits: np.abs(logits) + 1)
    again, others = loss_and_gradients(loss, *filled)
    assert again == pytest.approx(found, rel=1e-5)
    for name, gradient in gradients.items():
        assert np.isfinite(others[name]).all()
        assert not others[name][6:].any()
        np.testing.assert_allclose(others[name][:6], gradient, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize("groups", [None, [0, 0, 1, 2, 2, 3], [0, 1, 0, 1, 2, 2]])
def test_gradients_are_those_of_the_formula(groups, has_null):
    """Where the targets do not sum to 1, too: no answer without a null head, and a teacher's "no answer"."""
    others = {} if groups is None else {"group_ids": np.array(groups)}
    y_true = targets_of(STARTS, SIZES, ENDS, OFFSETS, soft_labels=soft_labels(null=True), **others)
    y_pred = outputs_of(SIZES, WIDTH - 4, OFFSETS, has_null)
    shared_norm = 0.7 if groups else 0.0
    validate_gradients(StartEndLoss(shared_norm=shared_norm), y_true, y_pred, "gaussian", shared_norm)


def test_a_shared_norm_by_hand():
    """Two passages of two tokens, weights 1, 2 and 4, 1; the answer, in the second one, has p = 4 / 5 and 4 / 8."""
    logits = np.log(np.array([[1.0, 2.0], [4.0, 1.0]], "float32"))
    y_pred = {"start_logits": logits, "end_logits": logits}
    y_true = targets_of([-1, 0], [2, 2], group_ids=np.array([7, 7]))
    # Start and end of one question, averaged over two examples.
    found = float(StartEndLoss("none", shared_norm=0.5)(y_true, y_pred))
    assert found == pytest.approx(2 * (np.log(5 / 4) + 0.5 * np.log(2)) / 2, rel=1e-6)


def test_null_logits_have_no_part_in_a_shared_norm():
    """With a null of weight 3 the answer has p = 4 / 8 alone, and that of the wrong passage 3 / 6."""
    logits, null = np.log(np.array([[1.0, 2.0], [4.0, 1.0]], "float32")), np.log(np.full((2, 2), 3.0, "float32"))
    y_pred = {"start_logits": logits, "end_logits": logits, "null_logits": null}
    y_true = targets_of([-1, 0], [2, 2], group_ids=np.array([0, 0]))
    found = float(StartEndLoss("none", shared_norm=1.0)(y_true, y_pred))
    assert found == pytest.approx(2 * (np.log(2) + np.log(2) + np.log(2)) / 2, rel=1e-6)


def test_a_group_without_an_answer_has_no_shared_norm():
    y_pred = outputs_of([3, 4], 4, null=True)
    y_true = targets_of([-1, -1], [3, 4], group_ids=np.array([1, 1]))
    assert float(StartEndLoss(shared_norm=1.0)(y_true, y_pred)) == float(StartEndLoss()(y_true, y_pred))


def test_without_a_shared_norm_groups_are_of_no_effect():
    y_true, y_pred = targets_of(STARTS, SIZES, ENDS, OFFSETS), outputs_of(SIZES, WIDTH - 4, OFFSETS, True)
    groups = {"group_ids": np.array([0, 0, 1, 2, 2, 3])}
    assert float(StartEndLoss()(y_true | groups, y_pred)) == float(StartEndLoss()(y_true, y_pred))


def test_rows_that_fill_up_have_no_gradient():
    y_pred = outputs_of([5, 5, 5], 5)
    _, gradients = loss_and_gradients(StartEndLoss(), targets_of([1, 0, 4], [5, 0, 5]), y_pred)
    for gradient in gradients.values():
        assert not gradient[1].any()
        assert gradient[[0, 2]].all()


def test_a_batch_that_only_fills_up_is_no_trouble():
    y_true, y_pred = targets_of([0, 0], [0, 0], group_ids=np.array([0, 0])), outputs_of([0, 0], 4, null=True)
    found, gradients = loss_and_gradients(StartEndLoss(shared_norm=1.0), y_true, y_pred)
    assert found == 0
    assert not any(gradient.any() for gradient in gradients.values())


@pytest.mark.slow
@pytest.mark.parametrize("has_null", [False, True])
def test_the_loss_inside_a_graph_of_any_size(has_null):
    y_true = targets_of(STARTS, SIZES, ENDS, OFFSETS, group_ids=np.array([0, 0, 1, 2, 2, 3]))
    y_pred = outputs_of(SIZES, WIDTH - 4, OFFSETS, has_null)
    specs = [
        {name: tf.TensorSpec([None, *[None] * (part.ndim - 1)], part.dtype) for name, part in parts.items()}
        for parts in (y_true, y_pred)
    ]
    found = tf.function(StartEndLoss(shared_norm=0.5), input_signature=specs)(y_true, y_pred)
    assert float(found) == pytest.approx(expected_loss(y_true, y_pred, shared_norm=0.5), rel=1e-5)


def test_logits_of_few_bits_are_added_up_in_float32():
    y_true, y_pred = targets_of(STARTS, SIZES, ENDS, OFFSETS), outputs_of(SIZES, WIDTH - 4, OFFSETS, True)
    rounded = {name: tf.cast(values, "bfloat16") for name, values in y_pred.items()}
    found = StartEndLoss()(y_true, rounded)
    assert found.dtype == tf.float32
    exact = {name: tf.cast(values, "float64").numpy() for name, values in rounded.items()}
    assert float(found) == pytest.approx(expected_loss(y_true, exact), rel=1e-5)


def test_the_number_of_examples_that_count():
    assert float(StartEndLoss().count(targets_of([1, -1, 0, 0], [5, 3, 0, 2]))) == 3


def test_the_loss_goes_through_its_configuration():
    loss = keras.losses.deserialize(keras.losses.serialize(StartEndLoss("uniform", 0.2, 2.0, 0.5)))
    assert (loss.smoothing, loss.amount, loss.deviation, loss.shared_norm) == ("uniform", 0.2, 2.0, 0.5)
