"""How layers are connected: the operation behind a tensor, and every call to a layer."""

import keras
import numpy as np

from fabir_tf.models.graph_nodes import call_of, calls_to


def test_the_call_that_made_a_tensor():
    x = keras.Input((3,), name="x")
    y = keras.Input((3,), name="y")
    dense = keras.layers.Dense(3)
    add = keras.layers.Add()
    first, second = dense(x), dense(y)
    total = add([first, second])
    # A layer that is called twice has a node for each call.
    for tensor, source in ((first, x), (second, y)):
        operation, node = call_of(tensor)
        assert operation is dense
        assert [id(part) for part in node.input_tensors] == [id(source)]
        assert [id(part) for part in node.outputs] == [id(tensor)]
    operation, node = call_of(total)
    assert operation is add
    assert [id(part) for part in node.input_tensors] == [id(first), id(second)]


def test_the_calls_to_a_layer():
    x = keras.Input((3,))
    dense, unused = keras.layers.Dense(3), keras.layers.Dense(3)
    first = dense(x)
    outputs = [first, dense(first)]
    calls = calls_to(dense)
    assert [id(node.outputs[0]) for node in calls] == [id(tensor) for tensor in outputs]
    assert calls_to(unused) == []
    # A copy: what is done with it does not change the layer.
    calls.clear()
    assert len(calls_to(dense)) == 2


def test_an_input_is_made_by_no_other_tensor():
    x = keras.Input((3,), name="x")
    operation, node = call_of(x)
    assert isinstance(operation, keras.layers.InputLayer)
    assert list(node.input_tensors) == []


def test_arguments_are_filled_in_with_values():
    """Positional and named arguments, tensors and others, as in the call."""

    class Scale(keras.layers.Layer):
        def call(self, inputs, other=None, factor=1.0):
            return factor * inputs + other

    x, y = keras.Input((2,)), keras.Input((2,))
    operation, node = call_of(Scale()(x, other=y, factor=3.0))
    values = {id(x): np.array([[1.0, 2.0]]), id(y): np.array([[10.0, 20.0]])}
    args, kwargs = node.arguments.fill_in(values)
    np.testing.assert_array_equal(operation(*args, **kwargs), [[13.0, 26.0]])


def test_operations_without_a_layer_are_found():
    x = keras.Input((2,))
    operation, node = call_of(keras.ops.exp(x))
    assert not isinstance(operation, keras.layers.Layer)
    assert [id(part) for part in node.input_tensors] == [id(x)]


def test_several_outputs_of_one_call_have_one_node():
    x = keras.Input((5, 4))
    sequence, state = keras.layers.GRU(3, return_sequences=True, return_state=True)(x)
    (one, node), (other, same) = call_of(sequence), call_of(state)
    assert one is other
    assert node is same
    assert [id(part) for part in node.outputs] == [id(sequence), id(state)]
