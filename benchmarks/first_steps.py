"""How long Keras' own fit and predict of a functional FABIR wait before they compute: this tree and an earlier version.

    python benchmarks/first_steps.py --commit=dbf94ce --turns=3

Each version runs in a process of its own, in turns. `fit` is the first step of `model.fit` on arrays, with tracing and
compiling; `fit, new shape` is the first step with longer texts, and `fit, same shape` a step after that. `unknown
lengths` are the same steps on a dataset whose lengths the graph does not know, as of `fabir_tf.batches_to_fit`. The
models are compiled with `fabir_tf.Adam`, or with Keras' where a version lacks it. The batches hold 32 questions of
random ids. Other work on the machine lengthens the seconds of the clock; those of the processor hardly.
"""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from absl import flags
from common import ROOT, draw_bars, machine, print_table, run, shown, spread, unpack_commit

flags.DEFINE_string("commit", "dbf94ce", "The earlier version, as a commit of this checkout.")

CLOCKS = ("clock", "processor")
PROGRAM = """
import json, time
import fabir_tf, keras, numpy as np, tensorflow as tf

SHAPES = ((128, 16), (200, 24))
seconds = {}

def timed(name, call):
    clocks = (time.perf_counter, time.process_time)
    begin = [clock() for clock in clocks]
    result = call()
    seconds[name] = [clock() - first for clock, first in zip(clocks, begin)]
    return result

def batch(lengths, seed, rows=32):
    random, inputs = np.random.default_rng(seed), {}
    for name, length in zip(("passage", "question"), lengths):
        inputs[name + "_words"] = random.integers(1, 400_000, (rows, length), dtype="int32")
        inputs[name + "_characters"] = random.integers(1, 300, (rows, length, 20), dtype="int32")
    columns = {name: random.integers(0, lengths[0], rows, dtype="int32") for name in ("start_logits", "end_logits")}
    return inputs, columns

def compiled():
    model = fabir_tf.build_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # The earlier version has no optimizer of its own to offer.
    model.compile(getattr(fabir_tf, "Adam", lambda: "adam")(), {"start_logits": loss, "end_logits": loss})
    return model

def unknown(inputs, targets):
    specs = {name: tf.TensorSpec([None, None, *values.shape[2:]], tf.int32) for name, values in inputs.items()}
    signature = (specs, {name: tf.TensorSpec([None], tf.int32) for name in targets})
    return tf.data.Dataset.from_generator(lambda: iter([(inputs, targets)]), output_signature=signature)

model = timed("build", compiled)
for number, (name, shape) in enumerate((("", 0), (", new shape", 1), (", same shape", 1))):
    x, y = batch(SHAPES[shape], number)
    timed("fit" + name, lambda: model.fit(x, y, batch_size=32, verbose=0))
for number, (name, shape) in enumerate((("", 0), (", new shape", 1))):
    x, _ = batch(SHAPES[shape], number)
    timed("predict" + name, lambda: model.predict(x, batch_size=32, verbose=0))
model = compiled()
for number, (name, shape) in enumerate((("", 0), (", new shape", 1), (", same shape", 1))):
    data = unknown(*batch(SHAPES[shape], number))
    timed("fit, unknown lengths" + name, lambda: model.fit(data, verbose=0))
print(json.dumps(seconds))
"""


def measure(values: flags.FlagValues) -> dict:
    """Runs both versions in turns."""
    found: dict[str, list[dict[str, list[float]]]] = {"earlier": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        unpack_commit(values.commit, folder)
        for turn in range(1, values.turns + 1):
            for name, tree in (("earlier", folder), ("now", str(ROOT))):
                found[name].append(_seconds_in(tree))
                print(f"turn {turn}, {name}: done", flush=True)
    print(f"\n{machine()['processor']}, {machine()['cores']} cores")
    return {clock: _report(clock, found) for clock in CLOCKS}


def _seconds_in(tree: str) -> dict[str, list[float]]:
    """What the program measures with the package in a folder."""
    environment = os.environ | {"PYTHONPATH": tree}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tree, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _report(clock: str, found: dict[str, list[dict[str, list[float]]]]) -> dict[str, dict]:
    """Prints the seconds of one clock, and returns their spread by version and part."""
    place = CLOCKS.index(clock)
    spreads = {
        name: {part: spread(turn[part][place] for turn in turns) for part in turns[0]} for name, turns in found.items()
    }
    parts = spreads["now"]
    rows = [(part, *(shown(of_one[part], ".1f") for of_one in spreads.values())) for part in parts]
    print_table(f"seconds of the {clock}, median (lowest to highest)", ("", *spreads), rows)
    return spreads


def draw(figure: Any, found: dict) -> None:
    """Draws the seconds of the clock."""
    spreads = found["clock"]
    names = [f"{part}, {name}" for part in spreads["now"] for name in spreads]
    axes = figure.subplots()
    draw_bars(axes, names, [spreads[name][part] for part in spreads["now"] for name in spreads], "seconds")


if __name__ == "__main__":
    run(__doc__, measure, draw)
