import keras

from fabir_tf.layers.attention.registry import find_attention
from fabir_tf.layers.blocks.interaction_layer import InteractionLayer


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ProcessingLayer(InteractionLayer):
    """Self-attention on both texts, cross-attention of the question over the passage, feedforward.

        Q' = N(Q + att(Q, Q, Q)),   Q'' = N(Q' + ff(Q'))
        P' = N(P + att(P, P, P)),   P'' = N(P' + att_cross(P', Q'', Q'')),   P''' = N(P'' + ff(P''))

    `N` is layer normalization. Both self-attentions share their weights; feedforwards and norms are separate.

    Masking: explicit, `passage_mask` and `question_mask`.

    Args:
        **kwargs: arguments of `InteractionLayer`.

    Call arguments:
        passage: float tensor `(batch, passage, d_model)`.
        question: float tensor `(batch, question, d_model)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        The processed passage and question, in the shapes of the inputs.

    Example:
        >>> passage, question = ProcessingLayer()(passage, question, passage_mask, question_mask)

    Reference: FABIR figure 1 and section III-E; thesis section 5.3.4.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = find_attention(self.attention)(**self._attention_arguments(), name="self_attention")
        self.passage_self_norm = self._norm("passage_self_norm")
        self.question_self_norm = self._norm("question_self_norm")

    def build(self, passage_shape, question_shape):
        self.self_attention.build(passage_shape, passage_shape, passage_shape)
        self.passage_self_norm.build(passage_shape, passage_shape)
        self.question_self_norm.build(question_shape, question_shape)
        super().build(passage_shape, question_shape)

    def call(self, passage, question, passage_mask, question_mask, training=None):
        question = self.attend(question, question_mask, self.question_self_norm, training)
        passage = self.attend(passage, passage_mask, self.passage_self_norm, training)
        return self.interact(passage, question, passage_mask, question_mask, training)

    def attend(self, x, mask, norm, training=None):
        """Self-attention on one text, followed by that text's norm."""
        return norm(x, self.self_attention(x, x, x, mask, mask, training=training), training=training)
