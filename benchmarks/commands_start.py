"""Compares the processor time of whole commands, which is mostly their start, with that of an earlier version.

    python benchmarks/commands_start.py --commit=3a71a10 --turns=3
    python benchmarks/commands_start.py --tree=../earlier --commands=predict

Each command is a process of its own, and the versions take turns. `predict` answers a question with fabir-base, `train`
trains a small FABIR for an epoch of four passages, `export` writes fabir-base as a SavedModel, `convert` writes four
passages as CSV, and `serve` is told to end as soon as fabir-base can be asked. The ratio is the earlier version's time
divided by this tree's: 1 is equal, more is faster now.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import flags
from common import ROOT, chosen, draw_bars, machine, print_table, ratios, run, show_turn, shown, spread
from earlier_version import earlier_version

from fabir_tf.pipelines.errors import UserError

SMALL = ("--num_layers=1", "--d_model=20", "--num_heads=2", "--reduction_hidden_dim=20", "--hidden_dim=20")
DATA = ("--dataset=data.json", "--eval_dataset=data.json")
COMMANDS = {
    "predict": ("--model=fabir-base", "--question=Who built it?", "--passage=Anna Keld built it."),
    "train": (*SMALL, "--vectors=none", "--epochs=1", "--run_dir=run", "--cache_dir=", *DATA),
    "export": ("--model=fabir-base", "--export_dir=exported", "--calibration_dataset=none"),
    "convert": ("--input_file=data.json", "--output_file=data.csv"),
    "serve": ("--model=fabir-base", "--rest_api_port=0", "--grpc_port=-1"),
}
PASSAGES = 4

flags.DEFINE_string("commit", None, "The earlier version, as a commit of this checkout.")
flags.DEFINE_string("tree", None, "The earlier version, as a folder, in place of --commit.")
flags.DEFINE_list("commands", list(COMMANDS), f"Commands to run, some of {', '.join(COMMANDS)}.")


def measure(values: flags.FlagValues) -> dict:
    """Runs the commands of both versions in turns."""
    commands = chosen(values, "commands", COMMANDS)
    with earlier_version(values) as earlier:
        trees = {"earlier": earlier, "now": str(ROOT)}
        found = {}
        for command in commands:
            seconds: dict[str, list[float]] = {name: [] for name in trees}
            for turn in range(1, values.turns + 1):
                for name, tree in trees.items():
                    seconds[name].append(_seconds(tree, command, COMMANDS[command]))
                    show_turn(turn, values.turns, f"{command}, {name}: {seconds[name][-1]:.2f} s of processor time")
            found[command] = {name: spread(times) for name, times in seconds.items()}
            found[command]["ratio"] = ratios(seconds["earlier"], seconds["now"])
    print_table(
        f"Seconds of processor time, {machine()['processor']}, {values.turns} turns",
        ("", "earlier", "now", "earlier / now"),
        [(name, *(shown(row[part], ".2f") for part in ("earlier", "now", "ratio"))) for name, row in found.items()],
    )
    return found


def _seconds(tree: str, command: str, arguments: Sequence[str]) -> float:
    """Seconds of processor time of one command, in an empty folder with a few questions."""
    from fabir_tf.pipelines.datasets.sources import load_dataset
    from fabir_tf.pipelines.datasets.squad import select_passages, squad_to_json

    data = load_dataset("sample", "dev")
    few = select_passages(data, [number < PASSAGES for number in range(len(data.passages))])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data.json").write_text(json.dumps(squad_to_json(few)), encoding="utf-8")
        line = [sys.executable, "-m", "fabir_tf.commands.entry", command, *arguments]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen(
            line, cwd=folder, env=os.environ | {"PYTHONPATH": tree}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            process.stdout.readline()
            if command == "serve":
                process.terminate()
            process.stdout.read()
        if process.returncode:
            raise UserError(f"fabir-{command} of {tree} has ended with status {process.returncode}, expected 0")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def draw(figure, found: dict) -> None:
    """A bar for each version, a panel for each command."""
    for axes, (command, row) in zip(figure.subplots(len(found), squeeze=False)[:, 0], found.items(), strict=True):
        draw_bars(axes, ["earlier", "now"], [row["earlier"], row["now"]], "s of processor time")
        axes.set_title(command)


if __name__ == "__main__":
    run(__doc__, measure, draw)
