"""fabir-beam on several processes beside fabir-predict: passages a second, and whether the answers are the same.

    beam/bin/python benchmarks/batch_reading.py --dataset=dev-v1.1.json --processes=1,2

needs an environment with the extra `beam`. The reader is exported first, unless --saved_model names it. Seconds are
those of whole commands, loading and the start of Apache Beam included; the runs take turns. Each has all ids, once.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from absl import app, flags
from common import ROOT, machine, print_table

flags.DEFINE_string("dataset", None, "File of questions, in any format of fabir-convert.", required=True)
flags.DEFINE_string("model", "fabir-base", "Reader.")
flags.DEFINE_string("saved_model", None, "Its SavedModel, of a version.")
flags.DEFINE_list("processes", ["1", "2"], "Numbers of processes.")
flags.DEFINE_integer("shard_records", 500, "Records of a shard.")
flags.DEFINE_integer("turns", 2, "Runs of each.")
flags.DEFINE_string("json_file", None, "File for all figures.")

PREDICT = "fabir-predict"


def main(_) -> None:
    values = flags.FLAGS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = measure(values, folder)
    columns = ("run", "seconds", "questions_per_second", "different_answers", "probability_difference")
    print_table("batch reading", columns, [[cell(row[column]) for column in columns] for row in found["runs"]])
    if values.json_file:
        Path(values.json_file).write_text(json.dumps({"machine": machine()} | found, indent=2) + "\n", encoding="utf-8")


def measure(values: flags.FlagValues, folder: Path) -> dict:
    """The figures of all runs."""
    rows = folder / "rows.jsonl"
    command("convert", f"--input_file={values.dataset}", f"--output_file={rows}")
    if not values.saved_model:
        command("export", f"--model={values.model}", f"--export_dir={folder / 'exported'}")
    saved_model = values.saved_model or folder / "exported" / "1"
    runs: dict[str, Callable[[Path], dict]] = {PREDICT: lambda output: predict(values.model, rows, output)}
    for count in map(int, values.processes):
        runs[f"fabir-beam, {count} processes"] = lambda output, count=count: beam(
            saved_model, rows, output, count, values.shard_records
        )
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    answers: dict[str, dict] = {}
    for turn in range(values.turns):
        for name, run in runs.items():
            begin = time.monotonic()
            answers[name] = run(folder / f"{turn} {name}")
            seconds[name].append(time.monotonic() - begin)
            print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    return {"seconds": seconds, "runs": [figures(name, seconds[name], answers) for name in runs]}


def figures(name: str, seconds: list[float], answers: dict[str, dict]) -> dict:
    """One run's figures, and its answers beside those of fabir-predict."""
    expected, found = answers[PREDICT], answers[name]
    if expected.keys() != found.keys():
        sys.exit(f"{name} answered {len(found):,} questions, and {PREDICT} {len(expected):,}")
    return {
        "run": name,
        "seconds": statistics.median(seconds),
        "questions_per_second": len(found) / statistics.median(seconds),
        "different_answers": sum(text(found[key]) != text(one) for key, one in expected.items()),
        "probability_difference": max(
            abs(found[key]["probability"] - one["probability"]) for key, one in expected.items()
        ),
    }


def predict(model: str, rows: Path, output: Path) -> dict:
    """Answers by id."""
    command("predict", f"--model={model}", f"--input_file={rows}", f"--output_file={output}")
    return by_id(output.read_text("utf-8", "surrogatepass"))


def beam(saved_model: str | Path, rows: Path, output: Path, processes: int, shard_records: int) -> dict:
    """Answers by id."""
    command(
        "beam",
        f"--saved_model={saved_model}",
        f"--input={rows}",
        f"--output_dir={output}",
        f"--num_processes={processes}",
        f"--shard_records={shard_records}",
    )
    return by_id("".join(path.read_text("utf-8", "surrogatepass") for path in sorted(output.glob("answers-*"))))


def by_id(lines: str) -> dict:
    """Lines of answers by their ids; ends the process where one is there twice."""
    rows = [json.loads(line) for line in lines.split("\n") if line]
    found = {row["id"]: row for row in rows}
    if len(found) != len(rows):
        sys.exit(f"found {len(rows):,} answers with {len(found):,} ids, expected each once")
    return found


def text(row: dict) -> tuple:
    return row["answer"], row["start"], row["end"], row["is_answer"]


def command(name: str, *arguments: str) -> None:
    """Runs a command of the package."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", f"fabir_tf.commands.{name}", *arguments], env=environment)
    if done.returncode:
        sys.exit(done.returncode)


def cell(value) -> str:
    return (
        value if isinstance(value, str) else f"{value:,.0f}" if math.fabs(value) >= 10 or value == 0 else f"{value:.3g}"
    )


if __name__ == "__main__":
    app.run(main)
