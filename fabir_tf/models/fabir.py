"""FABIR, the fully attention-based reader: Correia, Silva, Martins and Cozman 2018, arXiv 1810.09580."""

import dataclasses
import re

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.configuration import Config, ConfigError, setting


@dataclasses.dataclass(frozen=True)
class FabirConfig(Config):
    """FABIR's configuration; the defaults are the published model (thesis table 5) but for `cross_attention_start`.

    Raises:
        ConfigError: a value is out of its range, or two values contradict each other.
    """

    trainable_words: int = setting(50, "Rows of the trainable word table, UNK included", low=1, derived=True)
    characters: int = setting(306, "Rows of the character table, UNK included", low=1, derived=True)
    frozen_words: int = setting(400_000, "Rows of the frozen word table", low=0, derived=True)
    word_dim: int = setting(100, "Length of a word vector", low=1)
    character_dim: int = setting(8, "Length of a character vector", low=1)
    character_kernel: int = setting(5, "Characters seen at once by the character convolution", low=1)
    character_filters: int = setting(100, "Length of a word's vector made from its characters", low=1)
    max_word_characters: int = setting(20, "Characters of a word that are read; the rest is cut", low=1)
    highway_layers: int = setting(2, "Highway layers on each word's vector", low=0)
    min_frequency: float = setting(1e-4, "Lowest frequency of the position encoding", low=1e-9, high=1.0)
    first_position: int = setting(500, "Number of the first position", low=0)
    d_model: int = setting(100, "Features of a token after the reduction layer", low=4)
    num_heads: int = setting(4, "Heads of every attention", low=1)
    reduction_hidden_dim: int = setting(400, "Hidden width of the reduction layer's feedforwards", low=1)
    hidden_dim: int = setting(200, "Hidden width of the processing layers' feedforwards", low=1)
    num_layers: int = setting(3, "Processing layers after the reduction layer", low=0)
    attention_kernel: str = setting("1x5", "Kernel of convolutional attention as HxW, odd, or none")
    attention_depthwise: bool = setting(False, "One attention kernel per head instead of heads x heads of them")
    cross_attention: str = setting("column", "Axis of the cross-attention's softmax", choices=("column", "row"))
    cross_attention_start: str = setting(
        "matching",
        "First weights of the cross-attention: matching (keys begin as the queries do and the kernel changes nothing, "
        "so that alike words attract each other from the first step) or independent (the paper's)",
        choices=("matching", "independent"),
    )
    selector: str = setting("convolution", "The head that selects start and end", choices=tuple(layers.SELECTORS))
    selector_filters: int = setting(32, "Width between the selector's convolutions", low=1)
    selector_kernel: int = setting(9, "Tokens seen by each convolution of the selector", low=1)
    max_answer: int = setting(15, "Longest answer in tokens", low=1)
    input_keep: float = setting(0.9, "Keep probability of embeddings and position encodings", low=0.05, high=1.0)
    sublayer_keep: float = setting(0.9, "Keep probability of every sublayer's output", low=0.05, high=1.0)
    attention_keep: float = setting(0.9, "Keep probability of attention weights", low=0.05, high=1.0)
    selector_keep: float = setting(0.8, "Keep probability before each selector convolution", low=0.05, high=1.0)
    character_keep: float = setting(0.75, "Keep probability of character vectors", low=0.05, high=1.0)
    dropout_amplification: float = setting(
        2.0, "Power of the sublayer and attention keep probabilities in the reduction layer", low=0.0, high=10.0
    )

    def __post_init__(self):
        super().__post_init__()
        if not re.fullmatch(r"none|\d*[13579]x\d*[13579]", self.attention_kernel):
            raise ConfigError(
                f"attention_kernel must be none or HxW with odd numbers, such as 1x5, found {self.attention_kernel!r}"
            )
        if self.attention_depthwise and self.attention_kernel == "none":
            raise ConfigError("attention_depthwise needs an attention_kernel, found attention_kernel='none'")
        for name, value in (
            ("d_model", self.d_model),
            ("word_dim + character_filters", self.word_dim + self.character_filters),
        ):
            if value % self.num_heads or value % 2:
                raise ConfigError(f"{name} must be even and a multiple of num_heads={self.num_heads}, found {value}")

    @property
    def attention_kernel_size(self) -> tuple[int, int] | None:
        """`attention_kernel` as `(h, w)`, or None."""
        if self.attention_kernel == "none":
            return None
        height, width = self.attention_kernel.split("x")
        return int(height), int(width)


def build_fabir(config: FabirConfig) -> keras.Model:
    """Builds FABIR; see `fabir_tf.build_model` for its inputs and outputs."""
    attention = {
        "num_heads": config.num_heads,
        "kernel_size": config.attention_kernel_size,
        "depthwise": config.attention_depthwise,
    }
    interaction = attention | {
        "cross_softmax_axis": {"column": "query", "row": "key"}[config.cross_attention],
        "cross_matching_start": config.cross_attention_start == "matching",
    }
    wide_dropout = {
        "attention_dropout": 1 - config.attention_keep**config.dropout_amplification,
        "dropout": 1 - config.sublayer_keep**config.dropout_amplification,
    }

    # === Layers ===
    word_embedding = layers.WordEmbedding(
        config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding"
    )
    character_embedding = layers.CharacterEmbedding(
        config.characters,
        config.character_dim,
        config.character_kernel,
        config.character_filters,
        dropout=1 - config.character_keep,
        name="character_embedding",
    )
    join = keras.layers.Concatenate(name="word_and_characters")
    highway = layers.Highway(config.highway_layers, name="highway")
    input_dropout = layers.Dropout(1 - config.input_keep, name="input_dropout")
    encoder = layers.DecoupledEncoder(
        config.d_model,
        config.min_frequency,
        config.first_position,
        encoding_dropout=1 - config.input_keep,
        name="decoupled_encoder",
        **attention,
        **wide_dropout,
    )
    reduction_layer = layers.ReductionLayer(
        config.d_model,
        hidden_dim=config.reduction_hidden_dim,
        name="reduction_layer",
        **interaction,
        **wide_dropout,
    )
    processing_layers = [
        layers.ProcessingLayer(
            hidden_dim=config.hidden_dim,
            attention_dropout=1 - config.attention_keep,
            dropout=1 - config.sublayer_keep,
            name=f"processing_layer_{number}",
            **interaction,
        )
        for number in range(1, config.num_layers + 1)
    ]
    selector = _selector(config)

    # === Functional model ===
    inputs = {}
    embeddings, encodings, masks = {}, {}, {}
    for text in ("passage", "question"):
        words = keras.Input((None,), dtype="int32", name=f"{text}_words")
        characters = keras.Input((None, config.max_word_characters), dtype="int32", name=f"{text}_characters")
        inputs |= {words.name: words, characters.name: characters}
        masks[f"{text}_mask"] = mask = ops.not_equal(words, 0)
        embedded = input_dropout(highway(join([word_embedding(words), character_embedding(characters)])))
        embeddings[text], encodings[f"{text}_encodings"] = encoder(embedded, mask, text=text)
    passage, question = reduction_layer(**embeddings, **encodings, **masks)
    for layer in processing_layers:
        passage, question = layer(passage, question, **masks)
    start, end = selector(passage, passage_mask=masks["passage_mask"])
    return keras.Model(inputs, {"start_logits": start, "end_logits": end}, name="fabir")


def _selector(config: FabirConfig) -> keras.layers.Layer:
    arguments = {"dropout": 1 - config.selector_keep, "name": "selector"}
    if config.selector == "convolution":
        arguments |= {"filters": config.selector_filters, "kernel_size": config.selector_kernel}
    return layers.SELECTORS[config.selector](**arguments)
