"""FABIR, the fully attention-based reader: Correia, Silva, Martins and Cozman 2018, arXiv 1810.09580."""

import dataclasses
import re

import keras

from fabir_tf import layers
from fabir_tf.configuration import ConfigError, setting
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.models.joined_weights import draw_joined
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import SQUAD, Published
from fabir_tf.models.reader_config import CharacterReaderConfig
from fabir_tf.models.texts import TEXTS, TextInputs, text_inputs


@dataclasses.dataclass(frozen=True)
class FabirConfig(CharacterReaderConfig):
    """FABIR's configuration; the defaults are the published model (thesis table 5, and the authors' program for the
    lowest frequency), except for its first weights: `shared_query_key_init`, `residual_init_scale` and `joined_init`.

    Raises:
        ConfigError: a value is out of its range, or two values contradict each other.
    """

    min_frequency: float = setting(1e-4, "Lowest frequency of the position encoding", low=1e-9, high=1.0)
    position_offset: int = setting(500, "Number of the first position", low=0)
    d_model: int = setting(100, "Features of a token after the reduction layer", low=4)
    num_heads: int = setting(4, "Heads of every attention", low=1)
    reduction: str = setting(
        "layer",
        "How words are reduced to d_model: by a layer, in which the texts first attend to themselves and to each "
        "other, or by a matrix",
        choices=("layer", "matrix"),
    )
    reduction_hidden_dim: int = setting(400, "Hidden width of the reduction layer's feed-forward networks", low=1)
    hidden_dim: int = setting(200, "Hidden width of the processing layers' feed-forward networks", low=1)
    num_layers: int = setting(3, "Processing layers after the reduction layer", low=0)
    interaction: str = setting(
        "repeated",
        "Which text attends to the other in the processing layers: repeated (always the passage) or switching (the "
        "question in every second layer)",
        choices=("repeated", "switching"),
    )
    attention: str = setting("convolutional", "Attention of all layers", choices=layers.ATTENTIONS)
    attention_kernel: str = setting("1x5", "Kernel of convolutional attention as HxW, odd, or none")
    attention_depthwise: bool = setting(False, "One attention kernel per head instead of heads x heads kernels")
    cross_attention: str = setting("column", "Axis of the cross-attention's softmax", choices=("column", "row"))
    shared_query_key_init: bool = setting(
        True,
        "Initialize the cross-attention's key projection as its query projection and its kernel as the identity, so "
        "that equal words attend to each other from the first step; the paper initializes them independently",
    )
    residual_init_scale: float = setting(
        0.1,
        "Scale of the initial weights that write a sublayer's output; 1 in the paper. With a small scale, attention "
        "and feed-forward networks start close to the identity and learn sooner",
        low=0.0,
        high=1.0,
    )
    joined_init: bool = setting(
        False,
        "Initialize weights as the authors' program does, where queries, keys and values count as one matrix and so "
        "begin smaller; needs noshared_query_key_init and residual_init_scale=1",
    )
    word_match: bool = setting(
        False,
        "Add to each word, after the reduction layer, how much of it occurs in the other text (not in the paper)",
    )
    selector: str = setting("convolution", "The head that selects start and end", choices=layers.SELECTORS)
    start_layer: str = setting(
        "last", "Processing layer that the start is selected from: last or penultimate", choices=("last", "penultimate")
    )
    selector_filters: int = setting(32, "Width between the selector's convolutions", low=1)
    selector_kernel: int = setting(9, "Tokens seen by each convolution of the selector", low=1)
    word_dropout: float = setting(
        0.0,
        "Share of words whose vector is dropped in training, so that only their characters are read (not in the paper)",
        low=0.0,
        high=0.95,
    )
    input_dropout: float = setting(0.1, "Dropout rate of embeddings and position encodings", low=0.0, high=0.95)
    sublayer_dropout: float = setting(0.1, "Dropout rate of every sublayer's output", low=0.0, high=0.95)
    attention_dropout: float = setting(0.1, "Dropout rate of attention weights", low=0.0, high=0.95)
    selector_dropout: float = setting(0.2, "Dropout rate before each selector convolution", low=0.0, high=0.95)
    character_dropout: float = setting(0.25, "Dropout rate of character vectors", low=0.0, high=0.95)
    dropout_amplification: float = setting(
        2.0,
        "Power of the keep probabilities (1 - rate) of sublayers and attention in the reduction layer",
        low=0.0,
        high=10.0,
    )

    def __post_init__(self):
        super().__post_init__()
        if not re.fullmatch(r"none|\d*[13579]x\d*[13579]", self.attention_kernel):
            raise ConfigError(
                f"attention_kernel must be none or HxW with odd numbers, such as 1x5, found {self.attention_kernel!r}"
            )
        if self.attention_depthwise and self.attention_kernel == "none":
            raise ConfigError("attention_depthwise needs an attention_kernel, found attention_kernel='none'")
        if self.joined_init and (self.shared_query_key_init or self.residual_init_scale != 1):
            raise ConfigError(
                "joined_init draws all weights anew, found shared_query_key_init or a residual_init_scale other than 1"
            )
        if not self.character_filters:
            self._validate_defaults("character_filters=0", "character_dim", "character_kernel", "character_dropout")
        if self.reduction == "matrix":
            self._validate_defaults("reduction='matrix'", "reduction_hidden_dim", "dropout_amplification")
        if self.selector == "linear":
            self._validate_defaults("selector='linear'", "selector_filters", "selector_kernel")
        if self.start_layer == "penultimate" and not self.num_layers:
            raise ConfigError("start_layer='penultimate' needs a processing layer, found num_layers=0")
        if self.interaction == "switching" and self.num_layers < 2:
            raise ConfigError(f"interaction='switching' needs two layers, found num_layers={self.num_layers}")
        for name, value in (
            ("d_model", self.d_model),
            ("word_dim + character_filters", self.word_dim + self.character_filters),
        ):
            if value % self.num_heads or value % 2:
                raise ConfigError(f"{name} must be even and a multiple of num_heads={self.num_heads}, found {value}")
            # A position has a sine and a cosine of at least two frequencies.
            if value < 4:
                raise ConfigError(f"{name} must be at least 4, found {value}")

    def _validate_defaults(self, cause: str, *names: str) -> None:
        """Refuses settings that would have no effect."""
        for name in names:
            value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            if value != default:
                raise ConfigError(f"{name} is of no effect with {cause}, found {value}")

    @property
    def width(self) -> int:
        """d_model."""
        return self.d_model

    @property
    def attention_kernel_size(self) -> tuple[int, int] | None:
        """`attention_kernel` as `(h, w)`, or None."""
        if self.attention_kernel == "none":
            return None
        height, width = self.attention_kernel.split("x")
        return int(height), int(width)


FABIR_AS_PUBLISHED = Published(
    "Correia, Silva, Martins and Cozman 2018, arXiv 1810.09580, section IV; Correia's thesis, table 5",
    lambda given: {
        "shared_query_key_init": False,
        "residual_init_scale": 1.0,
        "joined_init": True,
        # The authors' program: exp(-x^2) beside the true token, and no example with a word of over 20 characters.
        "smoothing_deviation": 0.5**0.5,
        "max_word": 20,
    },
    SQUAD,
    "GloVe 6B with 100 dimensions",
    (
        "the attention weights' dropout is the paper's; its program divides what is left by the keep probability once "
        "more, and drops no more of them in the reduction layer",
        "table 6's reader of 4 layers has batches of 75, in the authors' program of 60 (27,100 steps)",
    ),
)


def build_fabir(config: FabirConfig) -> keras.Model:
    """Builds FABIR; see `fabir_tf.build_model` for its inputs and outputs."""
    attention = {
        "attention": config.attention,
        "num_heads": config.num_heads,
        "kernel_size": config.attention_kernel_size,
        "depthwise": config.attention_depthwise,
        "residual_init_scale": config.residual_init_scale,
    }
    interaction = attention | {
        "cross_softmax_axis": {"column": "query", "row": "key"}[config.cross_attention],
        "shared_query_key_init": config.shared_query_key_init,
    }

    # === Layers ===
    word_embedding = layers.WordEmbedding(
        config.trainable_words, config.frozen_words, config.word_dim, name="word_embedding"
    )
    input_dropout = layers.Dropout(config.input_dropout, name="input_dropout")
    highway = layers.Highway(config.highway_layers, name="highway")
    processing_layers = [
        layers.ProcessingLayer(
            hidden_dim=config.hidden_dim,
            attention_dropout=config.attention_dropout,
            dropout=config.sublayer_dropout,
            name=f"processing_layer_{number}",
            **interaction,
        )
        for number in range(1, config.num_layers + 1)
    ]

    # === Functional model ===
    texts = text_inputs(config.max_word_characters)
    if config.word_dropout:
        texts = _with_words_dropped(config, texts)
    words = {text: word_embedding(texts.words[text]) for text in TEXTS}
    if config.character_filters:
        words = _with_characters(config, words, texts.characters)
    words = {text: input_dropout(highway(word)) for text, word in words.items()}
    if config.reduction == "matrix":
        read = [_reduced_by_matrix(config, words)]
    else:
        read = [_reduced_by_layer(config, words, texts.masks, attention, interaction)]
    if config.word_match:
        read = [_with_matches(config, read[0], texts)]
    for number, layer in enumerate(processing_layers, 1):
        attends = "question" if config.interaction == "switching" and number % 2 == 0 else "passage"
        read.append(_attended(layer, read[-1], texts.masks, attends))
    start, end = _start_and_end(config, read, texts.masks["passage_mask"])
    null = _null_logits(config, read[-1], start, end, texts.masks) if config.null_head else None
    model = keras.Model(texts.inputs, reader_outputs(start, end, null), name="fabir")
    if config.joined_init:
        draw_joined(model, GlorotUniform().seed)
    return model


def _with_words_dropped(config: FabirConfig, texts: TextInputs) -> TextInputs:
    dropout = layers.WordDropout(config.word_dropout, name="word_dropout")
    return texts._replace(words={text: dropout(texts.words[text]) for text in TEXTS})


def _with_characters(config: FabirConfig, words: dict, characters: dict) -> dict:
    embedding = layers.CharacterEmbedding(
        config.characters,
        config.character_dim,
        config.character_kernel,
        config.character_filters,
        dropout=config.character_dropout,
        name="character_embedding",
    )
    join = keras.layers.Concatenate(name="word_and_characters")
    return {text: join([words[text], embedding(characters[text])]) for text in TEXTS}


def _reduced_by_layer(config: FabirConfig, words: dict, masks: dict, attention: dict, interaction: dict) -> dict:
    wide_dropout = {
        "attention_dropout": 1 - (1 - config.attention_dropout) ** config.dropout_amplification,
        "dropout": 1 - (1 - config.sublayer_dropout) ** config.dropout_amplification,
    }
    encoder = layers.DecoupledEncoder(
        config.d_model,
        config.min_frequency,
        config.position_offset,
        encoding_dropout=config.input_dropout,
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
    embeddings, encodings = {}, {}
    for text in TEXTS:
        embeddings[text], encodings[f"{text}_encodings"] = encoder(words[text], masks[f"{text}_mask"], text=text)
    return dict(zip(TEXTS, reduction_layer(**embeddings, **encodings, **masks), strict=True))


def _reduced_by_matrix(config: FabirConfig, words: dict) -> dict:
    """One linear map on each word, and its position (thesis eq. 5.18)."""
    reduction = Dense(config.d_model, kernel_initializer=GlorotUniform(), name="reduction")
    encode = layers.PositionEncoding(config.d_model, config.min_frequency, config.position_offset, name="encode")
    encoding_dropout = layers.Dropout(config.input_dropout, name="encoding_dropout")
    return {text: reduction(words[text]) + encoding_dropout(encode(words[text])) for text in TEXTS}


def _with_matches(config: FabirConfig, read: dict, texts: TextInputs) -> dict:
    words = {f"{text}_words": texts.words[text] for text in TEXTS}
    of_passage, of_question = layers.WordMatch(name="word_match")(**texts.inputs | words)
    embedding = Dense(config.d_model, use_bias=False, kernel_initializer=GlorotUniform(), name="match_embedding")
    return {
        "passage": read["passage"] + embedding(of_passage),
        "question": read["question"] + embedding(of_question),
    }


def _attended(layer: layers.ProcessingLayer, read: dict, masks: dict, attends: str) -> dict:
    """Both texts after a processing layer in which the text called `attends` attends to the other."""
    other = next(text for text in TEXTS if text != attends)
    one, two = layer(
        passage=read[attends],
        question=read[other],
        passage_mask=masks[f"{attends}_mask"],
        question_mask=masks[f"{other}_mask"],
    )
    return {attends: one, other: two}


def _null_logits(
    config: FabirConfig, read: dict, start: keras.KerasTensor, end: keras.KerasTensor, masks: dict
) -> keras.KerasTensor:
    """Start and end logit of "no answer", from both texts after the last layer and the likeliest answer."""
    head = layers.NullHead(dropout=config.selector_dropout, name="null_head")
    return head(**read, start_logits=start, end_logits=end, **masks)


def _start_and_end(config: FabirConfig, read: list[dict], passage_mask: keras.KerasTensor) -> tuple:
    """Start and end logits, from the texts after each layer."""
    if config.start_layer == "last":
        return _selector(config, "selector")(read[-1]["passage"], passage_mask=passage_mask)
    (start,) = _selector(config, "start_selector", num_outputs=1)(read[-2]["passage"], passage_mask=passage_mask)
    (end,) = _selector(config, "end_selector", num_outputs=1)(read[-1]["passage"], passage_mask=passage_mask)
    return start, end


def _selector(config: FabirConfig, name: str, num_outputs: int = 2) -> keras.layers.Layer:
    arguments = {"num_outputs": num_outputs, "dropout": config.selector_dropout, "name": name}
    if config.selector == "convolution":
        arguments |= {"filters": config.selector_filters, "kernel_size": config.selector_kernel}
    return layers.SELECTORS[config.selector](**arguments)
