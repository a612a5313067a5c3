import keras
import numpy as np
from keras import ops

from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.exact_bias import Dense
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.core.initializers import GlorotUniform
from fabir_tf.layers.core.masking import any_token, masked_softmax, zero_padding, zero_padding_rows
from fabir_tf.layers.core.shared_values import derived, leading, rows, same_texts, shape_of, texts
from fabir_tf.layers.core.take import take

# A factor of the logits' scale. It is a power of two, so that it rounds nothing.
_PRODUCT_SCALE = 0.5


def _swapped(x):
    return ops.transpose(x, (0, 1, 3, 2))


def _product(one, other):
    # Scaled after the product, because TensorFlow fuses product, factor and the addition of the mask.
    return ops.matmul(one, _swapped(other)) * _PRODUCT_SCALE


def _as_logits_mask(mask):
    """`(batch, 1, 1, length)`."""
    return ops.expand_dims(mask, (1, 2))


def _wide_kernels(kernel, scale: float, head_dim: int, dtype: str):
    # All features of a head share its kernel.
    heads = np.repeat(np.arange(kernel.shape[2]), head_dim)
    return ops.split(take(ops.cast(kernel * scale, dtype), heads, axis=2), kernel.shape[3], axis=-1)


def _convolved(one_head, kernel):
    """Keys `(batch, 1, keys, features)`, convolved along the text."""
    return ops.depthwise_conv(one_head, kernel, strides=1, padding="same", data_format="channels_last")


def _shape_of_heads(sizes, heads: int, features: int):
    """`(batch, heads, length, features)`."""
    return shape_of((sizes[0], heads, sizes[1]), features)


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class ConvolutionalAttention(keras.layers.Layer):
    """Multi-head attention whose logits are convolved across neighboring tokens and across heads.

        logits_i = (U W_U,i) (K W_K,i)^T
        att_i    = softmax( Conv(logits, H)_i / sqrt(d_head) ) V W_V,i
        att      = [att_1; ...; att_heads] W_O

    `U`, `K`, `V` are `queries`, `keys`, `values`; `H` is one `h x w x heads x heads` kernel, h along the query axis and
    w along the key axis, SAME, without bias. The projections have biases. The paper's eq. 12 omits sqrt(d_head).

    The work is split into three steps, of which a variant overrides one: `score`, `weigh`, `apply_weights`.

    Masking: explicit, `query_mask` and `key_mask`. Logits of padding enter the convolution as 0 and the softmax as
    minus infinity; a padded row or column has weight exactly 0.

    Args:
        num_heads: heads; must divide the queries' features.
        kernel_size: `(h, w)`, both odd, or None for plain multi-head attention.
        depthwise: one `h x w` kernel per head instead of `heads x heads` of them.
        softmax_axis: "key": each query's weights sum to 1 over the keys (row-wise). "query": each key distributes one
            unit of weight over the queries (column-wise).
        shared_query_key_init: initializes key and query projection with the same values and the kernel as the identity,
            so that similar tokens attend to each other from the first step. As published, the projections are
            initialized independently and have to align first. Queries and keys need the same number of features.
        residual_init_scale: factor of W_O's initial values: the smaller, the closer to 0 is the initial output.
        dropout: share of the weights dropped in training.

    Call arguments:
        queries: float tensor `(batch, queries, features)`.
        keys: float tensor `(batch, keys, features)`.
        values: float tensor `(batch, keys, value_features)`.
        query_mask: boolean tensor `(batch, queries)`, true on real tokens.
        key_mask: boolean tensor `(batch, keys)`.

    Returns:
        Float tensor `(batch, queries, value_features)`.

    Raises:
        ValueError: an even kernel, an unknown `softmax_axis`, features that `num_heads` does not divide, or, with
            `shared_query_key_init`, queries and keys with different numbers of features.

    Example:
        >>> attention = ConvolutionalAttention(num_heads=4, softmax_axis="query")
        >>> attention(passage, question, question, passage_mask, question_mask).shape
        (75, 140, 100)

    Reference: FABIR eq. 12 and section III-D2; thesis eq. 5.14.
    """

    def __init__(
        self,
        num_heads: int = 4,
        kernel_size: tuple[int, int] | None = (1, 5),
        depthwise: bool = False,
        softmax_axis: str = "key",
        shared_query_key_init: bool = False,
        residual_init_scale: float = 1.0,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if kernel_size is not None and (len(kernel_size) != 2 or any(size % 2 == 0 for size in kernel_size)):
            raise ValueError(f"kernel_size must be two odd numbers or None. Received: kernel_size={kernel_size}")
        if softmax_axis not in ("key", "query"):
            raise ValueError(f"softmax_axis must be 'key' or 'query'. Received: softmax_axis={softmax_axis!r}")
        self.num_heads = num_heads
        self.kernel_size = None if kernel_size is None else tuple(kernel_size)
        self.depthwise = depthwise
        self.softmax_axis = softmax_axis
        self.shared_query_key_init = shared_query_key_init
        self.residual_init_scale = residual_init_scale
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, queries_shape, keys_shape, values_shape):
        features, value_features = queries_shape[-1], values_shape[-1]
        if features % self.num_heads or value_features % self.num_heads:
            raise ValueError(
                f"num_heads must divide the features of queries and values. Received: num_heads={self.num_heads}, "
                f"features {features} and {value_features}"
            )
        if self.shared_query_key_init and keys_shape[-1] != features:
            raise ValueError(
                "shared_query_key_init needs queries and keys with the same number of features. "
                f"Received: features {features} and {keys_shape[-1]}"
            )
        self.head_dim = features // self.num_heads
        # A kernel of one row is scaled instead of the queries.
        self._scale = 1 / (self.head_dim**0.5 * _PRODUCT_SCALE)
        # An initializer returns the same values at every call.
        initializer = GlorotUniform()
        self.query_map = self._dense("query", queries_shape, features, initializer)
        self.key_map = self._dense("key", keys_shape, features, initializer if self.shared_query_key_init else None)
        self.value_map = self._dense("value", values_shape, value_features)
        self.output_map = self._output_map("output", values_shape)
        if self.kernel_size is not None:
            outputs = 1 if self.depthwise else self.num_heads
            self.kernel = self.add_weight(
                name="kernel",
                shape=(*self.kernel_size, self.num_heads, outputs),
                initializer=self._identity_kernel if self.shared_query_key_init else GlorotUniform(),
            )
        stay_frozen(self)

    def call(self, queries, keys, values, query_mask, key_mask, training=None):
        for x, mask in ((queries, query_mask), (keys, key_mask), (values, key_mask)):
            same_texts(x, mask)
        weights = self.weigh(queries, keys, query_mask, key_mask, training)
        weights = self.drop(weights, training=training)
        return self.output_map(self.apply_weights(weights, self.value_map(values), query_mask, key_mask))

    def score(self, queries, keys, query_mask, key_mask, training=None):
        """Convolved and scaled logits; as in `weigh`, the axis of the softmax is the last one."""
        # Zero vectors give the zero logits of eq. 12b, and cost less than masking the logits.
        projected_keys = zero_padding_rows(self.key_map(rows(keys)), key_mask)
        projected = self.query_map(rows(queries))
        # A kernel of several rows and a softmax over the queries mix queries, so padded ones must be 0.
        if self.softmax_axis == "query" or (self.kernel_size is not None and self.kernel_size[0] > 1):
            projected = zero_padding_rows(projected, query_mask)
        return self._convolved_logits(projected, queries, projected_keys, keys, training)

    def weigh(self, queries, keys, query_mask, key_mask, training=None):
        """Softmax of the logits over the last axis, 0 on the padding of that axis.

        `(batch, heads, queries, keys)`, or `(batch, heads, keys, queries)` where `softmax_axis` is "query".
        """
        logits = self.score(queries, keys, query_mask, key_mask, training)
        mask = key_mask if self.softmax_axis == "key" else query_mask
        return ops.cast(masked_softmax(logits, derived(_as_logits_mask, mask)), self.compute_dtype)

    def apply_weights(self, weights, values, query_mask, key_mask):
        """Each head's weighted sum of its part of `values`; the heads are concatenated.

        Padding on the axis that the softmax does not run over is removed here, or everything if a text is only padding.
        """
        if self.softmax_axis == "key":
            mixed = self._mix(weights, values)
            mixed = zero_padding_rows(mixed, derived(ops.logical_and, query_mask, any_token(key_mask)))
        else:
            values = zero_padding(values, derived(ops.logical_and, key_mask, any_token(query_mask)))
            mixed = self._mix(_swapped(weights), values)
        return texts(mixed, query_mask)

    def _mix(self, weights, values):
        mixed = ops.transpose(ops.matmul(weights, self._heads(values, values)), (0, 2, 1, 3))
        return ops.reshape(mixed, (-1, values.shape[-1]))

    def _convolved_logits(self, query_rows, queries, key_rows, keys, training):
        """Logits of projected queries and keys, the rows of two matrices; the texts are needed for their shapes."""
        if self.kernel_size is None or self.kernel_size[0] > 1:
            logits = _product(self._heads(query_rows * self._scale, queries), self._heads(key_rows, keys))
            logits = logits if self.kernel_size is None else self._convolve(logits)
            return logits if self.softmax_axis == "key" else _swapped(logits)
        if self.depthwise:
            convolved = _convolved(self._one_head(key_rows, keys), *self._wide_kernels())
            heads = self._heads(query_rows, queries), self._heads(rows(convolved[:, 0]), keys)
        else:
            heads = self._one_head(query_rows, queries), self._mixed_keys(key_rows, keys, training)
        return _product(*(heads if self.softmax_axis == "key" else reversed(heads)))

    def _mixed_keys(self, key_rows, keys, training):
        """Keys that give the convolved logits, `(batch, heads, keys, features)`, all features for each head.

        A kernel of one row is linear along the keys, so it can be applied to the keys, which are far fewer than the
        logits: conv(U K^T)_g = U K_g^T with K_g[j] = concat_h sum_t H[t, h, g] K_h[j + t - w // 2].
        """
        if training:
            return self._mixed_keys_as_one_convolution(key_rows, keys)
        one_head = self._one_head(key_rows, keys)
        # Faster than one convolution with several outputs per feature, whose result would have to be transposed.
        return ops.concatenate([_convolved(one_head, kernel) for kernel in self._wide_kernels()], axis=1)

    def _mixed_keys_as_one_convolution(self, key_rows, keys):
        """The same as one convolution: slower, but its gradient is faster than that of depthwise convolutions."""
        heads = self.num_heads
        # (width, 1, heads h, heads g, heads h): the part of head h goes into the keys of every head g, at position h.
        kernel = ops.cast(self.kernel[0] * self._scale, key_rows.dtype)[:, None, :, :, None]
        kernel = kernel * ops.eye(heads, dtype=key_rows.dtype)[:, None]
        kernel = ops.reshape(kernel, (self.kernel_size[1], 1, heads, heads * heads))
        # (batch, keys, head_dim, heads)
        by_feature = ops.transpose(texts(key_rows, keys, heads, self.head_dim), (0, 1, 3, 2))
        mixed = ops.conv(by_feature, kernel, strides=1, padding="same", data_format="channels_last")
        sizes = derived(leading, keys)
        mixed = ops.reshape(mixed, derived(shape_of, sizes, self.head_dim, heads, heads))
        mixed = ops.transpose(mixed, (0, 3, 1, 4, 2))
        return ops.reshape(mixed, derived(_shape_of_heads, sizes, heads, heads * self.head_dim))

    def _wide_kernels(self):
        """For each output a kernel of one row and all features, `(1, w, features, 1)`."""
        return derived(_wide_kernels, self.kernel, self._scale, self.head_dim, self.compute_dtype)

    def _convolve(self, logits):
        # (batch, queries, keys, heads): channels last is the only layout that every CPU kernel supports.
        logits = ops.transpose(logits, (0, 2, 3, 1))
        convolve = ops.depthwise_conv if self.depthwise else ops.conv
        kernel = ops.cast(self.kernel, logits.dtype)
        logits = convolve(logits, kernel, strides=1, padding="same", data_format="channels_last")
        return ops.transpose(logits, (0, 3, 1, 2))

    def _heads(self, tokens, like):
        """Tokens, as texts or rows, by head; `like` is the text that they belong to."""
        sizes = derived(leading, like)
        heads = (self.num_heads, tokens.shape[-1] // self.num_heads)
        return ops.transpose(ops.reshape(tokens, derived(shape_of, sizes, *heads)), (0, 2, 1, 3))

    def _one_head(self, matrix, like):
        """`(batch, 1, length, features)`."""
        return ops.reshape(matrix, derived(_shape_of_heads, derived(leading, like), 1, matrix.shape[-1]))

    def _identity_kernel(self, shape, dtype=None):
        height, width, heads, _ = shape
        centre = ops.ones((heads, 1), dtype) if self.depthwise else ops.eye(heads, dtype=dtype)
        margins = [(size // 2, size // 2) for size in (height, width)]
        return ops.pad(centre[None, None], (*margins, (0, 0), (0, 0)))

    def _output_map(self, name, values_shape):
        return self._dense(name, values_shape, values_shape[-1], GlorotUniform(gain=self.residual_init_scale))

    def _dense(self, name, input_shape, units, initializer=None):
        initializer = initializer or GlorotUniform()
        dense = Dense(units, kernel_initializer=initializer, name=name, dtype=self.dtype_policy)
        dense.build(input_shape)
        return dense

    def compute_output_shape(self, queries_shape, keys_shape, values_shape):
        return (*queries_shape[:-1], values_shape[-1])

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "depthwise": self.depthwise,
            "softmax_axis": self.softmax_axis,
            "shared_query_key_init": self.shared_query_key_init,
            "residual_init_scale": self.residual_init_scale,
            "dropout": self.dropout,
        }
