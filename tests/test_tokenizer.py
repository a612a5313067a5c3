"""Tests of the tokenizer: exact offsets on any text, the intended tokens, and no text on which it fails."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktSentenceTokenizer
from shared_data import OWN_QUESTIONS, SHARED, needs_shared

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.text import nltk_tokenizers, tokenizer
from fabir_tf.pipelines.text.abbreviations import ABBREVIATIONS, BEFORE_NUMBERS
from fabir_tf.pipelines.text.invisible import JOINERS, SEPARATORS
from fabir_tf.pipelines.text.tokenizer import LONGEST_REMEMBERED, MAX_BLOCK, NEWEST_RULES, tokenize

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
        *("\u2060", "\u200e", "\u202a", "\u2067", "\u061c", "\u200c", "\u00ad", "co\u00adop", "ไทย", "ខ្មែរ", "カナ"),
        *("a.m.", "U.K", "Dr.", "Inc.", "etc.", "Ph.D.", "p.", "fig.", "no.", "5", "ſt.", "İnc.", "U.S.S.R.Q.P.Z."),
    ]
)
TEXTS = st.one_of(st.text(ANY_CHARACTER, max_size=60), st.lists(FRAGMENTS, max_size=24).map("".join))


def assert_exact(text, rules=NEWEST_RULES):
    """Checks what the docstring of `Tokens` promises."""
    words, starts, ends = tokenize(text, rules)
    assert len(words) == len(starts) == len(ends)
    # What belongs to no token.
    invisible = SEPARATORS + JOINERS if rules > 1 else ""
    position = 0
    for word, start, end in zip(words, starts, ends, strict=True):
        assert position <= start < end
        assert text[start:end] == word
        assert not any(character.isspace() for character in word)
        assert not set(word) & set(invisible) - set(JOINERS)
        assert not {word[0], word[-1]} & set(invisible)
        assert not any(not character.isspace() and character not in invisible for character in text[position:start])
        position = end
    assert not any(not character.isspace() and character not in invisible for character in text[position:])


@settings(max_examples=600, deadline=None)
@given(TEXTS)
def test_offsets_are_exact_and_nothing_is_lost(text):
    for rules in (1, NEWEST_RULES):
        assert_exact(text, rules)


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
    words = [word for sentence in sentences for word in NLTKWordTokenizer().tokenize(sentence)]
    assert tokenize(text, rules=1).words == words


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
    _, starts, ends = tokenize(text, rules=1)
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
        ("e\u0301tude 😀😀 \ud800 \x00", "e\u0301tude|😀😀|\ud800|\x00"),
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


# === Version 2 of the rules ===


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He was born in the U.S. in 1950.", "He|was|born|in|the|U.S.|in|1950|."),
        ("Made in the U.S.A. It opens at 7 p.m.", "Made|in|the|U.S.A.|It|opens|at|7|p.m."),
        ('He left (at 9 a.m.) for "Wash. D.C." Why?', 'He|left|(|at|9|a.m.|)|for|"|Wash|.|D.C.|"|Why|?'),
        ("Dr. Lee, Mrs. Ray and Lt. Oz met.", "Dr.|Lee|,|Mrs.|Ray|and|Lt.|Oz|met|."),
        ("A MR. AND A mr. of Voss & Co.", "A|MR.|AND|A|mr.|of|Voss|&|Co."),
        ("Owned by Keld Bros. Ltd. and Arn Corp.", "Owned|by|Keld|Bros.|Ltd.|and|Arn|Corp."),
        ("Salt, e.g. NaCl, i.e. a salt, etc. Done.", "Salt|,|e.g.|NaCl|,|i.e.|a|salt|,|etc.|Done|."),
        ("a Ph.D. or an M.Sc. at St. Olav", "a|Ph.D.|or|an|M.Sc.|at|St.|Olav"),
        ("See Fig. 3, No. 5 and pp. 7-9.", "See|Fig.|3|,|No.|5|and|pp.|7|-|9|."),
        ("On Sept. 11 and Dec. 25.", "On|Sept.|11|and|Dec.|25|."),
        ("Was it no. 5? He said no. Then no.", "Was|it|no.|5|?|He|said|no|.|Then|no|."),
        ("The fig. Five figs. Vol. II", "The|fig|.|Five|figs|.|Vol|.|II"),
        ("non-U.S. firms, a.m./p.m. hours", "non|-|U.S.|firms|,|a.m.|/|p.m.|hours"),
        ("U.S.'s U.S.-led U.S., U.S.; U.S.: U.S.?", "U.S.|'s|U.S.|-|led|U.S.|,|U.S.|;|U.S.|:|U.S.|?"),
        ("etc... e.g.. Mr ... Mr .", "etc|...|e.g|..|Mr|...|Mr|."),
        ("ſt. and Éd. are not in the list.", "ſt|.|and|Éd|.|are|not|in|the|list|."),
    ],
)
def test_abbreviations_keep_their_period(text, expected):
    assert tokenize(text).words == expected.split("|")
    assert_exact(text)


def test_every_abbreviation_of_the_list_keeps_its_period():
    for word in ABBREVIATIONS:
        for text in (f"In {word}. It", f"In {word.capitalize()}. it", f"In {word.upper()}."):
            assert tokenize(text).words[1] == text.split()[1], text
    for word in BEFORE_NUMBERS:
        assert tokenize(f"In {word}. 12 of").words[1] == f"{word}."
        assert tokenize(f"In {word}.").words[1:] == [word, "."]
    assert not ABBREVIATIONS & BEFORE_NUMBERS


@pytest.mark.parametrize("mark", SEPARATORS)
@pytest.mark.parametrize("text", ["{0}one{0}two{0}.", "one {0} two {0}{0}.{0}", "{0}{0}one{0} two.{0}"])
def test_separating_marks_are_read_as_spaces(text, mark):
    assert tokenize(text.format(mark)).words == ["one", "two", "."]
    assert tokenize(text.format(mark)).starts == tokenize(text.format(" ")).starts


@pytest.mark.parametrize("mark", JOINERS)
def test_joiners_are_cut_at_the_edge_of_a_token_only(mark):
    text = f"{mark}co{mark}op{mark} {mark} ({mark}e{mark}){mark} U.S.{mark} x{mark}-{mark}y{mark}."
    assert tokenize(text).words == [f"co{mark}op", "(", "e", ")", "U.S.", "x", "-", "y", "."]
    assert_exact(text)


@pytest.mark.parametrize("text", ["\u200b", "\ufeff\u200d", " \u00ad \u2067", "\u200c\u200c\n\u2060"])
def test_marks_alone_are_no_token(text):
    assert tokenize(text).words == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in the U.S. in 1950", "in|the|U.S|.|in|1950"),
        ("Dr. Lee, no. 5.", "Dr|.|Lee|,|no|.|5|."),
        ("\ufeffa\u200bb\u00ad \u200d", "\ufeffa\u200bb\u00ad|\u200d"),
    ],
)
def test_version_1_of_the_rules_stays(text, expected):
    assert tokenize(text, rules=1).words == expected.split("|")


@pytest.mark.parametrize("sentence", ["Look: {}.", "Is it {}?", "It is ({}) now.", "“{}”, she said.", "{}"])
@pytest.mark.parametrize(
    "answer",
    [
        *("https://www.keld.org/a/b?c=d&e=f#g", "http://10.0.0.1:8080/~user", "www.mill-house.co.uk/en/"),
        "ftp://files.keld.org",
        *("3/15/2024", "2024-03-15", "15.3.2024", "15/03/24", "Mar. 15, 2024"),
        *("+1 (555) 012-3456", "0800 555 012", "555-0123", "020.7946.0123", "+44-20-7946-0999"),
        *("v2.0.1", "1.21.3-rc.2", "3.11", "2.0b1", "10.15.7"),
        *("a.b-c+d@mail.keld.org", "jo_o@x.co.uk", "info@keld.io", "o'neil@x.org"),
    ],
)
def test_addresses_dates_numbers_and_versions_can_be_given_whole(sentence, answer):
    tokens = tokenize(sentence.format(answer))
    start = sentence.index("{")
    assert start in tokens.starts
    assert start + len(answer) in tokens.ends


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
