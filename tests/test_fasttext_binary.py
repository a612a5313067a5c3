"""Tests of fastText's binary models on a file written by fastText 0.9.2, with the vectors that fastText returns."""

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.word_vectors import load_vectors

# Two numbers per word, n-grams of 2 to 3 characters in 7 rows; the numbers are random.
MODEL = zlib.decompress(
    base64.b85decode(
        "c-q?~=C9Agz`(!+#H>Kf48)93HX~FVgxR4qNInIKb)98iKQfcDXN9T-fe%pnKNOT?q%zn*#Tb$kOAwsA#KY^$kR(HZD&=4t8~tKC"
        "1do9SN;5&}9dfL8K)jFZy0ZP*GiPiIZMpWp3EW|qmbT2^*ti&ojrYg&FWMipLvBA%jqMIO(F5z;6ZbJNEZFby&}u(OJ=gWc`&wUL"
        "1e()o4>C(LX1%?9tM-0l<IQ$(?=Uft1_1uLKWY"
    )
)
KNOWN = {"the": (-0.54125, 0.06875), "cat": (-0.775, 0.17125), "naïve": (-0.5425, 0.24), "</s>": (-0.7, -1.27)}
UNSEEN = {"zürich": (-0.48, 0.4884615), "o": (-1.0566667, 0.03), "日本": (-0.668, 0.516)}


def write(folder: Path, content: bytes = MODEL) -> str:
    path = folder / "model.bin"
    path.write_bytes(content)
    return str(path)


def message(folder: Path, content: bytes) -> str:
    with pytest.raises(UserError) as caught:
        load_vectors(write(folder, content))
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".") and "model.bin" in text
    return text


def test_known_words_have_the_vectors_of_fasttext(tmp_path):
    read = load_vectors(write(tmp_path))
    assert read.words == ["the", "cat", "naïve", "</s>"]  # the first of "the" and "The"
    expected = [KNOWN[word] for word in read.words]
    np.testing.assert_array_equal(read.table, np.array(expected, np.float16))


def test_needed_words_outside_the_vocabulary_have_vectors_from_their_ngrams(tmp_path):
    read = load_vectors(write(tmp_path), {"the", *UNSEEN}, max_words=1)
    assert read.words == ["the", *sorted(UNSEEN)]
    expected = [KNOWN["the"], *(UNSEEN[word] for word in sorted(UNSEEN))]
    np.testing.assert_array_equal(read.table, np.array(expected, np.float16))


def test_a_model_without_ngrams_gives_no_vectors_of_unknown_words(tmp_path):
    longest = 8 + 4 * 10
    content = MODEL[:longest] + struct.pack("<i", 0) + MODEL[longest + 4 :]
    assert "zürich" not in load_vectors(write(tmp_path, content), {"zürich"}).words


def test_the_file_is_recognized_by_its_content_and_can_be_combined_with_others(tmp_path):
    text = tmp_path / "glove.txt"
    text.write_text("the 1 2 3\n")
    path = write(tmp_path).replace("model.bin", "model")
    (tmp_path / "model.bin").rename(path)
    assert load_vectors(f"{text},{path}").dimension == 5


def test_another_version_and_a_quantized_model_are_reported(tmp_path):
    version = MODEL[:4] + struct.pack("<i", 99) + MODEL[8:]
    assert "version 99" in message(tmp_path, version)
    offset = MODEL.index(struct.pack("<?qq", False, 12, 2))
    assert "quantized" in message(tmp_path, MODEL[:offset] + b"\1" + MODEL[offset + 1 :])


@pytest.mark.parametrize("length", [4, 50, 100, 150, 200, 230])
def test_a_truncated_file_is_reported(tmp_path, length):
    assert "damaged" in message(tmp_path, MODEL[:length])


def test_a_number_beyond_float16_is_reported(tmp_path):
    offset = MODEL.index(struct.pack("<?qq", False, 12, 2)) + 17
    assert "finite" in message(tmp_path, MODEL[:offset] + struct.pack("<f", 1e9) + MODEL[offset + 4 :])
