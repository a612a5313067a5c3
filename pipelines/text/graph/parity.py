"""Checks that a text processor and its graph cut texts into the same tokens."""

from collections.abc import Sequence

import tensorflow as tf

from fabir_tf.pipelines.text.graph.processor import GraphProcessor
from fabir_tf.pipelines.text.processor import TextProcessor


def texts_cut_differently(
    processor: TextProcessor, texts: Sequence[str], graph: GraphProcessor | None = None
) -> list[str]:
    """Finds the texts whose tokens in the graph differ from those in Python, in number or in their offsets.

    Args:
        processor: the processor in Python.
        texts: any texts.
        graph: what its `in_graph` has returned; by default it is made, which takes time for many words.

    Returns:
        Those of them, in their order.
    """
    tokens = (graph or processor.in_graph()).tokenize(tf.constant(texts, tf.string))
    splits, starts, ends = (part.numpy() for part in (tokens.row_splits, tokens.starts, tokens.ends))
    found = []
    for row, text in enumerate(texts):
        part, expected = slice(splits[row], splits[row + 1]), processor.tokenize_text(text)
        if (starts[part].tolist(), ends[part].tolist()) != (expected.starts, expected.ends):
            found.append(text)
    return found
