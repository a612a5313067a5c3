"""The heads of a BERT reader, by their name in a configuration.

A head is a layer that takes the encoder's last hidden states `(batch, length, features)` and `dropout`, and returns two
float32 logits per token, `(batch, length, 2)`. The simplest way to write one is to subclass `DenseHead` and to override
`hidden`. One line registers it:

    BERT_HEADS["mine"] = MyHead
"""

import functools
from collections.abc import Callable

import keras

from fabir_tf.layers.heads.dense_head import DenseHead
from fabir_tf.layers.heads.gated_head import GatedHead
from fabir_tf.layers.heads.highway_head import HighwayHead
from fabir_tf.layers.heads.residual_head import ResidualHead
from fabir_tf.layers.heads.two_dense_head import TwoDenseHead

BERT_HEADS: dict[str, Callable[..., keras.layers.Layer]] = {
    "dense": DenseHead,
    "dense-2": TwoDenseHead,
    "dense-2-relu": functools.partial(TwoDenseHead, "relu"),
    "highway": HighwayHead,
    "residual": ResidualHead,
    "residual-5": functools.partial(ResidualHead, 5),
    "gated": GatedHead,
}
