"""Tests of the tokenizer: exact offsets on any text, the intended tokens, and no text on which it fails."""

import json
import re
from itertools import pairwise

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktSentenceTokenizer
from shared_data import OWN_QUESTIONS, SHARED, needs_shared

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.text import nltk_tokenizers, tokenizer
from fabir_tf.pipelines.text.nltk_tokenizers import TOKENIZER_VERSION
from fabir_tf.pipelines.text.tokenizer import LONGEST_REMEMBERED, MAX_BLOCK, TOKENIZER_RULES, tokenize

SPLITTING = '-‐‑‒–—―−/\\⁄∕"`´‘’‚‛“”„‟«»‹›~°'
CONTRACTIONS = {"n't", "'s", "'m", "'d", "'re", "'ve", "'ll"}

ANY_CHARACTER = st.characters(exclude_categories=())
# Texts that NLTK handles specially or rewrites, and texts on which other tokenizers lose the offsets.
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
    """Checks what the docstring of `Tokens` promises."""
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
def test_the_tokens_do_not_depend_on_earlier_texts(text):
    first = tokenize(text)
    tokenize("Some other text. It isn't 'the same'.")
    assert tokenize(text) == first


PLAIN = [
    *("The", "cat", "U.S.", "p.m.", "J.", "3.", "can't", "cannot", "(see:", "5%,", "ok)", "Why?", "No!", "I've..."),
    *(",:", "x;", ""),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PLAIN)))
def test_tokens_equal_those_of_nltk_if_nothing_is_split_or_rewritten(fragments):
    text = " ".join(fragments)
    sentences = PunktSentenceTokenizer().tokenize(text)
    assert tokenize(text).words == [word for sentence in sentences for word in NLTKWordTokenizer().tokenize(sentence)]


def nltk_spans(text):
    """The spans of the tokens that NLTK finds in whole sentences; fails if a token is not in the text."""
    sentences = sorted({0, len(text), *(start for start, _ in nltk_tokenizers.SENTENCES.span_tokenize(text))})
    spans = []
    for cursor, end in pairwise(sentences):
        for word in nltk_tokenizers.WORDS.tokenize(text[cursor:end]):
            while text[cursor].isspace():
                cursor += 1
            sources = [word, '"', "''"] if word in ("``", "''") else [word]
            found = next(source for source in sources if text.startswith(source, cursor))
            spans.append((cursor, cursor + len(found)))
            cursor += len(found)
    return spans


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.one_of(FRAGMENTS, st.just(" ")), max_size=24).map("".join),
    # What may follow the final period of a sentence, in other chunks.
    st.sampled_from(["", ". )", '." \u00bb', ".) ' "]),
)
def test_nltk_tokens_of_whole_sentences_are_only_split_further(text, ending):
    text += ending
    _, starts, ends = tokenize(text)
    nltk_starts, nltk_ends = map(set, zip(*nltk_spans(text), strict=True)) if text.strip() else (set(), set())
    assert nltk_starts <= set(starts)
    assert nltk_ends <= set(ends)
    for start in set(starts) - nltk_starts:
        beside = set(text[start - 1 : start + 1])
        assert beside & set(SPLITTING + "'") or text[start : start + 2].lower() == "n'"


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


def test_repeated_words_have_different_offsets():
    assert tokenize("the the").starts == [0, 4]
    words, starts, ends = tokenize("that a cat")
    assert (words[1], starts[1], ends[1]) == ("a", 5, 6)


def test_rewritten_quotes_have_their_length_in_the_text():
    text = "\"a\" ''b'' ``c'' (\"d\") (''e"
    assert "".join(tokenize(text).words) == text.replace(" ", "")
    assert_exact(text)


@pytest.mark.parametrize("size", [MAX_BLOCK - 1, MAX_BLOCK, MAX_BLOCK + 1, 3 * MAX_BLOCK + 7])
def test_long_texts_are_split_at_white_space(size):
    words = ["word"] * (size // 5) + ["end"]
    text = " ".join(words)
    assert tokenize(text).words == words
    assert_exact(text)


def test_long_texts_without_spaces_are_split_into_blocks():
    assert [len(word) for word in tokenize("x" * 20_003).words] == [10_000, 10_000, 3]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["x", "\u0301", "'", '"', "-", ".)", "x.y", "a,", "\ud800", "\n", "\x00", "?"])
def test_texts_of_200_000_characters(unit):
    assert_exact(unit * (200_000 // len(unit)))


def test_no_time_limit_of_nltk_applies_to_a_text_of_many_sentences(monkeypatch):
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
def empty_cache():
    tokenizer.clear_cache()
    yield
    tokenizer.clear_cache()


NOT_IN_THE_SENTENCE = [
    ["don't", "stop"],
    ["don't", "``", "5°"],
    ["don't", "–"],
    ["do", "n't", "stop", "5°\u0301", "more"],
    ["don", "don't"],
    [],
]


@pytest.mark.parametrize("nltk_words", NOT_IN_THE_SENTENCE)
def test_nltk_words_that_are_not_in_the_sentence_cause_the_fallback(monkeypatch, empty_cache, nltk_words):
    monkeypatch.setattr(nltk_tokenizers, "WORDS", _Words(*nltk_words))
    text = " don't stop 5°\u0301 "
    assert tokenize(text).words == ["don", "'", "t", "stop", "5", "°", "\u0301"]
    assert_exact(text)


@pytest.mark.parametrize("bad", ["Bad's 3.5 so.", "So 3.5 Bad's.", "So Bad's 3.5 so."])
def test_the_fallback_applies_to_one_sentence_only(monkeypatch, empty_cache, bad):
    class Broken(NLTKWordTokenizer):
        def tokenize(self, sentence):
            return ["?!"] if "Bad" in sentence else super().tokenize(sentence)

    monkeypatch.setattr(nltk_tokenizers, "WORDS", Broken())
    good = ["It", "'s", "3.5", "so", "."]
    fallback = [match[0] for match in re.finditer(tokenizer.FALLBACK_TOKEN, bad)]
    assert "'" in fallback
    assert tokenize(f"It's 3.5 so. {bad} It's 3.5 so.").words == [*good, *fallback, *good]


# Chunks of a text with two more characters of context on either side; trailing spaces are context.
@pytest.mark.parametrize("text", ["It {} is", "It is{}"])
@pytest.mark.parametrize(("length", "calls"), [(LONGEST_REMEMBERED - 4, 1), (LONGEST_REMEMBERED - 3, 2)])
def test_only_the_tokens_of_short_chunks_are_cached(monkeypatch, empty_cache, text, length, calls):
    tokenized = []

    class Recording(NLTKWordTokenizer):
        def tokenize(self, text):
            tokenized.append(text)
            return super().tokenize(text)

    monkeypatch.setattr(nltk_tokenizers, "WORDS", Recording())
    text = text.format("%" * length if text.endswith("is") else " " * length)
    assert tokenize(text) == tokenize(text)
    assert len(tokenized) == calls


def test_the_version_contains_those_of_the_rules_and_of_nltk():
    assert TOKENIZER_VERSION.startswith(TOKENIZER_RULES)
    assert TOKENIZER_VERSION.endswith(nltk.__version__)


def test_offsets_are_exact_on_our_own_passages():
    passages = [*load_dataset("sample", "train").passages, *read_squad(OWN_QUESTIONS).passages]
    assert len(passages) > 100
    for passage in passages:
        assert_exact(passage)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("file", ["squad/dev-v1.1.json", "train/squad-train-60.json"])
def test_offsets_are_exact_on_real_passages(file):
    articles = json.loads((SHARED / file).read_text(encoding="utf-8"))["data"]
    passages = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    assert len(passages) > 1000
    for passage in passages[::8]:
        assert_exact(passage)
