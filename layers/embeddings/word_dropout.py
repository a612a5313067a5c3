import keras
from keras import ops

# Ids of padding and of unknown words.
_PADDING, _UNKNOWN = 0, 1


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class WordDropout(keras.layers.Layer):
    """Words that are taken for unknown ones in training, so that a reader learns to do without a word's vector.

        id'_i = unknown  with probability `rate`, else id_i

    Each place is drawn by itself. Only the id is lost: the word's characters are read as they are.

    Masking: padding stays padding.

    Args:
        rate: share of the words that is dropped.
        seed: of the random numbers.

    Call arguments:
        words: int tensor of any shape, 0 on padding, 1 on unknown words.
        training: whether to drop.

    Returns:
        Int tensor of the same shape.

    Raises:
        ValueError: `rate` is less than 0 or more than 1.

    Example:
        >>> WordDropout(0.1)(np.array([[7, 4, 0]]), training=True).shape
        (1, 3)

    Reference: Bowman et al. 2016, arXiv 1511.06349, where it keeps a decoder from leaning on its words.
    """

    # Outside training, when a word is what it is wherever it stands.
    per_word = True

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be from 0 to 1. Received: rate={rate}")
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, words, training=None):
        if not training:
            return words
        # Not in a half precision, which is too coarse for the rate.
        chance = keras.random.uniform(ops.shape(words), dtype="float32", seed=self.seed_generator)
        dropped = (chance < self.rate) & (words != _PADDING)
        return ops.where(dropped, ops.cast(_UNKNOWN, words.dtype), words)

    def compute_output_spec(self, words, training=None):
        return keras.KerasTensor(words.shape, words.dtype)

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
