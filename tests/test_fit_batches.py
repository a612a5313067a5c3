"""Questions of one's own for `model.fit`, and a model with their words and vectors."""

import math

import keras
import numpy as np
import pytest
from tiny import ARTICLES, squad_data

import fabir_tf
from fabir_tf.configuration import ConfigError
from fabir_tf.pipelines.datasets.squad import Answer
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.word_vectors import WordVectors

SMALL = {"num_layers": 1, "d_model": 8, "num_heads": 2, "hidden_dim": 8, "reduction_hidden_dim": 8}
MILL = "The mill was built by Anna Keld. It ground rye until 1931. The mill is closed."
ROWS = [
    {"question": "Who built it?", "passage": MILL, "answer": "Anna Keld"},
    {"question": "Until when did it grind rye?", "passage": MILL, "answer": "1931"},
    {"question": "What eats mice?", "context": "The grey owl eats mice.", "answers": [{"text": "The grey owl"}]},
]


@pytest.fixture(scope="module")
def data():
    return squad_data(ARTICLES)


@pytest.fixture(scope="module")
def processor(data):
    return fabir_tf.fit_processor(data, min_word_count=0, min_character_count=0)


# === Questions ===


def test_rows_are_questions_with_offsets():
    data = fabir_tf.questions_from(ROWS)
    assert [question.answers for question in data.questions] == [
        (Answer("Anna Keld", 22),),
        (Answer("1931", 53),),
        (Answer("The grey owl", 0),),
    ]
    assert len(data.passages) == 2
    assert [question.id for question in data.questions] == ["1", "2", "3"]


def test_rows_hold_what_pandas_and_pyarrow_give():
    start = MILL.index("Anna Keld")
    columns = {"text": np.array(["Anna Keld"], object), "answer_start": np.array([start], np.int32)}
    one = {"question": "Who?", "passage": MILL}
    rows = [
        one | {"id": np.int64(70), "answers": columns},
        one | {"answers": columns | {"answer_start": [float(start)]}},
        *(one | {"answer": "Anna Keld", "answer_start": value} for value in (np.int64(start), float(start))),
        *(one | {"answer": "Anna Keld", "answer_start": value} for value in (float("nan"), np.float64("nan"), None)),
        one | {"answers": [{"text": "Anna Keld", "answer_start": np.int16(start)}], "is_impossible": np.bool_(False)},
    ]
    data = fabir_tf.questions_from(rows)
    assert [question.answers for question in data.questions] == [(Answer("Anna Keld", start),)] * len(rows)
    assert data.questions[0].id == "70"
    # An empty cell of a column of texts.
    [unanswered] = fabir_tf.questions_from(
        [one | {"id": "a", "title": math.nan, "answer": math.nan, "answers": np.float64("nan")}]
    ).questions
    assert (unanswered.id, unanswered.answers) == ("a", ())
    with pytest.raises(UserError, match=r"answer_start is the number 0\.5, expected an integer"):
        fabir_tf.questions_from([one | {"answer": "Anna Keld", "answer_start": 0.5}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "Who?", "passage": MILL, "answer": "mill"}, "'2': the answer 'mill' .* more than once"),
        ({"question": "Who?", "passage": MILL, "answer": "pier"}, "'2': the answer 'pier' is not in its passage"),
        ({"question": "Who?", "answer": "mill"}, r"passage \(or context\) is missing"),
        ({"passage": MILL, "answer": "mill"}, "question is missing"),
        ("Who?", "expected"),
    ],
)
def test_a_mistake_in_a_row_is_named(row, message):
    with pytest.raises(UserError, match=message):
        fabir_tf.questions_from([ROWS[0], row], "mine")


def test_an_offset_decides_between_several_places():
    row = {"question": "What is closed?", "passage": MILL, "answer": "The mill", "answer_start": 59}
    assert fabir_tf.questions_from([row]).questions[0].answers == (Answer("The mill", 59),)


# === Batches ===


def test_batches_hold_the_ids_and_the_answers_of_every_question_once(data, processor):
    said = []
    batches = fabir_tf.batches_to_fit(data, processor, batch_size=3, log=said.append)
    count = len(data.questions)
    assert said == [f"{data.name}: {count} questions: {count} kept, 0 trimmed, 0 snapped to whole tokens, 0 dropped."]
    words = processor.vocabulary
    found = []
    for inputs, targets in batches.as_numpy_iterator():
        assert inputs.keys() == processor.input_specs.keys()
        assert inputs["passage_characters"].shape == (*inputs["passage_words"].shape, 20)
        for row, (start, end) in enumerate(zip(targets["start_logits"], targets["end_logits"], strict=True)):
            found.append((inputs["question_words"][row], inputs["passage_words"][row], start, end))
    expected = []
    for question in data.questions:
        passage = data.passages[question.passage]
        tokens, asked = processor.tokenize_text(passage), processor.tokenize_text(question.text)
        answer = question.answers[0]
        start, end = tokens.starts.index(answer.start), tokens.ends.index(answer.start + len(answer.text))
        expected.append((words.word_ids(asked.words), words.word_ids(tokens.words), start, end))
    assert len(found) == len(expected)
    for texts in (found, expected):
        texts.sort(key=lambda entry: (entry[0][entry[0] > 0].tolist(), entry[1][entry[1] > 0].tolist()))
    for one, other in zip(found, expected, strict=True):
        for position in (0, 1):
            length = len(other[position])
            np.testing.assert_array_equal(one[position][:length], other[position])
            assert not one[position][length:].any()
        assert one[2:] == other[2:]


def test_every_epoch_has_its_order_and_a_seed_repeats_it(data, processor):
    def orders(seed):
        batches = fabir_tf.batches_to_fit(data, processor, 2, seed=seed, log=str)
        return [[inputs["question_words"].tolist() for inputs, _ in batches.as_numpy_iterator()] for _ in range(2)]

    first, second = orders(1)
    assert first != second
    assert orders(1) == [first, second]


def test_questions_without_an_answer_are_left_out_and_counted(processor):
    rows = [*ROWS, {"question": "Who sold it?", "passage": MILL, "answer": "", "is_impossible": True}]
    said = []
    batches = fabir_tf.batches_to_fit(fabir_tf.questions_from(rows), processor, log=said.append)
    assert sum(len(targets["end_logits"]) for _, targets in batches.as_numpy_iterator()) == 3
    assert "3 kept" in said[0]
    assert said[1] == "rows: left out 1 question without an answer; train learns from such"


def test_a_functional_model_fits_evaluates_predicts_answers_and_is_saved(tmp_path):
    data = fabir_tf.questions_from(ROWS * 8)
    processor = fabir_tf.fit_processor(data, min_word_count=0, min_character_count=0)
    keras.utils.set_random_seed(3)
    model = fabir_tf.build_model(processor=processor, **SMALL)
    batches = fabir_tf.batches_to_fit(data, processor, batch_size=8)
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(batches, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    assert np.isfinite(model.evaluate(batches, verbose=0)[0])
    reader = fabir_tf.Reader(model, processor, fabir_tf.FabirConfig(**SMALL))
    model.save(tmp_path / "own.keras")
    loaded = fabir_tf.Reader(keras.saving.load_model(tmp_path / "own.keras"), processor, fabir_tf.FabirConfig(**SMALL))
    for answerer in (reader, loaded):
        answer = answerer.answer("Who built it?", MILL)
        assert answer.text == MILL[answer.start : answer.end]
    assert reader.answer("Who built it?", MILL) == loaded.answer("Who built it?", MILL)


# === Vectors ===


def frozen_table(model):
    return np.asarray(model.get_layer("word_embedding").frozen_table)


TABLE = np.random.default_rng(2).normal(size=(7, 12)).astype("float32")


@pytest.mark.parametrize("vectors", [TABLE, WordVectors(list("abcdefg"), TABLE.astype("float16"), "mine")])
@pytest.mark.parametrize("name", ["fabir", "bidaf"])
def test_a_model_gets_vectors(name, vectors):
    sizes = SMALL if name == "fabir" else {}
    model = fabir_tf.build_model(name, vectors=vectors, character_filters=4, **sizes)
    np.testing.assert_array_equal(frozen_table(model), TABLE.astype("float16"))


def test_a_model_gets_vectors_by_name():
    vectors = fabir_tf.load_vectors("bundled")
    np.testing.assert_array_equal(frozen_table(fabir_tf.build_model(vectors="bundled", **SMALL)), vectors.table)
    assert fabir_tf.build_model(vectors="none", **SMALL).get_layer("word_embedding").frozen_rows == 0


def test_a_model_gets_the_sizes_and_vectors_of_a_processor(processor):
    model = fabir_tf.build_model(processor=processor, **SMALL)
    np.testing.assert_array_equal(frozen_table(model), processor.vectors.table)
    sizes = processor.sizes
    assert model.get_layer("word_embedding").trainable_rows == sizes["trainable_words"]
    assert model.get_layer("character_embedding").rows == sizes["characters"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vectors": TABLE[0]}, r"vectors must be numbers \(words, dim\), found float32 of shape \(12,\)"),
        ({"vectors": np.arange(6).reshape(2, 3)}, "found int64"),
        ({"vectors": TABLE * np.inf}, "float16"),
        ({"vectors": TABLE * 1e6}, "float16"),
        ({"vectors": TABLE, "word_dim": 16}, r"found \(7, 12\) numbers, expected \(7, 16\)"),
        ({"vectors": TABLE, "frozen_words": 8}, r"found \(7, 12\) numbers, expected \(8, 12\)"),
        ({"vectors": TABLE, "model": "bert-span"}, "bert-span has no word vectors"),
    ],
)
def test_vectors_that_do_not_fit(arguments, message):
    sizes = {} if "model" in arguments else SMALL | {"character_filters": 4}
    with pytest.raises(ConfigError, match=message):
        fabir_tf.build_model(**sizes, **arguments)


def test_vectors_of_two_sources_are_refused(processor):
    with pytest.raises(ConfigError, match="expected one of vectors and processor"):
        fabir_tf.build_model(processor=processor, vectors=TABLE)
