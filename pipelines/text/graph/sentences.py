"""Finds the sentence starts of NLTK's untrained Punkt tokenizer with TensorFlow operations only.

The context of a full stop, question mark or exclamation mark is the word before it and the text up to the end of the
next word. Punkt splits each context into words; a sentence ends there if any word except the last ends a sentence. An
untrained Punkt has no abbreviations, so its remaining heuristics are those for initials, numbers and ellipses.
"""

from typing import NamedTuple

import tensorflow as tf

from fabir_tf.pipelines.text.graph.characters import Characters
from fabir_tf.pipelines.text.graph.code_points import (
    CharacterTable,
    Classes,
    CodePoints,
    being,
    first_from,
    flags_at,
    last_before,
    last_index,
    matching,
    nltk_re,
    positions,
)
from fabir_tf.pipelines.text.tokenizer import MAX_BLOCK

SENTENCE_CLASSES: Classes = {
    "nltk letter": matching(r"[^\W\d]", nltk_re),
    "plain space": " \t\n\r\x0b\x0c",
    "sentence end": ".?!",
    "outside words": ")\";}]*:@'({[‘’“”«»?!",
    "no word start": '("`{[:;&#*@)}]-,',
    "closing": "\"')]}‘’“”«»",
    "inside numbers": ",.-",
    "punctuation": ";:,.!?",
    "lower case": being(str.islower),
    "upper case": being(str.isupper),
}


class _Contexts(NamedTuple):
    """Punkt's contexts, one per possible end of a sentence; all int64 `(contexts,)`, indices of characters.

    Attributes:
        stops: index of the full stop, question mark or exclamation mark.
        begins, ends: the context, from the word before to the word after.
        nexts: start of the next sentence if one begins here.
        block_ends: end of the block.
    """

    stops: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor
    nexts: tf.Tensor
    block_ends: tf.Tensor

    def where(self, flags: tf.Tensor) -> "_Contexts":
        return _Contexts(*(tf.boolean_mask(values, flags) for values in self))


class _Words(NamedTuple):
    """Punkt's words: int64 `(words,)` each; `rows` is the index of a word's context."""

    starts: tf.Tensor
    ends: tf.Tensor
    rows: tf.Tensor


def sentence_starts(text: CodePoints, classes: tf.Tensor, table: CharacterTable) -> tf.Tensor:
    """Finds the sentence starts of `tokenizer`.

    Args:
        text: the code points of a batch of texts.
        classes: int32 `(total,)`, the classes of the code points.
        table: the table that gave the classes; it must contain `SENTENCE_CLASSES`.

    Returns:
        Boolean `(total,)`, true at the first character of each sentence and of each text.

    Source:
        Kiss and Strunk, Unsupervised Multilingual Sentence Boundary Detection, 2006, as in `nltk.tokenize.punkt`.
    """
    block = Characters(text.values, classes, _block_starts(text, classes, table), table)
    contexts = _contexts(block)
    contexts = contexts.where(_end_sentences(block, contexts, table))
    return block.starts | flags_at(_realigned(block, contexts), block.count)


def _block_starts(text: CodePoints, classes: tf.Tensor, table: CharacterTable) -> tf.Tensor:
    count = tf.size(classes, tf.int64)
    spaces = positions(table.contains("space", classes))
    starts, ends = text.splits[:-1], text.splits[1:]
    found = tf.TensorArray(tf.int64, 1, dynamic_size=True, element_shape=[None]).write(0, starts)

    def too_long(starts, _):
        return tf.reduce_any(ends - starts > MAX_BLOCK)

    def cut(starts, found):
        limits = starts + MAX_BLOCK
        space = last_before(spaces, limits)
        cuts = tf.where(space >= starts, space + 1, limits)
        starts = tf.where(ends - starts > MAX_BLOCK, cuts, starts)
        return starts, found.write(found.size(), starts)

    _, found = tf.while_loop(too_long, cut, (starts, found))
    return flags_at(tf.reshape(found.stack(), [-1]), count)


def _contexts(block: Characters) -> _Contexts:
    space, plain_space = block.are_in("space"), block.are_in("plain space")
    block_starts = positions(block.starts)
    stops = positions(block.are_in("sentence end"))
    block_ends = first_from(block_starts, stops + 1, block.count)
    next_words = first_from(positions(~space), stops + 1, block.count)
    before_word = tf.gather(block.after(space), stops) & (next_words < block_ends)
    before_mark = tf.gather(block.after(block.are_in("outside words")), stops)
    next_word_ends = tf.minimum(first_from(positions(space), next_words, block.count), block_ends)
    # NLTK ignores a space that is the first character.
    last_spaces = last_before(positions(plain_space & ~block.starts), stops)
    contexts = _Contexts(
        stops=stops,
        begins=tf.maximum(last_spaces + 1, last_before(block_starts, stops + 1)),
        ends=tf.where(before_word, next_word_ends, stops + 2),
        nexts=tf.where(before_word, next_words, stops + 1),
        block_ends=block_ends,
    ).where(before_word | before_mark)
    # Only the last stop in a word counts, and one that has nothing before it.
    next_begins = tf.concat([contexts.begins[1:], [block.count]], 0)
    return contexts.where((next_begins > contexts.stops) | tf.equal(contexts.begins, contexts.stops))


def _end_sentences(block: Characters, contexts: _Contexts, table: CharacterTable) -> tf.Tensor:
    """Whether a sentence ends in a context, boolean `(contexts,)`."""
    lengths = contexts.ends - contexts.begins
    context_ends = tf.cumsum(lengths)
    indices = tf.range(tf.reduce_sum(lengths)) + tf.repeat(contexts.ends - context_ends, lengths)
    context = Characters(
        tf.gather(block.code_points, indices),
        tf.gather(block.classes, indices),
        flags_at(context_ends - lengths, tf.reduce_sum(lengths)),
        table,
    )
    words = _words(context)
    found = tf.cast(_end_sentence(context, words), tf.int32)
    return tf.math.unsorted_segment_max(found, words.rows, tf.size(contexts.stops)) > 0


def _words(text: Characters) -> _Words:
    space, glued = _separators(text), _glued(text)
    outside, no_word_start = text.are_in("outside words"), text.are_in("no word start")
    several = _several(text)
    mark = space | outside | several
    mark |= text.are(",") & (text.ends | text.after(mark))
    certain = mark | text.starts | text.before(space | glued | outside & no_word_start)
    # At the start of a word, such a character is a word of its own, and the next one starts a word. Else it is inside.
    either = no_word_start & ~outside
    chain_starts = tf.concat([[tf.constant(-1, tf.int64)], last_index(~either)], 0)[:-1]
    starts = (last_index(certain) > chain_starts) & ~space & ~glued
    begins = positions(starts)
    ends = first_from(positions(starts | text.starts | space & ~glued), begins + 1, text.count)
    return _Words(begins, ends, tf.gather(tf.cumsum(tf.cast(text.starts, tf.int64)), begins) - 1)


def _separators(text: Characters) -> tf.Tensor:
    """Marks the separators of words. A blank line has no words, even if NLTK does not match all of its white space."""
    space = text.are_in("space")
    line = tf.cumsum(tf.cast(text.starts | text.before(text.are("\n")), tf.int64))
    filled = tf.math.unsorted_segment_max(tf.cast(~space, tf.int32), line, text.count + 1)
    return text.are_in("nltk space") | space & tf.equal(tf.gather(filled, line), 0)


def _several(text: Characters) -> tf.Tensor:
    """True at the start of `--`, `..` and `. . .`."""
    dot, dash = text.are("."), text.are("-")
    return dash & text.after(dash) | dot & text.after(dot) | _three_spaced_dots(text)


def _spaced_dots(text: Characters) -> tf.Tensor:
    dot = text.are(".")
    return dot & text.after(text.are_in("nltk space") & ~text.are("\n") & text.after(dot))


def _three_spaced_dots(text: Characters) -> tf.Tensor:
    spaced = _spaced_dots(text)
    return spaced & text.after(text.after(spaced))


def _glued(text: Characters) -> tf.Tensor:
    """The second and later characters of `---`, `...` and `. . .`, each of which is one word."""
    dot, dash = text.are("."), text.are("-")
    second_dot = dot & text.before(dot)
    spaced = _spaced_dots(text)
    chain = spaced | text.before(spaced | text.before(spaced))
    first = tf.maximum(last_index(chain & (second_dot | ~text.before(chain))), 0)
    # A dot that ends `..` belongs to that word. (Not if another chain ends with the previous dot, but then a sentence
    # ends in this context anyway.)
    first += tf.where(tf.gather(second_dot, first), tf.constant(2, tf.int64), 0)
    is_word = tf.gather(_three_spaced_dots(text), tf.minimum(first, text.count - 1))
    in_chain = chain & is_word & (tf.range(text.count) > first)
    return in_chain | dash & text.before(dash) | dot & text.before(dot & ~in_chain)


def _end_sentence(text: Characters, words: _Words) -> tf.Tensor:
    """Whether a word ends a sentence and another word follows, boolean `(words,)`."""
    dot = text.are(".")

    def at(flags, indices):
        return tf.gather(flags, tf.clip_by_value(indices, 0, text.count - 1))

    def of_next(flags):
        return tf.concat([flags, [False]], 0)[1:]

    single = tf.equal(words.ends - words.starts, 1)
    full_stop = at(dot, words.ends - 1)
    ends = single & at(text.are_in("sentence end"), words.starts)
    ends |= full_stop & ~single & ~at(dot, words.ends - 2)
    initial = tf.equal(words.ends - words.starts, 2) & at(text.are_in("nltk letter"), words.starts) & full_stop
    not_in_numbers = positions(~(text.are_in("nltk digit") | text.are_in("inside numbers")))
    digit = text.are_in("nltk digit")
    number = last_before(not_in_numbers, words.ends) < words.starts
    number &= full_stop & ~single & at(digit | dot & text.after(digit), words.starts)
    no_sentence_start = of_next(single & at(text.are_in("punctuation"), words.starts))
    no_sentence_start |= of_next(at(text.are_in("lower case"), words.starts))
    goes_on = (initial | number) & no_sentence_start | initial & of_next(at(text.are_in("upper case"), words.starts))
    is_last = tf.not_equal(words.rows, tf.concat([words.rows[1:], [-1]], 0))
    return ends & ~goes_on & ~is_last


def _realigned(block: Characters, breaks: _Contexts) -> tf.Tensor:
    """The starts of the sentences after the breaks; closing quotes and brackets belong to the sentence before."""
    dash, starts = block.are("-"), breaks.nexts
    # One past the last character of the sentence that starts at the break.
    next_stops = tf.concat([breaks.stops[1:], [block.count]], 0)
    block_goes_on = next_stops < breaks.block_ends
    last_characters = last_before(positions(~block.are_in("space")), breaks.block_ends)
    ends = tf.where(block_goes_on, next_stops, last_characters) + 1

    closed = first_from(positions(~block.are_in("closing") | block.starts), starts, block.count)
    spaces_end = first_from(positions(~block.are_in("nltk space") | block.starts), closed, block.count)
    dashes = last_before(positions(dash & block.after(dash)), closed + 1) >= closed
    at_end = tf.equal(closed, ends)
    realigned = (closed > starts) & (at_end | dashes | (spaces_end > closed))
    starts = tf.where(realigned, tf.where(at_end, closed, spaces_end), starts)
    next_realigned = block_goes_on & tf.concat([realigned, [False]], 0)[1:]
    return tf.boolean_mask(starts, (starts < ends) | next_realigned)
