"""A reader's model as a graph without variables, and that graph as ONNX, LiteRT or OpenVINO."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from fabir_tf.backends.tensorflow import PORTABLE_KERNELS
from fabir_tf.edge.runtimes import RUNTIMES
from fabir_tf.layers.core.backend_kernels import backend_kernels
from fabir_tf.layers.core.shared_values import shared_values
from fabir_tf.pipelines.text.word_vectors import dequantise_rows, quantise_rows

if TYPE_CHECKING:
    from fabir_tf.reading.reader import Reader

Graph = Any
"""A concrete function from a model's inputs to its outputs, by name."""

# ONNX Runtime reads it since its version 1.12 of 2022.
OPSET = 17


@dataclasses.dataclass(frozen=True)
class Converter:
    """How a graph becomes a model of one format.

    Attributes:
        write: takes the graph, the file to write, and whether weights get 8 bits.
        packages: what it imports besides TensorFlow, by the name for `pip install`.
        batch: examples of a batch; None for any number.
        quantizations: what it can do to the weights.
        half_precision: whether the runtime reads float16 constants.
    """

    write: Callable[[Graph, Path, bool], None]
    packages: dict[str, str]
    batch: int | None = None
    quantizations: tuple[str, ...] = ("none",)
    half_precision: bool = True


def model_graph(reader: "Reader", batch: int | None, quantise: bool, half_precision: bool) -> Graph:
    """The model of a reader as a graph whose weights are constants.

    A frozen table of word vectors has 8 bits and a scale per row where that loses nothing, as in a packed reader, or
    where weights are quantized anyway.

    Args:
        reader: a trained reader, in float32.
        batch: examples of a batch; None for any number.
        quantise: whether weights get 8 bits.
        half_precision: whether the graph may hold float16 constants.

    Returns:
        The graph. It takes the model's inputs, such as `passage_words`, by name, and returns its outputs by name.
    """
    model, specs = reader.model, reader.processor.input_specs
    names = [tensor.name for tensor in model.inputs]
    tables = {
        id(model.get_layer(layer).frozen_table): _TableForm(table, quantise, half_precision)
        for layer, table in reader.processor.frozen_tables.items()
    }
    parts = model.trainable_variables, model.non_trainable_variables
    # Here, because a graph has no values.
    arrays = {id(weight): weight.numpy() for part in parts for weight in part if id(weight) not in tables}

    def computed(**inputs):
        lookups = {table: form.lookup() for table, form in tables.items()}

        def take(values, indices, axis: int = 0):
            lookup = lookups.get(id(values))
            return lookup(indices) if lookup else tf.gather(values, indices, axis=axis)

        def constant(weight):
            # A table is replaced by its lookup.
            array = arrays.get(id(weight))
            return tf.zeros(weight.shape, weight.dtype) if array is None else tf.constant(array)

        # Each weight once, however often the model reads it.
        weights = [[constant(weight) for weight in part] for part in parts]
        with shared_values(), backend_kernels(PORTABLE_KERNELS | {"take": take}):
            return model.stateless_call(*weights, inputs, training=False)[0]

    signature = {name: tf.TensorSpec((batch, *specs[name][0][1:]), specs[name][1], name) for name in names}
    return tf.function(computed, autograph=False).get_concrete_function(**signature)


class _TableForm:
    """A frozen table as constants of a graph.

    Args:
        table: float16 `(rows, dim)`.
        quantise: whether it gets 8 bits even where that loses digits.
        half_precision: whether float16 constants are allowed.
    """

    def __init__(self, table: np.ndarray, quantise: bool, half_precision: bool):
        quantised, scales = quantise_rows(table)
        self._is_quantised = quantise or np.array_equal(dequantise_rows(quantised, scales), table)
        self._arrays = [quantised, scales.astype(np.float32)] if self._is_quantised else [np.asarray(table)]
        if not self._is_quantised and not half_precision:
            self._arrays = [table.astype(np.float32)]

    def lookup(self) -> Callable:
        """What returns the rows of some indices in float32; the constants are made in the current graph."""
        rows, *scales = map(tf.constant, self._arrays)

        def look_up(indices):
            found = tf.cast(tf.gather(rows, indices), tf.float32)
            if not scales:
                return found
            # Rounded as `dequantise_rows` rounds.
            product = tf.cast(found * tf.gather(scales[0], indices)[..., None], tf.float16)
            return tf.cast(product, tf.float32)

        return look_up


def _write_onnx(graph: Graph, path: Path, quantise: bool) -> None:
    from tf2onnx import optimizer, tfonnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    inputs = {tensor.name: tensor.op.name for tensor in graph.inputs}
    outputs = {tensor.name: name for name, tensor in graph.structured_outputs.items()}
    with tf.Graph().as_default() as plain:
        tf.import_graph_def(graph.graph.as_graph_def(), name="")
    # One of its optimizers merges Reshape nodes that then fail for other lengths than the first.
    optimizers = {name: made for name, made in optimizer._get_optimizers().items() if name != "remove_back_to_back"}
    converted = tfonnx.process_tf_graph(
        plain,
        opset=OPSET,
        input_names=list(inputs),
        output_names=list(outputs),
        tensors_to_rename=inputs | outputs,
        custom_op_handlers={"Erfc": (_erfc_as_erf, [])},
    )
    optimized = optimizer.optimize_graph(converted, optimizers=optimizers)
    path.write_bytes(optimized.make_model("fabir_tf").SerializeToString())


def _erfc_as_erf(graph: Any, node: Any, name: str, args: list) -> None:
    """Writes Keras' exact GELU, whose `erfc(x)` ONNX lacks, as `1 - erf(x)`."""
    shape, dtype = graph.get_shape(node.output[0]), graph.get_dtype(node.output[0])
    one = graph.make_const(f"{name}/one", np.ones([], np.float32)).output[0]
    erf = graph.make_node("Erf", [node.input[0]], name=f"{name}/erf", shapes=[shape], dtypes=[dtype]).output[0]
    graph.remove_node(node.name)
    graph.make_node("Sub", [one, erf], name=name, outputs=[node.output[0]], shapes=[shape], dtypes=[dtype])


def _write_litert(graph: Graph, path: Path, quantise: bool) -> None:
    converter = tf.lite.TFLiteConverter.from_concrete_functions([graph], tf.Module())
    converter.optimizations = [tf.lite.Optimize.DEFAULT] if quantise else []
    path.write_bytes(converter.convert())


def _write_openvino(graph: Graph, path: Path, quantise: bool) -> None:
    import openvino

    model = openvino.convert_model(graph)
    for tensor in (*model.inputs, *model.outputs):
        # Some have the name of a node, too, which would be read instead.
        (name,) = tensor.names & {*graph.structured_outputs, *(one.op.name for one in graph.inputs)}
        tensor.get_tensor().set_names({name})
    openvino.save_model(model, str(path), compress_to_fp16=False)


CONVERTERS = {
    "onnx": Converter(_write_onnx, {"tf2onnx": "tf2onnx", "onnxruntime": "onnxruntime"}),
    "litert": Converter(_write_litert, {"ai_edge_litert": "ai-edge-litert"}, 1, ("none", "int8"), half_precision=False),
    "openvino": Converter(_write_openvino, {"openvino": "openvino"}),
}
"""By the name of the format, as in `RUNTIMES`."""
assert CONVERTERS.keys() == RUNTIMES.keys()
