import math

import keras
from keras import ops

from fabir_tf.layers.attention.convolutional_attention import ConvolutionalAttention
from fabir_tf.layers.blocks.residual_norm import ResidualNorm
from fabir_tf.layers.core.backend_kernels import backend_kernel
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import ExplicitMask
from fabir_tf.layers.core.shared_values import rows, texts


def _gelu(x):
    kernel = backend_kernel("gelu")
    if kernel:
        return kernel(x)
    # Not `ops.gelu`, whose erfc takes TensorFlow four times as long.
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def _gelu_new(x):
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {"gelu": _gelu, "gelu_new": _gelu_new, "relu": ops.relu}
"""The functions of the hidden layer, by their names in a Hugging Face `config.json`."""


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class BertLayer(ExplicitMask, keras.layers.Layer):
    """One layer of BERT: self-attention and a network with one hidden layer, each followed by its norm.

        y = N(x + dropout(att(x)))
        z = N'(y + dropout(gelu(y W_1 + b_1) W_2 + b_2)),   gelu(a) = a / 2 * (1 + erf(a / sqrt(2)))

    `att` is multi-head attention without a convolution (see `ConvolutionalAttention`), whose projections have biases.

    Masking: explicit, `mask`. No token reads padding; the vectors of padding have no meaning.

    Args:
        num_heads: heads of the attention; must divide the features.
        hidden_dim: width of the hidden layer.
        activation: "gelu" as above; "gelu_new" for its approximation by tanh; "relu".
        dropout: share of the values of each sublayer's output dropped in training.
        attention_dropout: share of the attention's weights dropped in training.
        epsilon: added to the variance.

    Call arguments:
        x: float tensor `(batch, length, features)`.
        mask: boolean tensor `(batch, length)`, true on real tokens.

    Returns:
        Float tensor of the shape of `x`.

    Raises:
        ValueError: an unknown activation.

    Example:
        >>> BertLayer(num_heads=12, hidden_dim=1536)(x, mask).shape
        (32, 384, 384)

    Reference: Devlin et al. 2019, arXiv 1810.04805, section 3; Vaswani et al. 2017, section 3.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        activation: str = "gelu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        epsilon: float = 1e-12,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}. Received: activation={activation!r}")
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.activation = activation
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.epsilon = epsilon
        self.attention = ConvolutionalAttention(
            num_heads, kernel_size=None, dropout=attention_dropout, name="attention", dtype=self.dtype_policy
        )
        self.attention_norm = ResidualNorm(dropout, epsilon, name="attention_norm", dtype=self.dtype_policy)
        self.output_norm = ResidualNorm(dropout, epsilon, name="output_norm", dtype=self.dtype_policy)

    def build(self, x_shape):
        self.hidden = self._dense("hidden", self.hidden_dim, ACTIVATIONS[self.activation])
        self.output_map = self._dense("output", x_shape[-1])
        self.attention.build(x_shape, x_shape, x_shape)
        self.attention_norm.build(x_shape, x_shape)
        self.hidden.build(x_shape)
        self.output_map.build((*x_shape[:-1], self.hidden_dim))
        self.output_norm.build(x_shape, x_shape)
        stay_frozen(self)

    def _dense(self, name, units, activation=None):
        return Dense(units, activation, kernel_initializer=GlorotUniform(), name=name, dtype=self.dtype_policy)

    def call(self, x, mask, training=None):
        x = self.attention_norm(x, self.attention(x, x, x, mask, mask, training=training), training=training)
        update = texts(self.output_map(self.hidden(rows(x))), x)
        return self.output_norm(x, update, training=training)

    def compute_output_shape(self, x_shape):
        return x_shape

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "activation": self.activation,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "epsilon": self.epsilon,
        }
