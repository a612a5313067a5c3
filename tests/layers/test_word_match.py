"""WordMatch: compared with Python's string operations."""

import itertools

import keras
import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import WordMatch

WIDTH = 8
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ1973"


def ids_of(text, length, known):
    """Ids as in a vocabulary; letters outside `LETTERS` and words outside `known` have id 1."""
    words, characters = np.zeros(length, "int32"), np.zeros((length, WIDTH), "int32")
    for position, word in enumerate(text.split()):
        words[position] = 2 + known.index(word.lower()) if word.lower() in known else 1
        characters[position, : len(word)] = [2 + LETTERS.find(letter) for letter in word[:WIDTH]]
    return words, characters


def make_inputs(passages, questions, length=9, asked=5):
    texts = " ".join([*passages, *questions]).lower().split()
    known = [word for word in dict.fromkeys(texts) if not word.startswith("zz")]
    inputs = {}
    for name, rows, size in (("passage", passages, length), ("question", questions, asked)):
        words, characters = zip(*(ids_of(row, size, known) for row in rows), strict=True)
        inputs |= {f"{name}_words": np.stack(words), f"{name}_characters": np.stack(characters)}
    return inputs


def expected(word, others, size):
    """The three features of a word among those of the other text."""
    prefixes = [sum(itertools.takewhile(bool, map(str.__eq__, word[:WIDTH], other[:WIDTH]))) for other in others]
    begun = max(
        (n / max(len(word[:WIDTH]), len(other[:WIDTH])) for n, other in zip(prefixes, others, strict=True)), default=0
    )
    return [
        float(not word.startswith("zz") and word.lower() in [other.lower() for other in others]),
        float(word[:WIDTH] in [other[:WIDTH] for other in others]),
        begun,
    ]


PASSAGES = ("The mills of Anna began in 1973", "zzyx builder Of built", "")
QUESTIONS = ("when did the Mill begin", "who zzyx building built", "what of it")


def test_forward():
    inputs = make_inputs(PASSAGES, QUESTIONS)
    found = [np.asarray(part) for part in WordMatch()(**inputs)]
    for row, (passage, question) in enumerate(zip(PASSAGES, QUESTIONS, strict=True)):
        sides = ((found[0], passage.split(), question.split()), (found[1], question.split(), passage.split()))
        for features, words, others in sides:
            for position in range(features.shape[1]):
                truth = expected(words[position], others, WIDTH) if position < len(words) else [0, 0, 0]
                np.testing.assert_allclose(
                    features[row, position], truth, rtol=1e-6, err_msg=str(words[position : position + 1])
                )


def test_unknown_letters_match_nothing():
    inputs = make_inputs(("\u4e2d",), ("\u4e2d",))
    for part in WordMatch()(**{name: np.where(ids > 1, 1, ids) for name, ids in inputs.items()}):
        assert not np.asarray(part).any()


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_types_and_configuration(policy):
    layer = WordMatch(dtype=policy)
    inputs = make_inputs(PASSAGES, QUESTIONS)
    shapes = layer(**layer_testing.symbols_of(inputs))
    parts = layer(**inputs)
    for part, symbol in itertools.zip_longest(parts, shapes):
        assert part.shape == symbol.shape
        assert keras.backend.standardize_dtype(part.dtype) == symbol.dtype == layer.compute_dtype
    assert WordMatch.from_config(layer.get_config()).get_config() == layer.get_config()


def test_padding_and_neighbors_change_nothing():
    wide, narrow = (make_inputs(PASSAGES, QUESTIONS, *sizes) for sizes in ((12, 8), (9, 5)))
    found = [np.asarray(part) for part in WordMatch()(**wide)]
    alone = [np.asarray(part)[0] for part in WordMatch()(**{name: ids[:1] for name, ids in narrow.items()})]
    np.testing.assert_array_equal(found[0][0, :9], alone[0])
    np.testing.assert_array_equal(found[1][0, :5], alone[1])
    assert not found[0][0, 9:].any()


def test_negative_ids_match_nothing():
    ids = np.array([[-1, -7]], "int32")
    inputs = {f"{text}_words": ids for text in ("passage", "question")}
    inputs |= {f"{text}_characters": ids[..., None] for text in ("passage", "question")}
    assert not any(np.asarray(part).any() for part in WordMatch()(**inputs))
