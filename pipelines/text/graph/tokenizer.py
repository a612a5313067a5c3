"""`tokenizer.tokenize` with TensorFlow operations only: the same tokens, computed in a graph for a batch of texts.

NLTK's tokenizer applies one rule after the other, each of which inserts spaces into the text. The matches of a rule
depend on the spaces from earlier rules, and the tokens depend on the spaces only. Here each rule compares all
characters with their neighbors and returns `gaps`: boolean, true where a space is inserted before a character. The
rules are in NLTK's order; those that never change a token are left out.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.text import invisible, tokenizer
from fabir_tf.pipelines.text.graph.abbreviations import with_periods
from fabir_tf.pipelines.text.graph.characters import Characters
from fabir_tf.pipelines.text.graph.code_points import (
    COMMON_CLASSES,
    LETTER_BITS,
    CharacterTable,
    Classes,
    decode,
    first_from,
    flags_at,
    last_before,
    letter_code,
    matching,
    nltk_re,
    positions,
)
from fabir_tf.pipelines.text.graph.invisible import separators_as_spaces, without_joiners_at_edges
from fabir_tf.pipelines.text.graph.sentences import SENTENCE_CLASSES, sentence_starts

WORD_CLASSES: Classes = {
    "nltk word": matching(r"\w", nltk_re),
    "word": matching(r"\w"),
    "opening quote": "«“‘„",
    "before an opening quote": " ([{<",
    "after the last full stop": "])}>\"'»”’ ",
    "colon or comma": ":,",
    "apart": ";@#$%&?!\u2012\u2013\u2014\u2015",
    "apart later": '*[](){}<>»”’"',
    "split": tokenizer.SPLIT_CHARACTERS,
    "joiner": invisible.JOINERS,
}

SHORT_CLITICS = ("'", "'s", "'S", "'m", "'M", "'d", "'D")
LONG_CLITICS = ("'ll", "'LL", "'re", "'RE", "'ve", "'VE", "n't", "N'T")

TWO_WORDS = (("can", "not"), ("d", "'ye"), ("gim", "me"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("more", "'n"))
TWO_WORDS_BEFORE_SPACE = (("wan", "na"),)
TWO_WORDS_AFTER_SPACE = (("'t", "is"), ("'t", "was"))
LONGEST_TWO_WORDS = 6


class GraphTokens(NamedTuple):
    """The tokens of a batch of texts, one text after the other.

    Attributes:
        starts, ends: int64 `(tokens,)`, offsets in code points from the beginning of the token's text.
        row_splits: int64 `(batch + 1,)`, text i holds the tokens `row_splits[i]` to `row_splits[i + 1]`.
        code_points: int32 `(total,)`, the characters of all texts.
        text_splits: int64 `(batch + 1,)`, text i holds the code points `text_splits[i]` to `text_splits[i + 1]`.
        byte_offsets: int64 `(total + 1,)`, the start of each code point in the concatenated bytes of all texts.
        ids: int32 `(tokens,)`, the tokens' numbers in a vocabulary of word pieces; None for words.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    row_splits: tf.Tensor
    code_points: tf.Tensor
    text_splits: tf.Tensor
    byte_offsets: tf.Tensor
    ids: tf.Tensor | None = None


def graph_tokenize(texts: tf.Tensor, rules: int = tokenizer.NEWEST_RULES) -> GraphTokens:
    """Splits texts into the tokens of `tokenizer.tokenize(text.decode("utf-8", errors="replace"), rules)`.

    Args:
        texts: string `(batch,)`; any bytes, of which those that are not UTF-8 become U+FFFD.
        rules: the version of the rules.

    Returns:
        The tokens; those of a text do not depend on the other texts.
    """
    text, table = decode(texts), character_table(rules)
    classes = table(text.values)
    read = text if rules == 1 else text._replace(values=separators_as_spaces(text.values, classes, table))
    characters = Characters(read.values, classes, sentence_starts(read, classes, table), table)
    firsts, lasts = _tokens(characters)
    starts, ends = positions(firsts), positions(lasts) + 1
    if rules > 1:
        starts, ends = without_joiners_at_edges(starts, ends, characters.are_in("joiner"))
    row_splits = tf.searchsorted(starts, text.splits, out_type=tf.int64)
    if rules > 1:
        starts, ends, row_splits = with_periods(starts, ends, row_splits, text.values)
    text_starts = tf.repeat(text.splits[:-1], row_splits[1:] - row_splits[:-1])
    return GraphTokens(
        starts - text_starts, ends - text_starts, row_splits, text.values, text.splits, text.byte_offsets
    )


@functools.cache
def character_table(rules: int = tokenizer.NEWEST_RULES) -> CharacterTable:
    """The character classes of all rules; computed once."""
    spaces = "" if rules == 1 else invisible.SEPARATORS
    return CharacterTable(COMMON_CLASSES | SENTENCE_CLASSES | WORD_CLASSES, spaces)


def _tokens(text: Characters) -> tuple[tf.Tensor, tf.Tensor]:
    """Marks the first and the last character of each token, boolean `(n,)` each."""
    space, split, apostrophe = text.are_in("space"), text.are_in("split"), text.are("'")
    boundaries = text.starts | _gaps(text) | _around(text, space | split)
    contracted, start_of_contraction = _contractions(text, boundaries)
    alone = apostrophe & ~contracted
    starts = (boundaries | start_of_contraction | _around(text, alone)) & ~space
    ends = (text.ends | text.after(starts | space)) & ~space
    return starts, ends


def _contractions(text: Characters, boundaries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Marks the apostrophes and the first characters of contractions, as in `tokenizer.CONTRACTION`."""
    last = text.ends | text.after(boundaries)
    final = {letter: (text.are(letter) | text.are(letter.upper())) & ~boundaries for letter in "tersdmvl"}
    one = (final["s"] | final["d"] | final["m"]) & last
    two = (final["r"] | final["v"]) & text.after(final["e"] & last) | final["l"] & text.after(final["l"] & last)
    simple = text.are("'") & text.after(one | two)
    negated = text.are("'") & ~boundaries & text.before(text.are("n") | text.are("N")) & text.after(final["t"] & last)
    return simple | negated, simple | text.after(negated)


def _gaps(text: Characters) -> tf.Tensor:
    gaps, rewritten = _opening_quotes(text)
    apostrophe = text.are("'") & ~rewritten
    gaps |= _leading_apostrophes(text, apostrophe)
    gaps |= _last_full_stops(text, rewritten)
    gaps |= _colons_and_commas(text)
    gaps |= _dots(text)
    gaps |= _around(text, text.are_in("apart"))
    gaps |= apostrophe & ~text.starts & ~text.before(apostrophe) & text.after(gaps | text.are(" "))
    gaps |= _around(text, text.are_in("apart later"))
    # A second dash only matters for the token before it, because each dash is a token of its own.
    gaps |= text.are("-") & text.after(text.are("-")) & ~text.before(text.are("-"))
    pairs = text.odd_ones(apostrophe) & text.after(apostrophe)
    gaps |= pairs | text.before(text.before(pairs))
    gaps |= _clitics(text, gaps, SHORT_CLITICS)
    gaps |= _clitics(text, gaps, LONG_CLITICS)
    return gaps | _two_words(text, gaps)


def _opening_quotes(text: Characters) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gaps and the quotes that NLTK rewrites to two backticks, which later rules do not treat as quotes."""
    backtick, double, single = text.are("`"), text.are('"'), text.are("'")
    gaps = _around(text, text.are_in("opening quote")) | (backtick ^ text.before(backtick))
    first = double & text.starts
    gaps |= text.before(first)
    opening = gaps | text.before(text.are_in("before an opening quote"))
    doubles = first | double & opening
    pairs = single & text.after(single) & opening
    gaps |= _around(text, doubles) | pairs | text.before(text.before(pairs))
    return gaps, doubles | pairs | text.before(pairs)


def _leading_apostrophes(text: Characters, apostrophe: tf.Tensor) -> tf.Tensor:
    word = text.are_in("nltk word")
    last = ~text.after(word)
    is_letter = {letter: tf.equal(text.letters, letter_code(letter)[0]) for letter in "revlmtsdn"}
    one = functools.reduce(tf.logical_or, [is_letter[letter] for letter in "mtsdn"]) & last
    two = (is_letter["r"] | is_letter["v"]) & text.after(is_letter["e"] & last)
    two |= is_letter["l"] & text.after(is_letter["l"] & last)
    return text.before(apostrophe & ~text.before(word) & text.after(word & ~(one | two)))


def _last_full_stops(text: Characters, rewritten: tf.Tensor) -> tf.Tensor:
    dot = text.are(".")
    starts, ends = positions(text.starts), positions(text.ends)
    stops = last_before(positions(dot), ends + 1)
    last_characters = last_before(positions(~text.are_in("nltk space")), ends + 1)
    others = positions(~text.are_in("after the last full stop") | rewritten)
    is_last = last_characters < first_from(others, stops + 1, text.count)
    found = tf.boolean_mask(stops, (stops > starts) & is_last)
    return _around(text, flags_at(found, text.count) & ~text.before(dot))


def _colons_and_commas(text: Characters) -> tf.Tensor:
    mark = text.are_in("colon or comma")
    # NLTK's pattern also consumes the next character, so the second of two marks in a row cannot start a match.
    found = text.odd_ones(mark) & ~text.ends & ~text.after(text.are_in("nltk digit"))
    return _around(text, found) | mark & text.ends


def _dots(text: Characters) -> tf.Tensor:
    dot = text.are(".")
    several = dot & (text.before(dot) | text.after(dot))
    return several ^ text.before(several)


def _clitics(text: Characters, gaps: tf.Tensor, clitics: tuple[str, ...]) -> tf.Tensor:
    space = text.are_in("nltk space")
    last = text.ends | text.after(gaps | space)
    found = functools.reduce(tf.logical_or, [_occurrences(text, clitic, gaps, last) for clitic in clitics])
    return found & ~gaps & text.before(~space & ~text.are("'"))


def _occurrences(text: Characters, word: str, gaps: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Marks the first character of each occurrence of the word without a gap inside that ends at a `last` character."""
    found = text.are(word[-1]) & last
    for character in reversed(word[:-1]):
        found = text.are(character) & text.after(found & ~gaps)
    return found


def _two_words(text: Characters, gaps: tf.Tensor) -> tf.Tensor:
    word = text.are_in("word")
    first, last = gaps | ~text.before(word), ~text.after(word & ~gaps)
    before_space = text.ends | text.after(gaps | text.are_in("space"))
    codes = _letter_codes(text, gaps)
    found = _cut(text, codes, TWO_WORDS, first, last) | _cut(text, codes, TWO_WORDS_BEFORE_SPACE, first, before_space)
    after_space = text.starts | text.before(text.are_in("nltk space"))
    for two_words in TWO_WORDS_AFTER_SPACE:
        gaps |= found
        found |= _cut(text, codes, (two_words,), after_space | gaps, last | text.after(gaps))
    return found


def _letter_codes(text: Characters, gaps: tf.Tensor) -> tf.Tensor:
    """Packs each letter and the letters that follow it without a gap into one integer; int32 `(n,)`."""
    following = tf.where(gaps, 0, text.letters)
    codes = following
    for index in range(1, LONGEST_TWO_WORDS):
        letters = text.letters if index == LONGEST_TWO_WORDS - 1 else following
        codes = letters * (1 << LETTER_BITS * index) + text.after(codes)
    return codes


def _cut(
    text: Characters, codes: tf.Tensor, words: tuple[tuple[str, str], ...], first: tf.Tensor, last: tf.Tensor
) -> tf.Tensor:
    """Gaps before, inside and after the words that begin at a `first` and end at a `last` character."""
    joined = [letter_code(a + b) for a, b in words]
    beginnings = np.zeros(1 << 3 * LETTER_BITS, bool)
    beginnings[[_packed(code[:3]) for code in joined]] = True
    candidates = positions(first & tf.gather(beginnings, tf.bitwise.right_shift(codes, 3 * LETTER_BITS)))
    unused = [LETTER_BITS * (LONGEST_TWO_WORDS - len(code)) for code in joined]
    # (candidates, words)
    spelled = tf.equal(
        tf.bitwise.right_shift(tf.gather(codes, candidates)[:, None], unused), list(map(_packed, joined))
    )
    ends = tf.minimum(candidates[:, None] + [len(code) for code in joined], text.count)
    found = tf.where(spelled & tf.gather(last, ends - 1))
    begin = tf.gather(candidates, found[:, 0])
    middle = begin + tf.gather(tf.constant([len(a) for a, _ in words], tf.int64), found[:, 1])
    end = tf.gather_nd(ends, found)
    return flags_at(tf.concat([begin, middle, end], 0), text.count)


def _packed(code: list[int]) -> int:
    return functools.reduce(lambda number, letter: number << LETTER_BITS | letter, code)


def _around(text: Characters, flags: tf.Tensor) -> tf.Tensor:
    """Gaps before and after the marked characters."""
    return flags | text.before(flags)
