"""ConvolutionalAttention: eq. 12 with every kernel, both softmax axes, and padding on both sides."""

import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.layers import ConvolutionalAttention

HEADS, FEATURES, VALUE_FEATURES = 3, 12, 33
QUERIES, KEYS = 7, 5
AXES = {"query": 2, "key": 3}
# Name -> kernel, depthwise, axis of the softmax.
VARIANTS = {
    "none-key": (None, False, "key"),
    "none-query": (None, False, "query"),
    "1x5-key": ((1, 5), False, "key"),
    "1x5-query": ((1, 5), False, "query"),
    "3x3-key": ((3, 3), False, "key"),
    "3x7-query": ((3, 7), False, "query"),
    "1x5-depthwise-query": ((1, 5), True, "query"),
    "3x7-depthwise-key": ((3, 7), True, "key"),
}


def variants(*names):
    """Parametrizes a test over the variants of these names, by default over all."""
    cases = [
        pytest.param({"kernel_size": kernel, "depthwise": depthwise, "softmax_axis": axis}, id=name)
        for name, (kernel, depthwise, axis) in VARIANTS.items()
        if name in names or not names
    ]
    return pytest.mark.parametrize("variant", cases)


def cross_inputs(query_lengths=(7, 4), key_lengths=(3, 5), queries=QUERIES, keys=KEYS, seed=1):
    batch = len(query_lengths)
    return {
        "queries": layer_testing.normal(batch, queries, FEATURES, seed=seed),
        "keys": layer_testing.normal(batch, keys, FEATURES, seed=seed + 1),
        "values": layer_testing.normal(batch, keys, VALUE_FEATURES, seed=seed + 2),
        "query_mask": layer_testing.mask_of(query_lengths, queries),
        "key_mask": layer_testing.mask_of(key_lengths, keys),
    }


def self_inputs(lengths=(7, 4), length=QUERIES, seed=1):
    x, mask = layer_testing.normal(len(lengths), length, FEATURES, seed=seed), layer_testing.mask_of(lengths, length)
    return {"queries": x, "keys": x, "values": x, "query_mask": mask, "key_mask": mask}


def make(inputs, **config):
    return layer_testing.built(ConvolutionalAttention(HEADS, **config), inputs)


def oracle_of(variant):
    def oracle(weights, queries, keys, values, query_mask, key_mask):
        axis = variant.get("softmax_axis", "key")
        return oracles.convolutional_attention(queries, keys, values, query_mask, key_mask, weights, HEADS, axis)

    return oracle


def layer_and_weights(inputs, heads=HEADS, **config):
    """A layer and its attention weights `(batch, heads, queries, keys)`.

    If the values, the value map and the output map are the identity, each head returns its weights.
    """
    keys = inputs["keys"].shape[1]
    one_hot = np.concatenate([np.eye(keys)] * heads, axis=1)
    inputs = inputs | {"values": np.repeat(one_hot[None], len(inputs["keys"]), axis=0).astype("float32")}
    layer = layer_testing.built(ConvolutionalAttention(heads, **config), inputs)
    for weight in layer.weights:
        name = layer_testing.name_of(weight, layer.name)
        if name in ("value/kernel", "output/kernel"):
            weight.assign(np.eye(heads * keys, dtype="float32"))
        elif name in ("value/bias", "output/bias"):
            weight.assign(np.zeros(heads * keys, "float32"))
    (out,) = layer_testing.run(layer, inputs)
    return layer, np.stack(np.split(out, heads, axis=-1), axis=1)


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    config = {
        "num_heads": HEADS,
        "kernel_size": (3, 5),
        "depthwise": True,
        "softmax_axis": "query",
        "shared_query_key_init": True,
        "residual_init_scale": 0.5,
        "dropout": 0.3,
    }
    inputs = cross_inputs(query_lengths=(7, 4, 0, 7, 0), key_lengths=(3, 5, 5, 0, 0))
    layer_testing.run_layer_test(ConvolutionalAttention, config, inputs, policy)


def test_configuration_of_plain_attention():
    layer = ConvolutionalAttention(HEADS, kernel_size=None)
    assert ConvolutionalAttention.from_config(layer.get_config()).kernel_size is None


@variants()
def test_cross_attention(variant):
    inputs = cross_inputs()
    layer = make(inputs, **variant)
    layer_testing.check_forward(layer, inputs, oracle_of(variant), [inputs["query_mask"]])


@variants("1x5-key", "3x3-key", "none-query")
def test_self_attention(variant):
    inputs = self_inputs()
    layer = make(inputs, **variant)
    layer_testing.check_forward(layer, inputs, oracle_of(variant), [inputs["query_mask"]])


@variants("none-query", "1x5-key", "3x7-query", "3x7-depthwise-key")
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (2, 3)])
def test_texts_shorter_than_the_kernel(variant, queries, keys):
    inputs = cross_inputs((queries, 1), (keys, 1), queries, keys)
    layer = make(inputs, **variant)
    layer_testing.check_forward(layer, inputs, oracle_of(variant), [inputs["query_mask"]])


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_any_number_of_heads(num_heads):
    inputs = cross_inputs()
    inputs["values"] = inputs["values"][..., :28]
    layer = layer_testing.built(ConvolutionalAttention(num_heads, (3, 5)), inputs)
    layer_testing.check_forward(
        layer,
        inputs,
        lambda weights, **arrays: oracles.convolutional_attention(**arrays, weights=weights, num_heads=num_heads),
        [inputs["query_mask"]],
    )


@variants()
def test_gradients(variant):
    inputs = cross_inputs()
    layer = make(inputs, **variant)
    layer_testing.check_gradients(layer, inputs, oracle_of(variant), [inputs["query_mask"]])


@variants()
def test_weights(variant):
    """Weights are exactly 0 on padding. Along the softmax they sum to 1, or to 0 if all is padding."""
    inputs = cross_inputs(query_lengths=(7, 4, 0, 7, 0), key_lengths=(3, 5, 5, 0, 0))
    layer, weights = layer_and_weights(inputs, **variant)
    query_mask, key_mask = inputs["query_mask"], inputs["key_mask"]
    real = np.broadcast_to((query_mask[:, :, None] & key_mask[:, None])[:, None], weights.shape)
    assert (weights[~real] == 0.0).all()
    assert (weights[real] > 0.0).all()
    axis = AXES[variant["softmax_axis"]]
    np.testing.assert_allclose(weights.sum(axis), real.any(axis).astype("float32"), atol=1e-6)
    expected = oracles.attention_weights(
        *(inputs[name].astype("float64") for name in ("queries", "keys")),
        query_mask,
        key_mask,
        layer_testing.weights_of(layer),
        HEADS,
        variant["softmax_axis"],
    )
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)


@variants("none-query", "1x5-key", "1x5-query", "3x7-query", "3x7-depthwise-key")
def test_padding(variant):
    lengths = {"query": [7, 2], "key": [3, 5]}
    inputs = cross_inputs(lengths["query"], lengths["key"])
    axes = {"queries": "query", "query_mask": "query", "keys": "key", "values": "key", "key_mask": "key"}
    layer = make(inputs, **variant)
    layer_testing.check_padding(layer, inputs, lengths, axes, ["query"])


@variants("none-key", "3x7-depthwise-key")
def test_padding_in_self_attention(variant):
    lengths = {"text": [7, 2]}
    inputs = self_inputs(lengths["text"])
    layer_testing.check_padding(make(inputs, **variant), inputs, lengths, dict.fromkeys(inputs, "text"), ["text"])


@variants()
@pytest.mark.parametrize("garbage", [np.inf, np.nan])
def test_queries_and_keys_of_padding_may_hold_anything(variant, garbage):
    inputs = cross_inputs()
    layer = make(inputs, **variant)
    (expected,) = layer_testing.run(layer, inputs)
    for name, mask in (("queries", "query_mask"), ("keys", "key_mask")):
        inputs[name][~inputs[mask]] = garbage
    (found,) = layer_testing.run(layer, inputs)
    np.testing.assert_array_equal(found[inputs["query_mask"]], expected[inputs["query_mask"]])


def test_by_hand():
    """One head, one feature, a 1x3 kernel [2, 1, 0]: each logit is twice its left neighbor plus itself.

    Query 1; keys log 2, log 3, 0. Logits log 2, log 3, 0; convolved log 2, log 3 + 2 log 2, 2 log 3; the softmax of
    that is [2, 12, 9] / 23. Values 1, 10, 100.
    """
    layer = ConvolutionalAttention(1, (1, 3))
    inputs = {
        "queries": np.ones((1, 1, 1), "float32"),
        "keys": np.log(np.array([[[2.0], [3.0], [1.0]]], "float32")),
        "values": np.array([[[1.0], [10.0], [100.0]]], "float32"),
        "query_mask": np.ones((1, 1), bool),
        "key_mask": np.ones((1, 3), bool),
    }
    layer(**inputs)
    for weight in layer.weights:
        is_convolution = layer_testing.name_of(weight, layer.name) == "kernel"
        value = [2.0, 1.0, 0.0] if is_convolution else float(weight.name == "kernel")
        weight.assign(np.reshape(np.broadcast_to(value, np.prod(weight.shape)), weight.shape).astype("float32"))
    (out,) = layer_testing.run(layer, inputs)
    np.testing.assert_allclose(out, [[[(2 * 1 + 12 * 10 + 9 * 100) / 23]]], rtol=1e-5)


def test_dropout_falls_on_the_weights_alone():
    """If all weights are dropped, the bias of the output map is left. Outside training nothing is dropped."""
    inputs = cross_inputs()
    layer = make(inputs, dropout=1.0)
    (out,) = layer_testing.run(layer, inputs, training=True)
    bias = layer_testing.weights_of(layer)["output/bias"]
    np.testing.assert_allclose(out, np.broadcast_to(bias, out.shape), rtol=1e-6)
    layer_testing.check_forward(layer, inputs, oracle_of({}), [inputs["query_mask"]])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@variants("1x5-key", "1x5-query")
def test_half_precision_stays_close(policy, variant):
    inputs = cross_inputs()
    layer, half = make(inputs, **variant), make(inputs, **variant, dtype=policy)
    (expected,), (out,) = layer_testing.run(layer, inputs), layer_testing.run(half, inputs)
    where = inputs["query_mask"]
    assert np.abs(out - expected)[where].max() < 0.1 * np.abs(expected[where]).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel_size": (2, 5)}, "odd"),
        ({"kernel_size": (1, 4)}, "odd"),
        ({"softmax_axis": "passage"}, "softmax_axis"),
        ({"num_heads": 5}, "num_heads|heads"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    inputs = cross_inputs()
    with pytest.raises(ValueError, match=message):
        ConvolutionalAttention(**arguments)(**inputs)


def test_a_shared_initialization_needs_the_same_features():
    with pytest.raises(ValueError, match=r"the same number of features.*6 and 8"):
        ConvolutionalAttention(2, shared_query_key_init=True).build((None, None, 6), (None, None, 8), (None, None, 8))


@pytest.mark.parametrize(
    ("kernel_size", "depthwise", "expected"),
    [((1, 5), False, 40_480), (None, False, 40_400), ((3, 7), False, 40_736), ((3, 7), True, 40_484)],
)
def test_published_parameters(kernel_size, depthwise, expected):
    """Four maps of 100 x 100 with bias; h x w x 4 x 4 for the kernel, or h x w x 4 if it is depthwise."""
    layer = ConvolutionalAttention(num_heads=4, kernel_size=kernel_size, depthwise=depthwise)
    layer.build(*[(None, None, 100)] * 3)
    assert layer_testing.parameters(layer) == expected


def test_kernels_are_initialized_by_xavier():
    layer = ConvolutionalAttention(num_heads=8, kernel_size=(3, 7))
    layer.build(*[(None, None, 64)] * 3)
    weights = layer_testing.weights_of(layer)
    for name in ("query/kernel", "key/kernel", "value/kernel", "output/kernel"):
        assert abs(weights[name].var() * 64 - 1.0) < 0.1, name
    assert abs(weights["kernel"].var() * (3 * 7 * 8) - 1.0) < 0.15


def test_only_the_output_map_is_initialized_smaller():
    layer = ConvolutionalAttention(num_heads=8, residual_init_scale=0.1)
    layer.build(*[(None, None, 64)] * 3)
    weights = layer_testing.weights_of(layer)
    gains = {"query": 1.0, "key": 1.0, "value": 1.0, "output": 0.1}
    for name, gain in gains.items():
        assert abs(weights[f"{name}/kernel"].std() * 64**0.5 - gain) < 0.05 * gain, name


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
def test_a_shared_initialization_makes_similar_tokens_attend_to_each_other(depthwise):
    """Among the logits of 60 random tokens with themselves, only a shared one makes the diagonal larger."""
    x, mask = layer_testing.normal(1, 60, 64, seed=3), layer_testing.mask_of([60], 60)
    excess = {}
    for shared in (True, False):
        layer = ConvolutionalAttention(4, (3, 5), depthwise, shared_query_key_init=shared)
        layer.build(*[(None, None, 64)] * 3)
        weights = layer_testing.weights_of(layer)
        assert (weights["query/kernel"] == weights["key/kernel"]).all() == shared
        assert abs(weights["key/kernel"].var() * 64 - 1.0) < 0.1
        logits = layer_testing.as_arrays(layer.score(x, x, mask, mask))[0][0]
        excess[shared] = (logits.diagonal(axis1=1, axis2=2).mean(axis=1) - logits.mean()) / logits.std()
    assert (excess[True] > 2.0).all()
    assert (abs(excess[False]) < 1.0).all()


def test_a_shared_initialization_starts_without_a_convolution():
    inputs = cross_inputs(keys=QUERIES, key_lengths=(7, 4))
    plain = make(inputs, kernel_size=None)
    convolved = ConvolutionalAttention(HEADS, (3, 5), shared_query_key_init=True)
    convolved(**inputs)
    weights = {layer_testing.name_of(weight, plain.name): weight for weight in plain.weights}
    for weight in convolved.weights:
        name = layer_testing.name_of(weight, convolved.name)
        if name in weights:
            weight.assign(weights[name])
    outputs = (layer_testing.run(layer, inputs)[0] for layer in (convolved, plain))
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
