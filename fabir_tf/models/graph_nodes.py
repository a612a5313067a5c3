"""How the layers of a functional model are connected: the only module that uses private attributes of Keras.

Keras has no public way from a symbolic tensor to the call that made it.
"""

from typing import Any

import keras


def call_of(tensor: keras.KerasTensor) -> tuple[keras.Operation, Any]:
    """The operation that made a symbolic tensor, and the node of that call.

    Args:
        tensor: a tensor of a functional model.

    Returns:
        The operation, and a node with `input_tensors`, `outputs` and `arguments`.
    """
    operation, number, _ = tensor._keras_history
    return operation, operation._inbound_nodes[number]


def calls_to(layer: keras.layers.Layer) -> list[Any]:
    """The nodes of all calls to a layer, in the order in which they were made.

    Args:
        layer: a layer of a functional model.
    """
    return list(layer._inbound_nodes)
