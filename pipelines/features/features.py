"""What batches are made of: examples to read, and the arrays that a text processor makes of them."""

import dataclasses
from collections.abc import Mapping

import numpy as np

PASSAGE_INDEX = "passage_index"
"""Input of a batch: the index, among the batch's passages, of each example's passage."""

SHARED_TEXT = "passage"
"""The text that several examples of a batch may share; it is read once for all of them."""

START, END, NULL = "start_logits", "end_logits", "null_logits"
"""Outputs of a model: logits of the passage's tokens, and those of "no answer" if it has any."""

NO_ANSWER = -1
"""Stands for the answer's first and last token where the passage holds no answer."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """Questions, each with the window of its passage that is read.

    Attributes:
        questions: int64 `(examples,)`, the question's number in the dataset.
        offsets: int64 `(examples,)`, the first passage token of the window.
        lengths: int64 `(examples,)`, the number of passage tokens in the window.
    """

    questions: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray

    def select(self, chosen: np.ndarray) -> "Examples":
        """Some of the examples, chosen by a boolean array or by indices."""
        return Examples(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True)
class Segments:
    """Where each example's part of a text lies among all tokens, int64 `(examples,)` each."""

    starts: np.ndarray
    lengths: np.ndarray


@dataclasses.dataclass(frozen=True)
class Features:
    """Examples as plain arrays: segments of one long row of tokens, and the values of each unique token.

    A model reads `{text}_{part}` for every text of `segments` and every part of `unique`, for example
    `passage_words`: the values of that part for the tokens of that segment, padded with row 0.

    Attributes:
        tokens: int32 `(tokens,)`, the unique token of every token of all texts; 0 is padding. Never empty:
            without a single token it holds one of padding.
        unique: arrays `(unique tokens + 1, ...)` by part, such as word ids; row 0 is padding. One that is too large for
            memory is a `RowsOnDisk`.
        segments: by text, such as passage and question.
        passages: int64 `(examples,)`, the number of each example's passage.
        passage_lengths: int64 `(examples,)`, passage tokens that the example reads.
        logit_offsets: int64 `(examples,)`, the column of the model's logits where the passage begins.
    """

    tokens: np.ndarray
    unique: dict[str, np.ndarray]
    segments: dict[str, Segments]
    passages: np.ndarray
    passage_lengths: np.ndarray
    logit_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def longest(self) -> np.ndarray:
        """The longest segment of each example, int64 `(examples,)`."""
        return np.max([segment.lengths for segment in self.segments.values()], axis=0)

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The arrays that batches are cut from: `tokens`, `unique_{part}`, `{text}_starts` and `{text}_lengths`."""
        tables = {"tokens": self.tokens} | {f"unique_{part}": values for part, values in self.unique.items()}
        for text, segment in self.segments.items():
            tables |= {f"{text}_starts": segment.starts, f"{text}_lengths": segment.lengths}
        return tables

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name; `from_arrays` is the inverse."""
        others = ("passages", "passage_lengths", "logit_offsets")
        return {f"table_{name}": array for name, array in self.tables.items()} | {
            name: getattr(self, name) for name in others
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Features":
        """Makes features of the arrays that `to_arrays` returned.

        Raises:
            KeyError: an array is missing.
        """
        arrays = dict(arrays)
        tables = {name.removeprefix("table_"): arrays.pop(name) for name in list(arrays) if name.startswith("table_")}
        unique = {name.removeprefix("unique_"): part for name, part in tables.items() if name.startswith("unique_")}
        segments = {text: Segments(tables[f"{text}_starts"], tables[f"{text}_lengths"]) for text in text_names(tables)}
        others = ("passages", "passage_lengths", "logit_offsets")
        return cls(tables["tokens"], unique, segments, *(arrays[name] for name in others))


def text_names(tables: Mapping) -> list[str]:
    """The texts of `Features.tables`, or of the same tables in a graph, the shared one first."""
    # By both arrays, so that an incomplete text is an error.
    names = {name.rpartition("_")[0] for name in tables if name.endswith(("_starts", "_lengths"))}
    return sorted(names, key=lambda name: (name != SHARED_TEXT, name))
