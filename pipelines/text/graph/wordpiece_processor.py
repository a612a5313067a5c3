"""`WordPieceProcessor` in core TensorFlow operations."""

import tensorflow as tf

from fabir_tf.pipelines.text.graph.bert_cleaning import GraphCleaning
from fabir_tf.pipelines.text.graph.code_points import decode
from fabir_tf.pipelines.text.graph.processor import GraphExamples, GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.tokenizer import GraphTokens
from fabir_tf.pipelines.text.graph.wordpieces import GraphWordPieces
from fabir_tf.pipelines.text.wordpiece_processor import (
    CLS_ROW,
    FIRST_ROW,
    PASSAGE_SEP_ROW,
    QUESTION_SEP_ROW,
    SEQUENCE,
    SPECIAL,
    WordPieceProcessor,
)


class GraphWordPieceProcessor(GraphProcessor):
    """Cuts a batch of texts into word pieces, and joins question and passage into one sequence.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: WordPieceProcessor):
        super().__init__()
        self.clean = GraphCleaning(processor.cleaning)
        self.cut = GraphWordPieces(processor.vocabulary)
        self.pieces = len(processor.vocabulary)
        self.max_sequence, self.max_question = processor.max_sequence, processor.max_question
        self.unique_tokens = processor.unique_tokens()

    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """See `WordPieceProcessor.tokenize_text`; bytes that are not UTF-8 are removed like U+FFFD."""
        text = decode(texts)
        words = self.clean(text)
        pieces = self.cut(words)
        starts, ends = tf.gather(words.sources, pieces.starts), tf.gather(words.sources, pieces.ends - 1) + 1
        row_splits = tf.searchsorted(starts, text.splits, out_type=tf.int64)
        text_starts = tf.repeat(text.splits[:-1], row_splits[1:] - row_splits[:-1])
        return GraphTokens(
            starts - text_starts,
            ends - text_starts,
            row_splits,
            text.values,
            text.splits,
            text.byte_offsets,
            pieces.ids,
        )

    def questions_cut(self, question_lengths: tf.Tensor) -> tf.Tensor:
        """Which questions are longer than `max_question`; int64 `(questions,)` to boolean `(questions,)`."""
        return question_lengths > self.max_question

    def window_sizes(self, question_lengths: tf.Tensor, max_passage: int) -> tf.Tensor:
        """See `GraphProcessor.window_sizes`."""
        return tf.minimum(tf.constant(max_passage, tf.int64), self._room(self._read(question_lengths)))

    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `GraphProcessor.features`; of a question the first `max_question` pieces are read."""
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        questions = examples.questions + tf.cast(passages, tf.int64)
        read = self._read(tf.gather(lengths, questions))
        question = _segment(tokens.ids + FIRST_ROW, tf.gather(begins, questions), read)
        starts = tf.gather(begins, examples.passages) + examples.offsets
        passage = _segment(tokens.ids + FIRST_ROW + self.pieces, starts, examples.lengths)
        cls, question_sep, passage_sep = (
            tf.fill([tf.size(read), 1], row) for row in (CLS_ROW, QUESTION_SEP_ROW, PASSAGE_SEP_ROW)
        )
        sequence = tf.concat([cls, question, question_sep, passage, passage_sep], axis=1)
        tables = {
            # Padding stands at the end, so that there is a token where there is no example.
            "tokens": tf.concat([sequence.flat_values, [0]], 0),
            f"{SEQUENCE}_starts": sequence.row_starts(),
            f"{SEQUENCE}_lengths": sequence.row_lengths(),
        }
        unique = {f"unique_{part}": tf.constant(values) for part, values in self.unique_tokens.items()}
        return GraphFeatures(tables | unique, read + 2)

    def _read(self, question_lengths: tf.Tensor) -> tf.Tensor:
        return tf.minimum(question_lengths, tf.constant(self.max_question, tf.int64))

    def _room(self, read: tf.Tensor) -> tf.Tensor:
        return self.max_sequence - SPECIAL - read


def _segment(rows: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Rows of unique tokens, ragged `(examples, tokens)`."""
    index = tf.ragged.range(starts, starts + lengths)
    return index.with_flat_values(tf.gather(rows, index.flat_values))
