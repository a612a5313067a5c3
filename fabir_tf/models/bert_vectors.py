"""The BERT below a reader of word pieces: its sizes and weights, from a folder in Hugging Face's layout."""

import dataclasses
import os

import keras

from fabir_tf import layers
from fabir_tf.models.hugging_face import HuggingFaceModel, read_hugging_face, set_weights
from fabir_tf.models.word_model_sizes import WordModelSizes
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpieces import CLS, SEP

ENCODER = "bert"
"""The name of the layer in a reader."""


@dataclasses.dataclass(frozen=True)
class BertSizes(WordModelSizes):
    """What decides the shape of a BERT; the defaults are those of BERT-Base Uncased.

    Attributes:
        pieces, d_model, num_layers, num_heads, hidden_dim, max_positions, segments, activation, epsilon,
            hidden_dropout, attention_dropout: as in `BertSpanConfig`.
        first, last: the ids of `[CLS]` and `[SEP]`.
    """

    pieces: int = 30_522
    d_model: int = 768
    num_layers: int = 12
    num_heads: int = 12
    hidden_dim: int = 3072
    max_positions: int = 512
    segments: int = 2
    activation: str = "gelu"
    epsilon: float = 1e-12
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    first: int = 101
    last: int = 102

    @property
    def dim(self) -> int:
        """d_model."""
        return self.d_model

    def layer(self, tuned: bool) -> keras.layers.Layer:
        """The whole encoder.

        Args:
            tuned: whether it is trained; one that is not drops nothing.
        """
        return layers.BertTextEncoder(
            self.pieces,
            self.d_model,
            self.num_layers,
            self.num_heads,
            self.hidden_dim,
            self.activation,
            self.max_positions,
            self.segments,
            self.hidden_dropout if tuned else 0.0,
            self.attention_dropout if tuned else 0.0,
            self.epsilon,
            self.first,
            self.last,
            name=ENCODER,
        )


def read_bert(folder: str | os.PathLike) -> tuple[BertSizes, HuggingFaceModel]:
    """Reads sizes and weights, with as many word pieces as the folder's vocabulary has.

    Args:
        folder: a local folder in Hugging Face's layout.

    Raises:
        UserError: the folder or a file is missing or damaged, or the model is not one that this package has.
    """
    found = read_hugging_face(folder)
    vocabulary, _ = read_wordpieces(folder)
    sizes = dataclasses.replace(
        BertSizes(**found.settings), pieces=len(vocabulary), first=vocabulary.ids[CLS], last=vocabulary.ids[SEP]
    )
    return sizes, found.with_pieces(len(vocabulary))


def set_bert_weights(model: keras.Model, found: HuggingFaceModel) -> None:
    """Gives the encoder of a reader the weights of a folder.

    Args:
        model: one that was built with the folder's sizes.
        found: what the folder holds; a head is not read.
    """
    arrays = {f"{ENCODER}/{path}": array for path, array in found.without_head().arrays.items()}
    set_weights(model, dataclasses.replace(found, arrays=arrays))
