"""SequenceLogits: the passage's logits and those of [CLS]."""

import layer_testing
import numpy as np
import pytest

from fabir_tf.layers import BERT_HEADS, SequenceLogits

LENGTH = 7


def make_inputs(begins=(3, 2), ends=(6, 4)):
    places = np.arange(LENGTH)
    mask = (places >= np.reshape(begins, (-1, 1))) & (places < np.reshape(ends, (-1, 1)))
    return {"logits": layer_testing.normal(len(begins), LENGTH, 2, seed=1), "passage_mask": mask}


@pytest.mark.parametrize("policy", layer_testing.POLICIES)
def test_conformance(policy):
    layer_testing.run_layer_test(SequenceLogits, {}, make_inputs((3, 2, 0), (6, 4, 0)), policy, float32_outputs=True)


def test_by_hand():
    inputs = make_inputs()
    start, end, null = layer_testing.run(SequenceLogits(), inputs)
    low, logits = np.full(LENGTH, -1e9, "float32"), inputs["logits"]
    for row, (begin, after) in enumerate([(3, 6), (2, 4)]):
        for output, column in ((start, 0), (end, 1)):
            expected = low.copy()
            expected[begin:after] = logits[row, begin:after, column]
            np.testing.assert_array_equal(output[row], expected)
    np.testing.assert_array_equal(null, [logits[0, 0], logits[1, 0]])


def test_gradients():
    def oracle(weights, logits, passage_mask):
        return logits[..., 0], logits[..., 1], logits[:, 0]

    inputs = make_inputs()
    mask = inputs["passage_mask"]
    layer = layer_testing.built(SequenceLogits(), inputs)
    layer_testing.check_gradients(layer, inputs, oracle, [mask, mask, np.ones((2, 2), bool)], samples=20)


def test_padding():
    inputs = make_inputs((3, 2), (7, 4))
    layer = layer_testing.built(SequenceLogits(), inputs)
    axes = dict.fromkeys(inputs, "text")
    layer_testing.check_padding(layer, inputs, {"text": [7, 5]}, axes, ["text", "text", None])


@pytest.mark.parametrize("name", BERT_HEADS)
def test_it_takes_the_logits_of_every_head(name):
    """Every registered head takes a dropout and a name, and returns two float32 logits per token."""
    head = BERT_HEADS[name](dropout=0.1, name="head", dtype="mixed_bfloat16")
    logits = head(layer_testing.normal(2, LENGTH, 5, seed=2))
    assert (logits.shape, layer_testing._dtype(logits)) == ((2, LENGTH, 2), "float32")
    start, end, null = SequenceLogits()(logits, make_inputs()["passage_mask"])
    assert start.shape == end.shape == (2, LENGTH) and null.shape == (2, 2)
