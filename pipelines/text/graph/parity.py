"""Whether the tokenizer in Python and the one in the graph cut alike."""

from collections.abc import Sequence

import tensorflow as tf

from fabir_tf.pipelines.text.graph.tokenizer import graph_tokenize
from fabir_tf.pipelines.text.tokenizer import tokenize


def texts_cut_otherwise(texts: Sequence[str]) -> list[str]:
    """Finds the texts whose tokens in the graph are not those in Python, in number or in their offsets.

    Args:
        texts: any texts.

    Returns:
        Those of them, in their order.
    """
    tokens = graph_tokenize(tf.constant(texts, tf.string))
    splits, starts, ends = (part.numpy() for part in (tokens.row_splits, tokens.starts, tokens.ends))
    found = []
    for row, text in enumerate(texts):
        part, expected = slice(splits[row], splits[row + 1]), tokenize(text)
        if (starts[part].tolist(), ends[part].tolist()) != (expected.starts, expected.ends):
            found.append(text)
    return found
