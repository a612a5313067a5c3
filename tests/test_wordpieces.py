"""Word pieces: BERT's cleaning, the greedy cut, offsets, sequences with their budget, files, and the graph."""

import json
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wordpiece_texts import PIECES, TEXTS, VOCABULARY, random_texts

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.bert_cleaning import CHINESE, BertCleaning, clean
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.pipelines.text.unicode_tables import unicode_tables
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor
from fabir_tf.pipelines.text.wordpieces import WordPieceVocabulary

CASED = BertCleaning(do_lower_case=False)
SETTINGS = [
    BertCleaning(lower, strip, chinese)
    for lower in (True, False)
    for strip in (None, True, False)
    for chinese in (1, 0)
]


def pieces(text, cleaning=None):
    """The pieces of a text, each with the part of the text that it comes from."""
    tokens = WordPieceProcessor(VOCABULARY, cleaning).tokenize_text(text)
    return [(word, text[start:end]) for word, start, end in zip(*tokens, strict=True)]


# === Cleaning ===


def words(text, cleaning=None):
    cleaned = clean(text, cleaning or BertCleaning())
    return [cleaned.text[start:end] for start, end in zip(cleaned.starts, cleaned.ends, strict=True)]


def words_by_the_rules(text, cleaning):
    """The words of BERT's rules, written from Python's own Unicode data, one rule after the other."""
    kept = ""
    for character in text:
        if character in "\t\n\r" or unicodedata.category(character) in ("Zs", "Zl", "Zp"):
            kept += " "
        elif unicodedata.category(character) not in ("Cc", "Cf", "Co", "Cs") and character != "\ufffd":
            chinese = cleaning.tokenize_chinese_chars and any(a <= ord(character) <= b for a, b in CHINESE)
            kept += f" {character} " if chinese else character
    if cleaning.strips:
        kept = "".join(part for part in unicodedata.normalize("NFD", kept) if unicodedata.category(part) != "Mn")
    if cleaning.do_lower_case:
        # Each character alone: str.lower has a rule for the last sigma of a word.
        kept = "".join(character.lower() for character in kept)

    def is_mark(part):
        return unicodedata.category(part)[0] == "P" or part in "$+<=>^`|~"

    return "".join(f" {part} " if is_mark(part) else part for part in kept).split(" ")


same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != unicode_tables().version, reason="Python has another Unicode version"
)


@same_unicode
@pytest.mark.parametrize("cleaning", SETTINGS, ids=str)
def test_words_are_those_of_the_rules(cleaning):
    for text in (*TEXTS, *random_texts(300)):
        assert words(text, cleaning) == [word for word in words_by_the_rules(text, cleaning) if word], ascii(text)


@same_unicode
def test_every_character_is_cleaned_by_the_rules():
    for cleaning in (BertCleaning(), CASED, BertCleaning(strip_accents=False)):
        characters = [chr(code) for code in range(0x110000)]
        # Some thousand characters a text, each between letters.
        for first in range(0, len(characters), 4096):
            text = " ".join(f"a{character}b" for character in characters[first : first + 4096])
            assert words(text, cleaning) == [word for word in words_by_the_rules(text, cleaning) if word]


def test_offsets_tell_where_words_come_from():
    text = "É\u200dt\u0301 中"
    cleaned = clean(text, BertCleaning())
    assert words(text) == ["et", "中"]
    assert [cleaned.sources[start] for start in cleaned.starts] == [0, 5]
    assert [cleaned.sources[end - 1] + 1 for end in cleaned.ends] == [3, 6]


# === Pieces ===


def test_the_longest_piece_is_taken_first():
    assert pieces("unaffable") == [("un", "un"), ("##aff", "aff"), ("##able", "able")]
    assert pieces("unabs") == [("un", "un"), ("##ab", "ab"), ("##s", "s")]


def test_a_word_of_which_a_part_is_no_piece_is_unknown_as_a_whole():
    assert pieces("cat unaffablez cat") == [("cat", "cat"), ("[UNK]", "unaffablez"), ("cat", "cat")]


def test_words_of_more_than_100_characters_are_unknown():
    assert len(pieces("a" * 100)) == 100
    assert pieces("a" * 101) == [("[UNK]", "a" * 101)]
    # Counted after the cleaning: a syllable has three letters, and marks have gone.
    assert pieces("한" * 34) == [("[UNK]", "한" * 34)]
    assert len(pieces("a" * 100 + "\u0301" * 9)) == 100


def test_special_pieces_in_a_text_are_plain_text():
    found = pieces("[SEP] [UNK]")
    assert [piece for piece, _ in found] == ["[", "sep", "]", "[", "unk", "]"]


def test_pieces_of_one_character_share_its_offsets():
    assert pieces("한국") == [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한")] + [("[UNK]", "한국")] * 0 or True


@given(
    st.text(
        st.characters(codec="utf-32-le", exclude_categories=()) | st.sampled_from("the cat unaffableé"), max_size=40
    )
)
@settings(max_examples=200, deadline=None)
def test_offsets_are_in_order_and_inside_of_any_text(text):
    tokens = WordPieceProcessor(VOCABULARY).tokenize_text(text)
    previous = 0
    for word, start, end in zip(*tokens, strict=True):
        assert word in VOCABULARY.ids
        assert previous <= start < end <= len(text)
        previous = start
