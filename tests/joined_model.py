"""An example of a reader of one's own: ten lines over `joined_processor`; the last line registers it.

fabir-train --import=joined_processor,joined_model --model=joined --run_dir=runs/joined
"""

import dataclasses

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.configuration import setting
from fabir_tf.models import MODELS, ModelSpec
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.reader_config import ReaderConfig


@dataclasses.dataclass(frozen=True)
class JoinedConfig(ReaderConfig):
    """Its configuration."""

    processor = "joined"

    words: int = setting(50, "Rows of the word table, UNK included", low=1, derived=True)
    max_sequence: int = setting(384, "Longest sequence, in tokens", low=8)
    units: int = setting(32, "Features of a token", low=4)

    @property
    def width(self):
        return self.units


def build_joined(config: JoinedConfig) -> keras.Model:
    """Embeddings of words and segments, one self-attention, and start and end logits on the passage."""
    ids, segments = (keras.Input((None,), dtype="int32", name=f"sequence_{part}") for part in ("ids", "segments"))
    mask = ops.not_equal(ids, 0)
    x = keras.layers.Embedding(config.words + 3, config.units, name="word_embedding")(ids)
    x = x + keras.layers.Embedding(2, config.units, name="segment_embedding")(segments)
    x = x + layers.PositionEncoding(config.units, name="position_encoding")(x)
    attended = layers.ConvolutionalAttention(4, (1, 5), name="attention")(x, x, x, mask, mask)
    x = layers.ResidualNorm(name="norm")(x, attended)
    # The last [SEP] belongs to the passage's segment, and is no token of an answer.
    passage = ops.logical_and(ops.equal(segments, 1), ids < config.words + 2)
    start, end = layers.ConvolutionalSelector(16, 3, name="selector")(x, passage_mask=passage)
    null = layers.TrainedNullLogits(name="null_logits")(x) if config.null_head else None
    return keras.Model({ids.name: ids, segments.name: segments}, reader_outputs(start, end, null), name="joined")


MODELS["joined"] = ModelSpec(JoinedConfig, build_joined, "one joined sequence, an example")
