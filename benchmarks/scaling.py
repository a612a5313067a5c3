"""How speed and memory depend on the passage length, the number of questions in a batch, and the threads.

    python benchmarks/scaling.py --json_file=scaling.json --picture=scaling.png

Only the forward pass of the published model is measured, without padding; every question has a passage of its own. Each
point and turn gets a new process, so that its peak memory is its own. `without a batch` is the memory of a process
before it reads anything: libraries and weights.
"""

import dataclasses
import time

from absl import flags
from common import Contender, counts, peak_mib, print_table, run, show_turn, shown, spread

flags.DEFINE_list("passages", "32,64,128,256,512,1024,2048,4096", "Tokens of a passage; may be empty.")
flags.DEFINE_list("batches", "1,4,16,64,256", "Questions in a batch; may be empty.")
flags.DEFINE_list("threads", "1,2", "Threads; may be empty.")
flags.DEFINE_integer("passage_tokens", 4096, "Passage tokens of a batch while the passages vary.", lower_bound=1)
flags.DEFINE_integer("passage", 140, "Tokens of a passage while batches or threads vary.", lower_bound=1)
flags.DEFINE_integer("batch", 64, "Questions in a batch while the threads vary.", lower_bound=1)
flags.DEFINE_integer("question", 12, "Tokens of a question.", lower_bound=1)
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Precision of the layers.")
flags.DEFINE_integer("all_threads", 2, "Threads while anything else varies.", lower_bound=1)
flags.DEFINE_float("seconds", 1.0, "Least time for a point in a turn.", lower_bound=0.0)


@dataclasses.dataclass(frozen=True)
class Point:
    """What one process measures."""

    passage: int
    question: int
    batch: int
    threads: int
    precision: str


def measure(values: flags.FlagValues) -> dict:
    """Measures all points in turns."""
    from fabir_tf.pipelines.errors import UserError

    series = _series(values)
    points = list(dict.fromkeys(point for of_one in series.values() for point in of_one))
    if not points:
        raise UserError("--passages, --batches and --threads are all empty: name at least one value")
    turns = {point: [] for point in points}
    for turn in range(1, values.turns + 1):
        for point in points:
            with Contender(_forward, point, values.seconds) as process:
                turns[point].append(process.ask())
            speed = f"{turns[point][-1]['speed']:,.1f} questions/s"
            threads = f"{point.threads} threads" if point.threads > 1 else "1 thread"
            show_turn(turn, values.turns, f"{point.batch} x {point.passage} tokens, {threads}: {speed}")
    found = {name: [_row(point, turns[point]) for point in of_one] for name, of_one in series.items() if of_one}
    for name, rows in found.items():
        _report(name, rows)
    return found


def _series(values: flags.FlagValues) -> dict[str, list[Point]]:
    """The points of each series, by the name of what varies in it."""
    usual = Point(values.passage, values.question, values.batch, values.all_threads, values.precision)
    changes = {
        "passage": [
            {"passage": passage, "batch": max(1, values.passage_tokens // passage)}
            for passage in counts(values, "passages")
        ],
        "batch": [{"batch": batch} for batch in counts(values, "batches")],
        "threads": [{"threads": threads} for threads in counts(values, "threads")],
    }
    return {name: [dataclasses.replace(usual, **change) for change in of_one] for name, of_one in changes.items()}


def _forward(point: Point, seconds: float):
    """A function that measures a point, in its process."""
    from workload import READERS, fresh_model, random_batch, set_threads

    from fabir_tf.backends.tensorflow import as_graph
    from fabir_tf.models.deduplicated import DeduplicatedModel

    set_threads(point.threads)
    # A small word table: the published one would take most of the memory and none of the time.
    config = READERS["fabir"](frozen_words=1000)
    forward = as_graph(DeduplicatedModel(fresh_model(config, point.precision)))
    inputs = random_batch(config, (point.batch, point.passage), (point.batch, point.question))
    empty_mib = peak_mib()

    def answer() -> dict[str, float]:
        forward(inputs)
        begin, batches = time.perf_counter(), 0
        while not batches or time.perf_counter() - begin < seconds:
            forward(inputs)
            batches += 1
        taken = (time.perf_counter() - begin) / batches
        return {"speed": point.batch / taken, "ms": 1000 * taken, "peak_mib": peak_mib(), "empty_mib": empty_mib}

    return answer


def _row(point: Point, turns: list[dict]) -> dict:
    spreads = {name: spread(turn[name] for turn in turns) for name in turns[0]}
    return dataclasses.asdict(point) | spreads | {"turns": turns}


def _report(name: str, rows: list[dict]) -> None:
    header = (name, "questions", "passage", "threads", "questions/s", "ms a batch", "peak MiB", "without a batch, MiB")
    print_table(
        f"by {name}, questions of {rows[0]['question']} tokens, {rows[0]['precision']}",
        header,
        [
            (
                row[name],
                row["batch"],
                row["passage"],
                row["threads"],
                shown(row["speed"], ",.1f"),
                shown(row["ms"], ",.1f"),
                shown(row["peak_mib"]),
                shown(row["empty_mib"]),
            )
            for row in rows
        ],
    )


def draw(figure, found: dict) -> None:
    """Draws speed above memory, a column for each series."""
    figure.set_size_inches(3.5 * len(found), 5)
    for (above, below), (name, rows) in zip(
        figure.subplots(2, len(found), squeeze=False).T, found.items(), strict=True
    ):
        for axes, what, label in ((above, "speed", "questions/s"), (below, "peak_mib", "peak MiB")):
            medians = [row[what]["median"] for row in rows]
            errors = [[abs(row[what]["median"] - row[what][end]) for row in rows] for end in ("low", "high")]
            axes.errorbar([row[name] for row in rows], medians, errors, fmt="o-", capsize=3)
            axes.set(xlabel=name, ylabel=label)
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)


if __name__ == "__main__":
    run(__doc__, measure, draw)
