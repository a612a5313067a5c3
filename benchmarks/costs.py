"""What the layers of FABIR cost, by formula; layers.py compares it with the measured time.

Symbols: `T` tokens of a batch, `n` tokens of each of its `B` texts (queries), `m` tokens of each other text (keys), `d`
features, `h` heads, `w` the width of the attention's kernel, `s` bytes of a value (4, or 2 in bfloat16).

Only matrix products and convolutions count as operations; a multiplication and an addition are two. Elementwise work
(softmax, norms, gates) counts as bytes only, because memory limits it.

Bytes are counted in two ways. `least` is the layer's inputs, weights and outputs, once each; no implementation moves
less. `moved` is what the operations of today's layers read and write: the operands and the result of each. The
processor's cache keeps a part of it from the memory.
"""

import dataclasses

from fabir_tf.models.fabir import FabirConfig

FLOAT = 4
HALF = 2


@dataclasses.dataclass(frozen=True)
class Cost:
    """Operations; bytes moved by the operations; the least bytes that enter and leave the layer."""

    operations: float = 0
    moved: float = 0
    least: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.operations + other.operations, self.moved + other.moved, self.least + other.least)


def dense(rows: int, inputs: int, outputs: int, size: int) -> Cost:
    """x W + b: 2 T d_in d_out operations; bias and activation are part of the product."""
    return Cost(2 * rows * inputs * outputs, size * (rows * inputs + rows * outputs + inputs * outputs))


def residual_norm(rows: int, features: int, size: int) -> Cost:
    """The sum of two; in float32 mean, difference, square, mean and product; then gain and bias."""
    casts = 2 * (size + FLOAT) if size != FLOAT else 0
    values = 3 * size + casts + FLOAT * (1 + 2 + 2 + 1 + 2) + 4 * size
    return Cost(moved=rows * features * values)


def attention(texts: int, queries: int, keys: int, features: int, config: FabirConfig, size: int) -> Cost:
    """Convolutional attention, eq. 12, with its four projections.

    The 1 x w kernel is folded into the keys, so each head's keys have all d features:

        K_g[j] = concat_i sum_t H[t, i, g] (K W_K,i)[j + t - w // 2]     2 h m w d operations
        U W_U K_g^T, for each of h heads g                              2 h n m d operations

    Computed as eq. 12 is written, the logits would cost 2 n m d and their convolution 2 n m w h^2, but the logits would
    have to be transposed in memory.
    """
    n, m, d, h = texts * queries, texts * keys, features, config.num_heads
    pairs = texts * h * queries * keys
    width = config.attention_kernel_size[1]
    folded = Cost(2 * h * m * width * d, size * (h * 2 * m * d + 2 * h * m * d))
    logits = Cost(2 * pairs * d, size * (n * d + h * m * d + pairs))
    padding_and_scale = Cost(moved=size * (2 * m * d + 2 * n * d))
    projections = dense(n, d, d, size) + dense(m, d, d, size)
    return (
        projections
        + folded
        + logits
        + padding_and_scale
        + softmax(pairs, size)
        + apply_weights(texts, queries, keys, d, config, size)
    )


def softmax(pairs: int, size: int) -> Cost:
    """The bias for the padding, then the softmax, both in float32."""
    casts = 2 * (size + FLOAT) if size != FLOAT else 0
    return Cost(moved=pairs * (casts + 2 * FLOAT + 2 * FLOAT))


def apply_weights(texts: int, queries: int, keys: int, features: int, config: FabirConfig, size: int) -> Cost:
    """The projection of the values, A V with 2 n m d operations, the concatenation of the heads, and W_O."""
    n, m = texts * queries, texts * keys
    pairs = texts * queries * keys
    mixed = Cost(
        2 * pairs * features,
        size * (config.num_heads * pairs + features * (m + n) + 2 * features * (m + n) + 2 * n * features),
    )
    return dense(m, features, features, size) + mixed + dense(n, features, features, size)


def feed_forward(rows: int, features: int, hidden: int, size: int) -> Cost:
    """Eq. 15."""
    return dense(rows, features, hidden, size) + dense(rows, hidden, features, size)


def word_embedding(rows: int, config: FabirConfig, size: int) -> Cost:
    """A row of each table, the float16 one cast, a choice between them, and the linear map."""
    d = config.word_dim
    look_up = 2 * FLOAT + 3 * size + 2 * HALF + HALF + size + 3 * size
    table = HALF * rows * d
    return _whole(Cost(moved=rows * d * look_up) + dense(rows, d, d, size), table + FLOAT * d * d, rows * d * size)


def character_embedding(rows: int, config: FabirConfig, size: int) -> Cost:
    """C characters of c values, a kernel of k: 2 (C - k + 1) k c f operations a token; then the maximum."""
    wide, filters, dim = config.max_word_characters, config.character_filters, config.character_dim
    windows = wide - config.character_kernel + 1
    weights = config.character_kernel * dim * filters
    look_up = rows * wide * dim * (2 * FLOAT + 3 * size)
    convolution = size * (rows * wide * dim + weights + rows * windows * filters)
    choice_and_maximum = size * rows * windows * filters * 3
    cost = Cost(2 * rows * windows * weights, look_up + convolution + choice_and_maximum)
    return _whole(cost, FLOAT * (rows * wide + weights), size * rows * filters)


def highway(rows: int, config: FabirConfig, size: int) -> Cost:
    """Eq. 8: two d x d products per layer, and three elementwise operations."""
    d = _input_dim(config)
    one = dense(rows, d, d, size) + dense(rows, d, d, size) + Cost(moved=9 * size * rows * d)
    weights = config.highway_layers * 2 * d * d
    return _whole(_times(one, config.highway_layers), FLOAT * weights + size * rows * d, size * rows * d)


def decoupled_encoder(texts: int, tokens: int, config: FabirConfig, size: int) -> Cost:
    """Figure 2: attention over x + e, its weights applied to x and to e_m, and a norm for each."""
    rows, wide, d = texts * tokens, _input_dim(config), config.d_model
    encodings = Cost(moved=size * rows * (wide + d + 3 * wide))
    attended = attention(texts, tokens, tokens, wide, config, size)
    attended += apply_weights(texts, tokens, tokens, d, config, size)
    cost = encodings + attended + residual_norm(rows, wide, size) + residual_norm(rows, d, size)
    return _whole(cost, size * rows * wide + FLOAT * (4 * wide**2 + 2 * d**2), size * rows * (wide + d))


def interaction(texts: int, passage: int, question: int, features: int, hidden: int, config, size: int) -> Cost:
    """The question's feed-forward, cross-attention with the passage's tokens as queries, the passage's feed-forward."""
    p, q = texts * passage, texts * question
    return (
        feed_forward(q, features, hidden, size)
        + residual_norm(q, features, size)
        + attention(texts, passage, question, features, config, size)
        + residual_norm(p, features, size)
        + feed_forward(p, features, hidden, size)
        + residual_norm(p, features, size)
    )


def reduction_layer(texts: int, passage: int, question: int, config: FabirConfig, size: int) -> Cost:
    """Section III-F: `interaction` at d_input, then W_R (eq. 17) and the encodings."""
    rows, wide, d = texts * (passage + question), _input_dim(config), config.d_model
    cost = interaction(texts, passage, question, wide, config.reduction_hidden_dim, config, size)
    cost += dense(rows, wide, d, size) + Cost(moved=3 * size * rows * d)
    weights = 4 * wide**2 + 4 * wide * config.reduction_hidden_dim + wide * d
    return _whole(cost, size * rows * (wide + d) + FLOAT * weights, size * rows * d)


def processing_layer(texts: int, passage: int, question: int, config: FabirConfig, size: int) -> Cost:
    """Section III-E: self-attention on both texts, then `interaction`."""
    d, rows = config.d_model, texts * (passage + question)
    cost = interaction(texts, passage, question, d, config.hidden_dim, config, size)
    for tokens in (passage, question):
        cost += attention(texts, tokens, tokens, d, config, size) + residual_norm(texts * tokens, d, size)
    weights = 8 * d**2 + 4 * d * config.hidden_dim
    return _whole(cost, size * rows * d + FLOAT * weights, size * rows * d)


def selector(rows: int, config: FabirConfig, size: int) -> Cost:
    """Eq. 5.20 of the thesis: two convolutions, 2 k d f and 2 k f 2 operations a token."""
    d, filters, kernel = config.d_model, config.selector_filters, config.selector_kernel
    weights = kernel * (d * filters + 2 * filters)
    moved = size * (rows * (2 * d + d + filters + 2 * filters + filters + 2) + weights)
    return _whole(Cost(2 * rows * weights, moved), size * rows * d + FLOAT * weights, FLOAT * rows * 2)


def _input_dim(config: FabirConfig) -> int:
    return config.word_dim + config.character_filters


def _times(cost: Cost, count: int) -> Cost:
    return Cost(cost.operations * count, cost.moved * count, cost.least * count)


def _whole(cost: Cost, given: float, returned: float) -> Cost:
    """A layer's cost, with the bytes of its inputs and outputs as the least."""
    return dataclasses.replace(cost, least=given + returned)
