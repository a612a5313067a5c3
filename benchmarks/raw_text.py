"""Compares an exported reader, which takes raw text, with the Reader in Python on a whole dataset, and times both.

    python benchmarks/raw_text.py --run_dir=runs/base --dataset=dev-v1.1.json

Prints how many texts have the same tokens, how many questions the same answer, questions per second of both in
alternating turns, and what first_answer.py says of a fresh process.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf
from absl import app, flags

import fabir_tf
from fabir_tf.export import export_reader
from fabir_tf.pipelines.graph_tokenizer import graph_tokenize
from fabir_tf.pipelines.sources import load_dataset
from fabir_tf.pipelines.squad import SquadData
from fabir_tf.pipelines.tokenizer import tokenize

flags.DEFINE_string("run_dir", None, "Run whose best checkpoint is exported.", required=True)
flags.DEFINE_string("dataset", "sample", "Questions: a SQuAD JSON file or sample.")
flags.DEFINE_integer("batch", 64, "Questions per request.")
flags.DEFINE_integer("turns", 5, "Turns of each reader in the race.")
flags.DEFINE_integer("race", 640, "Questions per turn.")


def main(_) -> None:
    data = load_dataset(flags.FLAGS.dataset, "dev")
    reader = fabir_tf.Reader.load(flags.FLAGS.run_dir)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        version = export_reader(reader, folder)
        size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
        print(f"exported in {time.monotonic() - begin:.1f} s: {size / 2**20:.1f} MiB", flush=True)
        _fresh_process(version)
        serve = tf.saved_model.load(str(version)).signatures["serving_default"]
        _compare_tokens(data)
        _compare_answers(reader, serve, data)
        _race(reader, serve, data)


def _compare_tokens(data: SquadData) -> None:
    for kind, texts in (
        ("passages", list(data.passages)),
        ("questions", [question.text for question in data.questions]),
    ):
        tokens = graph_tokenize(tf.constant(texts))
        splits, starts, ends = (part.numpy() for part in (tokens.row_splits, tokens.starts, tokens.ends))
        equal = 0
        for row, text in enumerate(texts):
            part, expected = slice(splits[row], splits[row + 1]), tokenize(text)
            equal += (starts[part].tolist(), ends[part].tolist()) == (expected.starts, expected.ends)
        print(f"tokens and offsets: {equal:,} of {len(texts):,} {kind} equal", flush=True)


def _compare_answers(reader, serve, data: SquadData) -> None:
    equal, furthest = 0, 0.0
    answers = _ask_reader(reader, data, data.questions)
    for begin in range(0, len(data.questions), flags.FLAGS.batch):
        found = _ask_graph(serve, data, data.questions[begin : begin + flags.FLAGS.batch])
        for row, answer in enumerate(answers[begin : begin + flags.FLAGS.batch]):
            span = (found["answer"][row].numpy().decode(), int(found["start"][row]), int(found["end"][row]))
            equal += span == (answer.text, answer.start, answer.end)
            furthest = max(furthest, abs(float(found["probability"][row]) - answer.probability))
    print(f"answers: {equal:,} of {len(answers):,} equal; probabilities differ by {furthest:.1e} at most", flush=True)


def _race(reader, serve, data: SquadData) -> None:
    asked = data.questions[: flags.FLAGS.race]
    speeds = {"graph": [], "reader": []}
    for _ in range(flags.FLAGS.turns):
        begin = time.monotonic()
        for first in range(0, len(asked), flags.FLAGS.batch):
            _ask_graph(serve, data, asked[first : first + flags.FLAGS.batch])
        speeds["graph"].append(len(asked) / (time.monotonic() - begin))
        begin = time.monotonic()
        for first in range(0, len(asked), flags.FLAGS.batch):
            _ask_reader(reader, data, asked[first : first + flags.FLAGS.batch])
        speeds["reader"].append(len(asked) / (time.monotonic() - begin))
    for name, values in speeds.items():
        print(f"{name}: {statistics.median(values):.0f} questions/s ({min(values):.0f} to {max(values):.0f})")
    ratios = [graph / other for graph, other in zip(*speeds.values(), strict=True)]
    print(f"graph : reader = {statistics.median(ratios):.2f}")


def _ask_graph(serve, data: SquadData, questions):
    passages = tf.constant([data.passages[question.passage] for question in questions])
    return serve(question=tf.constant([question.text for question in questions]), passage=passages)


def _ask_reader(reader, data: SquadData, questions):
    passages = [data.passages[question.passage] for question in questions]
    return reader.answer_batch([question.text for question in questions], passages)


def _fresh_process(version: Path) -> None:
    program = Path(__file__).with_name("first_answer.py")
    result = subprocess.run([sys.executable, program, version], stdout=subprocess.PIPE, check=True, text=True)
    print(result.stdout, end="", flush=True)


if __name__ == "__main__":
    app.run(main)
