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
    WordPieceTokenizer,
)


class GraphWordPieceTokenizer(GraphProcessor):
    """Cuts a batch of texts into word pieces.

    Args:
        tokenizer: the tokenizer in Python.
    """

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        self.clean = GraphCleaning(tokenizer.cleaning)
        self.cut = GraphWordPieces(tokenizer.vocabulary)
        self.pieces = len(tokenizer.vocabulary)

    def tokenize(self, texts: tf.Tensor) -> GraphTokens:
        """See `WordPieceTokenizer.tokenize_text`; bytes that are not UTF-8 are removed like U+FFFD."""
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


class GraphWordPieceProcessor(GraphWordPieceTokenizer):
    """Cuts a batch of texts into word pieces, and joins question and passage into one sequence.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: WordPieceProcessor):
        super().__init__(processor)
        self.max_sequence, self.max_question = processor.max_sequence, processor.max_question
        self.unique_tokens = processor.unique_tokens()

    def questions_cut(self, question_lengths: tf.Tensor) -> tf.Tensor:
        """See `GraphProcessor.questions_cut`; in Python such a question is an error."""
        return question_lengths > self.max_question

    def window_sizes(self, question_lengths: tf.Tensor, max_passage: int) -> tf.Tensor:
        """See `GraphProcessor.window_sizes`."""
        return tf.minimum(tf.constant(max_passage, tf.int64), self._room(self._read(question_lengths)))

    def features(self, tokens: GraphTokens, passages: tf.Tensor, examples: GraphExamples) -> GraphFeatures:
        """See `GraphProcessor.features`; of a question the first `max_question` pieces are read."""
        ids = tokens.ids
        assert ids is not None, "These tokens are words."
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        questions = examples.questions + tf.cast(passages, tf.int64)
        read = self._read(tf.gather(lengths, questions))
        sizes = read + examples.lengths + SPECIAL
        starts = tf.cumsum(sizes, exclusive=True)
        question = tf.gather(ids, _ranges(tf.gather(begins, questions), read))
        passage = tf.gather(ids, _ranges(tf.gather(begins, examples.passages) + examples.offsets, examples.lengths))
        parts = (
            (starts, tf.fill(tf.shape(read), CLS_ROW)),
            (_ranges(starts + 1, read), question + FIRST_ROW),
            (starts + 1 + read, tf.fill(tf.shape(read), QUESTION_SEP_ROW)),
            (_ranges(starts + 2 + read, examples.lengths), passage + FIRST_ROW + self.pieces),
            (starts + sizes - 1, tf.fill(tf.shape(read), PASSAGE_SEP_ROW)),
        )
        places, rows = (tf.concat(part, 0) for part in zip(*parts, strict=True))
        tables = {
            # Padding stands at the end, so that there is a token where there is no example.
            "tokens": tf.scatter_nd(places[:, None], rows, [tf.reduce_sum(sizes) + 1]),
            f"{SEQUENCE}_starts": starts,
            f"{SEQUENCE}_lengths": sizes,
        }
        unique = {f"unique_{part}": tf.constant(values) for part, values in self.unique_tokens.items()}
        return GraphFeatures(tables | unique, read + 2)

    def _read(self, question_lengths: tf.Tensor) -> tf.Tensor:
        return tf.minimum(question_lengths, tf.constant(self.max_question, tf.int64))

    def _room(self, read: tf.Tensor) -> tf.Tensor:
        return self.max_sequence - SPECIAL - read


def _ranges(starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The indices of segments, one segment after the other."""
    return tf.ragged.range(starts, starts + lengths).flat_values
