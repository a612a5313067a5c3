"""Compares an exported reader, which takes raw text, with the Reader in Python on a whole dataset, and times both.

    python benchmarks/raw_text.py --run_dir=runs/base --dataset=dev-v1.1.json

It prints how many texts have the same tokens, by each of an ensemble's tokenizers, and how many questions the same
answer: one by one, in batches with other questions and repeated rows, and from padded ids if the reader takes ids. It
also prints the questions per second of both in alternating turns,
and what first_answer.py measures in a new process.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags

import fabir_tf
from fabir_tf.export import export_reader
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.features.features import PASSAGE_INDEX, Examples
from fabir_tf.pipelines.features.tensor_batches import batches_to_read
from fabir_tf.pipelines.text.graph.parity import texts_cut_differently
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.reading.ensemble import Ensemble

flags.DEFINE_string("run_dir", None, "Run whose best checkpoint is exported.", required=True)
flags.DEFINE_string("dataset", "sample", "Questions: a SQuAD JSON file or sample.")
flags.DEFINE_integer("batch", 64, "Questions per request.")
flags.DEFINE_integer("sample", 1000, "Questions that are asked alone and in batches with others.")
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
        signatures = tf.saved_model.load(str(version)).signatures
        serve = signatures["serving_default"]
        _compare_tokens(reader, data)
        _compare_answers(reader, serve, data)
        _compare_company(serve, data)
        if "token_ids" in signatures:
            _compare_padding(reader, signatures["token_ids"], data)
        _race(reader, serve, data)


def _compare_tokens(reader, data: SquadData) -> None:
    members = reader.members if isinstance(reader, Ensemble) else [reader]
    processors = {member.processor.tokenizer_version: member.processor for member in members}
    texts = {"passages": list(data.passages), "questions": [question.text for question in data.questions]}
    for version, processor in processors.items():
        for kind, cut in texts.items():
            equal = len(cut) - len(texts_cut_differently(processor, cut))
            print(f"tokens and offsets of {version}: {equal:,} of {len(cut):,} {kind} equal", flush=True)


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


def _compare_company(serve, data: SquadData) -> None:
    """Questions alone, and in random batches that are filled up like a server's, by repeating a row."""
    random = np.random.default_rng(0)
    chosen = [data.questions[row] for row in random.permutation(len(data.questions))[: flags.FLAGS.sample]]
    equal, furthest, asked = 0, 0.0, 0
    while asked < len(chosen):
        batch = chosen[asked : asked + random.integers(1, 33)]
        asked += len(batch)
        size = next(size for size in (1, 4, 16, 32) if size >= len(batch))
        in_batch = _ask_graph(serve, data, batch + [batch[0]] * (size - len(batch)))
        for row in range(size):
            alone = _ask_graph(serve, data, [batch[row if row < len(batch) else 0]])
            exact = [name for name, values in alone.items() if not values.dtype.is_floating]
            same = all(np.array_equal(in_batch[name][row], alone[name][0]) for name in exact)
            equal += same and row < len(batch)
            furthest = max(furthest, np.abs(in_batch["n_best_probability"][row] - alone["n_best_probability"][0]).max())
    print(
        f"in random batches with repeated rows: {equal:,} of {len(chosen):,} questions equal, all of their spans; "
        f"probabilities differ by {furthest:.1e} at most",
        flush=True,
    )


def _by_token(ids: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's inputs with one row per question."""
    index = {"passage": ids["passage_token_index"][ids[PASSAGE_INDEX]], "question": ids["question_token_index"]}
    parts = [name.removeprefix("unique_") for name in ids if name.startswith("unique_")]
    return {f"{text}_{part}": ids[f"unique_{part}"][index[text]] for text in index for part in parts}


def _compare_padding(reader, token_ids, data: SquadData) -> None:
    """Ids alone, and in batches that are padded like a server's, with each tensor's first element."""
    random = np.random.default_rng(1)
    tokenized = reader.processor.tokenize(data, log=lambda line: None)
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    chosen = random.permutation(np.flatnonzero(lengths))[: flags.FLAGS.sample]
    examples = Examples(np.arange(len(lengths)), np.zeros_like(lengths), lengths)
    features = reader.processor.features(tokenized, examples)
    batches = [chosen[begin : begin + 16] for begin in range(0, len(chosen), 16)]
    equal, furthest = 0, 0.0
    for batch, ids in zip(batches, batches_to_read(features, batches), strict=True):
        ids = _by_token({name: values.numpy() for name, values in ids.items()})
        counts = {text: (ids[f"{text}_words"] != PADDING).sum(1, dtype=np.int32) for text in ("passage", "question")}
        in_batch = token_ids(**_as_padded(ids, counts, random.integers(1, 40)))
        for row in range(len(batch)):
            cut = {text: count[row] for text, count in counts.items()}
            alone = {name: values[row : row + 1, : cut[name.split("_")[0]]] for name, values in ids.items()}
            alone |= {f"{text}_length": np.array([count], np.int32) for text, count in cut.items()}
            expected = token_ids(**{name: tf.constant(value) for name, value in alone.items()})
            for name, logits in expected.items():
                furthest = max(furthest, np.abs(in_batch[name][row, : cut["passage"]] - logits[0]).max())
            equal += all(np.argmax(in_batch[name][row]) == np.argmax(logits[0]) for name, logits in expected.items())
    print(
        f"ids with padding: {equal:,} of {len(chosen):,} questions with the same start and end; "
        f"logits differ by {furthest:.1e} at most",
        flush=True,
    )


def _as_padded(ids: dict, counts: dict, more: int) -> dict[str, tf.Tensor]:
    """Ids as a server pads them: with `more` columns, and the tensor's first element wherever there is no token."""
    padded = {f"{text}_length": tf.constant(count) for text, count in counts.items()}
    for name, values in ids.items():
        count = counts[name.split("_")[0]]
        values = np.pad(values, [(0, 0), (0, more)] + [(0, 0)] * (values.ndim - 2))
        values[np.arange(values.shape[1]) >= count[:, None]] = values.flat[0]
        padded[name] = tf.constant(values)
    return padded


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
