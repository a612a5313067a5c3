"""Compares the speed of this tree with that of an earlier commit, turn by turn.

    python benchmarks/against_commit.py --commit=bc0caf7 --dataset=dev-v1.1.json --train_dataset=train-1500.json

Both versions run in processes of their own, with weights as they begin, and take turns on the same questions, so that
what else the machine does falls on both. Printed are medians, the spread, and the median of the turns' ratios.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from absl import app, flags

flags.DEFINE_string("commit", None, "The earlier version.", required=True)
flags.DEFINE_string("dataset", "sample", "Questions to answer: a SQuAD JSON file or sample.")
flags.DEFINE_string("train_dataset", "sample", "Questions to train on.")
flags.DEFINE_list("tasks", ["inference", "training"], "What is measured.")
flags.DEFINE_integer("turns", 3, "Turns of each version.")
flags.DEFINE_string("dtype_policy", "float32", "Of this tree; the earlier version runs in float32.")
flags.DEFINE_string("json_file", None, "Where the figures are also written.")

ROOT = Path(__file__).resolve().parents[1]


def main(_) -> None:
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(earlier), flags.FLAGS.commit], check=True)
        try:
            found = _race({"earlier": (earlier, "float32"), "now": (ROOT, flags.FLAGS.dtype_policy)})
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    for task, turns in found.items():
        _report(task, turns)
    if flags.FLAGS.json_file:
        Path(flags.FLAGS.json_file).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _race(trees: dict[str, tuple[Path, str]]) -> dict[str, dict[str, list[dict]]]:
    programs = {name: _start(*tree) for name, tree in trees.items()}
    for program in programs.values():
        json.loads(program.stdout.readline())
    found = {task: {name: [] for name in programs} for task in flags.FLAGS.tasks}
    for task in flags.FLAGS.tasks:
        for turn in range(flags.FLAGS.turns):
            for name, program in programs.items():
                program.stdin.write(task + "\n")
                program.stdin.flush()
                figures = json.loads(program.stdout.readline())
                found[task][name].append(figures)
                print(f"{task} {turn + 1} {name}: {figures['speed']:.0f} questions/s", file=sys.stderr, flush=True)
    for program in programs.values():
        program.stdin.close()
        program.wait()
    return found


def _start(tree: Path, policy: str) -> subprocess.Popen:
    datasets = [
        name if name == "sample" else str(Path(name).resolve())
        for name in (flags.FLAGS.dataset, flags.FLAGS.train_dataset)
    ]
    # The program of this tree for both; the package is the one of each tree.
    command = [sys.executable, str(ROOT / "benchmarks" / "speed_turns.py"), *datasets, policy]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.Popen(
        command, env=environment, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _report(task: str, turns: dict[str, list[dict]]) -> None:
    for name, figures in turns.items():
        speeds = [figure["speed"] for figure in figures]
        processor = statistics.median(figure["processor_ms"] for figure in figures)
        print(
            f"{task}, {name}: {statistics.median(speeds):.0f} questions/s ({min(speeds):.0f} to {max(speeds):.0f}), "
            f"{processor:.1f} ms of processor time a question, peak {figures[-1]['peak_mib']:,} MiB"
        )
    ratios = [now["speed"] / earlier["speed"] for earlier, now in zip(turns["earlier"], turns["now"], strict=True)]
    print(f"{task}, now : earlier = {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    app.run(main)
