"""How much faster training is where the questions of a batch have passages of similar length.

    python benchmarks/length_buckets.py --dataset=train.json --questions=3000

The thesis (section 6.2) puts questions into 30 groups by length, draws each batch inside one group, and trains more
than 2.5 times as fast as with batches of any length. Here the same epoch is trained with each number of groups in
turns, each in a process of its own. Ratios are those of a turn, so that other work on the machine affects both sides.
"""

import contextlib
from collections.abc import Callable

import common
from absl import flags
from common import Contender, counts, ratios, shown, take_turns, timed
from workload import READERS, Training, load_questions, set_threads

flags.DEFINE_string("dataset", "sample", "Questions to train on: a SQuAD JSON file or sample.")
flags.DEFINE_integer(
    "questions", 1500, "About how many; passages are taken with all of their questions.", lower_bound=1
)
flags.DEFINE_list("buckets", ["1", "30"], "Numbers of buckets; the first is compared with the others.")
flags.DEFINE_enum("reader", "fabir", list(READERS), "The reader.")
flags.DEFINE_integer("threads", 2, "Threads of each process.", lower_bound=1)


def training(reader: str, tokenized, buckets: int, threads: int) -> Callable[..., dict]:
    """A process that trains one epoch on request; the first epoch, which compiles kernels, is not measured."""
    set_threads(threads)
    trained = Training(reader, tokenized, "float32", "questions", buckets)
    trained.train(trained.epoch())

    def measure() -> dict:
        return timed(lambda: trained.train(trained.epoch())) | {"padding": float(trained.padding)}

    return measure


def measure(values: flags.FlagValues) -> dict:
    """Trains with each number of buckets, and prints the table."""
    buckets = counts(values, "buckets")
    tokenized = load_questions(values.dataset, values.questions)
    with contextlib.ExitStack() as stack:
        contenders = {
            str(number): stack.enter_context(Contender(training, values.reader, tokenized, number, values.threads))
            for number in buckets
        }
        found = take_turns(contenders, values.turns, describe="{speed:.1f} questions/s".format_map)
    speeds = {name: [turn["speed"] for turn in turns] for name, turns in found.items()}
    first = speeds[str(buckets[0])]
    results = {
        name: {
            "speed": common.spread(speeds[name]),
            "ratio": ratios(speeds[name], first),
            "padding": found[name][0]["padding"],
        }
        for name in found
    }
    rows = [
        (name, shown(row["speed"], ".1f"), f"{100 * row['padding']:.1f} %", shown(row["ratio"], ".2f"))
        for name, row in results.items()
    ]
    common.print_table("Training", ("buckets", "questions/s", "padding", f"of {buckets[0]}"), rows)
    return {"buckets": results, "turns": found}


def draw(figure, found: dict) -> None:
    """Draws the speeds."""
    names = list(found["buckets"])
    common.draw_bars(figure.subplots(), names, [found["buckets"][name]["speed"] for name in names], "questions/s")


if __name__ == "__main__":
    common.run(__doc__, measure, draw)
