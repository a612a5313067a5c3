"""Batches: what stands in them, built a second time by plain NumPy loops."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tiny import token_inputs

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.features import batch_planning
from fabir_tf.pipelines.features.array_batches import (
    Shape,
    array_batches,
    bucket_shapes,
    rounded,
    rounded_rows,
    shape_of,
)
from fabir_tf.pipelines.features.batch_planning import (
    BATCH_EXAMPLES,
    BATCH_PADDING,
    BATCH_PAIRS,
    BATCH_TOKENS,
    LONGEST_PASSAGE,
    fits,
    reading_batches,
    reading_step,
)
from fabir_tf.pipelines.features.features import Examples, Features, Segments
from fabir_tf.pipelines.features.tensor_batches import batches_to_read, make_batches, unique_segments
from fabir_tf.pipelines.text import two_texts
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor

WIDTH = 7
PASSAGES = ("one two three", "the owl hunts at night in the wood", "two owls", "a b c d e f g h i j k l m")
QUESTIONS = (
    ("who hunts in the wood ?", 1),
    ("", 3),
    ("owls", 2),
    ("what comes after three of them here", 0),
    ("a z", 3),
)
DATA = SquadData(
    "hand-made",
    PASSAGES,
    ("",) * len(PASSAGES),
    tuple(Question(f"q{number}", text, passage, ()) for number, (text, passage) in enumerate(QUESTIONS)),
)
VOCABULARY = Vocabulary(("owl", "hunts"), tuple("abcdeghlmnotwu"), ["the", "two", "three", "a", "k", "b", "who"])
PROCESSOR = WordProcessor(VOCABULARY, max_word_characters=WIDTH)
TOKENIZED = PROCESSOR.tokenize(DATA)
# Whole passages and windows, in no order; all lengths differ from the lengths of the questions beside them.
EXAMPLES = Examples(
    questions=np.array([3, 0, 1, 4, 1, 2, 0]),
    offsets=np.array([0, 0, 5, 9, 0, 0, 3]),
    lengths=np.array([3, 8, 6, 4, 13, 2, 5]),
)


def expected_batch(rows):
    """The inputs of a batch, token by token."""
    texts = {"passage": [], "question": []}
    for row in rows:
        text, passage = QUESTIONS[EXAMPLES.questions[row]]
        begin, count = EXAMPLES.offsets[row], EXAMPLES.lengths[row]
        texts["passage"].append(tokenize(PASSAGES[passage]).words[begin : begin + count])
        texts["question"].append(tokenize(text).words)
    inputs = {}
    for name, tokens in texts.items():
        width = max(1, *(len(words) for words in tokens), 1)
        words = np.zeros((len(rows), width), np.int32)
        characters = np.zeros((len(rows), width, WIDTH), np.int32)
        for i, row in enumerate(tokens):
            for j, token in enumerate(row):
                words[i, j] = VOCABULARY.word_ids([token])[0]
                characters[i, j] = VOCABULARY.character_ids([token], WIDTH)[0]
        inputs |= {f"{name}_words": words, f"{name}_characters": characters}
    return inputs


def make_features():
    return PROCESSOR.features(TOKENIZED, EXAMPLES)


def dataset(batches, targets):
    return make_batches(make_features(), [np.array(batch, np.int64) for batch in batches], targets)


def read(batches):
    """The batches as they are answered, as arrays."""
    found = batches_to_read(make_features(), [np.array(batch, np.int64) for batch in batches])
    return [token_inputs({name: values.numpy() for name, values in inputs.items()}) for inputs in found]


@pytest.fixture
def exact_lengths(monkeypatch):
    """Small batches as long as their longest text, as large ones are."""
    monkeypatch.setattr(batch_planning, "SMALL_BATCH", 0)


def for_each_question(inputs):
    """A batch's inputs with the passage of each question beside it."""
    index = inputs.pop("passage_index")
    return {name: array[index] if name.startswith("passage") else array for name, array in inputs.items()}


@pytest.mark.parametrize("rows", [[0], [4], [1, 0, 5], [6, 2, 3, 1], [0, 1, 2, 3, 4, 5, 6], [5, 5]])
def test_a_batch_is_what_the_loops_build(rows, exact_lengths):
    (inputs,) = read([rows])
    inputs = for_each_question(inputs)
    expected = expected_batch(rows)
    assert inputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(inputs[name], array, err_msg=name)
        assert inputs[name].dtype == np.int32


def test_the_oracle_knows_the_lengths_by_hand():
    inputs = expected_batch([6, 2, 3, 1])
    assert inputs["passage_words"].shape == (4, 8)
    assert inputs["question_words"].shape == (4, 6)
    # owl 2, hunts 3, the 4, two 5, three 6, a 7: "at" is unknown, "the owl hunts" lies before the window
    assert inputs["passage_words"][3].tolist() == [4, 2, 3, 1, 1, 1, 4, 1]
    assert inputs["passage_words"][0].tolist() == [1, 1, 1, 4, 1, 0, 0, 0]


def test_a_blank_question_is_one_column_of_padding(exact_lengths):
    (inputs,) = read([[2, 4]])
    assert inputs["question_words"].tolist() == [[0], [0]]
    assert inputs["question_characters"].tolist() == [[[0] * WIDTH]] * 2
    assert inputs["passage_words"].shape == (2, 13)


def test_the_last_texts_window_is_not_read_past_the_end(exact_lengths):
    # "a z" is the last text of all: padding beside a longer question must not run out of the array.
    (inputs,) = read([[3, 0]])
    np.testing.assert_array_equal(inputs["question_words"], expected_batch([3, 0])["question_words"])
    assert inputs["question_words"].tolist() == [[7, 1, 0, 0, 0, 0, 0], [1, 1, 1, 6, 1, 1, 1]]


@pytest.mark.parametrize(
    ("rows", "passages", "index"),
    [
        ([0], [0], [0]),
        ([5, 5, 5], [5], [0, 0, 0]),
        # Two questions about one passage, read whole and from its tenth token on.
        ([4, 3, 4, 1, 3], [4, 3, 1], [0, 1, 0, 2, 1]),
        ([0, 6, 2, 0, 1], [0, 6, 2, 1], [0, 1, 2, 0, 3]),
    ],
)
def test_a_batch_has_each_passage_window_once(rows, passages, index, exact_lengths):
    (inputs,) = read([rows])
    assert inputs.pop("passage_index").tolist() == index
    expected = {"passage": expected_batch(passages), "question": expected_batch(rows)}
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, expected[name.split("_")[0]][name], err_msg=name)


@pytest.mark.parametrize(("few", "step"), [(0, 1), (8, 16)])
def test_a_unique_token_is_in_a_batch_once(few, step, monkeypatch):
    monkeypatch.setattr(batch_planning, "SMALL_BATCH", few)
    rows = [1, 0, 5, 3]
    (inputs,) = batches_to_read(make_features(), [np.array(rows, np.int64)])
    tokens = {token for row in rows for token in tokenize(QUESTIONS[EXAMPLES.questions[row]][0]).words}
    for row in rows:
        begin, passage = EXAMPLES.offsets[row], QUESTIONS[EXAMPLES.questions[row]][1]
        tokens |= {*tokenize(PASSAGES[passage]).words[begin : begin + EXAMPLES.lengths[row]]}
    used = np.unique(
        np.concatenate([inputs[f"{text}_token_index"].numpy().ravel() for text in ("passage", "question")])
    )
    # Padding is a unique token, too; more of it follows those in use.
    assert used.tolist() == [*range(len(tokens) + 1)]
    assert len(inputs["unique_words"]) == step * math.ceil(len(used) / step)
    assert not inputs["unique_characters"].numpy()[len(used) :].any()


def test_segments_with_the_same_start_are_kept_apart():
    starts, lengths = tf.constant([7, 7, 0, 7, 0], tf.int64), tf.constant([3, 9, 3, 3, 9], tf.int64)
    distinct, index = unique_segments(starts, lengths)
    assert [part.numpy().tolist() for part in distinct] == [[7, 7, 0, 0], [3, 9, 3, 9]]
    assert index.numpy().tolist() == [0, 1, 2, 0, 3]


def test_a_long_question_is_truncated(exact_lengths, monkeypatch):
    monkeypatch.setattr(two_texts, "LONGEST_QUESTION", 2)
    (inputs,) = read([[0, 5]])
    np.testing.assert_array_equal(inputs["question_words"], expected_batch([0, 5])["question_words"][:, :2])


def test_lengths_are_left_open():
    spec, _ = dataset([[0], [1, 2]], {"single": np.arange(7)}).element_spec
    shapes = {name: part.shape.as_list() for name, part in spec.items()}
    assert shapes == {
        "passage_token_index": [None, None],
        "question_token_index": [None, None],
        "unique_words": [None],
        "unique_characters": [None, WIDTH],
        "passage_index": [None],
    }


def test_batches_keep_their_order_at_every_pass():
    rows = np.random.default_rng(1).integers(0, 7, 40)
    built = dataset([[row] for row in rows], {"row": np.arange(7)})
    for _ in range(2):
        for row, (inputs, targets) in zip(rows, built.as_numpy_iterator(), strict=True):
            assert targets["row"].tolist() == [row]
            validate_rounded_up(token_inputs(inputs), [row], 4)


def test_no_batches():
    assert list(dataset([], {"single": np.arange(7)})) == []
    assert read([]) == []
    assert list(array_batches(make_features(), [])) == []


def test_targets_are_those_of_the_rows():
    targets = {"pairs": np.arange(14).reshape(7, 2), "single": np.arange(7)}
    found = list(dataset([[6, 0], [4, 2, 5]], targets).as_numpy_iterator())
    assert [part["single"].tolist() for _, part in found] == [[6, 0], [4, 2, 5]]
    assert [part["pairs"].tolist() for _, part in found] == [[[12, 13], [0, 1]], [[8, 9], [4, 5], [10, 11]]]


def validate_rounded_up(inputs, rows, step):
    inputs = for_each_question(inputs)
    for name, array in expected_batch(rows).items():
        longest = array.shape[1]
        assert inputs[name].shape[1] == step * math.ceil(longest / step)
        np.testing.assert_array_equal(inputs[name][:, :longest], array, err_msg=name)
        assert not inputs[name][:, longest:].any()


@pytest.mark.parametrize("rows", [[6, 0], [4, 2, 5], [3]])
def test_lengths_in_training_are_rounded_up(rows):
    """Kernels are compiled for each length."""
    ((inputs, _),) = dataset([rows], {"single": np.arange(7)}).as_numpy_iterator()
    validate_rounded_up(token_inputs(inputs), rows, 4)


@pytest.mark.parametrize(("rows", "step"), [([3], 16), ([6, 0], 16), ([4] * 8, 16), ([4] * 9, 1)])
def test_lengths_of_few_questions_are_rounded_up(rows, step):
    (inputs,) = read([rows])
    validate_rounded_up(inputs, rows, step)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 32), (1, 32), (32, 32), (33, 64), (255, 256), (256, 256), (257, 320), (512, 512), (513, 768), (4000, 4096)],
)
def test_sizes_are_rounded_up(size, expected):
    assert rounded(size) == expected


@pytest.mark.parametrize(("count", "expected"), [(1, 16), (16, 16), (17, 32), (75, 80)])
def test_numbers_of_texts_are_rounded_up(count, expected):
    assert rounded_rows(count) == expected


def test_array_batches_are_the_same_batches_padded_to_few_sizes():
    batches = [np.array(rows, np.int64) for rows in ([1, 0, 5], [4, 3, 4, 1, 3], [6], [*range(7)] * 6)]
    targets = {"pairs": np.arange(14).reshape(7, 2) + 1}
    found = list(array_batches(make_features(), batches, targets))
    assert len(found) == len(batches)
    for batch, (inputs, labels) in zip(batches, found, strict=True):
        count = rounded_rows(len(batch))
        assert len(inputs["unique_words"]) == sum(
            inputs[f"{text}_token_index"].size for text in ("passage", "question")
        )
        inputs = token_inputs(inputs)
        assert len(inputs["passage_index"]) == len(inputs["question_words"]) == len(labels["pairs"]) == count
        np.testing.assert_array_equal(labels["pairs"][: len(batch)], targets["pairs"][batch])
        assert not labels["pairs"][len(batch) :].any()
        assert not inputs["question_words"][len(batch) :].any()
        assert len(inputs["passage_words"]) == rounded_rows(len(set(batch.tolist())))
        inputs = for_each_question(inputs)
        for name, array in expected_batch(batch).items():
            assert inputs[name].shape[1] == rounded(array.shape[1])
            np.testing.assert_array_equal(inputs[name][: len(batch), : array.shape[1]], array, err_msg=name)
            assert not inputs[name][: len(batch), array.shape[1] :].any()
            assert inputs[name].dtype == np.int32


def test_shapes_that_cost_least_together_are_put_together():
    """Worked out by hand: the two shapes of 32 tokens differ by one passage row, all others by much more."""
    a, b, c = Shape(32, 16, (32, 16)), Shape(32, 32, (32, 16)), Shape(32, 16, (400, 16))
    assert bucket_shapes([a, b, c, c], most=3) == [a, b, c]
    assert bucket_shapes([a, b, c, c], most=2) == [b, c]
    assert bucket_shapes([a, b, c, c], most=1) == [Shape(32, 32, (400, 16))]
    # A shape that is frequent stays as it is: 20 batches of `a` would cost more as `b` than one of `d` as `c`.
    d = Shape(32, 16, (384, 16))
    assert bucket_shapes([a] * 20 + [b, c, d], most=3) == [a, b, c]


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("texts", [1, 2])
def test_every_shape_fits_into_one_of_the_few(most, texts):
    random = np.random.default_rng(3)
    sizes = 16 * random.integers(1, 12, (60, 2 + texts))
    shapes = [Shape(examples, shared, tuple(lengths)) for examples, shared, *lengths in sizes.tolist()]
    few = bucket_shapes(shapes, most)
    assert len(few) == most
    assert all(any(shape.around(kept) == kept for kept in few) for shape in shapes)


def test_batches_like_others_have_their_shapes():
    """What does not fit is rounded by itself; the content stays what it is."""
    features = make_features()
    batches = [np.array(numbers, np.int64) for numbers in ([1, 0, 5], [6], [*range(7)] * 3)]
    alone, alike = (list(array_batches(features, batches, like=like)) for like in ((), batches[:2]))
    (shape,) = bucket_shapes(shape_of(features, batch) for batch in batches[:2])
    for batch, (own,), (inputs,) in zip(batches, alone, alike, strict=True):
        expected = shape if len(batch) < 20 else shape_of(features, batch)
        assert inputs["passage_token_index"].shape == (expected.shared, expected.lengths[0])
        assert inputs["question_token_index"].shape == (expected.examples, expected.lengths[1])
        for name, array in for_each_question(token_inputs(own)).items():
            part = for_each_question(token_inputs(inputs))[name][: len(batch)]
            np.testing.assert_array_equal(part[:, : array.shape[1]], array[: len(batch)], err_msg=name)
            assert not part[:, array.shape[1] :].any()


# === Features ===


def test_features_are_the_same_when_they_come_back_from_arrays():
    features = make_features()
    arrays = features.to_arrays()
    assert {type(array) for array in arrays.values()} == {np.ndarray}
    found = Features.from_arrays(dict(reversed(arrays.items())))
    np.testing.assert_array_equal(found.tokens, features.tokens)
    assert list(found.segments) == list(features.segments) == ["passage", "question"]
    for text, segments in features.segments.items():
        np.testing.assert_array_equal(found.segments[text].starts, segments.starts)
        np.testing.assert_array_equal(found.segments[text].lengths, segments.lengths)
    assert found.unique.keys() == features.unique.keys() == {"words", "characters"}
    for part, values in features.unique.items():
        np.testing.assert_array_equal(found.unique[part], values)
    for name in ("passages", "passage_lengths", "logit_offsets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(features, name))
    assert len(found) == len(EXAMPLES.questions)


@pytest.mark.parametrize("name", sorted(make_features().to_arrays()))
def test_features_without_an_array_are_refused(name):
    arrays = make_features().to_arrays()
    del arrays[name]
    # A part of the unique tokens may be missing: a model without characters reads none.
    if name.startswith("table_unique_"):
        assert Features.from_arrays(arrays).unique.keys() == {"words", "characters"} - {name.rpartition("_")[2]}
        return
    with pytest.raises(KeyError):
        Features.from_arrays(arrays)


def test_features_say_what_examples_read():
    features = make_features()
    assert features.passages.tolist() == [0, 1, 3, 3, 3, 2, 1]
    assert features.passage_lengths.tolist() == EXAMPLES.lengths.tolist()
    assert features.logit_offsets.tolist() == [0] * 7
    # The question of seven tokens is longer than its passage of three.
    assert features.longest.tolist() == [7, 8, 6, 4, 13, 2, 6]


def test_some_of_the_examples():
    for chosen in (np.array([2, 0]), np.arange(7) < 3):
        found = EXAMPLES.select(chosen)
        assert found.questions.tolist() == EXAMPLES.questions[chosen].tolist()
        assert found.lengths.tolist() == EXAMPLES.lengths[chosen].tolist()
        assert found.offsets.tolist() == EXAMPLES.offsets[chosen].tolist()


# === One text for question and passage ===

SEQUENCES = Features(
    tokens=np.array([3, 1, 2, 3, 3, 4, 1], np.int32),
    unique={
        "ids": np.array([0, 70, 50, 90, 20], np.int32),
        "kinds": np.array([[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]]),
    },
    segments={"sequence": Segments(np.array([0, 4, 2]), np.array([2, 3, 5]))},
    passages=np.array([0, 1, 1]),
    passage_lengths=np.array([1, 2, 2]),
    logit_offsets=np.array([1, 1, 3]),
)


def expected_sequences(rows, part):
    """The values of each example's tokens, padded with row 0, by plain loops."""
    segments, values = SEQUENCES.segments["sequence"], SEQUENCES.unique[part]
    width = max(segments.lengths[row] for row in rows)
    found = np.zeros((len(rows), width, *values.shape[1:]), values.dtype)
    for number, row in enumerate(rows):
        for column in range(segments.lengths[row]):
            found[number, column] = values[SEQUENCES.tokens[segments.starts[row] + column]]
    return found


def validate_sequences(inputs, rows, shape):
    assert inputs.keys() == {"sequence_token_index", "unique_ids", "unique_kinds"}
    index = np.asarray(inputs["sequence_token_index"])
    assert index.shape == shape
    for part in ("ids", "kinds"):
        values, expected = np.asarray(inputs[f"unique_{part}"])[index], expected_sequences(rows, part)
        np.testing.assert_array_equal(values[: len(rows), : expected.shape[1]], expected)
        assert not values[: len(rows), expected.shape[1] :].any()
        assert not values[len(rows) :].any()


@pytest.mark.parametrize("rows", [[0], [2, 0, 1], [1, 1]])
def test_a_single_text_is_shared_by_nothing(rows, exact_lengths):
    (inputs,) = batches_to_read(SEQUENCES, [np.array(rows)])
    validate_sequences(inputs, rows, (len(rows), int(SEQUENCES.longest[rows].max())))
    ((inputs, targets),) = make_batches(SEQUENCES, [np.array(rows)], {"row": np.arange(3)})
    validate_sequences(inputs, rows, (len(rows), 8 if 2 in rows else 4))
    assert targets["row"].numpy().tolist() == rows


def test_shapes_of_a_single_text():
    batch = np.array([2, 0, 1])
    assert shape_of(SEQUENCES, batch) == Shape(16, 0, (32,))
    ((inputs, targets),) = array_batches(SEQUENCES, [batch], {"row": np.arange(3) + 1})
    validate_sequences(inputs, batch, (16, 32))
    assert len(inputs["unique_ids"]) == 16 * 32
    assert targets["row"].tolist() == [3, 1, 2] + [0] * 13


def test_a_single_text_comes_back_from_arrays():
    found = Features.from_arrays(SEQUENCES.to_arrays())
    assert list(found.segments) == ["sequence"]
    np.testing.assert_array_equal(found.logit_offsets, SEQUENCES.logit_offsets)
    np.testing.assert_array_equal(found.unique["kinds"], SEQUENCES.unique["kinds"])


# === Limits ===


@pytest.mark.parametrize(
    ("examples", "longest", "expected"),
    [
        # 48,000 tokens.
        (480, 100, True),
        (481, 100, False),
        (48_000, 1, True),
        # 4,096^2 pairs of tokens: 16 examples of 1,024 tokens, 4 of 2,048, one of 4,096.
        (16, 1024, True),
        (17, 1024, False),
        (4, 2048, True),
        (5, 2048, False),
        (1, 4096, True),
        (1, 4097, False),
    ],
)
def test_limits_by_hand(examples, longest, expected):
    # Without padding.
    total = examples * longest
    assert fits(examples, longest, total) == expected
    assert fits(np.array([examples, 1]), np.array([longest, 1]), np.array([total, 1])).tolist() == [expected, True]
    assert fits(*(tf.constant(number, tf.int64) for number in (examples, longest, total))).numpy() == expected


def test_a_batch_holds_little_padding():
    # Ten texts of 100 tokens, one of 150, which would add 500 tokens of padding to a batch, or of 151.
    assert [part.tolist() for part in reading_batches(np.array([100] * 10 + [150]))] == [list(range(11))]
    assert [part.tolist() for part in reading_batches(np.array([100] * 10 + [151]))] == [list(range(10)), [10]]
    assert fits(11, 150, 1150)
    assert not fits(11, 151, 1151)


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [5],
        [LONGEST_PASSAGE] * 3,
        # More than is ever read at once.
        [9000, 3, 9000],
        [7] * 1300,
        np.random.default_rng(2).integers(1, 600, 2500).tolist(),
        np.random.default_rng(3).integers(500, 4096, 60).tolist(),
    ],
)
def test_batches_stay_within_the_limits_and_none_is_smaller_than_needed(lengths):
    batches = list(reading_batches(np.array(lengths, np.int64)))
    found = [number for batch in batches for number in batch.tolist()]
    assert sorted(found) == list(range(len(lengths)))
    # The shortest first; equal lengths keep their order.
    assert found == sorted(range(len(lengths)), key=lambda number: (lengths[number], number))
    for number, batch in enumerate(batches):
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * longest <= BATCH_TOKENS
        assert len(batch) == 1 or len(batch) * longest**2 <= BATCH_PAIRS
        assert 1 <= len(batch) <= BATCH_EXAMPLES
        total = sum(lengths[row] for row in batch)
        assert len(batch) * longest - total <= BATCH_PADDING
        if number + 1 < len(batches):
            more, size = lengths[batches[number + 1][0]], len(batch) + 1
            is_too_large = size > BATCH_EXAMPLES or size * more > BATCH_TOKENS or size * more**2 > BATCH_PAIRS
            assert is_too_large or size * more - (total + more) > BATCH_PADDING


@pytest.mark.parametrize(("examples", "step"), [(1, 16), (8, 16), (9, 1), (500, 1)])
def test_small_batches_have_few_lengths(examples, step):
    assert reading_step(examples) == step
    assert int(reading_step(tf.constant(examples))) == step
