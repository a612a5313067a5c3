"""Tests of the vocabulary: ids, thresholds, order, any Unicode, and the saved file."""

import json

import numpy as np
import pytest

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.pipelines.text.word_vectors import WordVectors, save_vectors

# Padding 0, unknown 1; words: hadoop 2, qbert 3, the 4, of 5, cat 6; characters: e 2, T 3, é 4.
VOCABULARY = Vocabulary(("hadoop", "qbert"), ("e", "T", "é"), ["the", "of", "cat"])


def test_rows_are_counted_as_the_parameter_formula_does():
    assert (VOCABULARY.trainable_rows, VOCABULARY.character_rows, VOCABULARY.frozen_rows) == (3, 4, 3)
    empty = Vocabulary((), (), ())
    assert (empty.trainable_rows, empty.character_rows, empty.frozen_rows) == (1, 1, 0)


def test_word_ids_are_looked_up_in_lower_case():
    ids = VOCABULARY.word_ids(["The", "CAT", "of", "QBert", "hadoop", "dog", ""])
    assert ids.dtype == np.int32
    assert ids.tolist() == [4, 6, 5, 3, 2, 1, 1]
    assert VOCABULARY.word_ids([]).shape == (0,)


def test_a_word_in_both_tables_has_its_trained_id_and_a_repeated_word_its_first():
    vocabulary = Vocabulary(("qbert",), (), ["the", "qbert", "of", "the"])
    assert vocabulary.word_ids(["qbert", "the", "of"]).tolist() == [2, 3, 5]


def test_character_ids_depend_on_case_and_are_truncated_and_padded():
    ids = VOCABULARY.character_ids(["Tee", "", "tEeTeé", "é"], 5)
    assert ids.dtype == np.int32
    assert ids.tolist() == [[3, 2, 2, 0, 0], [0, 0, 0, 0, 0], [1, 1, 2, 3, 2], [4, 0, 0, 0, 0]]
    assert VOCABULARY.character_ids([], 5).shape == (0, 5)
    assert VOCABULARY.character_ids(["", ""], 2).tolist() == [[0, 0], [0, 0]]


def test_characters_are_code_points():
    vocabulary = Vocabulary((), ("😀", "\u0301"), ())
    assert vocabulary.character_ids(["e\u0301😀", "\U0010ffff"], 4).tolist() == [[1, 3, 2, 0], [1, 0, 0, 0]]


def test_a_nul_in_a_word_is_a_character_and_not_padding():
    words = ["\0", "a\0", "\0\0b"]
    assert Vocabulary((), ("b",), ()).character_ids(words, 3).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 2]]
    assert Vocabulary((), ("\0",), ()).character_ids(words, 3).tolist() == [[2, 0, 0], [1, 2, 0], [2, 2, 1]]


@pytest.mark.parametrize("width", [0, -1])
def test_width_must_be_positive(width):
    with pytest.raises(ValueError, match=f"width must be positive. Received: {width}"):
        VOCABULARY.character_ids(["a"], width)


def test_build_adds_the_counts_of_spellings_and_thresholds_are_exclusive():
    counts = {
        "Hadoop": 60,  # 101 with its other spelling: in
        "HADOOP": 41,
        "Qbert": 100,  # not above 100: out
        "The": 500,  # has a vector: out
        "zyx": 300,  # in, most frequent
        "aab": 101,  # in, as frequent as hadoop and before it in the alphabet
    }
    vocabulary = build_vocabulary(counts, ["the", "of"])
    assert vocabulary.trainable_words == ("zyx", "aab", "hadoop")
    assert list(vocabulary.frozen_words) == ["the", "of"]


def test_build_counts_characters_over_occurrences():
    # a: 25 * 2 + 1 = 51; b: 50; é: 51; T and h: 60 each.
    vocabulary = build_vocabulary({"aa": 25, "a": 1, "b": 50, "é": 51, "Th": 60}, [])
    assert vocabulary.characters == ("T", "h", "a", "é")
    assert vocabulary.trainable_words == ()


def test_build_accepts_other_thresholds_and_any_order():
    counts = {"b": 2, "a": 2, "c": 3, "d": 1}
    expected = ("c", "a", "b")
    for items in (counts, dict(reversed(counts.items()))):
        vocabulary = build_vocabulary(items, (), min_word_count=1, min_character_count=1)
        assert vocabulary.trainable_words == vocabulary.characters == expected
    assert build_vocabulary({}, ["the"]).trainable_rows == 1


def test_lone_surrogates_are_supported(tmp_path):
    counts = {"x\ud800": 200, "\udfff": 150}
    vocabulary = build_vocabulary(counts, ["the"])
    assert vocabulary.trainable_words == ("x\ud800", "\udfff")
    assert vocabulary.word_ids(["X\ud800", "\udfff", "\ud801"]).tolist() == [2, 3, 1]
    # x and \ud800 occur 200 times each, \udfff 150.
    assert vocabulary.character_ids(["x\ud800", "\udfff\ud801"], 3).tolist() == [[2, 3, 0], [4, 1, 0]]
    vocabulary.save(tmp_path)
    assert Vocabulary.load(tmp_path, ["the"]) == vocabulary


def test_json_round_trip():
    text = VOCABULARY.to_json()
    assert json.loads(text) == {"trainable_words": ["hadoop", "qbert"], "characters": ["e", "T", "é"]}
    assert text.isascii()
    assert Vocabulary.from_json(text, VOCABULARY.frozen_words) == VOCABULARY


def test_load_finds_the_frozen_words_in_the_same_folder(tmp_path):
    folder = tmp_path / "run"
    VOCABULARY.save(folder)
    save_vectors(WordVectors(["the", "of", "cat"], np.zeros((3, 2), np.float16), "x"), folder)
    loaded = Vocabulary.load(folder)
    assert loaded == VOCABULARY
    assert loaded.word_ids(["cat", "qbert", "dog"]).tolist() == [6, 3, 1]
    assert Vocabulary.load(folder, ["dog"]).word_ids(["dog", "cat"]).tolist() == [4, 1]
    assert not list(folder.glob("*.tmp"))


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(UserError) as caught:
        Vocabulary.load(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'vocabulary.json'}: no such file, expected the vocabulary of a run."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff", ": found bytes that are not UTF-8 at 0, expected JSON."),
        (b"{", ": found broken JSON (Expecting property name"),
        (b"[]", ": expected the fields trainable_words and characters, each a list of strings."),
        (b'{"trainable_words": []}', ": expected the fields trainable_words and characters, each a list of strings."),
        (b'{"trainable_words": [1], "characters": []}', ": expected the fields trainable_words and characters, each"),
        (
            b'{"trainable_words": ["a", "a"], "characters": []}',
            ", trainable_words: found 'a' more than once, expected distinct entries.",
        ),
        (
            b'{"trainable_words": ["Ab"], "characters": []}',
            ", trainable_words: found 'Ab', expected words in lower case.",
        ),
        (
            b'{"trainable_words": [], "characters": ["x", "x"]}',
            ", characters: found 'x' more than once, expected distinct entries.",
        ),
        (
            b'{"trainable_words": [], "characters": ["xy"]}',
            ", characters: found 'xy', expected single characters.",
        ),
    ],
)
def test_a_broken_file_is_reported(tmp_path, content, expected):
    path = tmp_path / "vocabulary.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Vocabulary.load(tmp_path, [])
    assert str(caught.value).startswith(str(path) + expected)


def test_large_vocabularies_are_looked_up():
    frozen = [f"word{number}" for number in range(400_000)]
    tokens = [f"Word{number}" for number in range(350_000, 470_000)]
    vocabulary = Vocabulary(("word400000",), tuple("Wdor0123456789"), frozen)
    words, characters = vocabulary.word_ids(tokens), vocabulary.character_ids(tokens, 20)
    assert words[:2].tolist() == [350_003, 350_004]
    assert words[50_000:50_002].tolist() == [2, 1]
    assert characters[0].tolist() == [2, 4, 5, 3, 9, 11, 6, 6, 6, 6] + [0] * 10
