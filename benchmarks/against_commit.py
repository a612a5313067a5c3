"""Compares the processor time of this tree with that of an earlier version, in alternating turns.

    python benchmarks/against_commit.py --commit=dbf94ce --turns=10
    python benchmarks/against_commit.py --tree=../earlier --dataset=dev-v1.1.json --train_dataset=train-1500.json

Each version runs in a process of its own with the weights of its own fabir-base. Both read the same questions in turns,
so other work on the machine affects both. `inference` answers a whole dataset whose words are looked up already,
`training` trains one epoch, and `single` answers some questions one by one, as text. The ratio is the earlier version's
processor time divided by this tree's: 1 is equal, more is faster now. It is the median of the turns' ratios; its 95 %
interval is from a bootstrap over the turns.
"""

from pathlib import Path

from absl import flags
from common import (
    ROOT,
    Contender,
    chosen,
    draw_bars,
    machine,
    median_interval,
    print_table,
    run,
    shown,
    spread,
    take_turns,
)
from earlier_version import earlier_version
from speed_turns import version_in

TASKS = ("inference", "training", "single")

flags.DEFINE_string("commit", None, "The earlier version, as a commit of this checkout.")
flags.DEFINE_string("tree", None, "The earlier version, as a folder, in place of --commit.")
flags.DEFINE_string("dataset", "sample", "Questions to answer: a SQuAD JSON file or sample.")
flags.DEFINE_string("train_dataset", "sample", "Questions to train on: a SQuAD JSON file or sample.")
flags.DEFINE_list("tasks", ["inference", "training"], f"What is measured, some of {', '.join(TASKS)}.")
flags.DEFINE_enum(
    "batching", "questions", ["questions", "passages"], "The units that this tree draws its batches of training from."
)
flags.DEFINE_enum(
    "dtype_policy",
    "float32",
    ["float32", "mixed_bfloat16", "mixed_float16"],
    "Precision of this tree; the earlier version runs in float32.",
)


def measure(values: flags.FlagValues) -> dict:
    """Runs the race."""
    tasks = chosen(values, "tasks", TASKS)
    data = (_file(values.dataset, "dev"), _file(values.train_dataset, "train"))
    describe = "{processor_ms:.2f} ms of processor time a question".format_map
    with earlier_version(values) as tree:
        found = {}
        for task in tasks:
            # A process for each task, because training changes oneDNN's settings for its whole process.
            with (
                Contender(version_in, tree, task, *data, "float32", "questions") as earlier,
                Contender(version_in, str(ROOT), task, *data, values.dtype_policy, values.batching) as now,
            ):
                found[task] = take_turns({"earlier": earlier, "now": now}, values.turns, task, describe=describe)
    print(f"\n{machine()['processor']}, {machine()['cores']} cores")
    return {task: _report(task, turns) for task, turns in found.items()}


def _file(dataset: str, split: str) -> str:
    """The file of a dataset: each version comes with a sample of its own, and both must read the same questions."""
    from fabir_tf.pipelines.datasets.sources import BUNDLED

    return str(BUNDLED / f"sample-{split}.json") if dataset == "sample" else str(Path(dataset).expanduser().resolve())


def _report(task: str, turns: dict[str, list[dict]]) -> dict:
    times = {name: [figures["processor_ms"] for figures in of_one] for name, of_one in turns.items()}
    ratio = median_interval([one / other for one, other in zip(times["earlier"], times["now"], strict=True)])
    speeds = {name: spread(figures["speed"] for figures in of_one) for name, of_one in turns.items()}
    rows = [
        (name, shown(spread(times[name]), ".2f"), shown(speeds[name]), f"{of_one[-1]['peak_mib']:,}")
        for name, of_one in turns.items()
    ]
    interval = f"95 % interval {ratio['low']:.3f} to {ratio['high']:.3f}"
    print_table(
        f"{task}, {turns['now'][0]['questions']:,} questions, {len(times['now'])} turns: "
        f"processor time, earlier / now = {ratio['median']:.3f} ({interval})",
        ("", "ms of processor time a question", "questions/s", "peak MiB"),
        rows,
    )
    return {"turns": turns, "speed": speeds, "ratio": ratio}


def draw(figure, found: dict) -> None:
    """A bar for each version, a panel for each task."""
    for axes, (task, result) in zip(figure.subplots(len(found), squeeze=False)[:, 0], found.items(), strict=True):
        draw_bars(axes, list(result["speed"]), list(result["speed"].values()), "questions/s")
        axes.set_title(task)


if __name__ == "__main__":
    run(__doc__, measure, draw, turns=10)
