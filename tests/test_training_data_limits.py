"""Which questions are trained on and scored, and the vectors of words without one: max_word, limit_evaluation,
random_vectors."""

import json

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, SMALL_DATA, SMALL_MODEL, squad_data, write_squad

from fabir_tf.pipelines.features.examples import training_examples
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordProcessor, WordTokenizer
from fabir_tf.pipelines.text.word_vectors import WordVectors, load_vectors, with_random_vectors

DATA = squad_data(ARTICLES)


@pytest.fixture(scope="module")
def tokenized():
    return tokenize_dataset(DATA, WordTokenizer())


def test_the_longest_token_of_each_text(tokenized):
    texts = [*DATA.passages, *(question.text for question in DATA.questions)]
    expected = [max(map(len, WordTokenizer().tokenize_text(text).words), default=0) for text in texts]
    assert tokenized.texts.longest_tokens.tolist() == expected
    empty = tokenize_dataset(squad_data((("A", "one", (("", "one"), ("Is it?", "one"))),)), WordTokenizer())
    assert empty.texts.longest_tokens.tolist() == [3, 0, 2]


def test_examples_with_a_long_word_are_left_out_with_the_reason(tokenized):
    """ "undisturbed" has 11 characters, "Brandreth" 9."""
    limits = (400, 60, 15)
    _, ledger = training_examples(tokenized, *limits, max_word=10)
    left_out = {entry["id"]: entry for entry in ledger.to_json()["not_kept"]}
    assert set(left_out) == {f"Owl-{number}" for number in range(3)}
    assert {entry["reason"] for entry in left_out.values()} == {"word_too_long"}
    assert left_out["Owl-0"]["detail"] == "a word has 11 characters, expected at most 10"
    for limit in (11, None):
        kept, _ = training_examples(tokenized, *limits, max_word=limit)
        assert len(kept.spans) == 12


def test_selected_questions_have_the_tokens_they_had(tokenized):
    chosen = np.array([7, 2, 9])
    part = tokenized.select(chosen)
    assert [question.id for question in part.data.questions] == [DATA.questions[number].id for number in chosen]
    assert part.data.passages == DATA.passages
    whole = [tokenized.texts.tokens_of(number) for number in (*range(4), *(4 + chosen))]
    assert [part.texts.tokens_of(number) for number in range(7)] == whole
    assert sorted(part.texts.unique) == sorted({word for tokens in whole for word in tokens.words})
    none = tokenized.select(np.zeros(0, np.int64))
    assert none.data.questions == () and len(none.texts.lengths) == 4


def test_random_vectors_belong_to_their_words():
    table = np.random.default_rng(1).normal(0.5, 2, (50, 100)).astype(np.float16)
    vectors = WordVectors([f"w{number}" for number in range(50)], table, "x")
    words = [f"v{number}" for number in range(40)]
    found = with_random_vectors(vectors, {*words, "w3"})
    assert found.words == [*vectors.words, *sorted(words)]
    np.testing.assert_array_equal(found.table[:50], table)
    drawn = found.table[50:].astype(np.float64)
    assert drawn.mean() == pytest.approx(0.5, abs=0.15) and drawn.std() == pytest.approx(2, rel=0.05)
    assert len({row.tobytes() for row in found.table}) == 90
    # Whatever else the data holds.
    alone = with_random_vectors(vectors, ["v7"])
    np.testing.assert_array_equal(alone.table[-1], found.table[found.words.index("v7")])
    assert with_random_vectors(vectors, ["w3"]).words == vectors.words


def test_every_word_of_the_data_has_a_frozen_row(tokenized):
    settings = {"vectors": "bundled", "random_vectors": True, "min_word_count": 1}
    processor = WordProcessor.create(settings).fit([tokenized])
    assert processor.vocabulary.trainable_rows == 1
    assert (processor.vocabulary.word_ids(["Orrin", "Brandreth"]) > 1).all()
    assert len(processor.vectors.words) > len(load_vectors("bundled").words)
    np.testing.assert_array_equal(processor.vocabulary.word_ids(["Zyzzyx"]), [1])


# === The command ===


@pytest.mark.long
def test_only_short_questions_are_scored(commands, tmp_path):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    dev = write_squad(tmp_path / "dev.json", (*DEV_ARTICLES, *ARTICLES[3:]))
    data = [
        f"--dataset={train}",
        f"--eval_dataset={dev}",
        *SMALL_MODEL,
        *SMALL_DATA,
        "--epochs=0",
        "--limit_evaluation",
    ]
    run = tmp_path / "run"
    done = commands("train", f"--run_dir={run}", *data, "--max_passage=20")
    assert done.status == 0, done
    assert "4 of 7 questions are within --max_passage=20 and --max_question=60" in done.stdout
    assert len(json.loads((run / "predictions.json").read_text())) == 4
    assert json.loads((run / "coverage.json").read_text())["eval"]["total"] == 4
    again = commands("train", f"--run_dir={run}", "--resume", "--epochs=1")
    assert again.status == 0, again
    none = [f"--run_dir={tmp_path / 'none'}", *data, "--max_passage=2"]
    assert_error(commands, "train", none, ["--limit_evaluation", "--max_passage=2"])
