"""What training on several devices costs, and how far its losses are from those of one: logical devices of a CPU.

    python benchmarks/devices.py --devices=1,2,4 --turns=3

Logical devices share the cores of one processor, so no step can be faster on two: what it takes longer is the cost of
dividing it. Each number of devices trains in a process of its own; they take turns with the same batches of the same
questions, without dropout. `none` is training without --distribution. Ratios are those of a turn. The losses are the
running means after each step of the first turn; their differences are rounding.
"""

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import common
from absl import flags
from common import Contender, counts, machine, print_table, ratios, shown, spread, take_turns
from workload import READERS, TRAINING, examples_of, fit_processor, load_questions, set_threads

flags.DEFINE_string("dataset", "sample", "Questions to train on: a SQuAD JSON file or sample.")
flags.DEFINE_integer("questions", 600, "About how many; passages are taken with all of their questions.", lower_bound=1)
flags.DEFINE_list("devices", ["1", "2", "4"], "Numbers of logical devices.")
flags.DEFINE_integer("steps", 20, "Steps of a turn.", lower_bound=2)
flags.DEFINE_integer("batch_size", 32, "Questions in a batch.", lower_bound=1)
flags.DEFINE_enum("reader", "fabir", list(READERS), "The reader.")
flags.DEFINE_integer("threads", 2, "Threads of each process.", lower_bound=1)

NONE = "none"
# What a process has entered for as long as it lives.
_PROCESS = contextlib.ExitStack()


def training(reader: str, tokenized, devices: str, batch_size: int, steps: int, threads: int) -> Callable[..., dict]:
    """A process that trains some steps on request; those of the first request have traced the graph before."""
    import keras

    from fabir_tf.backends import backend
    from fabir_tf.training.devices import training_devices
    from fabir_tf.training.train import bucket_sampler, compiled_model, make_targets

    class Steps(keras.callbacks.Callback):
        """Notes when each step ends, and the mean loss so far."""

        def __init__(self):
            super().__init__()
            self.ends: list[float] = []
            self.losses: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.losses.append(float(logs["loss"]))
            self.ends.append(time.perf_counter())

    set_threads(threads)
    distribution = {} if devices == NONE else {"distribution": "mirrored", "logical_devices": int(devices)}
    settings = TRAINING.replace(batch_size=batch_size, **distribution)
    config = READERS[reader]()
    rates = [name for name in config.to_dict() if name.endswith("dropout")]
    _PROCESS.enter_context(training_devices(settings, lambda line: None))
    config, processor = fit_processor(config.replace(**dict.fromkeys(rates, 0.0)), tokenized)
    trainer = compiled_model(config, settings, processor)
    found = examples_of(tokenized)
    features = processor.features(tokenized, found.examples)
    targets = make_targets(features, found.spans)
    sampler = bucket_sampler(features, settings)
    epochs = itertools.chain.from_iterable(map(sampler.epoch, itertools.count()))

    def measure() -> dict:
        noted = Steps()
        data = backend.feed(features, itertools.islice(epochs, steps), targets, sampler.epoch(0))
        trainer.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[noted])
        return {"speed": (steps - 1) / (noted.ends[-1] - noted.ends[0]), "losses": noted.losses}

    return measure


def measure(values: flags.FlagValues) -> dict:
    """Trains on each number of devices, and prints the table."""
    names = [NONE, *map(str, counts(values, "devices"))]
    tokenized = load_questions(values.dataset, values.questions)
    sizes = (values.batch_size, values.steps, values.threads)
    with contextlib.ExitStack() as stack:
        contenders = {
            name: stack.enter_context(Contender(training, values.reader, tokenized, name, *sizes)) for name in names
        }
        # The first turn traces and compiles.
        found = take_turns(contenders, values.turns + 1, describe="{speed:.2f} steps/s".format_map)
    speeds = {name: [turn["speed"] for turn in turns[1:]] for name, turns in found.items()}
    first = {name: turns[0]["losses"] for name, turns in found.items()}
    results = {
        name: {
            "speed": spread(speeds[name]),
            "ratio": ratios(speeds[name], speeds[NONE]),
            "difference": max(abs(one - other) for one, other in zip(first[name], first[NONE], strict=True)),
            "mean_difference": abs(first[name][-1] - first[NONE][-1]),
        }
        for name in names
    }
    header = (
        "devices",
        "steps/s",
        f"of {NONE}",
        f"largest difference in {values.steps} steps",
        "of the mean loss",
    )
    rows = [
        (
            name,
            shown(row["speed"], ".2f"),
            shown(row["ratio"], ".2f"),
            f"{row['difference']:.1e}",
            f"{row['mean_difference']:.1e}",
        )
        for name, row in results.items()
    ]
    print_table(f"Training {values.reader} on {machine()['processor']}", header, rows)
    return {"devices": results, "turns": found}


def draw(figure, found: dict) -> None:
    """Draws the speeds."""
    names = list(found["devices"])
    common.draw_bars(figure.subplots(), names, [found["devices"][name]["speed"] for name in names], "steps/s")


if __name__ == "__main__":
    common.run(__doc__, measure, draw)
