"""Batches: what stands in them, built a second time by plain NumPy loops."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tiny import token_inputs

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.features import tensor_batches as module
from fabir_tf.pipelines.features.array_batches import (
    Shape,
    array_batches,
    bucket_shapes,
    rounded,
    rounded_rows,
    shape_of,
)
from fabir_tf.pipelines.features.features import Examples, make_features
from fabir_tf.pipelines.features.tensor_batches import batches_to_read, make_batches
from fabir_tf.pipelines.text.tokenized import encode, tokenize_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary

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
ENCODED = encode(tokenize_dataset(DATA), VOCABULARY, WIDTH)
# Whole passages and windows, in no order; all lengths differ from the lengths of the questions beside them.
ROWS = Examples(
    questions=np.array([3, 0, 1, 4, 1, 2, 0]),
    offsets=np.array([0, 0, 5, 9, 0, 0, 3]),
    lengths=np.array([3, 8, 6, 4, 13, 2, 5]),
)


def expected_batch(rows):
    """The inputs of a batch, token by token."""
    texts = {"passage": [], "question": []}
    for row in rows:
        text, passage = QUESTIONS[ROWS.questions[row]]
        begin, count = ROWS.offsets[row], ROWS.lengths[row]
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


def dataset(batches, targets):
    rows = make_features(ENCODED, ROWS)
    return make_batches(rows, [np.array(batch, np.int64) for batch in batches], targets)


def read(batches, max_question=None):
    """The batches as they are answered, as arrays."""
    rows = make_features(ENCODED, ROWS, max_question)
    found = batches_to_read(rows, [np.array(batch, np.int64) for batch in batches])
    return [token_inputs({name: values.numpy() for name, values in inputs.items()}) for inputs in found]


@pytest.fixture
def exact_lengths(monkeypatch):
    """Small batches as long as their longest text, as large ones are."""
    monkeypatch.setattr(module, "FEW_QUESTIONS", 0)


def for_each_question(inputs):
    """A batch's inputs with the passage of each question beside it."""
    places = inputs.pop("passage_index")
    return {name: array[places] if name.startswith("passage") else array for name, array in inputs.items()}


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
    ("rows", "passages", "places"),
    [
        ([0], [0], [0]),
        ([5, 5, 5], [5], [0, 0, 0]),
        # Two questions about one passage, read whole and from its tenth token on.
        ([4, 3, 4, 1, 3], [4, 3, 1], [0, 1, 0, 2, 1]),
        ([0, 6, 2, 0, 1], [0, 6, 2, 1], [0, 1, 2, 0, 3]),
    ],
)
def test_a_shared_batch_has_each_stretch_once(rows, passages, places, exact_lengths):
    (inputs,) = read([rows], max_question=60)
    assert inputs.pop("passage_index").tolist() == places
    expected = {"passage": expected_batch(passages), "question": expected_batch(rows)}
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, expected[name.split("_")[0]][name], err_msg=name)


@pytest.mark.parametrize(("few", "step"), [(0, 1), (8, 16)])
def test_a_type_of_token_stands_in_a_batch_once(few, step, monkeypatch):
    monkeypatch.setattr(module, "FEW_QUESTIONS", few)
    rows = [1, 0, 5, 3]
    (inputs,) = batches_to_read(make_features(ENCODED, ROWS), [np.array(rows, np.int64)])
    tokens = {token for row in rows for token in tokenize(QUESTIONS[ROWS.questions[row]][0]).words}
    for row in rows:
        begin, passage = ROWS.offsets[row], QUESTIONS[ROWS.questions[row]][1]
        tokens |= {*tokenize(PASSAGES[passage]).words[begin : begin + ROWS.lengths[row]]}
    used = np.unique(np.concatenate([inputs[f"{text}_token_index"].numpy().ravel() for text in ("passage", "question")]))
    # Padding is a type, too; more of it stands behind those in use.
    assert used.tolist() == [*range(len(tokens) + 1)]
    assert len(inputs["unique_words"]) == step * math.ceil(len(used) / step)
    assert not inputs["unique_characters"].numpy()[len(used) :].any()


def test_stretches_that_begin_alike_are_kept_apart():
    begins, lengths = tf.constant([7, 7, 0, 7, 0], tf.int64), tf.constant([3, 9, 3, 3, 9], tf.int64)
    distinct, places = module.unique_rows(begins, lengths)
    assert [part.numpy().tolist() for part in distinct] == [[7, 7, 0, 0], [3, 9, 3, 9]]
    assert places.numpy().tolist() == [0, 1, 2, 0, 3]


def test_a_question_is_cut_in_a_shared_batch(exact_lengths):
    (inputs,) = read([[0, 5]], max_question=2)
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


def test_questions_are_what_keras_counts_in_a_batch():
    """It weighs a batch's loss by the length of the input that comes first in the alphabet."""
    ((inputs, _),) = dataset([[4, 4, 4, 0]], {"single": np.arange(7)}).as_numpy_iterator()
    assert len(inputs[min(inputs)]) == 4
    assert len(inputs["passage_token_index"]) == 2


def test_no_batches():
    assert list(dataset([], {"single": np.arange(7)})) == []
    assert read([]) == []
    assert list(array_batches(make_features(ENCODED, ROWS), [])) == []


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
    targets = {"border": np.arange(14).reshape(7, 2) + 1}
    found = list(array_batches(make_features(ENCODED, ROWS), batches, targets))
    assert len(found) == len(batches)
    for batch, (inputs, labels) in zip(batches, found, strict=True):
        count = rounded_rows(len(batch))
        assert len(inputs["unique_words"]) == sum(inputs[f"{text}_token_index"].size for text in ("passage", "question"))
        inputs = token_inputs(inputs)
        assert len(inputs["passage_index"]) == len(inputs["question_words"]) == len(labels["border"]) == count
        np.testing.assert_array_equal(labels["border"][: len(batch)], targets["border"][batch])
        assert not labels["border"][len(batch) :].any()
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
    a, b, c = Shape(16, 32, 16, 32), Shape(32, 32, 16, 32), Shape(16, 400, 16, 32)
    assert bucket_shapes([a, b, c, c], most=3) == [a, b, c]
    assert bucket_shapes([a, b, c, c], most=2) == [b, c]
    assert bucket_shapes([a, b, c, c], most=1) == [Shape(32, 400, 16, 32)]
    # A shape that is frequent stays as it is: 20 batches of `a` would cost more as `b` than one of `d` as `c`.
    d = Shape(16, 384, 16, 32)
    assert bucket_shapes([a] * 20 + [b, c, d], most=3) == [a, b, c]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_every_shape_fits_into_one_of_the_few(most):
    random = np.random.default_rng(3)
    shapes = [Shape(*map(int, 16 * random.integers(1, 12, 4))) for _ in range(60)]
    few = bucket_shapes(shapes, most)
    assert len(few) == most
    assert all(any(shape.around(kept) == kept for kept in few) for shape in shapes)


def test_batches_like_others_have_their_shapes():
    """What does not fit is rounded by itself; the content stays what it is."""
    rows = make_features(ENCODED, ROWS)
    batches = [np.array(numbers, np.int64) for numbers in ([1, 0, 5], [6], [*range(7)] * 3)]
    alone, alike = (list(array_batches(rows, batches, like=like)) for like in ((), batches[:2]))
    (shape,) = bucket_shapes(shape_of(rows, batch) for batch in batches[:2])
    for batch, (own,), (inputs,) in zip(batches, alone, alike, strict=True):
        expected = shape if len(batch) < 20 else shape_of(rows, batch)
        assert inputs["passage_token_index"].shape == expected[:2]
        assert inputs["question_token_index"].shape == expected[2:]
        for name, array in for_each_question(token_inputs(own)).items():
            part = for_each_question(token_inputs(inputs))[name][: len(batch)]
            np.testing.assert_array_equal(part[:, : array.shape[1]], array[: len(batch)], err_msg=name)
            assert not part[:, array.shape[1] :].any()
