import keras
from keras import ops

from fabir_tf.layers.core.dense_gradient import dense_gradient
from fabir_tf.layers.core.ids import PADDING, known_ids
from fabir_tf.layers.core.initializers import StandardNormal
from fabir_tf.layers.core.take import take


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class WordTable(keras.layers.Layer):
    """Word vectors from a frozen and a trainable table.

    Id 0 is padding and has no row, ids 1..R are the trainable rows (id 1 is UNK), ids R+1..R+F the frozen rows. Any
    other id is read as UNK. The frozen table is stored in float16, which takes half the memory of the published
    vectors. It is not restricted to the training vocabulary.

    Masking: none is needed, each word is looked up alone. Padding becomes a zero vector.

    Args:
        trainable_rows: R, words learned during training, UNK included.
        frozen_rows: F, words with published vectors; may be 0.
        dim: length of a word vector.

    Call arguments:
        words: int tensor `(batch, length)`.

    Returns:
        Float tensor `(batch, length, dim)`.

    Raises:
        ValueError: no trainable row, or a negative number of frozen rows.

    Example:
        >>> WordTable(trainable_rows=2, frozen_rows=3, dim=100)(np.array([[1, 4, 0]])).shape
        (1, 3, 100)

    Reference: FABIR section III-A; Seo et al. 2017, section 2.
    """

    per_word = True

    def __init__(self, trainable_rows: int, frozen_rows: int, dim: int = 100, **kwargs):
        super().__init__(**kwargs)
        if trainable_rows < 1 or frozen_rows < 0:
            raise ValueError(
                "trainable_rows must be at least 1 (row 1 is UNK) and frozen_rows at least 0. "
                f"Received: trainable_rows={trainable_rows}, frozen_rows={frozen_rows}"
            )
        self.trainable_rows = trainable_rows
        self.frozen_rows = frozen_rows
        self.dim = dim

    def build(self, input_shape):
        # Variance 1, as in the thesis (section 5.6.3): Xavier would make the rows of a large table tiny.
        self.trainable_table = self.add_weight(
            name="trainable_table",
            shape=(self.trainable_rows, self.dim),
            initializer=StandardNormal(),
        )
        if self.frozen_rows:
            self.frozen_table = self.add_weight(
                name="frozen_table",
                shape=(self.frozen_rows, self.dim),
                initializer="zeros",
                dtype="float16",
                trainable=False,
                autocast=False,
            )

    def call(self, words):
        words = known_ids(words, self.trainable_rows + self.frozen_rows)
        trainable = take(dense_gradient(self.trainable_table), ops.clip(words - 1, 0, self.trainable_rows - 1))
        is_trainable = ops.logical_and(words > PADDING, words <= self.trainable_rows)
        vectors = ops.where(is_trainable[..., None], trainable, ops.zeros_like(trainable))
        if not self.frozen_rows:
            return vectors
        row = words - self.trainable_rows - 1
        frozen = take(self.frozen_table, ops.clip(row, 0, self.frozen_rows - 1))
        return ops.where((row >= 0)[..., None], ops.cast(frozen, vectors.dtype), vectors)

    def compute_output_shape(self, input_shape):
        return (*input_shape, self.dim)

    def get_config(self):
        config = {"trainable_rows": self.trainable_rows, "frozen_rows": self.frozen_rows, "dim": self.dim}
        return super().get_config() | config
