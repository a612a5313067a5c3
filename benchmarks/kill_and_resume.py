"""Kills fabir-train at random moments, resumes it, and compares the final weights with an uninterrupted run's.

    python benchmarks/kill_and_resume.py --kills=3

The run is the published model on the bundled sample. Every number of the last checkpoint must be equal (weights,
optimizer, dropout generators), and so must the history except for its seconds.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from absl import app, flags

flags.DEFINE_integer("kills", 3, "How often the second run is killed.")
flags.DEFINE_integer("epochs", 2, "Epochs of each run.")
flags.DEFINE_integer("checkpoint_steps", 7, "Steps between checkpoints.")
flags.DEFINE_integer("seed", 0, "Seed of the random moments.")


def main(_) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        begin = time.monotonic()
        _start(whole).wait()
        seconds = time.monotonic() - begin
        print(f"uninterrupted: {seconds:.0f} s", flush=True)
        moments = random.Random(flags.FLAGS.seed)
        for number in range(flags.FLAGS.kills):
            process = _start(killed)
            # Before the first checkpoint there is nothing to resume.
            while number == 0 and not (killed / "checkpoints" / "last.npz").exists():
                time.sleep(0.1)
            delay = moments.uniform(0.1, 0.6) * seconds
            try:
                process.wait(delay)
                print(f"run {number + 1} ended before it could be killed", flush=True)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                state = _read(killed)[0]
                print(
                    f"killed after {delay:.0f} s; checkpoint of epoch {state['epoch']}, step {state['step']}",
                    flush=True,
                )
        _start(killed).wait()
        _compare(_read(whole), _read(killed))


def _start(run_dir: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "fabir_tf.commands.train", f"--run_dir={run_dir}", "--dataset=sample"]
    command += [f"--epochs={flags.FLAGS.epochs}", f"--checkpoint_steps={flags.FLAGS.checkpoint_steps}"]
    command += ["--batch_size=20", "--cache_dir="]
    command += ["--resume"] if (run_dir / "config.json").exists() else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _read(run_dir: Path) -> tuple[dict, dict[str, np.ndarray]]:
    with np.load(run_dir / "checkpoints" / "last.npz") as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("state").tobytes()), arrays


def _compare(whole, killed) -> None:
    (state, arrays), (other_state, other_arrays) = whole, killed
    rows, other_rows = (
        [{name: value for name, value in row.items() if name != "seconds"} for row in part["epochs"]]
        for part in (state, other_state)
    )
    equal = sum(np.array_equal(arrays[name], other_arrays[name]) for name in arrays)
    print(f"{equal} of {len(arrays)} arrays equal; history {'equal' if rows == other_rows else 'DIFFERENT'}")
    if equal != len(arrays) or rows != other_rows:
        sys.exit(1)


if __name__ == "__main__":
    app.run(main)
