import keras
from keras import ops

from fabir_tf.layers.core.dense_gradient import dense_gradient
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import add_bias
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.ids import PADDING, known_ids
from fabir_tf.layers.core.initializers import GlorotUniform, StandardNormal
from fabir_tf.layers.core.masking import MASKED_LOGIT
from fabir_tf.layers.core.take import take

# Monotonic functions, which may be applied after the maximum.
ACTIVATIONS = {"tanh": ops.tanh, "relu": ops.relu}


def character_vectors(table, characters):
    """Looks up character vectors.

    Args:
        table: variable `(rows, dim)` for the ids 1 to rows.
        characters: int tensor of any shape, whose ids the table has.

    Returns:
        Float tensor `(..., dim)`, a zero vector for id 0.
    """
    vectors = take(dense_gradient(table), ops.maximum(characters - 1, 0))
    return ops.where((characters > PADDING)[..., None], vectors, ops.zeros_like(vectors))


def at_least_kernel_wide(characters, kernel_size: int):
    """Pads words so that a convolution has at least one position.

    Args:
        characters: int tensor `(batch, length, width)`.
        kernel_size: characters seen at once.

    Returns:
        The tensor, padded at the end if `width` is less than `kernel_size`.
    """
    width = characters.shape[-1]
    if width is not None and width >= kernel_size:
        return characters
    missing = kernel_size - width if width is not None else ops.maximum(kernel_size - ops.shape(characters)[-1], 0)
    return ops.pad(characters, ((0, 0), (0, 0), (0, missing)), constant_values=PADDING)


def strongest_windows(windows, words, kernel_size: int):
    """The maximum of a convolution over the positions inside each word.

    Args:
        windows: float tensor `(words, positions, filters)`.
        words: int tensor `(words, width)`, character ids.
        kernel_size: characters seen at once; a word shorter than that has one position.

    Returns:
        Float tensor `(words, filters)`.
    """
    lengths = ops.sum(ops.cast(words > PADDING, "int32"), axis=1, keepdims=True)
    last = ops.maximum(lengths - kernel_size, 0)
    inside = ops.arange(ops.shape(windows)[1], dtype="int32")[None] <= last
    return ops.max(ops.where(inside[..., None], windows, MASKED_LOGIT), axis=1)


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class CharacterEmbedding(keras.layers.Layer):
    """A word's vector from its characters: embedding, convolution, max over time, activation.

        C = [c_1 ... c_n],   w_c = tanh( max_t (Conv(C, H) + b)_t )

    `c_k` are learned vectors of `dim` values, `H` is a `kernel_size x dim x filters` kernel applied VALID. (tanh after
    the maximum equals the maximum after tanh and costs less. The same holds for relu, which BiDAF uses.)

    Masking: character id 0 is padding. A position of the convolution that reaches past a word's last character never is
    the maximum. A word shorter than the kernel has one position, filled up with zero vectors.

    Args:
        rows: rows of the character table, for ids 1..rows; id 0 is a zero vector, and any other id is read as 1, UNK.
        dim: length of a character vector.
        kernel_size: characters seen at once.
        filters: length of the result.
        dropout: share of each character vector's values dropped in training.
        activation: "tanh" or "relu".

    Call arguments:
        characters: int tensor `(batch, length, width)`.

    Returns:
        Float tensor `(batch, length, filters)`.

    Example:
        >>> CharacterEmbedding(rows=306)(np.ones((2, 7, 20), "int32")).shape
        (2, 7, 100)

    Raises:
        ValueError: an unknown `activation`.

    Reference: FABIR section III-A; thesis eq. 5.5 and 5.6; Seo et al. 2017, section 2, 1.
    """

    per_word = True

    def __init__(
        self,
        rows: int,
        dim: int = 8,
        kernel_size: int = 5,
        filters: int = 100,
        dropout: float = 0.0,
        activation: str = "tanh",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}. Received: activation={activation!r}")
        self.activation = activation
        self.rows = rows
        self.dim = dim
        self.kernel_size = kernel_size
        self.filters = filters
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.convolution = keras.layers.Conv1D(
            filters,
            kernel_size,
            data_format="channels_last",
            kernel_initializer=GlorotUniform(),
            name="convolution",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        self.table = self.add_weight(name="table", shape=(self.rows, self.dim), initializer=StandardNormal())
        self.convolution.build((None, None, self.dim))
        stay_frozen(self)

    def call(self, characters, training=None):
        batch, length = ops.shape(characters)[:2]
        characters = at_least_kernel_wide(known_ids(characters, self.rows), self.kernel_size)
        # One row per word, (batch * length, width)
        words = ops.reshape(characters, (-1, characters.shape[-1] or ops.shape(characters)[-1]))
        vectors = self.drop(character_vectors(self.table, words), training=training)
        # The bias may be added after the maximum, to far fewer values.
        windows = self.convolution.convolution_op(vectors, self.convolution.kernel)
        strongest = add_bias(strongest_windows(windows, words, self.kernel_size), self.convolution.bias)
        return ACTIVATIONS[self.activation](ops.reshape(strongest, (batch, length, self.filters)))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.filters)

    def get_config(self):
        return super().get_config() | {
            "rows": self.rows,
            "dim": self.dim,
            "kernel_size": self.kernel_size,
            "filters": self.filters,
            "dropout": self.dropout,
            "activation": self.activation,
        }
