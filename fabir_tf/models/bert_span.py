"""BERT with a span head: question and passage as one sequence of word pieces (Devlin et al. 2019; heads by Cheung)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from fabir_tf import layers
from fabir_tf.configuration import ConfigError, setting
from fabir_tf.layers.blocks.bert_layer import ACTIVATIONS
from fabir_tf.models.hugging_face import read_hugging_face, set_weights
from fabir_tf.models.outputs import reader_outputs
from fabir_tf.models.published import SQUAD_2, Published
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE


@dataclasses.dataclass(frozen=True)
class BertSpanConfig(ReaderConfig):
    """Its configuration. The sizes are those of the encoder's folder; the defaults are MiniLM's with 6 layers.

    Raises:
        ConfigError: a value is out of its range, or the values do not fit each other.
    """

    processor = "wordpieces"
    folder_setting = "encoder"

    max_answer: int | None = setting(30, "Longest predicted answer, in tokens; none for no limit", low=1)
    null_head: bool = setting(
        True, "Learn to say that the passage holds no answer, from questions without one; the reader gets null logits"
    )
    encoder: str = setting(
        "", "Folder of the encoder to train, a BERT or DistilBERT in Hugging Face's layout; its head is not read"
    )
    head: str = setting("dense", "The head on the encoder's last hidden states", choices=layers.BERT_HEADS)
    max_sequence: int = setting(
        384, "Longest sequence that BERT reads, in word pieces; longer passages are read in windows", low=8
    )
    pieces: int = setting(30_522, "Rows of the table of word pieces, padding included", low=1, derived=True)
    d_model: int = setting(384, "Features of a token", low=1, derived=True)
    num_layers: int = setting(6, "Layers of the encoder", low=1, derived=True)
    num_heads: int = setting(12, "Heads of every attention", low=1, derived=True)
    hidden_dim: int = setting(1536, "Hidden width of the layers' feed-forward networks", low=1, derived=True)
    max_positions: int = setting(512, "Rows of the table of positions", low=1, derived=True)
    segments: int = setting(2, "Rows of the table of segments; 0 for none", low=0, derived=True)
    activation: str = setting("gelu", "Function of the hidden layers", choices=ACTIVATIONS, derived=True)
    epsilon: float = setting(1e-12, "Number added to the variances of the norms", low=0.0, high=1.0, derived=True)
    hidden_dropout: float = setting(
        0.1, "Dropout rate of embeddings and of every sublayer's output", low=0.0, high=0.95
    )
    attention_dropout: float = setting(0.1, "Dropout rate of attention weights", low=0.0, high=0.95)
    head_dropout: float = setting(0.0, "Dropout rate of the head's input", low=0.0, high=0.95)
    frozen_layers: int = setting(
        0, "Lowest layers of the encoder that are not trained; from 1 on the embeddings are not, either", low=0
    )
    layer_decay: float = setting(
        1.0,
        "Learning rate of each layer of the encoder, as a share of that of the layer above it; the head has the whole "
        "rate",
        low=0.1,
        high=1.0,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.d_model % self.num_heads:
            raise ConfigError(f"d_model must be a multiple of num_heads={self.num_heads}, found {self.d_model}")
        if self.segments == 1:
            raise ConfigError("segments must be 0, or 2 for question and passage, found 1")

    @property
    def width(self) -> int:
        """d_model."""
        return self.d_model

    @property
    def longest_sequence(self) -> int:
        """The encoder has no more positions."""
        return self.max_positions

    def completed(self) -> "BertSpanConfig":
        """With the sizes of the encoder's folder.

        Raises:
            UserError: there is no encoder, its folder does not fit, or a setting does not fit its sizes.
        """
        if not self.encoder:
            raise UserError(
                "encoder: found no folder, expected that of a BERT or DistilBERT in Hugging Face's layout (--encoder)"
            )
        settings = read_hugging_face(self.encoder).settings
        config = self.replace(**{name: settings[name] for name in settings if _is_derived(name)})
        _validate_sizes(config)
        return config

    def initialize(self, model: keras.Model) -> None:
        """With the encoder's weights; the head keeps its own."""
        found = read_hugging_face(self.encoder).with_pieces(self.pieces)
        set_weights(model, found.without_head())

    def rate_factor(self, path: str) -> float:
        """`layer_decay` to the power of how far below the head a layer is."""
        layer = path.partition("/")[0]
        if layer == "embeddings":
            return self.layer_decay ** (self.num_layers + 1)
        if layer.startswith("layer_"):
            return self.layer_decay ** (self.num_layers - int(layer.removeprefix("layer_")))
        return 1.0


def _validate_sizes(config: BertSpanConfig) -> None:
    """Refuses settings beyond the encoder's sizes, which are known only when its folder has been read."""
    limits = {"max_sequence": "max_positions", "frozen_layers": "num_layers"}
    for name, size in limits.items():
        value, limit = getattr(config, name), getattr(config, size)
        if value > limit:
            raise ConfigError(f"{name} must be at most the encoder's {size}={limit}, found {value}")


def _is_derived(name: str) -> bool:
    return BertSpanConfig.__dataclass_fields__[name].metadata["derived"]


def bert_training(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `TrainingConfig` that BERT has by default: its own program's for SQuAD.

    The learning rate rises over the first tenth of the steps and falls linearly to 0 over the others. Passages are cut
    to windows, so that none is too long. Cheung names the learning rate, the batch size and Adam, and nothing else.

    Args:
        given: the settings that the user chooses.
    """
    epochs, learning_rate = given.get("epochs", 2), _learning_rate(given)
    # A constant rate only: that of the other schedule has a warm-up of its own.
    warmup_share = given.get("warmup_share", 0.1 if learning_rate else 0.0)
    # An end that is not known has no decay before it.
    is_open = any(given.get(name) is not None for name in ("patience", "max_minutes"))
    is_adam = given.get("optimizer", "adamw").startswith("adam")
    return {
        "learning_rate": learning_rate,
        "batch_size": 32,
        "epochs": epochs,
        "warmup_share": warmup_share,
        "linear_decay_epochs": 0.0 if is_open else (1 - warmup_share) * epochs,
        "optimizer": "adamw",
        **({"adam_beta_2": 0.999, "adam_epsilon": 1e-6} if is_adam else {}),
        # The loss is the sum of start and end; BERT's program clips the gradient of their mean at 1.
        "clip_norm": 2.0,
        "smoothing": "none",
        "max_passage": LONGEST_PASSAGE,
        "max_question": 64,
    }


def _learning_rate(given: Mapping[str, Any]) -> float | None:
    """The constant rate, or None where settings of the schedule are given, which it would replace."""
    has_schedule = "learning_rate_factor" in given or "warmup_steps" in given
    return given.get("learning_rate", None if has_schedule else 3e-5)


BERT_AS_PUBLISHED = Published(
    "Cheung, Deep learning in NLP - Constructing a machine question answering model",
    # All that it names, and the defaults.
    lambda given: {
        "max_sequence": 384,
        "max_answer": 30,
        "max_question": 64,
        "learning_rate": _learning_rate(given),
        "batch_size": 32,
        "optimizer": "adamw",
    },
    SQUAD_2,
    "",
    (
        "epochs, warm-up, decay, clipping and dropout are those of BERT's own program: the report does not name them",
        "questions without an answer have their own threshold (--no_answer_threshold), which a calibration chooses",
    ),
)


def reading_config(found: Mapping[str, Any], pieces: int) -> BertSpanConfig:
    """The configuration of a question-answering model in a folder.

    Args:
        found: `HuggingFaceModel.settings` of the folder.
        pieces: the number of pieces of its vocabulary.

    Raises:
        ConfigError: a size does not fit.
    """
    longest = min(BertSpanConfig.max_sequence, found["max_positions"])
    return BertSpanConfig(**{**found, "pieces": pieces, "max_sequence": longest})


def build_bert_span(config: BertSpanConfig) -> keras.Model:
    """Builds the model with fresh weights; `hugging_face.set_weights` gives it those of a folder.

    Args:
        config: its configuration.

    Returns:
        A model that maps a dictionary of `sequence_ids` and `sequence_segments`, int32 `(batch, length)`, to a
        dictionary of float32 `start_logits` and `end_logits`, `(batch, length)` and -1e9 outside the passage, and with
        a null head also `null_logits (batch, 2)`, those of [CLS]. The sequence is [CLS] question [SEP] passage [SEP];
        padding has the id 0, and the segment is 1 from the passage on.

    Raises:
        ConfigError: a setting is beyond the encoder's sizes.
    """
    _validate_sizes(config)
    # === Layers ===
    embeddings = layers.BertEmbeddings(
        config.pieces,
        config.d_model,
        config.max_positions,
        config.segments,
        config.hidden_dropout,
        config.epsilon,
        name="embeddings",
    )
    encoder = [
        layers.BertLayer(
            config.num_heads,
            config.hidden_dim,
            config.activation,
            config.hidden_dropout,
            config.attention_dropout,
            config.epsilon,
            name=f"layer_{number}",
        )
        for number in range(config.num_layers)
    ]
    head = layers.BERT_HEADS[config.head](dropout=config.head_dropout, name="head")

    # === Functional model ===
    ids, segments = (keras.Input((None,), dtype="int32", name=f"sequence_{part}") for part in ("ids", "segments"))
    mask = ops.not_equal(ids, 0)
    x = embeddings(ids, segments)
    for layer in encoder:
        x = layer(x, mask)
    start, end, null = layers.SequenceLogits(name="logits")(head(x), passage_mask=passage_mask(segments, mask))
    outputs = reader_outputs(start, end, null if config.null_head else None)
    # Now, because the weights of a layer are trained that are made after it was frozen.
    frozen: list[keras.layers.Layer] = (
        [embeddings, *encoder][: config.frozen_layers + 1] if config.frozen_layers else []
    )
    for part in frozen:
        part.trainable = False
    return keras.Model({ids.name: ids, segments.name: segments}, outputs, name="bert_span")


def passage_mask(segments, mask):
    """The passage's tokens: those of segment 1 but the last, which is [SEP].

    Args:
        segments: int tensor `(batch, length)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        Boolean tensor `(batch, length)`.
    """
    before_another = ops.concatenate([mask[:, 1:], ops.zeros_like(mask[:, :1])], axis=1)
    return ops.logical_and(ops.equal(segments, 1), before_another)
