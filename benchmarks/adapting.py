"""What a reader learns from texts of one's own with `fabir-train --adapt`, and what that costs elsewhere.

    python benchmarks/adapting.py --dataset=bioasq.json --folds=5 --elsewhere=dev-v1.1.json,dev-v2.0.json

The questions are split into folds: all of a title are in one, or, with --by=question, all with the same words. For each
fold, --reader is adapted to the others by the real command and asked the fold's questions before and after, always
answering. The gain has a 95 % interval from resampled questions. Elsewhere it always answers, or, where some questions
have no answer, declines by its own threshold.
"""

import dataclasses
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from absl import flags
from common import print_table, run, show_turn

import fabir_tf
from fabir_tf.analysis.intervals import interval, resampled_means
from fabir_tf.pipelines.datasets.formats import write_questions
from fabir_tf.pipelines.datasets.squad import SquadData, data_without_unanswerable
from fabir_tf.pipelines.datasets.squad_metrics import answer_scores, exact_match, f1
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import OWN_THRESHOLD
from fabir_tf.reading.reader import Reader

UNITS = ("title", "question")

flags.DEFINE_string("reader", "fabir-base", "The reader to adapt.")
flags.DEFINE_string("dataset", "sample", "Questions with answers: a file, a TFDS name or sample.")
flags.DEFINE_enum("by", "title", UNITS, "What is never in two folds.")
flags.DEFINE_integer("folds", 5, "Folds.", lower_bound=2)
flags.DEFINE_integer("runs", None, "Folds to train for; all by default.", lower_bound=1)
flags.DEFINE_list("elsewhere", [], "Other questions to ask before and after, comma-separated.")
flags.DEFINE_list("train_flags", [], "More flags of fabir-train, comma-separated, such as --epochs=3.")
flags.DEFINE_integer("seed", 0, "Seed of the folds.")


def folds_of(data: SquadData, by: str, folds: int, seed: int) -> list[np.ndarray]:
    """The questions of each fold, by number."""
    units = [data.titles[question.passage] if by == "title" else question.text.lower() for question in data.questions]
    order = sorted(set(units))
    if len(order) < folds:
        raise UserError(f"--folds={folds}: {data.name} has {len(order)} kinds of --by={by}, expected at least as many")
    random.Random(seed).shuffle(order)
    fold = {unit: number % folds for number, unit in enumerate(order)}
    numbers = np.array([fold[unit] for unit in units])
    return [np.flatnonzero(numbers == number) for number in range(folds)]


def part_of(data: SquadData, numbers: np.ndarray) -> SquadData:
    """Some of the questions."""
    return dataclasses.replace(data, questions=tuple(data.questions[number] for number in numbers))


def adapt(reader: str, data: SquadData, folder: Path, more: Iterable[str]) -> float:
    """Adapts a reader by the command; returns how many seconds that took."""
    write_questions(data, folder / "train.json")
    command = [sys.executable, "-m", "fabir_tf.commands.train", "--adapt", f"--start_from={reader}", *more]
    files = [f"--dataset={folder / 'train.json'}", f"--run_dir={folder / 'run'}", "--cache_dir="]
    begun = time.monotonic()
    status = subprocess.run([*command, *files], stdout=sys.stderr, check=False).returncode
    if status:
        raise UserError(f"fabir-train ended with status {status}")
    return time.monotonic() - begun


def scores(reader: str | Path, data: SquadData) -> np.ndarray:
    """EM and F1 of every question, percentages `(2, questions)`, of a reader that always answers."""
    answers = Reader.load(reader, no_answer_threshold=None).predict(data)
    texts = [answer.text for answer in answers]
    return 100.0 * np.array([answer_scores(metric, data, texts) for metric in (exact_match, f1)])


def elsewhere(reader: str | Path, others: dict[str, SquadData]) -> dict[str, dict[str, float]]:
    """F1 on other data, and for data with unanswerable questions the AUROC."""
    found = {}
    for name, data in others.items():
        threshold = OWN_THRESHOLD if data.has_unanswerable else None
        figures = fabir_tf.evaluate(Reader.load(reader, no_answer_threshold=threshold), data)
        found[name] = {key: figures[key] for key in ("f1", "no_answer_auroc") if key in figures}
    return found


def measure(values: flags.FlagValues) -> dict:
    """Adapts the reader to each fold, and prints what it gained and lost."""
    data = data_without_unanswerable(fabir_tf.load_dataset(values.dataset, "train"))
    others = {name: fabir_tf.load_dataset(name, "dev") for name in values.elsewhere}
    folds = folds_of(data, values.by, values.folds, values.seed)
    before = scores(values.reader, data)
    found: dict = {"before": elsewhere(values.reader, others), "folds": []}
    parts = []
    for number, asked in enumerate(folds[: values.runs]):
        rest = np.setdiff1d(np.arange(len(data.questions)), asked)
        with tempfile.TemporaryDirectory() as folder:
            seconds = adapt(values.reader, part_of(data, rest), Path(folder), values.train_flags)
            run_dir = Path(folder) / "run"
            parts.append(np.stack([before[:, asked], scores(run_dir, part_of(data, asked))]))
            row = {"questions": len(rest), "seconds": seconds, "elsewhere": elsewhere(run_dir, others)}
        row |= dict(zip(("before", "after"), parts[-1].mean(axis=-1).tolist(), strict=True))
        found["folds"].append(row)
        show_turn(number, len(folds[: values.runs]), f"EM, F1 {row['before']} before and {row['after']} after")
    joined = np.concatenate(parts, axis=-1)
    gain = joined[1, 1] - joined[0, 1]
    found["gain"] = [float(gain.mean()), *interval(resampled_means(gain[None])[:, 0])]
    _show(values, found, joined.mean(axis=-1))
    return found


def _show(values: flags.FlagValues, found: dict, means: np.ndarray) -> None:
    seconds = [row["seconds"] for row in found["folds"]]
    rows = [(values.dataset, "EM", *means[:, 0]), (values.dataset, "F1", *means[:, 1])]
    for name, figures in found["before"].items():
        for key, value in figures.items():
            after = float(np.mean([row["elsewhere"][name][key] for row in found["folds"]]))
            rows.append((name, {"f1": "F1", "no_answer_auroc": "AUROC"}[key], value, after))
    shown = [(name, figure, f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}") for name, figure, old, new in rows]
    title = f"{values.reader}, {len(seconds)} folds, {min(seconds):.0f} to {max(seconds):.0f} s each"
    print_table(title, ("questions", "figure", "before", "after", "change"), shown)
    print("F1 gained, with its 95 % interval: {:.2f} ({:.2f} to {:.2f})".format(*found["gain"]))


def draw(figure, found: dict) -> None:
    """F1 of each fold before and after."""
    axes = figure.subplots()
    for name in ("before", "after"):
        axes.plot([row[name][1] for row in found["folds"]], "o", label=name)
    axes.set(xlabel="fold", ylabel="F1", xticks=range(len(found["folds"])))
    axes.legend()


if __name__ == "__main__":
    run(__doc__, measure, draw, turns=1)
