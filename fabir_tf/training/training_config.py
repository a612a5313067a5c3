"""The data and hyper-parameters of a run."""

import dataclasses

from fabir_tf.configuration import Config, ConfigError, setting
from fabir_tf.precision import POLICIES
from fabir_tf.training.losses import SMOOTHINGS

BATCHINGS = ("questions", "passages")
DISTRIBUTIONS = ("none", "mirrored", "data_parallel")
DEVICE_SETTINGS = ("distribution", "logical_devices")
"""The settings of the devices, which a resumed run may change."""
LENGTHS = ("epochs", "max_steps", "patience", "max_minutes")
"""The settings of when a training ends, which may differ when it is resumed."""

OPTIMIZER_SETTINGS = {
    "adam": ("adam_beta_1", "adam_beta_2", "adam_epsilon"),
    "adamw": ("adam_beta_1", "adam_beta_2", "adam_epsilon", "weight_decay"),
    "adadelta": ("adadelta_rho", "adadelta_epsilon"),
}
"""By optimizer the settings that it has and some others lack."""


def settings_of_others(optimizer: str) -> list[str]:
    """The settings of optimizers that one lacks; none of an unknown optimizer.

    Args:
        optimizer: a key of `OPTIMIZER_SETTINGS`.
    """
    every = {name for names in OPTIMIZER_SETTINGS.values() for name in names}
    return sorted(every - set(OPTIMIZER_SETTINGS.get(optimizer, every)))


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Config):
    """The data and hyper-parameters of a run; the defaults are FABIR's (section IV, thesis table 5), except for
    `smoothing_deviation` and `max_word`.

    Raises:
        ConfigError: a value is out of its range, or two values contradict each other.
    """

    dataset: str = setting(
        "auto",
        "Training data: a file (SQuAD JSON, JSON lines, CSV or Parquet), a TFDS name such as squad/v1.1, sample "
        "(bundled), or auto (SQuAD 1.1 through TFDS where it is prepared or can be downloaded, else the sample); "
        "several, separated by commas, are joined",
    )
    eval_dataset: str = setting(
        "",
        "Data to score after each epoch, in the same forms as dataset; if empty, the dataset's own dev split, or for a "
        "file every tenth article, held out whole",
    )
    set_aside: bool = setting(
        False, "Leave out training questions whose article or text also occurs in the data that is scored"
    )
    vectors: str = setting(
        "bundled",
        "Word vectors: bundled (30,000 words), none (words are trained), a GloVe or fastText text, .bin or .npz "
        "file; several, separated by commas, are concatenated",
    )
    max_vectors: int = setting(
        400_000, "Word vectors to read from the start of the file; further ones only for words of the data", low=0
    )
    start_from: str = setting(
        "",
        "Trained reader whose weights initialize the model: a run's folder or a reader of the package; its words, "
        "characters and vectors are used instead of new ones. The defaults of fabir-train are then a learning rate of "
        "0.0003 and four epochs, of bert-span its own",
    )
    kept_dataset: str = setting(
        "",
        "More data to train on, in the same forms as dataset, which the reader answers as start_from does: its "
        "distributions are the targets there, and those of a teacher, too, for the questions of dataset",
    )
    start_share: float = setting(
        0.0,
        "Share of the weights of start_from in the weights that are scored and kept; the rest is what was trained",
        low=0.0,
        high=0.99,
    )
    max_passage: int = setting(400, "Longest passage to train on, in tokens", low=1)
    passage_window: int | None = setting(
        None,
        "Train on a window of this many tokens of each longer passage, with the answer at a random position; none "
        "trains on whole passages",
        low=1,
    )
    max_question: int = setting(60, "Longest question to train on, in tokens", low=1)
    max_word: int | None = setting(
        None,
        "Longest word to train on, in characters; questions with a longer one, or whose passage has one, are left out",
        low=1,
    )
    limit_evaluation: bool = setting(
        False,
        "Score only questions within max_passage and max_question, which makes the scores incomparable with others",
    )
    wrong_passages: float = setting(
        0.0,
        "Passages that do not answer a question to read beside its own; 0.5 gives one to every second question. A "
        "reader with a null head learns to decline them",
        low=0.0,
        high=20.0,
    )
    random_vectors: bool = setting(
        False, "Give each word of the data that has no vector a random one of its own, which is not trained"
    )
    min_word_count: int = setting(
        100, "Words without a vector that occur more often than this get a trained one", low=0
    )
    min_character_count: int = setting(50, "Characters that occur more often than this get an id", low=0)
    epochs: int = setting(54, "Epochs to train", low=0)
    batch_size: int = setting(75, "Questions per batch", low=1)
    batching: str = setting(
        "questions",
        "Units that batches are drawn from: questions, as published, or passages with all of their questions, which is "
        "faster because each passage is encoded once",
        choices=BATCHINGS,
    )
    length_buckets: int = setting(30, "Buckets of similar passage length that batches are drawn from", low=1)
    learning_rate: float | None = setting(None, "Constant learning rate instead of the warm-up schedule", low=1e-9)
    learning_rate_factor: float = setting(0.5, "Factor of the learning rate schedule", low=0.0)
    warmup_steps: int = setting(4000, "Steps over which the learning rate rises", low=1)
    warmup_share: float = setting(
        0.0, "Share of the steps over which the learning rate first rises linearly from 0", low=0.0, high=1.0
    )
    linear_decay_epochs: float = setting(
        0.0, "Epochs at the end of training over which the learning rate falls linearly to 0", low=0.0
    )
    optimizer: str = setting(
        "adam",
        "Optimizer: adam, adamw (Adam with weight decay apart from the gradient) or adadelta",
        choices=tuple(OPTIMIZER_SETTINGS),
    )
    adam_beta_1: float = setting(0.9, "Adam's decay of the gradient's mean", low=0.0, high=0.99999)
    adam_beta_2: float = setting(0.98, "Adam's decay of the gradient's square", low=0.0, high=0.99999)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", low=0.0)
    weight_decay: float = setting(
        0.01, "AdamW's decay of all weights but biases and the gains of norms, times the learning rate", low=0.0
    )
    adadelta_rho: float = setting(0.95, "AdaDelta's decay of the squares", low=0.0, high=0.99999)
    adadelta_epsilon: float = setting(1e-8, "AdaDelta's epsilon", low=0.0)
    clip_norm: float | None = setting(None, "Largest norm of all gradients together", low=1e-6)
    ema_decay: float | None = setting(
        None,
        "Decay of the moving average of the weights, lower in the first steps; the average is then scored and kept",
        low=0.0,
        high=0.99999,
    )
    smoothing: str = setting("gaussian", "Label smoothing", choices=SMOOTHINGS)
    label_smoothing: float = setting(
        0.1, "Probability moved from the true start or end to other tokens", low=0.0, high=0.99
    )
    smoothing_deviation: float = setting(1.0, "Standard deviation of the Gaussian smoothing, in tokens", low=1e-3)
    shared_norm: float = setting(
        0.0,
        "Weight of a second loss with one softmax over a question's own and wrong passages, which makes the scores of "
        "different passages comparable (Clark and Gardner 2018); needs wrong_passages",
        low=0.0,
    )
    teacher: str = setting(
        "",
        "File of a teacher's start and end distributions (fabir-teach), to learn from in addition to the true answers; "
        "several, separated by commas, are averaged",
    )
    distillation_weight: float = setting(
        0.5, "Weight of the teacher's distribution in the targets of questions that it knows", low=0.0, high=1.0
    )
    patience: int | None = setting(None, "Stop after this many epochs without a better F1", low=1)
    max_minutes: float | None = setting(
        None, "Stop after this many minutes of training, if necessary in the middle of an epoch", low=1e-3
    )
    max_steps: int | None = setting(None, "Stop after this many steps, if necessary in the middle of an epoch", low=1)
    checkpoint_steps: int = setting(200, "Steps between checkpoints; one is also written after each epoch", low=1)
    seed: int = setting(1, "Seed of weights, dropout and the order of the data", low=0, high=2**31 - 1)
    deterministic: bool = setting(True, "Repeat a run exactly from its seed, also where that is slower (on a GPU)")
    dtype_policy: str = setting("float32", "Precision of the layers", choices=POLICIES)
    jit_compile: bool = setting(False, "Compile the training step with XLA")
    distribution: str = setting(
        "none",
        "Train on several devices of this machine: mirrored (TensorFlow's MirroredStrategy) or data_parallel (Keras' "
        "data parallelism, on JAX)",
        choices=DISTRIBUTIONS,
    )
    logical_devices: int | None = setting(
        None, "Parts of the CPU that stand for devices, to try distribution without any", low=1, high=16
    )

    def __post_init__(self):
        super().__post_init__()
        if self.linear_decay_epochs > self.epochs:
            raise ConfigError(
                f"linear_decay_epochs must be at most epochs={self.epochs}, found {self.linear_decay_epochs}"
            )
        self._validate_optimizer()
        for name in ("kept_dataset", "start_share"):
            if getattr(self, name) and not self.start_from:
                raise ConfigError(f"{name} needs start_from, found {name}={getattr(self, name)!r} without a reader")
        if self.shared_norm and not self.wrong_passages:
            raise ConfigError(f"shared_norm needs wrong_passages, found shared_norm={self.shared_norm} without any")
        if self.wrong_passages and self.passage_window is not None:
            raise ConfigError("wrong_passages needs whole passages, which passage_window cuts: expected one of them")
        if self.random_vectors and self.vectors == "none":
            raise ConfigError("random_vectors is of no effect with vectors='none', whose words are all trained")
        for name in ("teacher", "kept_dataset"):
            if self.passage_window is not None and getattr(self, name):
                raise ConfigError(f"{name} needs whole passages, which passage_window cuts: expected one of them")
        if self.logical_devices is not None and self.distribution == "none":
            raise ConfigError(
                f"logical_devices needs distribution, found logical_devices={self.logical_devices} with "
                "distribution='none'"
            )
        if self.distribution == "mirrored":
            self._validate_mirrored()
        for name in ("max_minutes", "patience"):
            if self.linear_decay_epochs and getattr(self, name) is not None:
                raise ConfigError(f"linear_decay_epochs needs a fixed last epoch, which {name} leaves open")

    def _validate_mirrored(self) -> None:
        """Refuses what TensorFlow cannot do on several devices."""
        if self.jit_compile:
            raise ConfigError("distribution='mirrored' needs a step that is not compiled with XLA, found jit_compile")
        if self.dtype_policy == "mixed_float16":
            raise ConfigError(
                "distribution='mirrored' cannot scale the loss (https://github.com/keras-team/keras/issues/21366), "
                "found dtype_policy='mixed_float16': expected mixed_bfloat16 or float32"
            )

    def _validate_optimizer(self) -> None:
        """Refuses settings that would have no effect."""
        for name in settings_of_others(self.optimizer):
            value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            if value != default:
                raise ConfigError(f"{name} is of no effect with optimizer={self.optimizer!r}, found {value}")
