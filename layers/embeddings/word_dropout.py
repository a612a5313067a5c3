import keras
from keras import ops

from fabir_tf.layers.core.ids import PADDING, UNKNOWN


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class WordDropout(keras.layers.Layer):
    """Replaces words by the unknown word in training, so that a reader learns to do without word vectors.

        id'_i = unknown  with probability `rate`, else id_i

    Each position is drawn independently. Only the id is replaced: the word's characters are kept.

    Masking: padding stays padding.

    Args:
        rate: share of the words that are dropped.
        seed: seed of the random numbers.

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

    Reference: Bowman et al. 2016, arXiv 1511.06349, which drops the words a decoder is conditioned on.
    """

    # True outside training, where nothing is dropped.
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
        # Float32, because half precision is too coarse for the rate.
        chance = keras.random.uniform(ops.shape(words), dtype="float32", seed=self.seed_generator)
        dropped = (chance < self.rate) & (words != PADDING)
        return ops.where(dropped, ops.cast(UNKNOWN, words.dtype), words)

    def compute_output_spec(self, words, training=None):
        return keras.KerasTensor(words.shape, words.dtype)

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
