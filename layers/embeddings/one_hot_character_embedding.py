import keras
from keras import ops

from fabir_tf.layers.core.exact_bias import Conv1D, Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.ids import PADDING, UNKNOWN, known_ids
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.embeddings.character_embedding import at_least_kernel_wide, strongest_windows


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class OneHotCharacterEmbedding(keras.layers.Layer):
    """A word's vector from its characters, which are fixed unit vectors.

        C = [onehot(k_1) ... onehot(k_n)],   m = max_t (Conv(C, H) + b)_t,   w_c = relu(m W_1 + b_1) W_2 + b_2

    The `known` most frequent characters have one unit vector each; all others share one.

    Masking: character id 0 is padding, a zero vector. A position of the convolution that reaches past a word's last
    character never is the maximum, as in `CharacterEmbedding`.

    Args:
        known: characters with their own vector: ids 2 to known + 1, which the vocabulary orders by frequency.
        kernel_size: characters seen at once.
        filters: width of the convolution and of the network after it.
        units: length of the result.

    Call arguments:
        characters: int tensor `(batch, length, width)`; id 1 is UNK.

    Returns:
        Float tensor `(batch, length, units)`.

    Example:
        >>> OneHotCharacterEmbedding(units=50)(np.ones((2, 7, 20), "int32")).shape
        (2, 7, 50)

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 2.1; Kim 2014.
    """

    per_word = True

    def __init__(self, known: int = 99, kernel_size: int = 5, filters: int = 100, units: int = 50, **kwargs):
        super().__init__(**kwargs)
        self.known = known
        self.kernel_size = kernel_size
        self.filters = filters
        self.units = units
        self.convolution = Conv1D(
            filters,
            kernel_size,
            data_format="channels_last",
            kernel_initializer=GlorotUniform(),
            name="convolution",
            dtype=self.dtype_policy,
        )
        self.hidden, self.output_map = (
            Dense(width, activation, kernel_initializer=GlorotUniform(), name=name, dtype=self.dtype_policy)
            for name, width, activation in (("hidden", filters, "relu"), ("output", units, None))
        )

    def build(self, input_shape):
        self.convolution.build((None, None, self.known + 2))
        self.hidden.build((None, self.filters))
        self.output_map.build((None, self.filters))
        stay_frozen(self)

    def call(self, characters):
        batch, length = ops.shape(characters)[:2]
        characters = at_least_kernel_wide(known_ids(characters, self.known + UNKNOWN), self.kernel_size)
        words = ops.reshape(characters, (-1, characters.shape[-1] or ops.shape(characters)[-1]))
        strongest = strongest_windows(self.convolution(self._one_hot(words)), words, self.kernel_size)
        return self.output_map(self.hidden(ops.reshape(strongest, (batch, length, self.filters))))

    def _one_hot(self, words):
        """`(words, width, known + 2)`: the report's 101 positions, of which one is unused; UNK has the last."""
        indices = ops.where(words == UNKNOWN, self.known + 1, words - UNKNOWN - 1)
        # The index -1 gives a zero vector.
        return ops.one_hot(ops.where(words == PADDING, -1, indices), self.known + 2, dtype=self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.units)

    def get_config(self):
        return super().get_config() | {
            "known": self.known,
            "kernel_size": self.kernel_size,
            "filters": self.filters,
            "units": self.units,
        }
