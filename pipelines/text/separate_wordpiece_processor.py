"""Word pieces of passage and question apart, for readers with the vectors of a BERT."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples, Features
from fabir_tf.pipelines.json_files import shown
from fabir_tf.pipelines.text.bert_cleaning import BertCleaning
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.processor import LONGEST_QUESTION, InputSpecs, TextProcessor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.tokenizer import Tokens
from fabir_tf.pipelines.text.two_texts import TEXTS, two_text_features
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceTokenizer, load_pieces, saved_limit
from fabir_tf.pipelines.text.wordpieces import WordPieceVocabulary

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.graph.separate_wordpiece_processor import GraphSeparateWordPieceProcessor

BORDERS = 2
"""`[CLS]` and `[SEP]`, which the model sets around a text."""


class SeparateWordPieceProcessor(WordPieceTokenizer, TextProcessor):
    """Reads passage and question as separate inputs of word pieces.

    A model's inputs are `passage_ids` and `question_ids`, with 0 for padding, without `[CLS]` and `[SEP]`. Longer
    passages are read in windows.

    Args:
        vocabulary: the pieces.
        cleaning: how text is cleaned before it is cut.
        max_sequence: most pieces of a text, `[CLS]` and `[SEP]` included; a longer question is an error in Python, and
            cut in a graph, which says so.
        whole_words: each piece has the offsets of its word, so that answers are whole words, and a model has two more
            inputs, `passage_begins` and `question_begins`, 1 where a piece begins a word.

    Raises:
        UserError: a text would have no room for a piece.

    Reference: Cheung, section 3.2.1.
    """

    kind = "separate-wordpieces"

    def __init__(
        self,
        vocabulary: WordPieceVocabulary,
        cleaning: BertCleaning | None = None,
        max_sequence: int = 512,
        whole_words: bool = False,
    ):
        super().__init__(vocabulary, cleaning)
        if max_sequence <= BORDERS:
            raise UserError(f"max_sequence={max_sequence}: expected at least 1 piece beside {BORDERS} special pieces")
        self.max_sequence = max_sequence
        self.whole_words = whole_words

    @classmethod
    def create(cls, settings: Mapping[str, Any]) -> "SeparateWordPieceProcessor":
        """See `TextProcessor.create`; it needs `word_model`, a folder in Hugging Face's layout, `max_sequence` and
        `pool_words`.

        Raises:
            UserError: there is no folder, or it does not fit.
        """
        if not settings.get("word_model"):
            raise UserError("word_model: found no folder, expected one with the vocabulary of a BERT model")
        return cls(*read_wordpieces(settings["word_model"]), settings["max_sequence"], settings["pool_words"])

    @property
    def max_question(self) -> int:
        """Most pieces of a question."""
        return min(LONGEST_QUESTION, self.max_sequence - BORDERS)

    @property
    def input_specs(self) -> InputSpecs:
        """Ids of both texts, `(batch, length)` each."""
        parts = ("ids", "begins") if self.whole_words else ("ids",)
        return {f"{text}_{part}": ((None, None), "int32") for text in TEXTS for part in parts}

    @property
    def tokenizer_version(self) -> str:
        """See `WordPieceTokenizer.tokenizer_version`."""
        return super().tokenizer_version + ("+whole-words" if self.whole_words else "")

    def tokenize_text(self, text: str) -> Tokens:
        """See `WordPieceTokenizer.tokenize_text`."""
        tokens = super().tokenize_text(text)
        return self._with_words_offsets(tokens) if self.whole_words else tokens

    def begins_word(self) -> np.ndarray:
        """Which pieces of the vocabulary begin a word, int32 `(pieces,)`; padding does not."""
        begins = np.array([not self.continues_word(piece) for piece in self.vocabulary.pieces], np.int32)
        begins[PADDING] = 0
        return begins

    def window_sizes(self, question_lengths: np.ndarray, max_passage: int) -> np.ndarray:
        """The same for all questions; see `TextProcessor.window_sizes`."""
        return super().window_sizes(question_lengths, min(max_passage, self.max_sequence - BORDERS))

    def features(self, tokenized: TokenizedDataset, examples: Examples) -> Features:
        """See `TextProcessor.features`.

        Raises:
            QuestionError: a question has more than `max_question` pieces.
        """
        self.validate_questions(tokenized, examples, self.max_question, "max_sequence")
        ids = np.array([0, *(self.vocabulary.ids[piece] for piece in tokenized.texts.unique)], np.int32)
        if not self.whole_words:
            return two_text_features(tokenized, examples, {"ids": ids})
        return two_text_features(tokenized, examples, {"ids": ids, "begins": self.begins_word()[ids]})

    def in_graph(self) -> "GraphSeparateWordPieceProcessor":
        """See `TextProcessor.in_graph`."""
        from fabir_tf.pipelines.text.graph.separate_wordpiece_processor import GraphSeparateWordPieceProcessor

        return GraphSeparateWordPieceProcessor(self)

    def save_assets(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabulary."""
        return self.save_pieces(folder) | {"max_sequence": self.max_sequence, "whole_words": self.whole_words}

    @classmethod
    def load_assets(cls, folder: Path, values: Mapping[str, Any]) -> "SeparateWordPieceProcessor":
        """Reads what `save_assets` wrote."""
        # An earlier version had no such setting.
        whole_words = values.get("whole_words", False)
        if not isinstance(whole_words, bool):
            raise UserError(f"{folder}: found whole_words={shown(whole_words)}, expected true or false")
        return cls(*load_pieces(folder, values), saved_limit(folder, values, "max_sequence"), whole_words)

    def _with_words_offsets(self, tokens: Tokens) -> Tokens:
        # A text never begins with a piece that continues a word.
        begins = np.array([not self.continues_word(piece) for piece in tokens.words], bool)
        words = np.cumsum(begins) - 1
        starts = np.array(tokens.starts, int)[begins][words]
        ends = np.array(tokens.ends, int)[np.append(begins, True)[1:]][words]
        return Tokens(tokens.words, starts.tolist(), ends.tolist())
