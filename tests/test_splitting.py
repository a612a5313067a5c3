"""A batch split by passage into complete parts: joined again they are the batch, and the rest is padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabir_tf.pipelines.features.features import Features, Segments
from fabir_tf.pipelines.features.splitting import passages_of, split_batches, with_empty_example
from fabir_tf.pipelines.features.tensor_batches import make_batches

# Passages of 5, 3 and 7 tokens, and questions of 2, 4, 1, 3, 2 and 6; the unique tokens are 1 to 9.
PASSAGES = ((0, 5), (5, 3), (8, 7))
QUESTIONS = ((15, 2), (17, 4), (21, 1), (22, 3), (25, 2), (27, 6))
OF_QUESTION = np.array([0, 1, 0, 2, 1, 0])


def make_features():
    tokens = np.random.default_rng(3).integers(1, 10, 33).astype(np.int32)
    starts, lengths = np.array(PASSAGES)[OF_QUESTION].T
    question_starts, question_lengths = np.array(QUESTIONS).T
    segments = {"passage": Segments(starts, lengths), "question": Segments(question_starts, question_lengths)}
    unique = {"words": np.arange(100, 110, dtype=np.int32)}
    return Features(tokens, unique, segments, OF_QUESTION, lengths, np.zeros(6, np.int64))


def rows(inputs, targets):
    """What each question of a batch reads, without padding, and its target."""
    inputs = {name: np.asarray(values) for name, values in inputs.items()}
    found = []
    for question, passage in enumerate(inputs["passage_index"]):
        texts = (inputs["passage_token_index"][passage], inputs["question_token_index"][question])
        words = (inputs["unique_words"][text] for text in texts)
        # Of the padding.
        texts = tuple(tuple(int(word) for word in text if word != 100) for text in words)
        found.append((*texts, *(float(values[question]) for values in targets.values())))
    return found


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_the_rows_of_the_parts_are_those_of_the_batch(parts):
    features, batches = make_features(), [np.array([4, 0, 3, 5, 1, 2]), np.array([2, 3])]
    targets = {"start": np.arange(6, dtype=np.int32), "length": features.passage_lengths.astype(np.int32)}
    more, more_targets = with_empty_example(features, targets)
    split = list(split_batches(batches, passages_of(features), parts))
    found = list(make_batches(more, split, more_targets))
    assert len(found) == parts * len(batches)
    for number, whole in enumerate(make_batches(features, batches, targets)):
        of_parts = [rows(*part) for part in found[number * parts : (number + 1) * parts]]
        assert len({len(part) for part in of_parts}) == 1
        joined = [row for part in of_parts for row in part]
        padding = ((), (), 0.0, 0.0)
        assert sorted(row for row in joined if row != padding) == sorted(rows(*whole))
        # Every passage is read by one part only.
        texts = [{row[0] for row in part if row != padding} for part in of_parts]
        assert sum(map(len, texts)) == len(set().union(*texts))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_parts_hold_every_example_once_and_whole_passages(passages, parts, random):
    passages, empty = np.array(passages), len(passages)
    batch = np.array(random.sample(range(empty), random.randint(1, empty)))
    found = list(split_batches([batch], passages, parts))
    assert len(found) == parts
    assert len({len(part) for part in found}) == 1 and found[0].dtype == batch.dtype
    real = [part[part != empty] for part in found]
    assert sorted(np.concatenate(real)) == sorted(batch)
    assert sum(len(np.unique(passages[part])) for part in real) == len(np.unique(passages[batch]))
    for part, examples in zip(found, real, strict=True):
        # The batch's order, and padding at the end.
        assert examples.tolist() == [example for example in batch if example in examples]
        assert part.tolist() == examples.tolist() + [empty] * (len(part) - len(examples))
    # No passage less would make the fullest part smaller.
    counts = np.unique(passages[batch], return_counts=True)[1]
    sizes = [len(part) for part in real]
    assert max(sizes) - min(sizes) <= max(counts)


def test_the_passage_of_a_group_is_that_of_its_first():
    features = make_features()
    assert passages_of(features).tolist() == [0, 5, 0, 8, 5, 0]
    assert passages_of(features, np.array([0, 0, 2, 2, 4, 5])).tolist() == [0, 0, 0, 0, 5, 0]


def test_without_passages_of_their_own_examples_are_split_one_by_one():
    features = make_features()
    joined = Features(
        features.tokens,
        features.unique,
        {"sequence": features.segments["question"]},
        features.passages,
        features.passage_lengths,
        features.logit_offsets,
    )
    assert len(set(passages_of(joined).tolist())) == 6
    assert passages_of(joined, np.array([7, 7, 3, 3, 9, 9])).tolist() == [1, 1, 0, 0, 2, 2]
