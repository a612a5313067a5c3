"""Tests of word vectors: all formats, all messages, memory, and the files of a run."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from shared_data import SHARED, needs_shared

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text import word_vectors as vectors
from fabir_tf.pipelines.text.word_vectors import (
    WordVectors,
    dequantise_rows,
    load_saved_vectors,
    load_saved_words,
    load_vectors,
    quantise_rows,
    save_packed_vectors,
    save_vectors,
    validate_dimension,
)

GLOVE = SHARED / "glove" / "glove.6B.100d.npz"


def write(folder: Path, content: str | bytes, name: str = "glove.txt") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def write_npz(folder: Path, **arrays: np.ndarray) -> str:
    path = folder / "vectors.npz"
    np.savez(path, **arrays)
    return str(path)


def message(spec: str, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        load_vectors(spec, **options)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".")
    return text


# Text


def test_text_is_read_row_by_row(tmp_path):
    spec = write(tmp_path, "the 0.5 -1 2e-3\n, 1 2 3\nnaïve -0.25 0 65504\n")
    read = load_vectors(spec)
    assert read.words == ["the", ",", "naïve"]
    assert read.source == spec
    assert read.dimension == 3
    assert read.table.dtype == np.float16
    expected = np.array([[0.5, -1, 2e-3], [1, 2, 3], [-0.25, 0, 65504]], np.float16)
    np.testing.assert_array_equal(read.table, expected)


@pytest.mark.parametrize(
    "content",
    [
        "the 1 2\ncat 3 4\n",
        "the 1 2\ncat 3 4",
        "the 1 2 \ncat 3 4 \n",
        "the\t1\t2\ncat\t3\t4\n",
        "the 1 2\r\ncat 3 4\r\n",
        "the 1 2\n\ncat 3 4\n\n",
        "2 2\nthe 1 2\ncat 3 4\n",
        "\ufeffthe 1 2\ncat 3 4\n",
        "\ufeff2 2\nthe 1 2\ncat 3 4\n",
        "\ufeff\nthe 1 2\ncat 3 4\n",
    ],
    ids=[
        *("plain", "no last newline", "space at the end", "tabs", "crlf", "blank lines", "header"),
        *("byte order mark", "mark and header", "mark and blank line"),
    ],
)
def test_text_forms_that_tools_write(tmp_path, content):
    read = load_vectors(write(tmp_path, content))
    assert read.words == ["the", "cat"]
    np.testing.assert_array_equal(read.table, [[1, 2], [3, 4]])


def test_gzip_is_recognized_by_its_content(tmp_path):
    packed = gzip.compress(b"the 1 2\ncat 3 4\n")
    for name in ("glove.txt.gz", "glove.txt"):
        assert load_vectors(write(tmp_path, packed, name)).words == ["the", "cat"]


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, "the 1 2\n")
    assert load_vectors("~/glove.txt").words == ["the"]


def test_words_with_spaces_are_split_from_the_right(tmp_path):
    read = load_vectors(write(tmp_path, "the 1 2\n. . . 3 4\nat name@domain.com 5 6\nnon\u00a0breaking\u2028x 7 8\n"))
    assert read.words == ["the", ". . .", "at name@domain.com", "non\u00a0breaking\u2028x"]
    np.testing.assert_array_equal(read.table, [[1, 2], [3, 4], [5, 6], [7, 8]])


def test_blanks_in_front_of_a_word_are_no_part_of_it(tmp_path):
    spec = write(tmp_path, "the 1 2\n  cat 3 4\n\tdog 5 6\n")
    for chosen in (load_vectors(spec), load_vectors(spec, needed={"cat", "dog"}, max_words=1)):
        assert chosen.words == ["the", "cat", "dog"]


def test_words_that_python_reads_as_numbers(tmp_path):
    found = load_vectors(write(tmp_path, "the 1 2\nto infinity 3 4\nat nan 5 6\n"))
    assert found.words == ["the", "to infinity", "at nan"]
    with pytest.raises(UserError, match="found 3 numbers, expected 2"):
        load_vectors(write(tmp_path, "the 1 2\nto 1e5 3 4\n"))


def test_half_a_surrogate_pair_survives_packing(tmp_path):
    """JSON may hold one, and --random_vectors gives each word of the data a vector."""
    vectors = WordVectors(["the", "\ud83d", "cat"], np.eye(3, dtype=np.float32), "mine")
    save_packed_vectors(vectors, tmp_path)
    assert load_saved_vectors(tmp_path).words == vectors.words


def test_words_become_lower_case_and_the_first_row_is_kept(tmp_path):
    read = load_vectors(write(tmp_path, "China 1\nthe 2\nchina 3\nTHE 4\nthe 5\ncat 6\n"))
    assert read.words == ["china", "the", "cat"]
    np.testing.assert_array_equal(read.table, [[1], [2], [6]])


@pytest.mark.parametrize("needed", [{"five", "absent", "one"}, ["five", "one"]])
def test_later_rows_are_kept_only_if_needed(tmp_path, needed):
    spec = write(tmp_path, "one 1\ntwo 2\nthree 3\nfour 4\nFive 5\nfive 6\n")
    read = load_vectors(spec, needed=needed, max_words=3)
    assert read.words == ["one", "two", "three", "five"]
    np.testing.assert_array_equal(read.table, [[1], [2], [3], [5]])


def test_a_skipped_word_with_spaces_is_not_confused_with_its_first_part(tmp_path):
    read = load_vectors(write(tmp_path, "the 1 2\n. . . 3 4\n. 5 6\n"), needed={"."}, max_words=1)
    assert read.words == ["the", "."]
    np.testing.assert_array_equal(read.table, [[1, 2], [5, 6]])


def test_the_table_grows_past_its_first_size(tmp_path):
    spec = write(tmp_path, "".join(f"w{number} {number} 1\n" for number in range(2000)))
    read = load_vectors(spec)
    np.testing.assert_array_equal(read.table, [[number, 1] for number in range(2000)])


def test_memory_depends_on_the_kept_rows_and_not_on_the_file(tmp_path):
    path = tmp_path / "large.txt"
    line = " 0.123456" * 50 + "\n"
    with open(path, "w") as stream:
        stream.writelines(f"word{number}{line}" for number in range(60_000))
    needed = {f"word{number}" for number in range(59_500, 60_000)}
    tracemalloc.start()
    read = load_vectors(str(path), needed=needed, max_words=500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.table.shape == (1000, 50)
    assert read.words[-1] == "word59999"
    assert path.stat().st_size > 27_000_000
    assert peak < 2_000_000


# Text: messages


def test_a_missing_file_is_reported(tmp_path):
    path = str(tmp_path / "none.txt")
    assert (
        message(path) == f"{path}: no such file, expected word vectors (GloVe text, .txt.gz, .npz or fastText's .bin)."
    )


def test_a_folder_is_reported(tmp_path):
    assert message(str(tmp_path)) == f"{tmp_path}: found a folder, expected a file of word vectors."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("the 1 2 3\ncat 4 5\n", ", line 2: found 2 numbers, expected 3 as in the first line."),
        ("the 1 2 3\ncat 4 5 6 7\n", ", line 2: found 4 numbers, expected 3 as in the first line."),
        ("the 1 2 3\ncat\n", ", line 2: found 0 numbers, expected 3 as in the first line."),
        ("1 2\nthe 1 2 3\n", ", line 2: found 3 numbers, expected 2 as in the first line."),
        ("the 1 2\n\ncat 1 two\n", ", line 3: found 'two', expected one of 2 numbers."),
        ("the big 1 2\ncat 1 2\n", ", line 1: found 'big', expected one of 3 numbers."),
        ("the 1 2\ncat nan 2\n", ", line 2: found nan, expected finite numbers up to 65504."),
        ("the 1 2\ncat 2 -inf\n", ", line 2: found -inf, expected finite numbers up to 65504."),
        ("the 1 2\ncat 2 70000\n", ", line 2: found 70000.0, expected finite numbers up to 65504."),
        ("the\n", ", line 1: found no numbers, expected a word and the numbers of its vector."),
        ("", ": found no vectors, expected lines of a word and its numbers."),
        ("\n \n", ": found no vectors, expected lines of a word and its numbers."),
        ("400000 100\n", ": found no vectors, expected lines of a word and its numbers."),
    ],
)
def test_broken_text_is_reported(tmp_path, content, expected):
    spec = write(tmp_path, content)
    assert message(spec) == spec + expected


def test_a_short_line_is_found_among_the_skipped_lines(tmp_path):
    spec = write(tmp_path, "the 1 2\ncat 3 4\ndog 5")
    expected = f"{spec}, line 3: found 1 numbers, expected 2 as in the first line."
    assert message(spec, max_words=1) == expected


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"caf\xe9 1 2\n", 1),
        (b"the 1 2\ncaf\xe9 3 4\n", 2),
        (b"the 1 2\ncat 3 \xff\n", 2),
        (b"9 2\nthe \x80\x90\xa0\n", 2),
    ],
)
def test_text_that_is_not_utf8_is_reported(tmp_path, content, number):
    spec = write(tmp_path, content)
    expected = f"{spec}, line {number}: found bytes that are not UTF-8, expected text"
    assert message(spec).startswith(expected)


def test_a_truncated_gzip_file_is_reported(tmp_path):
    spec = write(tmp_path, gzip.compress(b"the 1 2\ncat 3 4\n" * 50)[:-12], "glove.txt.gz")
    text = message(spec)
    assert text.startswith(f"{spec}: found an unreadable file (") and text.endswith("), expected word vectors.")


def test_a_zip_archive_of_text_is_reported(tmp_path):
    spec = write(tmp_path, b"PK\x03\x04 and so on", "glove.6B.zip")
    assert message(spec) == f"{spec}: found a zip archive, expected the text file inside it: unpack it first."


# .npz


WORDS = np.bytes_("the\n,\nnaïve".encode())
TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float16)


@pytest.mark.parametrize("words", [WORDS, np.bytes_(WORDS + b"\n"), np.frombuffer(WORDS, np.uint8)])
def test_npz_is_read(tmp_path, words):
    spec = write_npz(tmp_path, words=words, vectors=TABLE, exact=np.zeros(1))
    read = load_vectors(spec)
    assert read.words == ["the", ",", "naïve"]
    assert read.source == spec
    assert read.table.dtype == np.float16
    np.testing.assert_array_equal(read.table, TABLE)


def test_npz_follows_the_same_rules_as_text(tmp_path):
    spec = write_npz(tmp_path, words=np.bytes_(b"The\nthe\none\ntwo\nthree"), vectors=np.arange(10.0).reshape(5, 2))
    read = load_vectors(spec, needed={"three"}, max_words=2)
    assert read.words == ["the", "one", "three"]
    np.testing.assert_array_equal(read.table, [[0, 1], [4, 5], [8, 9]])


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"vectors": TABLE}, ": found no array `words`, expected the words as UTF-8 bytes separated by newlines."),
        ({"words": WORDS}, ": found no array `vectors`, expected it, or `quantised` and `scales`."),
        (
            {"words": np.array(["a", "b", "c"]), "vectors": TABLE},
            ": found `words` as <U1 (3,), expected UTF-8 bytes separated by newlines.",
        ),
        (
            {"words": np.bytes_(b"the\ncaf\xe9"), "vectors": TABLE[:2]},
            ": found bytes that are not UTF-8 at 7 of `words`, expected text.",
        ),
        ({"words": WORDS, "vectors": TABLE[:2]}, ": found 3 words and 2 vectors, expected as many of both."),
        (
            {"words": WORDS, "vectors": TABLE[0]},
            ": found `vectors` as float16 (2,), expected float16 (words, dimension).",
        ),
        (
            {"words": WORDS, "vectors": TABLE.astype(np.int32)},
            ": found `vectors` as int32 (3, 2), expected float16 (words, dimension).",
        ),
        (
            {"words": WORDS, "vectors": np.array([[1, 2], [3, np.nan], [5, 6]])},
            ": found a number in row 1 of the vectors that is not finite in float16.",
        ),
        (
            {"words": WORDS, "vectors": np.array([[1, 2], [3, 4], [5, 1e6]])},
            ": found a number in row 2 of the vectors that is not finite in float16.",
        ),
        (
            {"words": np.bytes_(b""), "vectors": TABLE[:0]},
            ": found no vectors, expected at least one word and its vector.",
        ),
        (
            {"words": WORDS, "quantised": np.zeros((3, 2), np.int8)},
            ": found `quantised` without `scales`, expected one scale per row.",
        ),
        (
            {"words": WORDS, "quantised": np.zeros((3, 2), np.int8), "scales": np.zeros(2, np.float16)},
            ": found `quantised` as int8 (3, 2) and `scales` as float16 (2,), "
            "expected int8 (words, dimension) and float16 (words,).",
        ),
    ],
)
def test_a_broken_npz_file_is_reported(tmp_path, arrays, expected):
    spec = write_npz(tmp_path, **arrays)
    assert message(spec) == spec + expected


@pytest.mark.parametrize("cut", [0, 40, -60])
def test_a_damaged_npz_file_is_reported(tmp_path, cut):
    whole = Path(write_npz(tmp_path, words=WORDS, vectors=TABLE)).read_bytes()
    spec = write(tmp_path, whole[:cut], "vectors.npz")
    text = message(spec)
    assert text.startswith(f"{spec}: found a damaged file (") and text.endswith("), expected a NumPy .npz archive.")


def test_a_pickled_npz_file_is_rejected(tmp_path):
    spec = write_npz(tmp_path, words=np.array([{}], object), vectors=TABLE)
    assert "found a damaged file (Object arrays cannot be loaded" in message(spec)


def test_a_large_npz_table_is_read(tmp_path):
    words = [f"word{number}" for number in range(40_000)]
    table = np.random.default_rng(0).normal(size=(40_000, 100)).astype(np.float16)
    read = load_vectors(write_npz(tmp_path, words=np.array("\n".join(words).encode()), vectors=table))
    assert read.words == words
    np.testing.assert_array_equal(read.table, table)


@needs_shared
def test_the_glove_table_is_read():
    read = load_vectors(str(GLOVE))
    assert read.words[:4] == ["the", ",", ".", "of"]
    assert len(read.words) == 400_000
    assert read.table.shape == (400_000, 100)
    assert read.words[-1] == "sandberger"


# No table, and the dimension


def test_none_is_an_empty_table():
    read = load_vectors("none")
    assert (read.words, read.table.shape, read.dimension, read.source) == ([], (0, 0), 0, "none")


def test_the_dimension_must_be_that_of_the_model():
    read = WordVectors(["the"], np.zeros((1, 50), np.float16), "glove.6B.50d.txt")
    validate_dimension(read, 50)
    validate_dimension(load_vectors("none"), 100)
    with pytest.raises(UserError) as caught:
        validate_dimension(read, 100)
    assert str(caught.value) == ("glove.6B.50d.txt: the vectors have dimension 50, the model expects word_dim=100.")


# The bundled table


def test_quantized_rows_are_within_half_a_step():
    table = np.array([[127, -63.4, 0.6], [0, 0, 0], [-0.254, 0.1, 0.002]], np.float32)
    quantised, scales = quantise_rows(table)
    np.testing.assert_array_equal(quantised, [[127, -63, 1], [0, 0, 0], [-127, 50, 1]])
    assert (quantised.dtype, scales.dtype) == (np.int8, np.float16)
    restored = dequantise_rows(quantised, scales)
    assert restored.dtype == np.float16
    # Half a step, and the rounding of the result and of the scale to float16.
    assert (np.abs(restored - table) <= 0.5 * scales[:, None] + 2e-3 * np.abs(table)).all()


def test_the_bundled_table():
    read = load_vectors("bundled")
    assert read.source == "bundled"
    assert read.table.shape == (len(read.words), 100)
    assert len(read.words) == len(set(read.words)) == 30_000
    assert {"the", ",", "'s", "n't", "1996", "u.s.", "$", "queen", "``"} <= set(read.words)
    assert np.linalg.norm(read.table.astype(np.float32), axis=1).min() > 1
    assert vectors.BUNDLED.stat().st_size < 3_100_000


def test_rows_of_8_bits_have_the_direction_of_the_original_rows():
    """Of vectors whose features differ in size, as GloVe's do."""
    random = np.random.default_rng(3)
    table = random.normal(size=(500, 100)) * random.gamma(2.0, size=100)
    restored = dequantise_rows(*quantise_rows(table.astype(np.float32))).astype(np.float64)
    lengths = np.linalg.norm(table, axis=1) * np.linalg.norm(restored, axis=1)
    assert ((table * restored).sum(1) / lengths).min() >= 0.999


@needs_shared
def test_bundled_rows_have_the_direction_of_the_original_rows():
    bundled = load_vectors("bundled")
    original = load_vectors(str(GLOVE), max_words=len(bundled.words))
    assert bundled.words == original.words
    rows = np.random.default_rng(7).choice(len(bundled.words), 200, replace=False)
    left, right = bundled.table[rows].astype(np.float32), original.table[rows].astype(np.float32)
    cosines = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    assert cosines.min() >= 0.999


# A run's files


def test_saved_vectors_are_loaded_memory_mapped(tmp_path):
    words = ["the", "naïve", "non\u00a0breaking\u2028\x85x", "", "\r"]
    kept = WordVectors(words, np.arange(10, dtype=np.float16).reshape(5, 2), "glove.txt")
    save_vectors(kept, tmp_path / "run")
    read = load_saved_vectors(tmp_path / "run")
    assert (read.words, read.source) == (words, "glove.txt")
    assert load_saved_words(tmp_path / "run") == words
    assert isinstance(read.table, np.memmap) and not read.table.flags.writeable
    np.testing.assert_array_equal(read.table, kept.table)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "vectors.json",
        "vectors.npy",
        "vectors_words.txt",
    ]


def test_saved_vectors_can_be_overwritten_with_themselves(tmp_path):
    save_vectors(WordVectors(["a", "b"], np.ones((2, 3), np.float16), "x"), tmp_path)
    save_vectors(load_saved_vectors(tmp_path), tmp_path)
    np.testing.assert_array_equal(load_saved_vectors(tmp_path).table, np.ones((2, 3)))


def test_an_empty_table_is_saved_and_loaded(tmp_path):
    save_vectors(load_vectors("none"), tmp_path)
    read = load_saved_vectors(tmp_path)
    assert (read.words, read.table.shape, read.source) == ([], (0, 0), "none")


def test_a_failed_save_leaves_the_old_files(tmp_path, monkeypatch):
    save_vectors(WordVectors(["old"], np.ones((1, 2), np.float16), "x"), tmp_path)

    def fail(stream, _):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(vectors.np, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save_vectors(WordVectors(["new"], np.zeros((1, 2), np.float16), "x"), tmp_path)
    monkeypatch.undo()
    assert load_saved_vectors(tmp_path).words == ["old"]
    assert not list(tmp_path.glob("*.tmp"))


def test_words_with_newlines_are_not_saved(tmp_path):
    with pytest.raises(UserError) as caught:
        save_vectors(WordVectors(["a\nb"], np.zeros((1, 2), np.float16), "here"), tmp_path)
    assert str(caught.value) == r"here: found a newline in the word 'a\nb', expected words without newlines."


def test_missing_saved_files_are_reported(tmp_path):
    with pytest.raises(UserError) as caught:
        load_saved_vectors(tmp_path)
    path = tmp_path / "vectors_words.txt"
    assert str(caught.value) == f"{path}: no such file, expected the words of a run's word vectors."
    for name in ("vectors.npy", "vectors.json"):
        save_vectors(WordVectors(["a"], np.zeros((1, 2), np.float16), "x"), tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(UserError) as caught:
            load_saved_vectors(tmp_path)
        assert str(caught.value) == f"{tmp_path / name}: no such file, expected the word vectors of a run."


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("vectors_words.txt", b"a\nb\n", "vectors.npy: found float16 (1, 2), expected float16 (2, dimension): one row"),
        ("vectors_words.txt", b"\xff\n", "vectors_words.txt: found bytes that are not UTF-8 at 0, expected a word per"),
        ("vectors.npy", b"nothing", "found damaged word vectors ("),
        ("vectors.npy", b"", "found damaged word vectors ("),
        ("vectors.json", b"{", "found damaged word vectors ("),
        ("vectors.json", b"{}", "found damaged word vectors ("),
    ],
)
def test_damaged_saved_files_are_reported(tmp_path, name, content, expected):
    save_vectors(WordVectors(["a"], np.zeros((1, 2), np.float16), "x"), tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_saved_vectors(tmp_path)
    assert str(tmp_path) in str(caught.value) and expected in str(caught.value)


# === Several files ===


def test_vectors_of_two_files_are_concatenated(tmp_path):
    """Combines GloVe and fastText as Porwal does; the second file has fastText's header line and other words."""
    glove, fasttext = tmp_path / "glove.txt", tmp_path / "wiki.vec"
    glove.write_text("the 1 2\nmill 3 4\nof 5 6\n")
    fasttext.write_text("3 3\nmill 7 8 9\nThe 1 1 1\nhouse 2 2 2\n")
    both = load_vectors(f"{glove},{fasttext}")
    assert both.words == ["the", "mill", "of", "house"]
    expected = [[1, 2, 1, 1, 1], [3, 4, 7, 8, 9], [5, 6, 0, 0, 0], [0, 0, 2, 2, 2]]
    np.testing.assert_array_equal(both.table, np.array(expected, np.float16))
    assert both.dimension == 5
    assert both.source == f"{glove},{fasttext}"
    # The limit is per file; needed words are kept at any position.
    few = load_vectors(f"{glove},{fasttext}", {"house"}, max_words=1)
    assert few.words == ["the", "mill", "house"]


def test_a_file_may_have_a_comma_in_its_name(tmp_path):
    path = tmp_path / "glove,small.txt"
    path.write_text("the 1 2\n")
    assert load_vectors(str(path)).words == ["the"]


def test_a_missing_file_among_several_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"absent.vec: no such file"):
        load_vectors(f"bundled,{tmp_path / 'absent.vec'}")


@pytest.mark.parametrize(("announced", "is_whole"), [(0, True), (2, True), (3, True), (4, False), (2_000_000, False)])
@pytest.mark.parametrize("max_words", [2, 1000])
def test_a_file_that_ends_before_its_header_says_so(tmp_path, announced, is_whole, max_words):
    # A repeated word and one beyond the limit are vectors, too.
    path = tmp_path / "cut.vec"
    path.write_text(f"{announced} 2\nthe 1 2\n\nThe 1 2\nmill 3 4\n")
    if is_whole:
        assert load_vectors(str(path), frozenset(), max_words).words == ["the", "mill"]
        return
    with pytest.raises(UserError, match=rf"cut\.vec: found 3 of {announced:,} vectors, expected all"):
        load_vectors(str(path), frozenset(), max_words)
