"""The tokenizer: exact offsets on any text, the tokens we mean, and no text that stops it."""

import json
import re

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktSentenceTokenizer
from shared_data import SHARED, needs_shared

from fabir_tf.pipelines.text import nltk_tokenizers, tokenizer
from fabir_tf.pipelines.text.nltk_tokenizers import TOKENIZER_VERSION
from fabir_tf.pipelines.text.tokenizer import MAX_BLOCK, tokenize

SPLITTING = '-‐‑‒–—―−/\\⁄∕"`´‘’‚‛“”„‟«»‹›~°'
CONTRACTIONS = {"n't", "'s", "'m", "'d", "'re", "'ve", "'ll"}

ANY_CHARACTER = st.characters(exclude_categories=())
# What NLTK treats specially, what it rewrites, and what other readers' offsets broke on.
FRAGMENTS = st.sampled_from(
    [
        *("the", "a", "that", "cat", "I", "U.S.", "No.", "1999", "3,600", "5th", "x", "É", "İ", "ſ", "ß"),
        *("n't", "don't", "N'T", "'s", "'S", "'ll", "'re", "'d", "'m", "'ve", "'t", "'tis", "d'ye", "O'Brien"),
        *("cannot", "gonna", "wanna", "gimme", "more'n", "'", "''", "'''", "``", "`", '"', '""', "“", "”", "‘", "’"),
        *(".", "..", "...", "?", "!", ",", ":", ";", "-", "--", "–", "—", "/", "~", "°", "%", "$", "*", "#", "&"),
        *("(", ")", "[", "]", "{", "}", "<", ">", "«", "»", ".)", '."', "?'", "a\u0301", "\u0301", "\u200d", "\u200b"),
        *(" ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c", "\x1f", "\x0b"),
        *("😀", "👩\u200d👩", "日本語", "مرحبا", "\x00", "\x07", "\ud83d", "\udc00", "\ufeff", "½", "€20"),
    ]
)
TEXTS = st.one_of(st.text(ANY_CHARACTER, max_size=60), st.lists(FRAGMENTS, max_size=24).map("".join))


def assert_exact(text):
    """Everything that callers rely on, written from the promise in the docstring of `Tokens`."""
    words, starts, ends = tokenize(text)
    assert len(words) == len(starts) == len(ends)
    position = 0
    for word, start, end in zip(words, starts, ends, strict=True):
        assert position <= start < end
        assert text[start:end] == word
        assert not any(character.isspace() for character in word)
        assert not text[position:start].strip()
        position = end
    assert not text[position:].strip()


@settings(max_examples=600, deadline=None)
@given(TEXTS)
def test_offsets_are_exact_and_nothing_is_lost(text):
    assert_exact(text)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_splitting_characters_stand_alone_and_apostrophes_only_in_contractions(text):
    for word in tokenize(text).words:
        assert len(word) == 1 or not set(word) & set(SPLITTING)
        assert "'" not in word or word == "'" or word.lower() in CONTRACTIONS


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_same_text_same_tokens(text):
    first = tokenize(text)
    tokenize("Some other text. It isn't 'the same'.")
    assert tokenize(text) == first


PLAIN = [
    *("The", "cat", "U.S.", "p.m.", "J.", "3.", "can't", "cannot", "(see:", "5%,", "ok)", "Why?", "No!", "I've..."),
    *(",:", "x;", ""),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PLAIN)))
def test_tokens_are_those_of_nltk_where_nothing_is_split_or_rewritten(fragments):
    text = " ".join(fragments)
    sentences = PunktSentenceTokenizer().tokenize(text)
    assert tokenize(text).words == [word for sentence in sentences for word in NLTKWordTokenizer().tokenize(sentence)]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.one_of(FRAGMENTS, st.just(" ")), max_size=24).map("".join))
def test_a_sentence_is_cut_between_spaces_as_it_is_in_one_piece(text):
    spans = [
        (begin + start, begin + end)
        for begin, stop in tokenizer._sentence_spans(text)
        for start, end in tokenizer._uncut_spans(text[begin:stop])
    ]
    assert [tokenize(text).starts, tokenize(text).ends] == [[start for start, _ in spans], [end for _, end in spans]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sat on the mat.", "The|cat|sat|on|the|mat|."),
        ("Who's there? It's I.", "Who|'s|there|?|It|'s|I|."),
        ("the the", "the|the"),
        ("that a cat", "that|a|cat"),
        ('He said, "don\'t go."', 'He|said|,|"|do|n\'t|go|.|"'),
        ("``x'' ''y'' \"z\"", "`|`|x|'|'|'|'|y|'|'|\"|z|\""),
        ("“That’s it,” she said.", "“|That|’|s|it|,|”|she|said|."),
        ("She said 'hello' to O'Brien's dog", "She|said|'|hello|'|to|O|'|Brien|'s|dog"),
        (
            "I'd we've they'll you're I'm CAN'T WE'LL THE KING'S",
            "I|'d|we|'ve|they|'ll|you|'re|I|'m|CA|N'T|WE|'LL|THE|KING|'S",
        ),
        ("a king's/queen's 1990's-era don't-care", "a|king|'s|/|queen|'s|1990|'s|-|era|do|n't|-|care"),
        ("1621–1629, −5°C, ~3 and yes — no--maybe", "1621|–|1629|,|−|5|°|C|,|~|3|and|yes|—|no|-|-|maybe"),
        ("It cost $3.88 (3,36 €), or 24.7%.", "It|cost|$|3.88|(|3,36|€|)|,|or|24.7|%|."),
        ("At 8:10 J. Smith came. He left...", "At|8:10|J.|Smith|came|.|He|left|..."),
        ("AC/DC\\x «oui» ‹non›", "AC|/|DC|\\|x|«|oui|»|‹|non|›"),
        ("a\u00a0b\r\nc  d\u3000e", "a|b|c|d|e"),
        ("e\u0301tude 😀😀 \ud800 \x00 \u200b", "e\u0301tude|😀😀|\ud800|\x00|\u200b"),
        ("I cannot, you're gonna", "I|can|not|,|you|'re|gon|na"),
        (" \t\r\n", ""),
        ("", ""),
    ],
)
def test_tokens_of(text, expected):
    assert tokenize(text).words == (expected.split("|") if expected else [])
    assert_exact(text)


def test_a_repeated_word_gets_its_own_place():
    assert tokenize("the the").starts == [0, 4]
    words, starts, ends = tokenize("that a cat")
    assert (words[1], starts[1], ends[1]) == ("a", 5, 6)


def test_rewritten_quotes_have_the_length_they_have_in_the_text():
    text = "\"a\" ''b'' ``c'' (\"d\") (''e"
    assert "".join(tokenize(text).words) == text.replace(" ", "")
    assert_exact(text)


@pytest.mark.parametrize("size", [MAX_BLOCK - 1, MAX_BLOCK, MAX_BLOCK + 1, 3 * MAX_BLOCK + 7])
def test_long_texts_are_cut_at_white_space(size):
    words = ["word"] * (size // 5) + ["end"]
    text = " ".join(words)
    assert tokenize(text).words == words
    assert_exact(text)


def test_a_stretch_without_spaces_is_cut_into_blocks():
    assert [len(word) for word in tokenize("x" * 20_003).words] == [10_000, 10_000, 3]


@pytest.mark.parametrize("unit", ["x", "\u0301", "'", '"', "-", ".)", "x.y", "a,", "\ud800", "\n", "\x00", "?"])
def test_200_000_characters(unit):
    assert_exact(unit * (200_000 // len(unit)))


def test_no_time_limit_of_nltk_stops_a_text_of_many_sentences(monkeypatch):
    redos = pytest.importorskip("nltk.redos", reason="this NLTK has no time limits")
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 0.005)
    text = "Yes. No. " * 1000
    with pytest.raises(TimeoutError):
        PunktSentenceTokenizer().tokenize(text)
    assert_exact(text)


class _Words:
    def __init__(self, *words):
        self.words = words

    def tokenize(self, sentence):
        return list(self.words)


@pytest.fixture
def forgetful():
    tokenizer._remembered_spans.cache_clear()
    yield
    tokenizer._remembered_spans.cache_clear()


NOT_IN_THE_SENTENCE = [
    ["don't", "stop"],
    ["don't", "``", "5°"],
    ["don't", "–"],
    ["do", "n't", "stop", "5°\u0301", "more"],
    ["don", "don't"],
    [],
]


@pytest.mark.parametrize("nltk_words", NOT_IN_THE_SENTENCE)
def test_words_that_are_not_in_the_sentence_make_it_fall_back(monkeypatch, forgetful, nltk_words):
    monkeypatch.setattr(nltk_tokenizers, "WORDS", _Words(*nltk_words))
    text = " don't stop 5°\u0301 "
    assert tokenize(text).words == ["don", "'", "t", "stop", "5", "°", "\u0301"]
    assert_exact(text)


@pytest.mark.parametrize("bad", ["Bad's 3.5 so.", "So 3.5 Bad's.", "So Bad's 3.5 so."])
def test_a_fallback_keeps_to_its_sentence(monkeypatch, forgetful, bad):
    class Broken(NLTKWordTokenizer):
        def tokenize(self, sentence):
            return ["?!"] if "Bad" in sentence else super().tokenize(sentence)

    monkeypatch.setattr(nltk_tokenizers, "WORDS", Broken())
    good = ["It", "'s", "3.5", "so", "."]
    fallback = [match[0] for match in re.finditer(tokenizer.FALLBACK_TOKEN, bad)]
    assert "'" in fallback
    assert tokenize(f"It's 3.5 so. {bad} It's 3.5 so.").words == [*good, *fallback, *good]


@pytest.mark.parametrize("length", [1, tokenizer.LONGEST_REMEMBERED - 4, tokenizer.LONGEST_REMEMBERED - 3])
def test_no_long_text_is_remembered(forgetful, length):
    is_short = length + 4 <= tokenizer.LONGEST_REMEMBERED
    tokenize(f"It {'x' * length} is")
    assert tokenizer._remembered_spans.cache_info().currsize == 2 + is_short
    tokenize("It is" + " " * length)
    assert tokenizer._remembered_spans.cache_info().currsize == 2 + 2 * is_short


def test_the_version_names_nltk():
    assert TOKENIZER_VERSION.endswith(nltk.__version__)
    assert nltk.__version__ != TOKENIZER_VERSION


@needs_shared
@pytest.mark.parametrize("file", ["squad/dev-v1.1.json", "train/squad-train-60.json"])
def test_offsets_are_exact_on_real_passages(file):
    articles = json.loads((SHARED / file).read_text(encoding="utf-8"))["data"]
    passages = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    assert len(passages) > 1000
    for passage in passages[::8]:
        assert_exact(passage)
