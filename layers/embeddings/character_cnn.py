from collections.abc import Sequence

import keras
from keras import ops

from fabir_tf.layers.blocks.highway import Highway
from fabir_tf.layers.core.exact_bias import Dense, add_bias
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform, StandardNormal
from fabir_tf.layers.embeddings.character_embedding import ACTIVATIONS, at_least_kernel_wide, character_vectors


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class CharacterCnn(keras.layers.Layer):
    """A word's vector from its characters, as the biLM of ELMo reads it.

        C = [c_1 ... c_n],   u_k = f( max_t (Conv(C, H_k) + b_k)_t ),   w = Highway([u_1; u_2; ...]) W + b

    `c_i` are vectors of `dim` values, and each `H_k` is a `width x dim x count` kernel applied VALID. The maximum is
    taken before `f`, which is monotonic.

    Masking: id 0 is a zero vector. The characters that fill a word up have an id of their own, and windows over them
    may be the maximum, as in the published program.

    Args:
        rows: rows of the character table, for ids 1..rows.
        dim: length of a character vector.
        filters: pairs of a kernel's width and the number of its filters.
        highway_layers: highway layers on the filters' values.
        projection: length of the result.
        activation: "relu" or "tanh".

    Call arguments:
        characters: int tensor `(batch, length, width)`.

    Returns:
        Float tensor `(batch, length, projection)`.

    Raises:
        ValueError: an unknown `activation`.

    Example:
        >>> CharacterCnn(261, 16, [[1, 32], [2, 32]], 2, 512)(np.ones((2, 7, 50), "int32")).shape
        (2, 7, 512)

    Reference: Peters et al. 2018, arXiv 1802.05365, section 3.4; Kim et al. 2016.
    """

    per_word = True
    # It has no dropout.
    per_word_in_training = True

    def __init__(
        self,
        rows: int,
        dim: int,
        filters: Sequence[Sequence[int]],
        highway_layers: int,
        projection: int,
        activation: str = "relu",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}. Received: activation={activation!r}")
        self.rows = rows
        self.dim = dim
        self.filters = [list(pair) for pair in filters]
        self.highway_layers = highway_layers
        self.projection = projection
        self.activation = activation
        self.convolutions = [
            keras.layers.Conv1D(
                count,
                width,
                data_format="channels_last",
                kernel_initializer=GlorotUniform(),
                name=f"convolution_{number}",
                dtype=self.dtype_policy,
            )
            for number, (width, count) in enumerate(self.filters)
        ]
        self.highway = Highway(highway_layers, name="highway", dtype=self.dtype_policy)
        self.project = Dense(projection, kernel_initializer=GlorotUniform(), name="projection", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.table = self.add_weight(name="table", shape=(self.rows, self.dim), initializer=StandardNormal())
        for convolution in self.convolutions:
            convolution.build((None, None, self.dim))
        values = (*input_shape[:2], sum(count for _, count in self.filters))
        self.highway.build(values)
        self.project.build(values)
        stay_frozen(self)

    def call(self, characters):
        batch, length = ops.shape(characters)[:2]
        characters = at_least_kernel_wide(characters, max(width for width, _ in self.filters))
        # One row per word, (batch * length, width)
        words = ops.reshape(characters, (-1, characters.shape[-1] or ops.shape(characters)[-1]))
        vectors = character_vectors(self.table, words)
        strongest = ops.concatenate([self._strongest(part, vectors) for part in self.convolutions], axis=-1)
        values = ops.reshape(ACTIVATIONS[self.activation](strongest), (batch, length, strongest.shape[-1]))
        return self.project(self.highway(values))

    def _strongest(self, convolution, vectors):
        # The bias may be added after the maximum, to far fewer values.
        return add_bias(ops.max(convolution.convolution_op(vectors, convolution.kernel), axis=1), convolution.bias)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.projection)

    def get_config(self):
        return super().get_config() | {
            "rows": self.rows,
            "dim": self.dim,
            "filters": self.filters,
            "highway_layers": self.highway_layers,
            "projection": self.projection,
            "activation": self.activation,
        }
