"""The order of training: every example once per epoch, in batches of like length, the same order from the same seed."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.features.length_buckets import LengthBucketSampler, _adding_up_to

# 103 distinct lengths in no order: the rank of an example tells its bucket.
LENGTHS = np.random.default_rng(5).permutation(103) + 7
RANKS = np.argsort(np.argsort(LENGTHS))


def bucket_boundaries(examples, buckets):
    """Ranks at which buckets begin, the first of them one larger where the division leaves a rest."""
    sizes = [examples // buckets + (number < examples % buckets) for number in range(buckets)]
    return [0, *itertools.accumulate(sizes)]


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=120),
    batch_size=st.integers(1, 40),
    buckets=st.integers(1, 12),
    seed=st.integers(0, 2**31 - 1),
    epoch=st.integers(0, 60),
)
def test_every_example_is_in_one_batch_of_an_epoch(lengths, batch_size, buckets, seed, epoch):
    lengths = np.array(lengths)
    order = LengthBucketSampler(
        lengths, batch_size, buckets, seed, question_lengths=lengths[::-1] if seed % 2 else None
    )
    batches = order.epoch(epoch)
    assert len(batches) == order.batches_per_epoch
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert {batch.dtype for batch in batches} == {np.dtype(np.int64)}
    assert all(1 <= len(batch) <= batch_size for batch in batches)


@pytest.mark.parametrize(("batch_size", "buckets"), [(4, 5), (7, 3), (11, 10), (3, 1), (103, 1), (1, 4)])
def test_a_batch_lies_inside_a_bucket_and_buckets_are_of_equal_population(batch_size, buckets):
    boundaries = bucket_boundaries(len(LENGTHS), buckets)
    sizes = {bucket: [] for bucket in range(buckets)}
    for batch in LengthBucketSampler(LENGTHS, batch_size, buckets).epoch(2):
        low, high = RANKS[batch].min(), RANKS[batch].max()
        bucket = next(number for number in range(buckets) if low < boundaries[number + 1])
        assert boundaries[bucket] <= low
        assert high < boundaries[bucket + 1]
        sizes[bucket].append(len(batch))
    for bucket, found in sizes.items():
        population = boundaries[bucket + 1] - boundaries[bucket]
        assert sum(found) == population
        assert len(found) == -(-population // batch_size)
        assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("examples", "batch_size", "buckets", "expected"),
    [(103, 10, 30, 11), (103, 60, 30, 2), (103, 104, 30, 1), (103, 3, 30, 18), (103, 4, 30, 26), (5, 5, 2, 1)],
)
def test_small_data_has_fewer_buckets_so_that_batches_are_full(examples, batch_size, buckets, expected):
    lengths = LENGTHS[:examples]
    ranks = np.argsort(np.argsort(lengths))
    boundaries = bucket_boundaries(examples, expected)
    order = LengthBucketSampler(lengths, batch_size, buckets)
    for batch in order.epoch(0):
        spanned = {int(np.searchsorted(boundaries, rank, side="right")) for rank in ranks[batch]}
        assert len(spanned) == 1
    sizes = np.diff(boundaries)
    assert order.batches_per_epoch == sum(-(-size // batch_size) for size in sizes)


@pytest.mark.parametrize("group_ids", [False, True])
@pytest.mark.parametrize("examples", [32, 33, 946, 1000, 2300, 19975])
def test_no_data_leaves_batches_half_empty(examples, group_ids):
    """Of 946 questions, buckets of one batch and a little more made 47 batches where 30 suffice."""
    blocks = np.arange(examples) // 5 if group_ids else None
    lengths = np.random.default_rng(6).integers(20, 400, examples)
    order = LengthBucketSampler(lengths if blocks is None else lengths[blocks], 32, 30, group_ids=blocks)
    fewest = -(-examples // 32)
    assert fewest <= order.batches_per_epoch <= 1.07 * fewest


def test_the_order_is_a_function_of_seed_and_epoch_alone():
    first, second = LengthBucketSampler(LENGTHS, 8, 4, seed=3), LengthBucketSampler(LENGTHS, 8, 4, seed=3)
    first.epoch(0)
    first.epoch(1)
    np.random.seed(0)
    assert as_lists(first.epoch(6)) == as_lists(second.epoch(6))
    assert as_lists(first.epoch(6)) == as_lists(first.epoch(6))


def test_epochs_and_seeds_differ():
    order, other = LengthBucketSampler(LENGTHS, 8, 4, seed=3), LengthBucketSampler(LENGTHS, 8, 4, seed=4)
    epochs = [as_lists(order.epoch(number)) for number in range(4)] + [as_lists(other.epoch(0))]
    for one, two in itertools.combinations(epochs, 2):
        assert one != two
        # Other batches, not only another order of the same ones.
        assert {frozenset(batch) for batch in one} != {frozenset(batch) for batch in two}


def test_buckets_alternate_at_random():
    order = LengthBucketSampler(LENGTHS, 4, 5, seed=1)
    boundaries = bucket_boundaries(len(LENGTHS), 5)
    buckets = [int(np.searchsorted(boundaries, RANKS[batch[0]], side="right")) for batch in order.epoch(0)]
    assert buckets != sorted(buckets)
    assert buckets != sorted(buckets, reverse=True)


def test_equal_lengths_are_no_trouble():
    order = LengthBucketSampler(np.full(20, 9), 4, 5)
    assert sorted(np.concatenate(order.epoch(0)).tolist()) == list(range(20))
    assert order.batches_per_epoch == 5


def padded_questions(batches, lengths):
    return sum(len(batch) * lengths[batch].max() for batch in batches) / len(lengths)


@pytest.mark.parametrize("group_ids", [None, np.arange(3000) // 5])
def test_batches_have_like_questions(group_ids):
    """By chance the longest of 75 questions has 30 tokens, twice as many as the mean."""
    random = np.random.default_rng(0)
    lengths = np.repeat(random.integers(50, 300, 600), 5)
    questions = random.poisson(11, 3000) + 1
    by_chance = LengthBucketSampler(lengths, 75, 3, group_ids=group_ids).epoch(1)
    order = LengthBucketSampler(lengths, 75, 3, group_ids=group_ids, question_lengths=questions)
    share = padded_questions(order.epoch(1), questions) / padded_questions(by_chance, questions)
    assert share < (0.75 if group_ids is None else 0.87)
    assert {frozenset(batch) for batch in as_lists(order.epoch(1))} != {
        frozenset(batch) for batch in as_lists(order.epoch(2))
    }


@pytest.mark.parametrize("examples", [160, 240, 320, 640])
def test_batches_of_small_buckets_differ_from_epoch_to_epoch(examples):
    """Two, three, four and eight batches in one bucket."""
    questions = np.arange(examples) % 29
    order = LengthBucketSampler(np.full(examples, 9), 80, 1, question_lengths=questions)
    one, two = ([set(batch) for batch in as_lists(order.epoch(number))] for number in (0, 1))
    assert max(len(batch & other) for batch in one for other in two) < 70


def test_questions_do_not_move_an_example_to_another_bucket():
    boundaries = bucket_boundaries(len(LENGTHS), 4)
    for batch in LengthBucketSampler(LENGTHS, 8, 4, question_lengths=LENGTHS[::-1] % 13).epoch(2):
        assert len(np.unique(np.searchsorted(boundaries, RANKS[batch], side="right"))) == 1


@settings(max_examples=100, deadline=None)
@given(
    passages=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=60),
    batch_size=st.integers(1, 40),
    buckets=st.integers(1, 12),
    seed=st.integers(0, 2**31 - 1),
)
def test_examples_of_a_group_stay_together(passages, batch_size, buckets, seed):
    """Passages of some length with some questions, the questions in no order."""
    random = np.random.default_rng(seed)
    group_ids = random.permutation(np.repeat(np.arange(len(passages)), [count for _, count in passages]))
    lengths = np.array([length for length, _ in passages])[group_ids]
    order = LengthBucketSampler(lengths, batch_size, buckets, seed, group_ids, random.integers(1, 9, len(lengths)))
    for epoch in (0, 3):
        batches = order.epoch(epoch)
        assert len(batches) == order.batches_per_epoch
        assert all(len(batch) for batch in batches)
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(group_ids)))
        passages_of = [set(group_ids[batch].tolist()) for batch in batches]
        assert sum(map(len, passages_of)) == len(passages)
        longest = max(count for _, count in passages)
        assert all(len(batch) <= max(batch_size, 2 * longest) + longest for batch in batches)


def test_batches_of_whole_passages_are_of_the_size_that_is_asked_for():
    random = np.random.default_rng(3)
    group_ids = np.repeat(np.arange(2000), random.integers(3, 7, 2000))
    order = LengthBucketSampler(random.integers(20, 400, 2000)[group_ids], 75, 3, 1, group_ids)
    sizes = [len(batch) for batch in order.epoch(0)]
    assert 68 < min(sizes) <= max(sizes) < 82
    assert abs(np.mean(sizes) - 75) < 3


@pytest.mark.parametrize("question_lengths", [None, np.random.default_rng(4).integers(3, 30, 9000)])
def test_batches_of_whole_passages_are_of_one_size_where_that_can_be(question_lengths):
    """Kernels are compiled for each size."""
    random = np.random.default_rng(3)
    group_ids = np.repeat(np.arange(2000), random.integers(1, 9, 2000))
    lengths = random.integers(20, 400, 2000)[group_ids]
    questions = None if question_lengths is None else question_lengths[: len(group_ids)]
    order = LengthBucketSampler(lengths, 75, 3, 1, group_ids, questions)
    for epoch in range(3):
        sizes = np.array([len(batch) for batch in order.epoch(epoch)])
        assert np.ptp(sizes) <= 2


@settings(max_examples=200, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9), total=st.integers(1, 40))
def test_sizes_add_up_as_far_as_they_can(sizes, total):
    """Against all choices that there are."""

    def highest(of):
        choices = itertools.product((0, 1), repeat=len(of))
        sums = (sum(itertools.compress(of, choice)) for choice in choices)
        return max(found for found in sums if found <= total)

    chosen = _adding_up_to(total, sizes)
    assert chosen == sorted(set(chosen))
    assert sum(sizes[place] for place in chosen) == highest(sizes)
    if chosen and highest(sizes) == total:
        assert highest(sizes[: chosen[-1]]) < total
