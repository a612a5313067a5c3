"""An example of a text processor: question and passage as one sequence, with one length budget and windows.

    [CLS] question [SEP] window of the passage [SEP]

A model reads two inputs of this processor's own, `sequence_ids` and `sequence_segments`. The last line registers it.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.features.features import Features, Segments
from fabir_tf.pipelines.text.graph.processor import GraphFeatures, GraphProcessor
from fabir_tf.pipelines.text.graph.tokenizer import graph_tokenize
from fabir_tf.pipelines.text.graph.vocabulary import GraphVocabulary
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.pipelines.text.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.pipelines.text.word_processor import WordTokenizer

# Rows of the table of unique tokens, after padding: [CLS] and the two [SEP], of question and of passage.
CLS, QUESTION_SEP, PASSAGE_SEP = 1, 2, 3
SPECIAL = 3


class JoinedProcessor(WordTokenizer, TextProcessor):
    """Joins question and passage into one sequence of at most `max_sequence` tokens.

    A unique token is a word in one of the two segments: row `3 + w` for the word id w in a question, and
    `3 + words + 1 + w` in a passage.
    """

    kind = "joined"

    def __init__(self, vocabulary, max_sequence, min_word_count=0):
        self.vocabulary = vocabulary
        self.max_sequence = max_sequence
        self.min_word_count = min_word_count

    @classmethod
    def create(cls, settings):
        return cls(None, settings["max_sequence"], settings["min_word_count"])

    def fit(self, datasets):
        vocabulary = build_vocabulary(datasets[0].token_counts(), (), self.min_word_count, 2**31)
        return JoinedProcessor(vocabulary, self.max_sequence)

    @property
    def input_specs(self):
        return {f"sequence_{part}": ((None, None), "int32") for part in ("ids", "segments")}

    @property
    def sizes(self):
        return {"words": self.vocabulary.trainable_rows}

    def window_sizes(self, question_lengths, max_passage):
        return np.minimum(max_passage, self.max_sequence - SPECIAL - self.read_of(question_lengths)).astype(np.int64)

    def read_of(self, question_lengths):
        """Question tokens that are read: at most half of the budget."""
        return np.minimum(question_lengths, self.max_sequence // 2)

    def unique(self):
        """The inputs of every unique token."""
        words = np.arange(self.vocabulary.trainable_rows + 1, dtype=np.int32)
        cls, sep = words[-1] + 1, words[-1] + 2
        ids = np.concatenate([[0, cls, sep, sep], words, words]).astype(np.int32)
        segments = np.concatenate([[0, 0, 0, 1], 0 * words, 0 * words + 1]).astype(np.int32)
        return {"ids": ids, "segments": segments}

    def features(self, tokenized, examples):
        texts = tokenized.texts
        word_ids = np.concatenate([[0], self.vocabulary.word_ids(texts.unique)]).astype(np.int32)[texts.tokens]
        question_rows, passage_rows = word_ids + SPECIAL + 1, word_ids + SPECIAL + 2 + self.vocabulary.trainable_rows
        passages = tokenized.question_passages[examples.questions]
        lengths = self.read_of(tokenized.question_lengths[examples.questions])
        question_starts = texts.splits[len(tokenized.data.passages) + examples.questions]
        passage_starts = texts.splits[passages] + examples.offsets
        sequences = [
            [CLS, *question_rows[q : q + m], QUESTION_SEP, *passage_rows[p : p + n], PASSAGE_SEP]
            for q, m, p, n in zip(question_starts, lengths, passage_starts, examples.lengths, strict=True)
        ]
        sizes = lengths + examples.lengths + SPECIAL
        return Features(
            np.concatenate([[0], *sequences]).astype(np.int32),
            self.unique(),
            {"sequence": Segments(1 + np.cumsum(sizes) - sizes, sizes)},
            passages,
            examples.lengths,
            lengths + 2,
        )

    def in_graph(self):
        return GraphJoinedProcessor(self)

    def save_assets(self, folder):
        self.vocabulary.save(folder)
        return {"max_sequence": self.max_sequence}

    @classmethod
    def load_assets(cls, folder: Path, values):
        return cls(Vocabulary.load(folder, ()), values["max_sequence"])


class GraphJoinedProcessor(GraphProcessor):
    """`JoinedProcessor` in core TensorFlow operations."""

    def __init__(self, processor):
        super().__init__()
        self.rules = processor.rules
        self.vocabulary = GraphVocabulary(processor.vocabulary, 1)
        self.rows = processor.vocabulary.trainable_rows
        self.max_sequence = processor.max_sequence
        self.unique = processor.unique()

    def tokenize(self, texts):
        return graph_tokenize(texts, self.rules)

    def window_sizes(self, question_lengths, max_passage):
        left = self.max_sequence - SPECIAL - self.read_of(question_lengths)
        return tf.minimum(tf.constant(max_passage, tf.int64), left)

    def read_of(self, question_lengths):
        return tf.minimum(question_lengths, self.max_sequence // 2)

    def features(self, tokens, passages, examples):
        word_ids = self.vocabulary.word_ids(tokens)
        begins, lengths = tokens.row_splits[:-1], tokens.row_splits[1:] - tokens.row_splits[:-1]
        questions = examples.questions + tf.cast(passages, tf.int64)
        read = self.read_of(tf.gather(lengths, questions))
        question = self.segment(word_ids, tf.gather(begins, questions), read, SPECIAL + 1)
        starts = tf.gather(begins, examples.passages) + examples.offsets
        passage = self.segment(word_ids, starts, examples.lengths, SPECIAL + 2 + self.rows)

        def column(row):
            return tf.fill([tf.size(read), 1], row)

        parts = [column(CLS), question, column(QUESTION_SEP), passage, column(PASSAGE_SEP)]
        sequence = tf.concat(parts, axis=1)
        tables = {
            "tokens": tf.concat([sequence.flat_values, [0]], 0),
            "sequence_starts": sequence.row_starts(),
            "sequence_lengths": sequence.row_lengths(),
        }
        return GraphFeatures(tables | {f"unique_{part}": tf.constant(v) for part, v in self.unique.items()}, read + 2)

    @staticmethod
    def segment(word_ids, starts, lengths, first_row):
        """Rows of unique tokens, ragged `(examples, tokens)`."""
        index = tf.ragged.range(starts, starts + lengths)
        return index.with_flat_values(tf.gather(word_ids, index.flat_values) + first_row)


PROCESSORS["joined"] = JoinedProcessor
