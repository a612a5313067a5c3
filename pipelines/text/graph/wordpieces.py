"""`pipelines.text.wordpieces` with TensorFlow operations only: all words of a batch are cut at once.

The pieces are a trie, whose edges stand in one sorted constant. First the longest piece is found that begins at each
character, for all characters together, one character further in each step. Then each word goes from piece to piece.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.text.graph.bert_cleaning import GraphWords
from fabir_tf.pipelines.text.graph.code_points import CODE_POINTS, positions
from fabir_tf.pipelines.text.wordpieces import CONTINUES, LONGEST_WORD, UNK, WordPieceVocabulary

_FIRST, _CONTINUING = 0, 1
"""The roots of the trie: pieces that begin a word, and those that continue it."""


class GraphPieces(NamedTuple):
    """The pieces of a batch of texts.

    Attributes:
        ids: int32 `(pieces,)`, their numbers in the vocabulary.
        starts, ends: int64 `(pieces,)`, where each begins and ends among the cleaned characters.
    """

    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class _Trie(NamedTuple):
    """Pieces by their characters.

    Attributes:
        edges: int64 `(nodes - 2,)`, ascending: the parent's number and the character of every node but the roots.
        ids: int32 `(nodes,)`, the piece that ends at each node, or -1.
    """

    edges: np.ndarray
    ids: np.ndarray


def _make_trie(vocabulary: WordPieceVocabulary) -> _Trie:
    pieces = {
        (_CONTINUING, piece.removeprefix(CONTINUES)) if piece.startswith(CONTINUES) else (_FIRST, piece): number
        for piece, number in vocabulary.ids.items()
    }
    nodes = {(_FIRST, ""): 0, (_CONTINUING, ""): 1}
    edges = []
    # Numbered level by level, and within one by parent and character: a node's number is its place among the edges.
    for length in range(1, 1 + max(len(text) for _, text in pieces)):
        level = {(root, text[:length]) for root, text in pieces if len(text) >= length}
        ordered = sorted((nodes[root, text[:-1]] * CODE_POINTS + ord(text[-1]), root, text) for root, text in level)
        for edge, root, text in ordered:
            nodes[root, text] = len(nodes)
            edges.append(edge)
    ids = np.array([pieces.get(node, -1) if node[1] else -1 for node in nodes], np.int32)
    return _Trie(np.array(edges, np.int64), ids)


class GraphWordPieces:
    """Cuts words into pieces.

    Args:
        vocabulary: the pieces.
    """

    def __init__(self, vocabulary: WordPieceVocabulary):
        self._trie = _make_trie(vocabulary)
        self._unknown = vocabulary.ids[UNK]

    def __call__(self, words: GraphWords) -> GraphPieces:
        """See `WordPieceVocabulary.cut`.

        Args:
            words: the words of all texts.
        """
        count = tf.size(words.values, tf.int64)
        lengths = words.ends - words.starts
        # Spaces belong to no word.
        places = tf.ragged.range(words.starts, words.ends).flat_values
        limits = tf.scatter_nd(places[:, None], tf.repeat(words.ends, lengths), [count])
        roots = tf.tensor_scatter_nd_update(
            tf.fill([count], tf.constant(_CONTINUING, tf.int64)),
            words.starts[:, None],
            tf.fill(tf.shape(words.starts), tf.constant(_FIRST, tf.int64)),
        )
        sizes, ids = self._longest_pieces(words.values, roots, limits)
        begins, is_known = _follow(words, sizes)
        word = tf.repeat(tf.range(tf.size(lengths)), lengths)
        chosen = tf.gather(begins, places) & tf.gather(is_known, word)
        # The first character of an unknown word begins its only piece.
        chosen |= tf.equal(places, tf.gather(words.starts, word))
        kept = positions(chosen)
        starts, word = tf.gather(places, kept), tf.gather(word, kept)
        known = tf.gather(is_known, word)
        ends = tf.where(known, starts + tf.gather(sizes, starts), tf.gather(words.ends, word))
        return GraphPieces(tf.where(known, tf.gather(ids, starts), self._unknown), starts, ends)

    def _longest_pieces(self, values: tf.Tensor, roots: tf.Tensor, limits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The characters and the number of the longest piece that begins at each character; 0 where none does.

        Args:
            values: int32 `(n,)`, the characters.
            roots: int64 `(n,)`, the root where the search begins.
            limits: int64 `(n,)`, the end of each character's word.
        """
        edges, pieces = tf.constant(self._trie.edges), tf.constant(self._trie.ids)
        values = tf.cast(values, tf.int64)

        def step(depth, places, nodes, sizes, ids):
            inside = positions(places + depth < tf.gather(limits, places))
            places, nodes = tf.gather(places, inside), tf.gather(nodes, inside)
            keys = nodes * CODE_POINTS + tf.gather(values, places + depth)
            index = tf.minimum(tf.searchsorted(edges, keys, out_type=tf.int64), len(self._trie.edges) - 1)
            found = positions(tf.equal(tf.gather(edges, index), keys))
            # The roots come before the edges.
            places, nodes = tf.gather(places, found), tf.gather(index, found) + 2
            piece = tf.gather(pieces, nodes)
            whole = positions(piece >= 0)
            at = tf.gather(places, whole)[:, None]
            sizes = tf.tensor_scatter_nd_update(sizes, at, tf.fill(tf.shape(whole), depth + 1))
            ids = tf.tensor_scatter_nd_update(ids, at, tf.gather(piece, whole))
            return depth + 1, places, nodes, sizes, ids

        count = tf.size(values, tf.int64)
        state = (
            tf.constant(0, tf.int64),
            tf.range(count),
            roots,
            tf.zeros_like(roots),
            tf.zeros_like(roots, tf.int32),
        )
        flat = tf.TensorShape([None])
        shapes = (tf.TensorShape([]), flat, flat, flat, flat)
        *_, sizes, ids = tf.while_loop(lambda _, places, *others: tf.size(places) > 0, step, state, shapes)
        return sizes, ids


def _follow(words: GraphWords, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Goes through each word, one piece after the other.

    Args:
        words: the words.
        sizes: int64 `(n,)`, the longest piece that begins at each character.

    Returns:
        Boolean `(n,)`, where the pieces begin; boolean `(words,)`, which words have pieces up to their end.
    """

    def step(word, places, begins, is_known):
        begins = tf.tensor_scatter_nd_update(begins, places[:, None], tf.ones(tf.shape(places), tf.bool))
        after = places + tf.gather(sizes, places)
        dead = tf.gather(word, positions(tf.equal(after, places)))
        is_known = tf.tensor_scatter_nd_update(is_known, dead[:, None], tf.zeros(tf.shape(dead), tf.bool))
        on = positions((after > places) & (after < tf.gather(words.ends, word)))
        return tf.gather(word, on), tf.gather(after, on), begins, is_known

    is_short = words.ends - words.starts <= LONGEST_WORD
    word = positions(is_short)
    state = (word, tf.gather(words.starts, word), tf.zeros(tf.shape(sizes), tf.bool), is_short)
    shapes = (tf.TensorShape([None]),) * 4
    *_, begins, is_known = tf.while_loop(lambda word, *others: tf.size(word) > 0, step, state, shapes)
    return begins, is_known
