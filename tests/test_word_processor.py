"""Words as arrays: each text tokenized once, the cache of tokens, the ids of every unique token, and files."""

import json
import re
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_testing import check_processor

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.text import tokenized as module
from fabir_tf.pipelines.text.graph.parity import texts_cut_differently
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary
from fabir_tf.pipelines.text.graph.word_processor import GraphWordProcessor
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION, load_processor, saved_rules
from fabir_tf.pipelines.text.registry import PROCESSORS, read_processor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_texts
from fabir_tf.pipelines.text.tokenizer import NEWEST_RULES, Tokens, tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor, WordTokenizer
from fabir_tf.pipelines.text.word_vectors import WordVectors
from fabir_tf.version import __version__

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


class CountingTokenizer(WordTokenizer):
    """Keeps the texts that it was called with, in order."""

    def __init__(self, version="counting"):
        self.calls = []
        self.version = version

    @property
    def tokenizer_version(self):
        return self.version

    def tokenize_text(self, text):
        self.calls.append(text)
        return super().tokenize_text(text)


@pytest.fixture
def tokenizer():
    return CountingTokenizer()


def tokenize_dataset(data, *options, tokenizer=None):
    return module.tokenize_dataset(data, tokenizer or WordTokenizer(), *options)


def assert_equal(actual, expected):
    assert actual.unique == expected.unique
    for name in ("tokens", "starts", "ends", "splits"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))
        assert getattr(actual, name).dtype == getattr(expected, name).dtype


# === Arrays ===


def test_texts_become_indices_of_unique_tokens():
    texts = tokenize_texts(["the cat", "", "The cat saw the cat"], WordTokenizer())
    assert texts.unique == ["the", "cat", "The", "saw"]
    assert texts.tokens.tolist() == [1, 2, 3, 2, 4, 1, 2]
    assert texts.starts.tolist() == [0, 4, 0, 4, 8, 12, 16]
    assert texts.ends.tolist() == [3, 7, 3, 7, 11, 15, 19]
    assert texts.splits.tolist() == [0, 2, 2, 7]
    assert texts.lengths.tolist() == [2, 0, 5]
    dtypes = [array.dtype for array in (texts.tokens, texts.starts, texts.ends, texts.splits, texts.lengths)]
    assert dtypes == [np.int32, np.int32, np.int32, np.int64, np.int64]


def test_no_texts():
    texts = tokenize_texts([], WordTokenizer())
    assert texts.unique == []
    assert [len(texts.tokens), texts.splits.tolist(), texts.lengths.tolist()] == [0, [0], []]


def test_every_text_gives_back_the_tokenizers_own_tokens():
    texts = tokenize_dataset(DATA).texts
    for number, text in enumerate(TEXTS):
        assert texts.tokens_of(number) == tokenize(text)


def test_progress_is_logged_every_ten_thousand_texts(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "tokenize_text", lambda text: Tokens([text], [0], [1]))
    lines = []
    tokenize_texts(["a"] * 20_001, tokenizer, lines.append)
    assert lines == ["tokenized 10,000 of 20,001 texts", "tokenized 20,000 of 20,001 texts"]


def test_each_passage_is_tokenized_once(tokenizer):
    tokenize_dataset(DATA, tokenizer=tokenizer)
    assert tokenizer.calls == TEXTS


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

NOTHING = Examples(*(np.zeros(0, np.int64) for _ in range(3)))


def ids_of(data, vocabulary, width):
    """The unique tokens of a dataset, their word ids and their character ids."""
    tokenized = tokenize_dataset(data)
    unique = WordProcessor(vocabulary, max_word_characters=width).features(tokenized, NOTHING).unique
    return tokenized.texts.unique, unique["words"], unique["characters"]


def test_ids_of_unique_tokens():
    tokens, words, characters = ids_of(DATA, Vocabulary(("dog",), ("t", "e"), ["the", "cat"]), 4)
    assert words.shape == (len(tokens) + 1,)
    assert characters.shape == (len(tokens) + 1, 4)
    assert (words.dtype, characters.dtype) == (np.int32, np.int32)
    # unknown 1, dog 2, the 3, cat 4; characters: unknown 1, t 2, e 3
    known = {"the": (3, [2, 1, 3, 0]), "The": (3, [1, 1, 3, 0]), "cat": (4, [1, 1, 2, 0]), "dog": (2, [1, 1, 1, 0])}
    known |= {"Nobody": (1, [1, 1, 1, 1]), "\ud83d": (1, [1, 0, 0, 0]), "it": (1, [1, 2, 0, 0])}
    for word, (word_id, ids) in known.items():
        row = tokens.index(word) + 1
        assert words[row] == word_id
        assert characters[row].tolist() == ids


def test_token_zero_is_padding():
    _, words, characters = ids_of(DATA, Vocabulary((), (), ()), 3)
    assert words[0] == 0
    assert characters[0].tolist() == [0, 0, 0]
    assert (words[1:] > 0).all()


def test_ids_without_a_token():
    empty = SquadData("blank", ("", " "), ("", ""), (Question("q", "\t", 1, ()),))
    _, words, characters = ids_of(empty, Vocabulary(("dog",), ("d",), ()), 5)
    assert words.tolist() == [0]
    assert characters.tolist() == [[0] * 5]
    tokenized = tokenize_dataset(empty)
    assert not tokenized.token_counts()
    # There is a token to look up all the same.
    assert WordProcessor(Vocabulary((), (), ())).features(tokenized, NOTHING).tokens.tolist() == [0]


def test_two_datasets_in_turn_keep_their_ids():
    """The ids of the last dataset are kept between calls."""
    processor = WordProcessor(Vocabulary(("dog",), ("d",), ["the", "cat"]))
    other = SquadData("other", ("a dog",), ("",), (Question("q", "cat", 0, ()),))
    parts = [tokenize_dataset(data) for data in (DATA, other)]
    found = [processor.features(part, NOTHING).unique for part in (*parts, *parts)]
    assert found[1]["words"].tolist() == found[3]["words"].tolist() == [0, 1, 2, 4]
    np.testing.assert_array_equal(found[0]["words"], found[2]["words"])
    assert len(found[0]["words"]) > 10


# === Cache ===


def cached_file(folder):
    (path,) = folder.iterdir()
    return path


def rewrite(path, **changes):
    """Changes arrays of a cache file; None removes one."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    assert arrays.keys() >= changes.keys()
    arrays |= changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_a_second_run_reads_what_the_first_one_wrote(tmp_path, tokenizer):
    lines = []
    first = tokenize_dataset(DATA, tmp_path / "new" / "folder", lines.append, tokenizer=tokenizer)
    assert tokenizer.calls == TEXTS
    tokenizer.calls.clear()
    second = tokenize_dataset(DATA, tmp_path / "new" / "folder", lines.append, tokenizer=tokenizer)
    assert not tokenizer.calls
    assert not lines
    assert second.data is DATA
    assert_equal(second.texts, first.texts)
    assert_equal(second.texts, tokenize_texts(TEXTS, WordTokenizer()))


def test_a_dataset_without_tokens_is_cached_too(tmp_path, tokenizer):
    empty = SquadData("blank", ("",), ("",), (Question("q", " ", 0, ()),))
    first = tokenize_dataset(empty, tmp_path, tokenizer=tokenizer)
    tokenizer.calls.clear()
    assert_equal(tokenize_dataset(empty, tmp_path, tokenizer=tokenizer).texts, first.texts)
    assert not tokenizer.calls


def test_the_cache_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    tokenize_dataset(DATA, "~/tokens")
    assert re.fullmatch(r"tokens-[0-9a-f]{32}\.npz", cached_file(tmp_path / "tokens").name)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenize_dataset(DATA, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("texts", [["ab", "c"], ["a", "bc"], ["a", "b c"], ["a b", "c"], ["abc"], ["a", "b", "c", ""]])
def test_other_texts_are_other_files(tmp_path, tokenizer, texts):
    for passages in (("a", "b", "c"), tuple(texts)):
        data = SquadData("x", passages, ("",) * len(passages), ())
        tokenize_dataset(data, tmp_path, tokenizer=tokenizer)
    assert tokenizer.calls == ["a", "b", "c", *texts]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("changed", ["tokenizer_version", "layout"])
def test_a_newer_tokenizer_does_not_read_older_tokens(tmp_path, monkeypatch, tokenizer, changed):
    tokenize_dataset(DATA, tmp_path, tokenizer=tokenizer)
    if changed == "layout":
        monkeypatch.setattr(module, "_LAYOUT", "newer")
    else:
        tokenizer.version = "newer"
    tokenize_dataset(DATA, tmp_path, tokenizer=tokenizer)
    assert tokenizer.calls == TEXTS * 2
    assert len(list(tmp_path.iterdir())) == 2


def test_the_version_of_words_names_the_rules_and_nltk():
    older, newest = WordTokenizer(), WordTokenizer()
    older.rules = 1
    assert re.fullmatch(r"\d+\+nltk-[\d.]+", newest.tokenizer_version)
    assert newest.tokenizer_version.startswith(f"{NEWEST_RULES}+")
    assert older.tokenizer_version == "1" + newest.tokenizer_version.removeprefix(str(NEWEST_RULES))


def test_each_version_of_the_rules_has_its_own_cache(tmp_path):
    data = SquadData("x", ("in the U.S. in 1950",), ("",), (Question("q", "a\u200bb", 0, ()),))
    older = WordTokenizer()
    older.rules = 1
    for _ in range(2):
        assert tokenize_dataset(data, tmp_path).texts.lengths.tolist() == [5, 2]
        assert tokenize_dataset(data, tmp_path, tokenizer=older).texts.lengths.tolist() == [6, 1]
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
def test_a_damaged_cache_is_said_and_made_again(tmp_path, tokenizer, damage):
    expected = tokenize_dataset(DATA, tmp_path, tokenizer=tokenizer).texts
    path = cached_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert path.read_bytes() != whole
    tokenizer.calls.clear()
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append, tokenizer=tokenizer).texts, expected)
    assert tokenizer.calls == TEXTS
    assert len(lines) == 1
    assert lines[0].startswith(f"the cached tokens in {path} cannot be read (")
    assert lines[0].endswith("); tokenizing again")
    tokenizer.calls.clear()
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append, tokenizer=tokenizer).texts, expected)
    assert not tokenizer.calls
    assert len(lines) == 1


def test_no_damaged_byte_changes_the_tokens_or_stops_the_run(tmp_path):
    data = SquadData("x", ("a b",), ("",), (Question("q", "b", 0, ()),))
    expected = tokenize_dataset(data, tmp_path).texts
    path = cached_file(tmp_path)
    whole = path.read_bytes()
    for index in range(0, len(whole), 11):
        for mask in (1, 255):
            path.write_bytes(whole[:index] + bytes([whole[index] ^ mask]) + whole[index + 1 :])
            assert_equal(tokenize_dataset(data, tmp_path, lambda line: None).texts, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"splits": np.array([0, 2], np.int64)},
        {"splits": np.zeros(0, np.int64)},
        {"tokens": np.ones(1, np.int32)},
        {"starts": np.ones(1, np.int32)},
        {"ends": np.ones(1, np.int32)},
        {"unique": np.frombuffer(b"one\ntwo", np.uint8)},
        {"unique": np.zeros(0, np.uint8)},
        {"unique": np.frombuffer("\n".join(f"token{number}" for number in range(30)).encode(), np.uint8)},
    ],
)
def test_a_cache_that_does_not_fit_is_said_and_made_again(tmp_path, changes):
    expected = tokenize_dataset(DATA, tmp_path).texts
    path = cached_file(tmp_path)
    rewrite(path, **changes)
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, expected)
    assert lines == [f"the cached tokens in {path} cannot be read (its tokens do not fit the data); tokenizing again"]


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
    assert_equal(tokenize_dataset(DATA, blocked / "cache", lines.append).texts, tokenize_texts(TEXTS, WordTokenizer()))
    assert len(lines) == 1
    path = rf"{re.escape(str(blocked))}/cache/tokens-[0-9a-f]{{32}}\.npz"
    assert re.fullmatch(
        rf"the tokens cannot be cached in {path} \([A-Z][a-z ]+\); continuing without a cache", lines[0]
    )


def test_a_folder_that_must_not_be_looked_into_does_no_harm(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    # A home folder of somebody else, as in a container that runs under a foreign user id.
    for name in ("pathlib.Path.stat", "pathlib.Path.mkdir", "builtins.open"):
        monkeypatch.setattr(name, forbidden)
    lines = []
    assert_equal(tokenize_dataset(DATA, tmp_path, lines.append).texts, tokenize_texts(TEXTS, WordTokenizer()))
    monkeypatch.undo()
    assert len(lines) == 2
    assert lines[0].endswith("cannot be read ([Errno 13] Permission denied); tokenizing again")
    assert lines[1].endswith("(Permission denied); continuing without a cache")


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def full(file, **arrays):
        file.write(b"PK\x03\x04 and no more")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.np, "savez", full)
    lines = []
    tokenize_dataset(DATA, tmp_path, lines.append)
    assert len(lines) == 1
    assert lines[0].endswith("(No space left on device); continuing without a cache")
    assert not list(tmp_path.iterdir())


def test_tokenized_data_takes_texts_from_elsewhere():
    texts = tokenize_texts(TEXTS, WordTokenizer())
    assert_equal(TokenizedDataset(DATA, texts).texts, tokenize_dataset(DATA).texts)


# === Words of passages and questions ===

WORDS = ("the", "cat", "saw", "dog", "who")
VECTORS = WordVectors(["cat", "owl"], np.array([[1, 2, 3], [4, 5, 6]], np.float16), "a test")
PROCESSOR = WordProcessor(Vocabulary(WORDS, tuple("abcdehot."), VECTORS.words), VECTORS, max_word_characters=6)
LONG = "The owl saw 20miles of cat-tails, didn't it? " * 40
PLAIN = (["Who saw the dog?", "the cat"], ["The cat saw the dog.", "An owl."])
CHECKED = {
    "plain": (*PLAIN, 3),
    "empty": (["", "who", " ", "\n"], ["the cat", "", " \t", "\u2003"], 5),
    "nothing but blanks": (["", " "], [" ", ""], 5),
    "unicode": (
        ["Wer sah İstanbul?", "\u00e9 e\u0301 \ufb01", "क्या 猫 𝒳?", "\x00 \u200b\u2028x"],
        ["İn 😀 a\u0301! \U0010ffff", "“Quoted” – ‘text’…", "猫が犬を見た。 Привет, мир!", "a\u00a0b\x85c\ufffd"],
        4,
    ),
    "long": ([LONG, "who saw it?", "of cats"], [LONG, LONG + "the end.", "An owl."], 64),
    "many questions about one passage": (["who"] * 5 + ["the the"], ["The cat saw the dog."], 4),
    "windows of one token": (*PLAIN, 1),
    "windows that hold all": (*PLAIN, 512),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CHECKED)
def test_words_in_python_and_in_a_graph(case):
    check_processor(PROCESSOR, *CHECKED[case])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_words_in_python_and_in_a_graph(questions, passages):
    check_processor(PROCESSOR, questions, passages, 4)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ids", "tokens"])
def test_the_check_finds_a_graph_that_differs(what, monkeypatch):
    word_ids, graph_tokens = GraphVocabulary.word_ids, GraphWordProcessor.tokenize
    if what == "ids":
        monkeypatch.setattr(GraphVocabulary, "word_ids", lambda self, tokens: word_ids(self, tokens) + 1)
    else:
        monkeypatch.setattr(GraphWordProcessor, "tokenize", lambda self, texts: graph_tokens(self, texts + "x"))
    with pytest.raises(AssertionError, match="passage_words" if what == "ids" else "row_splits"):
        check_processor(WordProcessor(PROCESSOR.vocabulary, VECTORS, 6), *PLAIN, 3)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [LONGEST_QUESTION, LONGEST_QUESTION + 1, 3 * LONGEST_QUESTION])
def test_long_questions_are_truncated(tokens):
    data = SquadData("long", ("the cat",), ("",), (Question("q", "who " * tokens, 0, ()),))
    tokenized = PROCESSOR.tokenize(data)
    features = PROCESSOR.features(tokenized, reading_examples(np.array([2]), np.array([9])))
    assert tokenized.question_lengths.tolist() == [tokens]
    assert features.segments["question"].lengths.tolist() == [LONGEST_QUESTION]
    check_processor(PROCESSOR, [data.questions[0].text], data.passages, 9)


@pytest.mark.slow
def test_words_have_a_budget_for_each_text():
    assert PROCESSOR.window_sizes(np.array([0, 3, 4000]), 300).tolist() == [300] * 3
    found = PROCESSOR.in_graph().window_sizes(tf.constant([0, 3, 4000], tf.int64), 300)
    assert (found.numpy().tolist(), found.dtype) == ([300] * 3, tf.int64)


def test_what_a_model_needs_to_know():
    words, characters = ((None, None), "int32"), ((None, None, 6), "int32")
    assert PROCESSOR.input_specs == {
        "passage_words": words,
        "passage_characters": characters,
        "question_words": words,
        "question_characters": characters,
    }
    assert PROCESSOR.sizes == {"trainable_words": 6, "characters": 10, "frozen_words": 2}
    assert PROCESSOR.frozen_tables.keys() == {"word_embedding"}
    np.testing.assert_array_equal(PROCESSOR.frozen_tables["word_embedding"], VECTORS.table)
    assert WordProcessor(Vocabulary((), (), ())).frozen_tables == {}


def test_a_processor_is_made_of_settings_and_the_training_data():
    created = WordProcessor.create(
        {"vectors": "none", "min_word_count": 1, "min_character_count": 2, "max_word_characters": 4, "d_model": 20}
    )
    assert created.tokenize_text("the cat") == tokenize("the cat")
    with pytest.raises(ValueError, match="no vocabulary yet: call fit"):
        created.sizes  # noqa: B018
    train, scored = (
        created.tokenize(SquadData(name, (passage,), ("",), (Question("q", question, 0, ()),)))
        for name, passage, question in (("train", "the cat the", "dog dog the"), ("scored", "owl owl owl", "owl"))
    )
    fitted = created.fit([train, scored])
    # More than once, and more than twice: "the" 3, "dog" 2; t 4, h 3, e 3; no word of what is scored.
    assert set(fitted.vocabulary.trainable_words) == {"the", "dog"}
    assert set(fitted.vocabulary.characters) == {"t", "h", "e"}
    assert fitted.max_word_characters == 4
    assert fitted.vectors.words == []


# === Files ===


@pytest.fixture
def folder(tmp_path):
    PROCESSOR.save(tmp_path / "processor")
    return tmp_path / "processor"


def rewrite_json(folder, **changes):
    path = folder / "processor.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_processor_comes_back_from_its_folder(folder):
    content = json.loads((folder / "processor.json").read_text())
    assert content == {
        "kind": "words",
        "format": 1,
        "fabir_tf": __version__,
        "rules": NEWEST_RULES,
        "tokenizer": WordTokenizer().tokenizer_version,
        "values": {"max_word_characters": 6},
    }
    lines = []
    found = read_processor(folder, lines.append)
    assert not lines
    assert isinstance(found, WordProcessor)
    assert found.vocabulary.trainable_words == PROCESSOR.vocabulary.trainable_words
    assert found.vocabulary.characters == PROCESSOR.vocabulary.characters
    assert list(found.vocabulary.frozen_words) == VECTORS.words
    np.testing.assert_array_equal(found.vectors.table, VECTORS.table)
    assert found.max_word_characters == 6


@pytest.mark.slow
def test_a_packed_processor_keeps_the_first_words(tmp_path):
    packed = PROCESSOR.packed(1)
    packed.save(tmp_path)
    found = read_processor(tmp_path)
    assert found.sizes == {"trainable_words": 6, "characters": 10, "frozen_words": 1}
    assert list(found.vectors.words) == ["cat"]
    # 8 bits per number.
    np.testing.assert_allclose(found.vectors.table, VECTORS.table[:1], atol=3 / 127)
    check_processor(found, *PLAIN, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "pictures"}, "found the text 'pictures' as kind, expected one of .*words"),
        ({"kind": None}, "found null as kind, expected one of .*words"),
        ({"kind": ["words"]}, "found .* as kind, expected one of .*words"),
        ({"format": 2}, "found the number 2 as format, expected 1"),
        ({"format": None}, "found null as format, expected 1"),
        ({"rules": 0}, "rules is the number 0, expected their version, a whole number from 1$"),
        ({"rules": 99}, f"found version 99 of the rules, expected 1 to {NEWEST_RULES}: it needs a later fabir_tf"),
        ({"rules": "newest"}, "rules is the text 'newest', expected their version"),
        ({"rules": False}, "rules is false, expected their version"),
        ({"values": []}, "found .* as values, expected an object"),
        ({"values": {}}, "found max_word_characters=None, expected a positive number"),
        ({"values": {"max_word_characters": 0}}, "found max_word_characters=0, expected a positive number"),
    ],
)
def test_another_content_is_refused(folder, changes, message):
    rewrite_json(folder, **changes)
    with pytest.raises(UserError, match=message) as caught:
        read_processor(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "7", "null"])
def test_a_damaged_processor_is_refused(folder, content):
    (folder / "processor.json").write_text(content)
    with pytest.raises(UserError, match=r"processor\.json"):
        read_processor(folder)


@pytest.mark.parametrize("name", ["processor.json", "vocabulary.json"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(UserError, match=re.escape(name)):
        read_processor(folder)


def test_another_tokenizer_is_said_in_one_sentence_and_stays_known(folder, tmp_path):
    rewrite_json(folder, tokenizer="0+nltk-1.0")
    lines = []
    found = read_processor(folder, lines.append)
    (line,) = lines
    installed = WordTokenizer().tokenizer_version
    assert line.startswith(f"{folder / 'processor.json'}: saved with the tokenizer 0+nltk-1.0, ")
    assert f"this installation has {installed}" in line
    # Saving it again does not make the tokens of its training those of this installation.
    for copy in (found, found.packed(1)):
        copy.save(tmp_path / "copy")
        assert json.loads((tmp_path / "copy" / "processor.json").read_text())["tokenizer"] == "0+nltk-1.0"
    assert read_processor(folder).saved_tokenizer_version == "0+nltk-1.0"


ABBREVIATED = "He met Dr. Lee in the U.S. in 1950, at 9 a.m.\u200b"


@pytest.mark.slow
@pytest.mark.parametrize("rules", [1, NEWEST_RULES])
def test_a_saved_processor_keeps_its_rules_in_python_and_in_a_graph(folder, tmp_path, rules):
    rewrite_json(folder, rules=rules)
    found = read_processor(folder)
    assert saved_rules(folder) == found.rules == found.packed(1).rules == rules
    found.save(tmp_path / "copy")
    for processor in (found, read_processor(tmp_path / "copy")):
        assert processor.tokenize_text(ABBREVIATED) == tokenize(ABBREVIATED, rules)
        assert texts_cut_differently(processor, [ABBREVIATED]) == []
    assert processor.rules == rules


def test_a_processor_without_a_note_of_its_rules_keeps_the_first(folder):
    content = json.loads((folder / "processor.json").read_text())
    del content["rules"], content["tokenizer"]
    (folder / "processor.json").write_text(json.dumps(content))
    lines = []
    found = read_processor(folder, lines.append)
    assert (saved_rules(folder), found.rules, found.tokenize_text("U.S. it").words) == (1, 1, ["U.S", ".", "it"])
    assert not lines


def test_a_fitted_processor_has_the_rules_of_its_tokens():
    created = WordProcessor.create({"vectors": "none", "min_word_count": 0, "min_character_count": 0})
    created.rules = 1
    data = SquadData("train", ("in the U.S. in 1950",), ("",), (Question("q", "the?", 0, ()),))
    assert created.fit([created.tokenize(data)]).rules == 1


def test_every_kind_is_registered_by_its_name():
    assert {kind: processor.kind for kind, processor in PROCESSORS.items()} == {kind: kind for kind in PROCESSORS}


def test_only_the_kinds_that_are_given_are_known(folder):
    with pytest.raises(UserError, match="found the text 'words' as kind, expected one of others"):
        load_processor(folder, {"others": WordProcessor})
