"""Overfits a few questions with the real training; a reader that cannot do so is broken.

    python benchmarks/overfit.py --dataset=train-v1.1.json --questions=64

The model is the published one without dropout, and the learning rate suits so few steps. Training stops as soon as 95 %
of the questions are answered exactly, and the exact match is printed. If that never happens, the status is 1. Questions
without an answer are left out.
"""

import contextlib
import csv
import json
import sys
import tempfile
import time
from pathlib import Path

from absl import app, flags

from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.train import train
from fabir_tf.training.training_config import TrainingConfig

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_integer("questions", 64, "Number of questions to learn, from the start.")
flags.DEFINE_string("vectors", "bundled", "Word vectors, as for fabir-train.")
flags.DEFINE_float("target", 95.0, "Exact match at which training stops, in percent.")
flags.DEFINE_integer("epochs", 60, "Most epochs.")

NO_DROPOUT = {f"{part}_dropout": 0.0 for part in ("input", "sublayer", "attention", "selector", "character")}
# An epoch of 64 questions has 4 steps; the learning rate reaches its maximum of 0.0014 in the seventh epoch.
SETTINGS = {"batch_size": 16, "length_buckets": 1, "learning_rate_factor": 0.07, "warmup_steps": 25}


class LearnedError(Exception):
    """Raised to end a training that has learned enough."""


def main(_) -> None:
    values, begin = flags.FLAGS, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path, run_dir = Path(folder) / "questions.json", Path(folder) / "run"
        path.write_text(json.dumps(_first_questions(values.dataset, values.questions)), encoding="utf-8")
        training = TrainingConfig(
            dataset=str(path),
            eval_dataset=str(path),
            vectors=values.vectors,
            min_word_count=0,
            min_character_count=0,
            epochs=values.epochs,
            **SETTINGS,
        )

        def log(line: str) -> None:
            print(line, flush=True)
            if _exact_match(run_dir) >= values.target:
                raise LearnedError

        with contextlib.suppress(LearnedError):
            train(str(run_dir), FabirConfig(**NO_DROPOUT), training, DataOptions(cache_dir=None), log=log)
        exact_match = _exact_match(run_dir)
    print(f"exact match {exact_match:.2f} after {time.monotonic() - begin:.0f} s")
    if exact_match < values.target:
        sys.exit(1)


def _first_questions(dataset: str, count: int) -> dict:
    """The first questions with an answer, as SQuAD's JSON."""
    data = load_dataset(dataset, "train")
    passages: dict[int, list[dict]] = {}
    answerable = [question for question in data.questions if question.answers]
    for question in answerable[:count]:
        answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
        entry = {"id": question.id, "question": question.text, "answers": answers}
        passages.setdefault(question.passage, []).append(entry)
    paragraphs = [{"context": data.passages[number], "qas": entries} for number, entries in passages.items()]
    return {"version": "1.1", "data": [{"title": data.name, "paragraphs": paragraphs}]}


def _exact_match(run_dir: Path) -> float:
    """The best exact match so far, in percent."""
    history = run_dir / "history.csv"
    if not history.exists():
        return 0.0
    with open(history, encoding="utf-8", newline="") as file:
        return max(float(row["exact_match"]) for row in csv.DictReader(file))


if __name__ == "__main__":
    app.run(main)
