import keras
from keras import ops

from fabir_tf.layers.blocks.feed_forward import FeedForward
from fabir_tf.layers.heads.dense_head import DenseHead


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ResidualHead(DenseHead):
    """Two logits per token from residual blocks and one linear map.

        H_0 = X,   H_k = relu(H_{k-1} + relu(H_{k-1} U_k + c_k) V_k + d_k)
        Y   = H_blocks W + b

    The report shows a block only by the figure of He et al., which has the ReLU after the sum.

    Masking: none is needed, each token is transformed alone; `SequenceLogits` masks the logits.

    Args:
        blocks: number of blocks; the report has 1 and 5.
        dropout: share of the values of `X` dropped in training.

    Call arguments:
        x: float tensor `(batch, length, features)`, the encoder's last hidden states.

    Returns:
        Float32 tensor `(batch, length, 2)`.

    Raises:
        ValueError: `blocks` is less than 1.

    Example:
        >>> ResidualHead(blocks=5)(hidden_states).shape
        (32, 384, 2)

    Reference: Cheung, section 3.2.2 and figure 6; He et al. 2016, figure 2.
    """

    def __init__(self, blocks: int = 1, dropout: float = 0.0, **kwargs):
        super().__init__(dropout, **kwargs)
        if blocks < 1:
            raise ValueError(f"blocks must be at least 1. Received: blocks={blocks}")
        self.blocks = blocks

    def build_hidden(self, x_shape):
        self.feed_forwards = [
            FeedForward(x_shape[-1], name=f"block_{number}", dtype=self.dtype_policy) for number in range(self.blocks)
        ]
        for feed_forward in self.feed_forwards:
            feed_forward.build(x_shape)

    def hidden(self, x):
        for feed_forward in self.feed_forwards:
            x = ops.relu(x + feed_forward(x))
        return x

    def get_config(self):
        return super().get_config() | {"blocks": self.blocks}
