import keras

from fabir_tf.layers.convolutional_attention import ConvolutionalAttention
from fabir_tf.layers.feed_forward import FeedForward
from fabir_tf.layers.residual_norm import ResidualNorm


@keras.saving.register_keras_serializable(package="fabir_tf")
class ProcessingLayer(keras.layers.Layer):
    """Self-attention on both texts, cross-attention of the question over the passage, feedforward.

        Q' = N(Q + att(Q, Q, Q)),   Q'' = N(Q' + ff(Q'))
        P' = N(P + att(P, P, P)),   P'' = N(P' + att_cross(P', Q'', Q'')),   P''' = N(P'' + ff(P''))

    `N` is layer normalisation. Both self-attentions share their weights; feedforwards and norms are separate.

    Masking: explicit, `passage_mask` and `question_mask`.

    Args:
        num_heads: attention heads.
        hidden_dim: hidden width of the feedforwards.
        kernel_size: of the convolved logits, `(h, w)`, or None.
        depthwise: one kernel per head.
        cross_softmax_axis: "query" is the paper's column-wise cross-attention, "key" the row-wise one.
        cross_matching_start: `matching_start` of the cross-attention.
        attention_dropout: share of attention weights dropped.
        dropout: share of each sublayer's output dropped.

    Call arguments:
        passage: float tensor `(batch, passage, d_model)`.
        question: float tensor `(batch, question, d_model)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.
        question_mask: boolean tensor `(batch, question)`.

    Returns:
        The processed passage and question, shaped as they came.

    Example:
        >>> passage, question = ProcessingLayer()(passage, question, passage_mask, question_mask)

    Reference: FABIR figure 1 and section III-E; thesis section 5.3.4.
    """

    def __init__(
        self,
        num_heads: int = 4,
        hidden_dim: int = 200,
        kernel_size: tuple[int, int] | None = (1, 5),
        depthwise: bool = False,
        cross_softmax_axis: str = "query",
        cross_matching_start: bool = False,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.kernel_size = None if kernel_size is None else tuple(kernel_size)
        self.depthwise = depthwise
        self.cross_softmax_axis = cross_softmax_axis
        self.cross_matching_start = cross_matching_start
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self._make_self_attention()
        self.cross_attention = ConvolutionalAttention(
            **self._attention_arguments(),
            softmax_axis=cross_softmax_axis,
            matching_start=cross_matching_start,
            name="cross_attention",
        )
        self.passage_self_norm = self._norm("passage_self_norm")
        self.passage_cross_norm = self._norm("passage_cross_norm")
        self.passage_feed_forward = self._feed_forward("passage_feed_forward")
        self.passage_feed_forward_norm = self._norm("passage_feed_forward_norm")
        self.question_self_norm = self._norm("question_self_norm")
        self.question_feed_forward = self._feed_forward("question_feed_forward")
        self.question_feed_forward_norm = self._norm("question_feed_forward_norm")

    def _make_self_attention(self):
        self.self_attention = ConvolutionalAttention(**self._attention_arguments(), name="self_attention")

    def _attention_arguments(self):
        return {
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "depthwise": self.depthwise,
            "dropout": self.attention_dropout,
            "dtype": self.dtype_policy,
        }

    def _norm(self, name):
        return ResidualNorm(self.dropout, name=name, dtype=self.dtype_policy)

    def _feed_forward(self, name):
        return FeedForward(self.hidden_dim, name=name, dtype=self.dtype_policy)

    def build(self, passage_shape, question_shape):
        self.self_attention.build(passage_shape, passage_shape, passage_shape)
        self._build_after_self_attention(passage_shape, question_shape)

    def _build_after_self_attention(self, passage_shape, question_shape):
        self.cross_attention.build(passage_shape, question_shape, question_shape)
        self.passage_feed_forward.build(passage_shape)
        self.question_feed_forward.build(question_shape)
        for norm in (self.passage_self_norm, self.passage_cross_norm, self.passage_feed_forward_norm):
            norm.build(passage_shape, passage_shape)
        for norm in (self.question_self_norm, self.question_feed_forward_norm):
            norm.build(question_shape, question_shape)

    def call(self, passage, question, passage_mask, question_mask, training=None):
        question_update = self.self_attention(
            question, question, question, question_mask, question_mask, training=training
        )
        question = self.question_self_norm(question, question_update, training=training)
        passage_update = self.self_attention(passage, passage, passage, passage_mask, passage_mask, training=training)
        passage = self.passage_self_norm(passage, passage_update, training=training)
        return self.after_self_attention(passage, question, passage_mask, question_mask, training)

    def after_self_attention(self, passage, question, passage_mask, question_mask, training):
        """The question's feedforward, then the passage's cross-attention and feedforward, each with its norm."""
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
            "cross_matching_start": self.cross_matching_start,
            "attention_dropout": self.attention_dropout,
            "dropout": self.dropout,
        }
