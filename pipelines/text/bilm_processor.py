"""Words as the characters that ELMo's biLM reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.features.features import Examples, Features
from fabir_tf.pipelines.text.bilm_characters import WIDTH, character_ids
from fabir_tf.pipelines.text.processor import InputSpecs, TextProcessor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.two_texts import TEXTS, two_text_features
from fabir_tf.pipelines.text.word_processor import WordTokenizer

if TYPE_CHECKING:
    from fabir_tf.pipelines.text.graph.bilm_processor import GraphBilmProcessor


class BilmProcessor(WordTokenizer, TextProcessor):
    """Reads a text as words, each by its characters, whose ids are the same for every biLM: there is no vocabulary.

    Passage and question are separate inputs with a length budget each, as in `WordProcessor`.

    Reference: Peters et al. 2018, arXiv 1802.05365, section 3.4; Cheung, section 3.1.2.
    """

    kind = "bilm"

    @classmethod
    def create(cls, settings: Mapping[str, Any]) -> "BilmProcessor":
        """See `TextProcessor.create`; there is nothing to choose."""
        return cls()

    @property
    def input_specs(self) -> InputSpecs:
        """Character ids `(batch, length, 50)` of both texts; all of a padding token's are 0."""
        return {f"{text}_characters": ((None, None, WIDTH), "int32") for text in TEXTS}

    def features(self, tokenized: TokenizedDataset, examples: Examples) -> Features:
        """See `TextProcessor.features`."""
        words = [word.encode("utf-8", "surrogatepass") for word in tokenized.texts.unique]
        padding = np.zeros((1, WIDTH), np.int32)
        return two_text_features(tokenized, examples, {"characters": np.concatenate([padding, character_ids(words)])})

    def in_graph(self) -> "GraphBilmProcessor":
        """See `TextProcessor.in_graph`."""
        from fabir_tf.pipelines.text.graph.bilm_processor import GraphBilmProcessor

        return GraphBilmProcessor(self)

    def save_assets(self, folder: Path) -> dict[str, Any]:
        """There are none."""
        return {}

    @classmethod
    def load_assets(cls, folder: Path, values: Mapping[str, Any]) -> "BilmProcessor":
        """There are none."""
        return cls()
