"""How different the tokens of a passage are, in the layers of FABIR."""

from collections.abc import Iterator

import keras
import numpy as np

from fabir_tf.layers import InteractionLayer
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.reader import Reader


def share_of_differences(tokens: np.ndarray) -> float:
    """The share of some vectors' summed squared norms that is left when their mean is subtracted.

    Args:
        tokens: `(tokens, d_model)`, not all of them 0.

    Returns:
        From 0, where all are equal, to 1, where their mean is 0.
    """
    tokens = np.asarray(tokens, np.float64)
    return float(np.square(tokens - tokens.mean(axis=0)).sum() / np.square(tokens).sum())


def shares(reader: Reader, tokenized: TokenizedDataset) -> np.ndarray:
    """The mean share over the questions, after the reduction layer and after each processing layer.

    Args:
        reader: a FABIR.
        tokenized: the questions with their passages.

    Returns:
        Float64 `(layers,)`.
    """
    layers = [layer for layer in reader.model.layers if isinstance(layer, InteractionLayer)]
    outputs = keras.Model(reader.model.inputs, [layer.output[0] for layer in layers])
    found = []
    for inputs in _inputs(reader, tokenized):
        passages = [keras.ops.convert_to_numpy(of_layer)[0] for of_layer in outputs(inputs, training=False)]
        found.append([share_of_differences(tokens) for tokens in passages])
    return np.mean(found, axis=0)


def _inputs(reader: Reader, tokenized: TokenizedDataset) -> Iterator[dict[str, np.ndarray]]:
    """The model's inputs for each question and its whole passage, without padding."""
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    examples = Examples(np.arange(len(lengths)), np.zeros_like(lengths), lengths)
    features = reader.processor.features(tokenized, examples)
    for number in range(len(features)):
        inputs = {}
        for text, segments in features.segments.items():
            begin, length = segments.starts[number], segments.lengths[number]
            tokens = features.tokens[begin : begin + length]
            inputs |= {f"{text}_{part}": values[tokens][None] for part, values in features.unique.items()}
        yield inputs
