"""How long BERT's GELU takes, as Keras computes it and as this package does.

    python benchmarks/gelu.py --rows=6336 --features=1536 --turns=5

The default is the hidden layer of MiniLM for 36 sequences of 176 pieces. The error is the largest difference from GELU
in float64, on the values in the precision that is measured.
"""

import functools
import math
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from common import draw_bars, print_table, run, show_turn, shown, spread

from fabir_tf.backends.gelu import fused_gelu
from fabir_tf.layers.blocks.bert_layer import ACTIVATIONS
from fabir_tf.pipelines.errors import UserError

flags.DEFINE_integer("rows", 6336, "Pieces of a batch.", lower_bound=1)
flags.DEFINE_integer("features", 1536, "Features of the hidden layer.", lower_bound=1)
flags.DEFINE_enum("precision", "bfloat16", ["bfloat16", "float32"], "Type of the values.")
flags.DEFINE_integer("repeats", 5, "Calls of each function in a turn.", lower_bound=1)

KERAS, READING, TRAINING = "Keras'", "in a reader", "in training"


def measure(values: flags.FlagValues) -> dict:
    """Times all functions in turns."""
    fused = fused_gelu()
    if fused is None:
        raise UserError("found TensorFlow without XLA, expected one with it")
    functions = {
        KERAS: functools.partial(keras.ops.gelu, approximate=False),
        READING: ACTIVATIONS["gelu"],
        TRAINING: fused,
    }
    generator = tf.random.Generator.from_seed(1)
    x, gradient = (tf.cast(generator.normal((values.rows, values.features)), values.precision) for _ in range(2))
    calls = {name: _calls(function) for name, function in functions.items()}
    seconds: dict[str, dict[str, list[float]]] = {name: {"forward": [], "both": []} for name in calls}
    errors = {name: _error(forward(x), x) for name, (forward, _) in calls.items()}
    for turn in range(values.turns):
        for name, (forward, both) in calls.items():
            seconds[name]["forward"].append(_time(functools.partial(forward, x), values.repeats))
            seconds[name]["both"].append(_time(functools.partial(both, x, gradient), values.repeats))
        show_turn(turn + 1, values.turns, f"{TRAINING}: {1000 * seconds[TRAINING]['both'][-1]:.1f} ms")
    found = {
        name: {part: spread([1000 * one for one in times]) for part, times in parts.items()} | {"error": errors[name]}
        for name, parts in seconds.items()
    }
    rows = [
        (name, shown(one["forward"], ".1f"), shown(one["both"], ".1f"), f"{one['error']:.4f}")
        for name, one in found.items()
    ]
    head = ("GELU", "forward, ms", "and backward, ms", "largest error")
    print_table(f"({values.rows}, {values.features}) in {values.precision}", head, rows)
    return found


def _calls(function: Callable) -> tuple[Callable, Callable]:
    """A function, and the same with its gradient, each as a graph."""

    def both(x, gradient):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, gradient)

    return tf.function(function, autograph=False), tf.function(both, autograph=False)


def _error(found: tf.Tensor, x: tf.Tensor) -> float:
    values = tf.cast(x, tf.float64).numpy()
    expected = values * 0.5 * (1 + np.vectorize(math.erf)(values / math.sqrt(2)))
    return float(np.abs(tf.cast(found, tf.float64).numpy() - expected).max())


def _time(call: Callable[[], object], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats


def draw(figure, found: dict) -> None:
    """Draws the milliseconds of value and gradient."""
    draw_bars(
        figure.subplots(), list(found), [one["both"] for one in found.values()], "milliseconds, value and gradient"
    )


if __name__ == "__main__":
    run(__doc__, measure, draw, turns=5)
