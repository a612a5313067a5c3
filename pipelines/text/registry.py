"""The text processors by their kind: a new one is a file beside this one and a line in `PROCESSORS`."""

import os
from collections.abc import Callable

from fabir_tf.pipelines.text.bilm_processor import BilmProcessor
from fabir_tf.pipelines.text.processor import TextProcessor, load_processor
from fabir_tf.pipelines.text.separate_wordpiece_processor import SeparateWordPieceProcessor
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor

PROCESSORS: dict[str, type[TextProcessor]] = {
    processor.kind: processor
    for processor in (WordProcessor, WordPieceProcessor, BilmProcessor, SeparateWordPieceProcessor)
}


def read_processor(folder: str | os.PathLike, log: Callable[[str], object] | None = None) -> TextProcessor:
    """Reads a saved processor of any registered kind; see `load_processor`."""
    return load_processor(folder, PROCESSORS, log)
