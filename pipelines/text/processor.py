"""The contract of a text processor: everything between a string and a model's inputs."""

import abc
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples, Features
from fabir_tf.pipelines.files import user_path, write_text
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_dataset
from fabir_tf.pipelines.text.tokenizer import Tokens
from fabir_tf.version import __version__

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.graph.processor import GraphProcessor

PROCESSOR_FILE = "processor.json"
FORMAT = 1

LONGEST_QUESTION = 512
"""Questions are truncated to this many tokens: far more than people ask with, few enough for the memory."""

InputSpecs = dict[str, tuple[tuple[int | None, ...], str]]


class TextProcessor(abc.ABC):
    """Turns texts into a model's inputs, in Python and in a TensorFlow graph.

    Only a processor knows what a token is. It is made in two steps, because some processors need the training data:
    `create` takes the settings, and `fit` the tokenized datasets. It is saved with the reader.
    """

    kind: ClassVar[str]
    """Its name in `processor.json` and in `PROCESSORS`."""

    rules: int = 1
    """The version of the rules that cut text. The class has the newest, which new readers get; a saved processor keeps
    its own."""

    needs_spaces: bool = False
    """Whether it cannot cut scripts that put no spaces between words: such passages are not read."""

    saved_tokenizer_version: str | None = None
    """The tokenizer's version when the processor was first saved; None for one that was never saved."""

    @classmethod
    @abc.abstractmethod
    def create(cls, settings: Mapping[str, Any]) -> "TextProcessor":
        """Makes a processor that can tokenize, before it has seen a text.

        Args:
            settings: the fields of the training's and of the model's configuration, by name.
        """

    def fit(self, datasets: Sequence[TokenizedDataset]) -> "TextProcessor":
        """Makes the processor that a model is trained with.

        Args:
            datasets: the tokenized training data first, then the data that is scored after each epoch. Only the first
                may decide what is trained; the others may name words of which vectors are kept.
        """
        return self

    @property
    @abc.abstractmethod
    def tokenizer_version(self) -> str:
        """Changes whenever the tokens of any text change."""

    @abc.abstractmethod
    def tokenize_text(self, text: str) -> Tokens:
        """Cuts a text into tokens with offsets in code points; never fails and never rewrites the text."""

    def tokenize(
        self,
        data: SquadData,
        cache_dir: str | os.PathLike | None = None,
        log: Callable[[str], object] = print,
    ) -> TokenizedDataset:
        """Tokenizes a dataset; see `tokenize_dataset`."""
        return tokenize_dataset(data, self, cache_dir, log)

    @property
    @abc.abstractmethod
    def input_specs(self) -> InputSpecs:
        """Shape and dtype of each input of a model, by name; the first two dimensions are batch and length."""

    @property
    def sizes(self) -> dict[str, int]:
        """The derived fields of the model's configuration, such as the number of words."""
        return {}

    @property
    def frozen_tables(self) -> dict[str, np.ndarray]:
        """Tables that the model holds and does not train, by the name of the layer that has a `frozen_table`."""
        return {}

    def without_tables(self) -> "TextProcessor":
        """The same processor without its `frozen_tables`, for programs whose model holds them: itself, if it has none.

        It makes the same inputs; no reader can be built of it.
        """
        return self

    def with_limits(self, max_sequence: int, max_question: int) -> "TextProcessor":
        """The same processor with another length budget: itself, where question and passage share none.

        Args:
            max_sequence: most tokens of question and window of the passage together.
            max_question: most tokens of a question.
        """
        return self

    def continues_word(self, token: str) -> bool:
        """Whether a token is the second or a later part of a word."""
        return False

    def window_sizes(self, question_lengths: np.ndarray, max_passage: int) -> np.ndarray:
        """Most passage tokens that the model reads at once, for each question.

        Args:
            question_lengths: int `(questions,)`, tokens of each question.
            max_passage: the limit that the reader was given.

        Returns:
            Int64 `(questions,)`, at least 1.
        """
        return np.full(len(question_lengths), max_passage, np.int64)

    @abc.abstractmethod
    def features(self, tokenized: TokenizedDataset, examples: Examples) -> Features:
        """The arrays of examples. Questions are truncated to what the processor's length budget leaves them."""

    @abc.abstractmethod
    def in_graph(self) -> "GraphProcessor":
        """The same processor in core TensorFlow operations, for a SavedModel."""

    @abc.abstractmethod
    def save_assets(self, folder: Path) -> dict[str, Any]:
        """Writes the files that `load_assets` reads.

        Args:
            folder: may be missing.

        Returns:
            JSON values to be kept in `processor.json`.
        """

    @classmethod
    @abc.abstractmethod
    def load_assets(cls, folder: Path, values: Mapping[str, Any]) -> "TextProcessor":
        """Reads what `save_assets` wrote.

        Args:
            folder: the folder.
            values: the JSON values that `save_assets` returned.

        Raises:
            UserError: a file is missing or damaged.
        """

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the processor into a folder.

        Args:
            folder: made if it is missing.

        Raises:
            WriteError: a file cannot be written.
        """
        folder = user_path(folder)
        content = {
            "kind": self.kind,
            "format": FORMAT,
            "fabir_tf": __version__,
            "rules": self.rules,
            "tokenizer": self.saved_tokenizer_version or self.tokenizer_version,
            "values": self.save_assets(folder),
        }
        write_text(folder / PROCESSOR_FILE, json.dumps(content, indent=2) + "\n")


def load_processor(
    folder: str | os.PathLike, kinds: Mapping[str, type[TextProcessor]], log: Callable[[str], object] | None = None
) -> TextProcessor:
    """Reads what `TextProcessor.save` wrote.

    Args:
        folder: the folder.
        kinds: the known classes by their kind.
        log: called with one sentence if the tokenizer cuts text in another way than when the folder was written.

    Returns:
        The processor.

    Raises:
        UserError: a file is missing or damaged, or of an unknown kind or format.
    """
    path = user_path(folder) / PROCESSOR_FILE
    content = read_json(path)
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise UserError(f"{path}: found {shown(kind)} as kind, expected one of {', '.join(kinds)}")
    if content.get("format") != FORMAT:
        raise UserError(f"{path}: found {shown(content.get('format'))} as format, expected {FORMAT}")
    values = content.get("values")
    if not isinstance(values, dict):
        raise UserError(f"{path}: found {shown(values)} as values, expected an object")
    processor = kinds[kind].load_assets(path.parent, values)
    processor.rules = _rules(path, content, kinds[kind].rules)
    processor.saved_tokenizer_version = content.get("tokenizer")
    if log and processor.saved_tokenizer_version not in (None, processor.tokenizer_version):
        log(
            f"{path}: saved with the tokenizer {processor.saved_tokenizer_version}, this installation has "
            f"{processor.tokenizer_version}: some texts may be cut into other tokens than in training"
        )
    return processor


def saved_rules(folder: str | os.PathLike) -> int:
    """The version of the rules of a saved processor, without its other files; 1 where it has no note of them.

    Args:
        folder: the folder.

    Raises:
        UserError: the file is damaged.
    """
    path = Path(folder) / PROCESSOR_FILE
    content = read_json(path) if path.exists() else {}
    return _rules(path, content) if isinstance(content, dict) else 1


def _rules(path: Path, content: dict[str, Any], newest: int | None = None) -> int:
    # The first processors have no note of their rules.
    rules = content.get("rules", 1)
    if isinstance(rules, bool) or not isinstance(rules, int) or rules < 1:
        raise UserError(f"{path}: rules is {shown(rules)}, expected their version, a whole number from 1")
    if newest and rules > newest:
        raise UserError(
            f"{path}: found version {rules} of the rules, expected 1 to {newest}: it needs a later fabir_tf"
        )
    return rules
