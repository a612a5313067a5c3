"""Compares the speed of this tree with that of an earlier commit, turn by turn.

    python benchmarks/against_commit.py --commit=bc0caf7 --dataset=dev-v1.1.json --train_dataset=train-1500.json

Both versions run in processes of their own, with weights as they begin, and take turns on the same questions, so that
what else the machine does falls on both. Asked are a whole dataset at once (`inference`) and some of its questions one
by one, as text (`single`). Printed are medians, the spread, and the median of the turns' ratios.
"""

import subprocess
import tempfile

from absl import flags
from common import ROOT, Contender, chosen, draw_bars, print_table, ratios, run, shown, spread, take_turns
from speed_turns import version_in

TASKS = ("inference", "single", "training")

flags.DEFINE_string("commit", None, "The earlier version.")
flags.DEFINE_string("dataset", "sample", "Questions to answer: a SQuAD JSON file or sample.")
flags.DEFINE_string("train_dataset", "sample", "Questions to train on.")
flags.DEFINE_list("tasks", list(TASKS), "What is measured.")
flags.DEFINE_enum(
    "batching", "questions", ["questions", "passages"], "What this tree draws its batches of training from."
)
flags.DEFINE_enum(
    "dtype_policy",
    "float32",
    ["float32", "mixed_bfloat16", "mixed_float16"],
    "Of this tree; the earlier version runs in float32.",
)


def measure(values: flags.FlagValues) -> dict:
    """Runs the race."""
    from fabir_tf.pipelines.errors import UserError

    if not values.commit:
        raise UserError("--commit is missing: name the earlier version")
    tasks = chosen(values, "tasks", TASKS)
    data = (values.dataset, values.train_dataset)
    say = "{speed:.0f} questions/s".format_map
    with tempfile.TemporaryDirectory() as folder:
        _unpack(values.commit, folder)
        found = {}
        for task in tasks:
            # Processes of their own, too: what training asks of oneDNN would be heard by what reads in its process.
            with (
                Contender(version_in, folder, task, *data, "float32", "questions") as earlier,
                Contender(version_in, str(ROOT), task, *data, values.dtype_policy, values.batching) as now,
            ):
                found[task] = take_turns({"earlier": earlier, "now": now}, values.turns, task, say=say)
    return {task: _report(task, turns) for task, turns in found.items()}


def _unpack(commit: str, folder: str) -> None:
    """Writes a commit's files into a folder; git keeps no note of them, as it would of a worktree."""
    from fabir_tf.pipelines.errors import UserError

    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    if archive.returncode:
        raise UserError(f"--commit={commit}: git finds no such commit in {ROOT}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def _report(task: str, turns: dict[str, list[dict]]) -> dict:
    speeds = {name: [figures["speed"] for figures in of_one] for name, of_one in turns.items()}
    ratio = ratios(speeds["now"], speeds["earlier"])
    rows = [
        (
            name,
            shown(spread(speeds[name])),
            shown(spread(figures["processor_ms"] for figures in of_one), ".1f"),
            f"{of_one[-1]['peak_mib']:,}",
        )
        for name, of_one in turns.items()
    ]
    print_table(
        f"{task}: now : earlier = {shown(ratio, '.2f')}",
        ("", "questions/s", "ms of processor time a question", "peak MiB"),
        rows,
    )
    return {"turns": turns, "speed": {name: spread(of_one) for name, of_one in speeds.items()}, "ratio": ratio}


def draw(figure, found: dict) -> None:
    """A bar for each version, a panel for each task."""
    for axes, (task, result) in zip(figure.subplots(len(found), squeeze=False)[:, 0], found.items(), strict=True):
        draw_bars(axes, list(result["speed"]), list(result["speed"].values()), "questions/s")
        axes.set_title(task)


if __name__ == "__main__":
    run(__doc__, measure, draw)
