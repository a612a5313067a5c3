import keras

from fabir_tf.layers.blocks.interaction_layer import InteractionLayer
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ReductionLayer(InteractionLayer):
    """The reduction layer's second half: the texts interact and are projected to d_model; positions are added again.

        P'', Q' as in `InteractionLayer`, from the embeddings of `DecoupledEncoder`
        out = x W_R + b_R + e'

    `x` is P'' or Q', `e'` the encodings of `DecoupledEncoder`; one W_R serves both texts.

    Masking: explicit, `passage_mask` and `question_mask`.

    Args:
        output_dim: d_model.
        **kwargs: arguments of `InteractionLayer`.

    Call arguments:
        passage: float tensor `(batch, passage, d_input)`, embeddings.
        question: float tensor `(batch, question, d_input)`.
        passage_encodings: float tensor `(batch, passage, output_dim)`.
        question_encodings: float tensor `(batch, question, output_dim)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        Passage and question, `(batch, passage, output_dim)` and `(batch, question, output_dim)`.

    Example:
        >>> encode, reduce = DecoupledEncoder(100), ReductionLayer(100, hidden_dim=400)
        >>> passage, passage_encodings = encode(passage, passage_mask, text="passage")
        >>> question, question_encodings = encode(question, question_mask, text="question")
        >>> texts = reduce(passage, question, passage_encodings, question_encodings, passage_mask, question_mask)

    Reference: FABIR section III-F, eq. 17; thesis figure 16.
    """

    def __init__(self, output_dim: int = 100, **kwargs):
        super().__init__(**kwargs)
        self.output_dim = output_dim
        self.reduction = Dense(
            output_dim, kernel_initializer=GlorotUniform(), name="reduction", dtype=self.dtype_policy
        )

    def build(self, passage_shape, question_shape, passage_encodings_shape, question_encodings_shape):
        super().build(passage_shape, question_shape)
        self.reduction.build(passage_shape)
        stay_frozen(self)

    def call(
        self, passage, question, passage_encodings, question_encodings, passage_mask, question_mask, training=None
    ):
        passage, question = self.interact(passage, question, passage_mask, question_mask, training)
        return self.reduction(passage) + passage_encodings, self.reduction(question) + question_encodings

    def compute_output_shape(self, passage_shape, question_shape, passage_encodings_shape, question_encodings_shape):
        return passage_encodings_shape, question_encodings_shape

    def get_config(self):
        return super().get_config() | {"output_dim": self.output_dim}
