"""Word pieces: BERT's vocabularies, and question and passage in one sequence."""

import copy
import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.pipelines.features.features import Examples, Features, Segments
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import shown
from fabir_tf.pipelines.text.bert_cleaning import BertCleaning, clean
from fabir_tf.pipelines.text.processor import InputSpecs, TextProcessor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.tokenizer import Tokens
from fabir_tf.pipelines.text.unicode_tables import unicode_tables
from fabir_tf.pipelines.text.wordpiece_files import VOCABULARY_FILE, cleaning_of, read_vocabulary, read_wordpieces
from fabir_tf.pipelines.text.wordpieces import CLS, CONTINUES, SEP, WordPieceVocabulary

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.graph.wordpiece_processor import GraphWordPieceProcessor

SEQUENCE = "sequence"
"""The one text that a model reads."""

CLS_ROW, QUESTION_SEP_ROW, PASSAGE_SEP_ROW = 1, 2, 3
"""Rows of the special pieces in the table of unique tokens, after padding. The pieces follow: first those of
questions, then those of passages."""

FIRST_ROW = 4
"""The row of the first piece of questions."""

SPECIAL = 3
"""`[CLS]` and the two `[SEP]` of a sequence."""


@dataclasses.dataclass(frozen=True)
class WordPieceSettings:
    """What `WordPieceProcessor` reads of the training's and of the model's settings.

    Attributes:
        encoder: a folder in Hugging Face's layout; its vocabulary and its cleaning are read.
        max_sequence: most pieces of a sequence, `[CLS]` and `[SEP]` included.
        max_question: most pieces of a question.
    """

    encoder: str
    max_sequence: int = 384
    max_question: int = 64

    @classmethod
    def select(cls, settings: Mapping[str, Any]) -> "WordPieceSettings":
        """Takes its fields out of more settings.

        Raises:
            UserError: there is no encoder.
        """
        found = {field.name: settings[field.name] for field in dataclasses.fields(cls) if field.name in settings}
        if not found.get("encoder"):
            raise UserError("encoder: found no folder, expected one with the vocabulary of a BERT model")
        return cls(**found)


class WordPieceTokenizer:
    """Cuts text into the pieces of a vocabulary, for processors that differ in what a model reads of them.

    Args:
        vocabulary: the pieces.
        cleaning: how text is cleaned before it is cut.
    """

    rules: int = 1

    def __init__(self, vocabulary: WordPieceVocabulary, cleaning: BertCleaning | None = None):
        self.vocabulary = vocabulary
        self.cleaning = cleaning or BertCleaning()

    @property
    def tokenizer_version(self) -> str:
        """The rules, the Unicode version of the tables, and a hash of the vocabulary and the cleaning."""
        content = "\n".join([repr(self.cleaning), *self.vocabulary.pieces])
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        return f"wordpieces-{self.rules}+unicode-{unicode_tables().version}+{digest}"

    def tokenize_text(self, text: str) -> Tokens:
        """The pieces of a text.

        Args:
            text: any string.

        Returns:
            The pieces' texts, as the vocabulary has them, with the offsets of where they come from.
        """
        cleaned = clean(text, self.cleaning)
        tokens = Tokens([], [], [])
        for begin, end in zip(cleaned.starts, cleaned.ends, strict=True):
            for piece in self.vocabulary.cut(cleaned.text[begin:end]):
                tokens.words.append(piece.text)
                tokens.starts.append(cleaned.sources[begin + piece.start])
                tokens.ends.append(cleaned.sources[begin + piece.end - 1] + 1)
        return tokens

    def continues_word(self, token: str) -> bool:
        """See `TextProcessor.continues_word`; punctuation is a word, so that no text has such a piece by itself."""
        return token.startswith(CONTINUES)

    def validate_questions(self, tokenized: TokenizedDataset, examples: Examples, most: int, setting: str) -> None:
        """Refuses questions that a model cannot read whole.

        Args:
            tokenized: the texts.
            examples: what is read.
            most: pieces of a question.
            setting: what decides that, for the message.

        Raises:
            QuestionError: a question has more.
        """
        lengths = tokenized.question_lengths[examples.questions]
        long = np.flatnonzero(lengths > most)
        if len(long):
            question = tokenized.data.questions[examples.questions[long[0]]]
            found = f"found {lengths[long[0]]} word pieces, expected at most {most} ({setting})"
            raise QuestionError(question.id, f"{found}: {shown(question.text)}")

    def save_pieces(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabulary, and returns the settings of the cleaning for `load_pieces`."""
        write_text(folder / VOCABULARY_FILE, "\n".join(self.vocabulary.pieces) + "\n")
        return dataclasses.asdict(self.cleaning)


class WordPieceProcessor(WordPieceTokenizer, TextProcessor):
    """Reads question and window of the passage as one sequence of word pieces.

        [CLS] question [SEP] window of the passage [SEP]

    A model's inputs are `sequence_ids`, with 0 for padding, and `sequence_segments`: 0 up to the first `[SEP]`, and 1
    from the passage on. Question and passage share `max_sequence` pieces. Texts are plain: `[SEP]` in a passage is
    three words. Pieces have the offsets of the text that they come from; several may come from one character.

    Args:
        vocabulary: the pieces.
        cleaning: how text is cleaned before it is cut.
        max_sequence: most pieces of a sequence, `[CLS]` and `[SEP]` included.
        max_question: most pieces of a question; a longer one is an error in Python, and cut in a graph, which says so.

    Raises:
        UserError: a sequence would have no room for a passage.

    Reference: BERT, arXiv 1810.04805, sections 3 and 4.2.
    """

    kind = "wordpieces"

    def __init__(
        self,
        vocabulary: WordPieceVocabulary,
        cleaning: BertCleaning | None = None,
        max_sequence: int = 384,
        max_question: int = 64,
    ):
        if max_question < 1 or max_sequence <= max_question + SPECIAL:
            raise UserError(
                f"max_sequence={max_sequence} and max_question={max_question}: expected at least 1 piece of a "
                f"question, and more in a sequence than it and {SPECIAL} special pieces"
            )
        super().__init__(vocabulary, cleaning)
        self.max_sequence = max_sequence
        self.max_question = max_question

    @classmethod
    def create(cls, settings: Mapping[str, Any]) -> "WordPieceProcessor":
        """See `TextProcessor.create`."""
        chosen = WordPieceSettings.select(settings)
        vocabulary, cleaning = read_wordpieces(chosen.encoder)
        return cls(vocabulary, cleaning, chosen.max_sequence, chosen.max_question)

    @property
    def input_specs(self) -> InputSpecs:
        """Ids and segments of the sequence, `(batch, length)` each."""
        return {f"{SEQUENCE}_{part}": ((None, None), "int32") for part in ("ids", "segments")}

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of the model's table."""
        return {"pieces": len(self.vocabulary)}

    def with_limits(self, max_sequence: int, max_question: int) -> "WordPieceProcessor":
        """See `TextProcessor.with_limits`; no question is longer than what leaves room for a piece of a passage."""
        limited = copy.copy(self)
        limited.max_sequence = max_sequence
        limited.max_question = max(1, min(max_question, max_sequence - SPECIAL - 1))
        return limited

    def window_sizes(self, question_lengths: np.ndarray, max_passage: int) -> np.ndarray:
        """What the question leaves of the sequence; see `TextProcessor.window_sizes`."""
        read = np.minimum(question_lengths, self.max_question)
        return np.minimum(max_passage, self.max_sequence - SPECIAL - read).astype(np.int64)

    def unique_tokens(self) -> dict[str, np.ndarray]:
        """The inputs of every unique token: padding, the special pieces, and each piece in either segment."""
        ids, special = np.arange(len(self.vocabulary)), self.vocabulary.ids
        segments = [0, 0, 0, 1], np.zeros(len(ids)), np.ones(len(ids))
        return {
            "ids": np.concatenate([[0, special[CLS], special[SEP], special[SEP]], ids, ids]).astype(np.int32),
            "segments": np.concatenate(segments).astype(np.int32),
        }

    def features(self, tokenized: TokenizedDataset, examples: Examples) -> Features:
        """See `TextProcessor.features`.

        Raises:
            QuestionError: a question has more than `max_question` pieces.
        """
        self.validate_questions(tokenized, examples, self.max_question, "max_question")
        texts = tokenized.texts
        passages = tokenized.question_passages[examples.questions]
        questions = len(tokenized.data.passages) + examples.questions
        lengths = texts.lengths[questions]
        sizes = lengths + examples.lengths + SPECIAL
        starts = np.cumsum(sizes) - sizes + 1
        # Padding stands first, so that there is a token where there is no example.
        tokens = np.zeros(1 + sizes.sum(), np.int32)
        tokens[starts] = CLS_ROW
        tokens[starts + 1 + lengths] = QUESTION_SEP_ROW
        tokens[starts + sizes - 1] = PASSAGE_SEP_ROW
        rows = np.array([0, *(FIRST_ROW + self.vocabulary.ids[piece] for piece in texts.unique)], np.int32)
        read = rows[texts.tokens]
        tokens[_ranges(starts + 1, lengths)] = read[_ranges(texts.splits[questions], lengths)]
        passage = read[_ranges(texts.splits[passages] + examples.offsets, examples.lengths)]
        tokens[_ranges(starts + 2 + lengths, examples.lengths)] = passage + len(self.vocabulary)
        segments = {SEQUENCE: Segments(starts, sizes)}
        return Features(tokens, self.unique_tokens(), segments, passages, examples.lengths, lengths + 2)

    def in_graph(self) -> "GraphWordPieceProcessor":
        """See `TextProcessor.in_graph`."""
        from fabir_tf.pipelines.text.graph.wordpiece_processor import GraphWordPieceProcessor

        return GraphWordPieceProcessor(self)

    def save_assets(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabulary."""
        return self.save_pieces(folder) | {"max_sequence": self.max_sequence, "max_question": self.max_question}

    @classmethod
    def load_assets(cls, folder: Path, values: Mapping[str, Any]) -> "WordPieceProcessor":
        """Reads what `save_assets` wrote."""
        limits = (saved_limit(folder, values, name) for name in ("max_sequence", "max_question"))
        return cls(*load_pieces(folder, values), *limits)


def load_pieces(folder: Path, values: Mapping[str, Any]) -> tuple[WordPieceVocabulary, BertCleaning]:
    """Reads what `WordPieceTokenizer.save_pieces` wrote.

    Raises:
        UserError: the file or a setting is missing or damaged.
    """
    cleaning = cleaning_of(values, str(folder))
    return read_vocabulary(folder / VOCABULARY_FILE), cleaning


def saved_limit(folder: Path, values: Mapping[str, Any], name: str) -> int:
    """A number of pieces among the saved values.

    Raises:
        UserError: it is none.
    """
    limit = values.get(name)
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise UserError(f"{folder}: found {name}={shown(limit)}, expected a positive number")
    return limit


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The indices of segments, one segment after the other."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)
