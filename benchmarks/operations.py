"""Counts the operations of one answer, in the graph that the Reader traces and in the reading loop of a SavedModel.

    python benchmarks/operations.py --model=fabir-base

`Const`, `Identity`, `ReadVariableOp`, `Placeholder` and `NoOp` are not counted: they do next to nothing. Every other
operation takes time to trace, and a single question's answer takes mostly as long as its operations need to start.
"""

import collections

from absl import app, flags

NOT_COUNTED = {"Const", "Identity", "ReadVariableOp", "Placeholder", "NoOp"}
SHOWN = 12

flags.DEFINE_string("model", "fabir-base", "The reader: a run, a packed reader, or the name of one of the package's.")


def main(_) -> None:
    # Before TensorFlow, so that the Reader's graph is the one that users get.
    from fabir_tf.backends.tensorflow import as_graph
    from fabir_tf.models.deduplicated import DeduplicatedModel
    from fabir_tf.reading.reader import Reader

    import tensorflow as tf  # isort: skip

    reader = Reader.load(flags.FLAGS.model)
    of_reader = as_graph(DeduplicatedModel(reader.model)).get_concrete_function().graph
    report("the Reader", collections.Counter(node.type for node in of_reader.get_operations()))
    answer, specs = reader.in_graph().signatures()["serving_default"]
    exported = tf.function(answer, input_signature=specs).get_concrete_function().graph.as_graph_def()
    loops = [node.attr["body"].func.name for node in exported.node if node.op in ("While", "StatelessWhile")]
    bodies = [
        collections.Counter(node.op for node in function.node_def)
        for function in exported.library.function
        if function.signature.name in loops
    ]
    # The loop that reads is by far the largest.
    report("the SavedModel's reading loop", max(bodies, key=lambda body: body.total()))


def report(name: str, kinds: collections.Counter) -> None:
    """Prints how many operations there are, and which are the most frequent."""
    counted = collections.Counter({kind: count for kind, count in kinds.items() if kind not in NOT_COUNTED})
    frequent = ", ".join(f"{count} {kind}" for kind, count in counted.most_common(SHOWN))
    print(f"{name}: {counted.total():,} operations ({frequent})", flush=True)


if __name__ == "__main__":
    app.run(main)
