import keras

from fabir_tf.layers.attention.registry import find_attention
from fabir_tf.layers.blocks.feed_forward import FeedForward
from fabir_tf.layers.blocks.residual_norm import ResidualNorm
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.shared_values import same_texts


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class InteractionLayer(keras.layers.Layer):
    """The passage attends to the question: the part of a layer that follows its self-attention.

        Q' = N(Q + ff(Q))
        P' = N(P + att_cross(P, Q', Q')),   P'' = N(P' + ff(P'))

    `N` is layer normalization. The two texts have separate feedforwards and norms.

    Masking: explicit, `passage_mask` and `question_mask`.

    Args:
        num_heads: attention heads.
        hidden_dim: hidden width of the feedforwards.
        kernel_size: of the convolved logits, `(h, w)`, or None.
        depthwise: one kernel per head.
        cross_softmax_axis: "query" is the paper's column-wise cross-attention, "key" the row-wise one.
        shared_query_key_init: `shared_query_key_init` of the cross-attention.
        residual_init_scale: factor of the initial weights that write a sublayer's output: the smaller, the closer each
            residual sum is to its input before training. At 1, as published, every attention adds about the same mean
            to all tokens, until the tokens are alike.
        attention_dropout: share of attention weights dropped.
        dropout: share of each sublayer's output dropped.
        attention: name of the attention in `ATTENTIONS`.

    Call arguments:
        passage: float tensor `(batch, passage, features)`.
        question: float tensor `(batch, question, features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        The passage and the question, in the shapes of the inputs.

    Example:
        >>> passage, question = InteractionLayer()(passage, question, passage_mask, question_mask)

    Reference: FABIR figure 1 and section III-E; thesis section 5.3.4.
    """

    def __init__(
        self,
        num_heads: int = 4,
        hidden_dim: int = 200,
        kernel_size: tuple[int, int] | None = (1, 5),
        depthwise: bool = False,
        cross_softmax_axis: str = "query",
        shared_query_key_init: bool = False,
        residual_init_scale: float = 1.0,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        attention: str = "convolutional",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.kernel_size = None if kernel_size is None else tuple(kernel_size)
        self.depthwise = depthwise
        self.cross_softmax_axis = cross_softmax_axis
        self.shared_query_key_init = shared_query_key_init
        self.residual_init_scale = residual_init_scale
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.attention = attention
        self.cross_attention = find_attention(attention)(
            **self._attention_arguments(),
            softmax_axis=cross_softmax_axis,
            shared_query_key_init=shared_query_key_init,
            name="cross_attention",
        )
        self.passage_cross_norm = self._norm("passage_cross_norm")
        self.passage_feed_forward = self._feed_forward("passage_feed_forward")
        self.passage_feed_forward_norm = self._norm("passage_feed_forward_norm")
        self.question_feed_forward = self._feed_forward("question_feed_forward")
        self.question_feed_forward_norm = self._norm("question_feed_forward_norm")

    def _attention_arguments(self):
        return {
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "depthwise": self.depthwise,
            "residual_init_scale": self.residual_init_scale,
            "dropout": self.attention_dropout,
            "dtype": self.dtype_policy,
        }

    def _norm(self, name):
        return ResidualNorm(self.dropout, name=name, dtype=self.dtype_policy)

    def _feed_forward(self, name):
        return FeedForward(self.hidden_dim, self.residual_init_scale, name=name, dtype=self.dtype_policy)

    def build(self, passage_shape, question_shape):
        self.cross_attention.build(passage_shape, question_shape, question_shape)
        self.passage_feed_forward.build(passage_shape)
        self.question_feed_forward.build(question_shape)
        for norm in (self.passage_cross_norm, self.passage_feed_forward_norm):
            norm.build(passage_shape, passage_shape)
        self.question_feed_forward_norm.build(question_shape, question_shape)
        stay_frozen(self)

    def call(self, passage, question, passage_mask, question_mask, training=None):
        return self.interact(passage, question, passage_mask, question_mask, training)

    def interact(self, passage, question, passage_mask, question_mask, training):
        """The equations above."""
        same_texts(question, question_mask)
        question = self.question_feed_forward_norm(question, self.question_feed_forward(question), training=training)
        crossed = self.cross_attention(passage, question, question, passage_mask, question_mask, training=training)
        passage = self.passage_cross_norm(passage, crossed, training=training)
        passage = self.passage_feed_forward_norm(passage, self.passage_feed_forward(passage), training=training)
        return passage, question

    def compute_output_shape(self, passage_shape, question_shape):
        return passage_shape, question_shape

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "kernel_size": self.kernel_size,
            "depthwise": self.depthwise,
            "cross_softmax_axis": self.cross_softmax_axis,
            "shared_query_key_init": self.shared_query_key_init,
            "residual_init_scale": self.residual_init_scale,
            "attention_dropout": self.attention_dropout,
            "dropout": self.dropout,
            "attention": self.attention,
        }
