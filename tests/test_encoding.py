"""Texts as arrays: each tokenized once, the cache that keeps them, and the ids of every distinct token."""

import re
from collections import Counter

import numpy as np
import pytest

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.text import nltk_tokenizers
from fabir_tf.pipelines.text import tokenized as encoding
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, encode, tokenize_dataset, tokenize_texts
from fabir_tf.pipelines.text.tokenizer import Tokens, tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary

# Passage 1 is asked nothing, passage 2 once, passage 0 twice; a passage and a question hold no token.
PASSAGES = ("The cat saw the dog.", "Nobody asks.", "İn \ud83d 😀 a\u0301!", " \n ")
QUESTIONS = (("Who saw it?", 0), ("", 2), ("the cat", 0), ("why?", 3))
DATA = SquadData(
    "hand-made",
    PASSAGES,
    ("",) * len(PASSAGES),
    tuple(Question(f"q{number}", text, passage, ()) for number, (text, passage) in enumerate(QUESTIONS)),
)
TEXTS = [*PASSAGES, *(text for text, _ in QUESTIONS)]


@pytest.fixture
def tokenised_texts(monkeypatch):
    """The texts that the tokeniser was called with, in order."""
    calls = []

    def counting(text):
        calls.append(text)
        return tokenize(text)

    monkeypatch.setattr(encoding, "tokenize", counting)
    return calls


def assert_equal(actual, expected):
    assert actual.types == expected.types
    for name in ("tokens", "starts", "ends", "splits"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))
        assert getattr(actual, name).dtype == getattr(expected, name).dtype


# === Arrays ===


def test_texts_become_rows_of_types():
    texts = tokenize_texts(["the cat", "", "The cat saw the cat"])
    assert texts.types == ["the", "cat", "The", "saw"]
    assert texts.tokens.tolist() == [1, 2, 3, 2, 4, 1, 2]
    assert texts.starts.tolist() == [0, 4, 0, 4, 8, 12, 16]
    assert texts.ends.tolist() == [3, 7, 3, 7, 11, 15, 19]
    assert texts.splits.tolist() == [0, 2, 2, 7]
    assert texts.lengths.tolist() == [2, 0, 5]
    dtypes = [array.dtype for array in (texts.tokens, texts.starts, texts.ends, texts.splits, texts.lengths)]
    assert dtypes == [np.int32, np.int32, np.int32, np.int64, np.int64]


def test_no_texts():
    texts = tokenize_texts([])
    assert texts.types == []
    assert [len(texts.tokens), texts.splits.tolist(), texts.lengths.tolist()] == [0, [0], []]


def test_every_text_gives_back_the_tokenisers_own_tokens():
    texts = tokenize_dataset(DATA).texts
    for number, text in enumerate(TEXTS):
        assert texts.tokens_of(number) == tokenize(text)


def test_progress_is_told_every_ten_thousand_texts(monkeypatch):
    monkeypatch.setattr(encoding, "tokenize", lambda text: Tokens([text], [0], [1]))
    lines = []
    tokenize_texts(["a"] * 20_001, lines.append)
    assert lines == ["tokenized 10,000 of 20,001 texts", "tokenized 20,000 of 20,001 texts"]


def test_each_passage_is_tokenised_once(tokenised_texts):
    tokenize_dataset(DATA)
    assert tokenised_texts == TEXTS


def test_lengths_and_passages_of_the_questions():
    tokenized = tokenize_dataset(DATA)
    assert tokenized.question_passages.tolist() == [0, 2, 0, 3]
    assert tokenized.passage_lengths.tolist() == [6, 3, len(tokenize(PASSAGES[2]).words), 0]
    assert tokenized.question_lengths.tolist() == [4, 0, 2, 2]
    assert {len(set(part)) for part in (PASSAGES, QUESTIONS)} == {4}


def test_tokens_of_a_passage_count_once_per_question():
    counts = Counter()
    for text, passage in QUESTIONS:
        counts.update(tokenize(PASSAGES[passage]).words + tokenize(text).words)
    assert tokenize_dataset(DATA).token_counts() == counts
    assert counts["saw"] == 3
    assert "Nobody" not in tokenize_dataset(DATA).token_counts()


# === Ids ===


def test_ids_of_types():
    vocabulary = Vocabulary(("dog",), ("t", "e"), ["the", "cat"])
    encoded = encode(tokenize_dataset(DATA), vocabulary, 4)
    types = encoded.tokenized.texts.types
    assert encoded.unique_words.shape == (len(types) + 1,)
    assert encoded.unique_characters.shape == (len(types) + 1, 4)
    assert (encoded.unique_words.dtype, encoded.unique_characters.dtype) == (np.int32, np.int32)
    # unknown 1, dog 2, the 3, cat 4; characters: unknown 1, t 2, e 3
    known = {"the": (3, [2, 1, 3, 0]), "The": (3, [1, 1, 3, 0]), "cat": (4, [1, 1, 2, 0]), "dog": (2, [1, 1, 1, 0])}
    known |= {"Nobody": (1, [1, 1, 1, 1]), "\ud83d": (1, [1, 0, 0, 0]), "it": (1, [1, 2, 0, 0])}
    for word, (word_id, characters) in known.items():
        row = types.index(word) + 1
        assert encoded.unique_words[row] == word_id
        assert encoded.unique_characters[row].tolist() == characters


def test_type_zero_is_padding():
    encoded = encode(tokenize_dataset(DATA), Vocabulary((), (), ()), 3)
    assert encoded.unique_words[0] == 0
    assert encoded.unique_characters[0].tolist() == [0, 0, 0]
    assert (encoded.unique_words[1:] > 0).all()


def test_ids_without_a_token():
    empty = SquadData("blank", ("", " "), ("", ""), (Question("q", "\t", 1, ()),))
    encoded = encode(tokenize_dataset(empty), Vocabulary(("dog",), ("d",), ()), 5)
    assert encoded.unique_words.tolist() == [0]
    assert encoded.unique_characters.tolist() == [[0] * 5]
    assert not encoded.tokenized.token_counts()


# === Cache ===


def cached_file(folder):
    (path,) = folder.iterdir()
    return path


def rewrite(path, **changes):
    """Changes arrays of a cache file; None removes one."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_a_second_run_reads_what_the_first_one_wrote(tmp_path, tokenised_texts):
    lines = []
    first = tokenize_dataset(DATA, tmp_path / "new" / "folder", lines.append)
    assert tokenised_texts == TEXTS
    tokenised_texts.clear()
    second = tokenize_dataset(DATA, tmp_path / "new" / "folder", lines.append)
    assert not tokenised_texts
    assert not lines
    assert second.data is DATA
    assert_equal(second.texts, first.texts)
    assert_equal(second.texts, tokenize_texts(TEXTS))


def test_a_dataset_without_tokens_is_cached_too(tmp_path, tokenised_texts):
    empty = SquadData("blank", ("",), ("",), (Question("q", " ", 0, ()),))
    first = tokenize_dataset(empty, tmp_path)
    tokenised_texts.clear()
    assert_equal(tokenize_dataset(empty, tmp_path).texts, first.texts)
    assert not tokenised_texts


def test_the_cache_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    tokenize_dataset(DATA, "~/tokens")
    assert re.fullmatch(r"tokens-[0-9a-f]{32}\.npz", cached_file(tmp_path / "tokens").name)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenize_dataset(DATA, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("texts", [["ab", "c"], ["a", "bc"], ["a", "b c"], ["a b", "c"], ["abc"], ["a", "b", "c", ""]])
def test_other_texts_are_other_files(tmp_path, tokenised_texts, texts):
    for passages in (("a", "b", "c"), tuple(texts)):
        data = SquadData("x", passages, ("",) * len(passages), ())
        tokenize_dataset(data, tmp_path)
    assert tokenised_texts == ["a", "b", "c", *texts]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(("module", "name"), [(nltk_tokenizers, "TOKENIZER_VERSION"), (encoding, "_LAYOUT")])
def test_a_newer_tokeniser_does_not_read_older_tokens(tmp_path, monkeypatch, tokenised_texts, module, name):
    tokenize_dataset(DATA, tmp_path)
    monkeypatch.setattr(module, name, "newer")
    tokenize_dataset(DATA, tmp_path)
    assert tokenised_texts == TEXTS * 2
    assert len(list(tmp_path.iterdir())) == 2


DAMAGES = {
    "empty": lambda raw: b"",
    "cut short": lambda raw: raw[: len(raw) // 2],
    "cut by a byte": lambda raw: raw[:-1],
    "text": lambda raw: b"not an archive at all",
    "only the magic number": lambda raw: b"PK\x03\x04",
    "a changed number": lambda raw: raw.replace(np.int64(len(PASSAGES)).tobytes(), bytes(8), 1),
    "a changed character": lambda raw: raw.replace(b"Nobody", b"Nobodx"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_said_and_made_again(tmp_path, tokenised_texts, damage):
    expected = tokenize_dataset(DATA, tmp_path).texts
    path = cached_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert path.read_bytes() != whole
    tokenised_texts.clear()
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, expected)
    assert tokenised_texts == TEXTS
    assert len(lines) == 1
    assert lines[0].startswith(f"the cached tokens in {path} cannot be read (")
    assert lines[0].endswith("); tokenising again")
    tokenised_texts.clear()
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, expected)
    assert not tokenised_texts
    assert len(lines) == 1


def test_no_damaged_byte_changes_the_tokens_or_stops_the_run(tmp_path):
    data = SquadData("x", ("a b",), ("",), (Question("q", "b", 0, ()),))
    expected = tokenize_dataset(data, tmp_path).texts
    path = cached_file(tmp_path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 11):
        for mask in (1, 255):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
            assert_equal(tokenize_dataset(data, tmp_path, lambda line: None).texts, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"splits": np.array([0, 2], np.int64)},
        {"splits": np.zeros(0, np.int64)},
        {"tokens": np.ones(1, np.int32)},
        {"starts": np.ones(1, np.int32)},
        {"ends": np.ones(1, np.int32)},
        {"types": np.frombuffer(b"one\ntwo", np.uint8)},
        {"types": np.zeros(0, np.uint8)},
        {"types": np.frombuffer("\n".join(f"type{number}" for number in range(30)).encode(), np.uint8)},
    ],
)
def test_a_cache_that_does_not_fit_is_said_and_made_again(tmp_path, changes):
    expected = tokenize_dataset(DATA, tmp_path).texts
    path = cached_file(tmp_path)
    rewrite(path, **changes)
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, expected)
    assert lines == [f"the cached tokens in {path} cannot be read (its tokens do not fit the data); tokenising again"]


def test_a_cache_without_an_array_is_said_and_made_again(tmp_path):
    expected = tokenize_dataset(DATA, tmp_path).texts
    rewrite(cached_file(tmp_path), ends=None)
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, expected)
    assert len(lines) == 1
    assert "cannot be read" in lines[0]


def test_a_folder_that_cannot_be_written_is_said_and_does_no_harm(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("here stands a file")
    lines = []
    assert_equal(tokenize_dataset(DATA, blocked / "cache", lines.append).texts, tokenize_texts(TEXTS))
    assert len(lines) == 1
    path = blocked / "cache" / f"tokens-{encoding._fingerprint(TEXTS)}.npz"
    assert re.fullmatch(
        rf"the tokens cannot be cached in {re.escape(str(path))} \([A-Z][a-z ]+\); going on without", lines[0]
    )


def test_a_folder_that_must_not_be_looked_into_does_no_harm(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    # A home folder of somebody else, as in a container that runs under a foreign user id.
    for name in ("pathlib.Path.stat", "pathlib.Path.mkdir", "builtins.open"):
        monkeypatch.setattr(name, forbidden)
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, tokenize_texts(TEXTS))
    monkeypatch.undo()
    assert len(lines) == 2
    assert lines[0].endswith("cannot be read ([Errno 13] Permission denied); tokenising again")
    assert lines[1].endswith("(Permission denied); going on without")


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def full(file, **arrays):
        file.write(b"PK\x03\x04 and no more")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoding.np, "savez", full)
    lines = []
    tokenize_dataset(DATA, tmp_path, lines.append)
    assert len(lines) == 1
    assert lines[0].endswith("(No space left on device); going on without")
    assert not list(tmp_path.iterdir())


def test_tokenised_data_takes_texts_from_elsewhere():
    texts = tokenize_texts(TEXTS)
    assert_equal(TokenizedDataset(DATA, texts).texts, tokenize_dataset(DATA).texts)
