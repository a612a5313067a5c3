"""A long file of questions through fabir-predict: rows a second, and the most memory that it takes.

    python benchmarks/big_file.py --rows=20000,100000 --json_file=big.json
    python benchmarks/big_file.py --rows=1000000 --kills=2

The rows are made with a seed: short passages of one to four sentences, each with words that occur nowhere else. The
time is that between the start of reading and the end; loading the reader is not counted. With --kills the command is
killed at random moments and typed again with --resume. Every row must have been answered once, in the input's order.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags
from common import ROOT, machine, print_table

flags.DEFINE_list("rows", ["20000", "100000"], "Numbers of rows.")
flags.DEFINE_string("run_dir", None, "Run whose best checkpoint answers, instead of fabir-base.")
flags.DEFINE_integer("kills", 0, "How often each run is killed and resumed.", lower_bound=0)
flags.DEFINE_integer("seed", 0, "Seed of the rows and of the moments.")
flags.DEFINE_string("json_file", None, "File for all figures.")

SYLLABLES = [f"{start}{vowel}{end}" for start in "bdfgklmnprst" for vowel in "aeiou" for end in ("", "n", "r")]
WORDS = ("the", "a", "old", "stone", "river", "village", "north", "of", "near", "and", "in", "was", "it", "by", "from")
KINDS = ("mill", "tower", "bridge", "library", "harbour", "school", "well")
# Of a line of answers, about: tells how far a run is.
LINE_BYTES = 320


def main(_) -> None:
    values = flags.FLAGS
    found = []
    for count in map(int, values.rows):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder), count, values))
        print(json.dumps(found[-1]), flush=True)
    columns = ("rows", "seconds", "rows_per_second", "cores", "peak_mib", "killed")
    print_table("a long file", columns, [[f"{row[name]:,.6g}" for name in columns] for row in found])
    if values.json_file:
        content = {"machine": machine(), "found": found}
        Path(values.json_file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path, count: int, values: flags.FlagValues) -> dict:
    """The figures of one file."""
    source, target = folder / "rows.jsonl", folder / "answers.jsonl"
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in made_rows(count, values.seed))
    reader = f"--run_dir={values.run_dir}" if values.run_dir else "--model=fabir-base"
    command = [reader, f"--input_file={source}", f"--output_file={target}"]
    moments = random.Random(values.seed)
    parts = []
    for number in range(values.kills):
        share = (number + moments.random()) / (values.kills + 1)
        parts.append(run(command, target, share * count * LINE_BYTES))
        command = [*command[:3], "--resume"]
    # A run of few rows may have ended before it could be killed.
    if not target.exists():
        parts.append(run(command, target, None))
    check(target, count)
    seconds = sum(part["seconds"] for part in parts)
    return {
        "rows": count,
        "seconds": seconds,
        "rows_per_second": count / seconds,
        "cores": sum(part["processor"] for part in parts) / sum(part["whole"] for part in parts),
        "peak_mib": max(part["peak_mib"] for part in parts),
        "killed": len(parts) - 1,
    }


def run(command: Sequence[str], target: Path, killed_behind: float | None) -> dict[str, float]:
    """Runs the command, perhaps until its output has more than a number of bytes.

    Returns:
        Seconds of reading, of the whole process and of processors, and the most memory in MiB.
    """
    partial = target.with_name(f"{target.name}.partial")
    begin = time.monotonic()
    reading = None if not partial.exists() else begin
    process = subprocess.Popen(
        [sys.executable, "-m", "fabir_tf.commands.predict", *command], env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        time.sleep(0.02)
        if not partial.exists():
            continue
        reading = reading or time.monotonic()
        if killed_behind is not None and partial.stat().st_size > killed_behind:
            process.kill()
            ended = os.wait4(process.pid, 0)
            break
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, -9):
        sys.exit(f"fabir-predict ended with status {process.returncode}")
    end = time.monotonic()
    return {
        "seconds": end - (reading or begin),
        "whole": end - begin,
        "processor": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
    }


def check(path: Path, count: int) -> None:
    """Ends the process if not every row has been answered once, in its order."""
    with open(path, encoding="utf-8") as file:
        ids = (json.loads(line)["id"] for line in file)
        expected = (row_id(number) for number in range(count))
        for found, row in itertools.zip_longest(ids, expected):
            if found != row:
                sys.exit(f"{path}: found {found}, expected {row}")


def made_rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Questions with short passages."""
    generator = random.Random(seed)
    for number in range(count):
        kind, year = generator.choice(KINDS), generator.randint(1100, 1999)
        first, second, town = ("".join(generator.choices(SYLLABLES, k=3)).title() for _ in range(3))
        sentences = [f"The {kind} of {town} was built by {first} {second} in {year}."]
        for _ in range(generator.randint(0, 3)):
            sentences.append(" ".join(generator.choices(WORDS, k=generator.randint(4, 12))).capitalize() + ".")
        generator.shuffle(sentences)
        question = f"Who built the {kind} of {town}?"
        yield {"id": row_id(number), "question": question, "passage": " ".join(sentences)}


def row_id(number: int) -> str:
    """The id of a row."""
    return f"row-{number}"


if __name__ == "__main__":
    app.run(main)
