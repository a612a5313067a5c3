"""From a JSON file of questions to a file of answers: questions a second, and where the time goes.

    python benchmarks/end_to_end.py --dataset=dev-v1.1.json --run_dir=runs/base --json_file=end.json --picture=end.png

What runs is fabir-predict itself, on a reader that is loaded and has read once: importing, loading and tracing are not
counted. Nothing is kept between turns, neither tokens nor how words are cut. Without --run_dir the weights are those
that a run begins with.

Time is taken with stopwatches around the steps of the command. `tokens` is the time in which tokens are waited for,
`model` that in which logits are; what else is done meanwhile, in other threads, costs nothing here. What another thread
spends on tokenising and encoding stands below.
"""

import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from absl import flags
from common import draw_bars, print_table, run, show_turn, shown, spread

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_string("run_dir", None, "Run whose best checkpoint answers; fresh weights when empty.")
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Of the layers.")
flags.DEFINE_integer("max_passage", 512, "Passages of more tokens are read in overlapping windows.", lower_bound=1)

# Each part of the time, in the order of the work.
PARTS = ("reading", "tokens", "model", "decoding", "writing")
# Seconds of another thread.
BESIDE = ("tokenising", "encoding")


class Stopwatches:
    """Seconds spent in several parts of a program."""

    def __init__(self):
        self.seconds: Counter[str] = Counter()

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        """Adds the time of what is inside to a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - begin

    def around(self, part: str, function: Callable) -> Callable:
        """The function, its time added to a part."""

        def watched(*args, **kwargs):
            with self.running(part):
                return function(*args, **kwargs)

        return watched

    def between(self, part: str, iterator: Iterable) -> Iterator:
        """The iterator's items, the waiting for them added to a part."""
        iterator = iter(iterator)
        while True:
            with self.running(part):
                item = next(iterator, None)
            if item is None:
                return
            yield item


def measure(values: flags.FlagValues) -> dict:
    """Runs the command, turn by turn."""
    from workload import load_questions

    tokenized = load_questions(values.dataset)
    questions = len(tokenized.data.questions)
    reader = _reader(values, tokenized)
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        # The first, which is not counted, has the model traced.
        for turn in range(values.turns + 1):
            turns.append(_predict(values, reader, Path(folder) / "answers.jsonl"))
            if turn:
                show_turn(turn, values.turns, f"{questions / turns[-1]['total']:,.0f} questions/s")
    return _report(turns[1:], questions)


def _reader(values: flags.FlagValues, tokenized):
    from workload import fresh_reader

    import fabir_tf

    if values.run_dir:
        return fabir_tf.Reader.load(values.run_dir, values.max_passage, values.precision)
    reader = fresh_reader("fabir", tokenized, values.precision)
    return fabir_tf.Reader(reader.model, reader.vocabulary, reader.config, values.max_passage)


def _predict(values: flags.FlagValues, reader, output: Path) -> dict[str, float]:
    """Seconds of each part of fabir-predict, and in all."""
    import fabir_tf.reading.reader
    from fabir_tf.commands import predict
    from fabir_tf.pipelines.datasets.sources import BUNDLED
    from fabir_tf.pipelines.text import tokenizer

    watches = Stopwatches()
    source = str(BUNDLED / "sample-dev.json") if values.dataset == "sample" else values.dataset
    given = types.SimpleNamespace(
        run_dir="loaded", model=None, question=None, passage=None, input_file=source, output_file=str(output), n_best=1
    )
    given.max_passage, given.precision = values.max_passage, values.precision
    tokenizer._remembered_spans.cache_clear()
    logits_of, read, one_ahead = reader._logits, predict.read_records, fabir_tf.reading.reader.one_ahead
    with (
        mock.patch.object(fabir_tf.reading.reader.Reader, "load", lambda *_: reader),
        mock.patch.object(predict, "read_records", lambda path: watches.between("reading", read(path))),
        mock.patch.object(
            fabir_tf.reading.reader,
            "tokenize_texts",
            watches.around("tokenising", fabir_tf.reading.reader.tokenize_texts),
        ),
        mock.patch.object(
            fabir_tf.reading.reader, "one_ahead", lambda items: watches.between("tokens", one_ahead(items))
        ),
        mock.patch.object(reader, "encode", watches.around("encoding", reader.encode)),
        mock.patch.object(reader, "predict", watches.around("predict", reader.predict)),
        mock.patch.object(reader, "_logits", lambda *batches: watches.between("model", logits_of(*batches))),
        watches.running("total"),
    ):
        predict.main(given)
    seconds = watches.seconds
    # What `predict` does beside waiting for logits is the search for the spans, and what it takes to find its batches.
    seconds["decoding"] = seconds.pop("predict") - seconds["model"]
    seconds["writing"] = seconds["total"] - sum(seconds[part] for part in PARTS[:-1])
    return {part: seconds[part] for part in (*PARTS, *BESIDE, "total")}


def _report(turns: list[dict[str, float]], questions: int) -> dict:
    parts = {part: spread(turn[part] for turn in turns) for part in (*PARTS, *BESIDE, "total")}
    shares = {part: spread(turn[part] / turn["total"] for turn in turns) for part in PARTS}
    speed = spread(questions / turn["total"] for turn in turns)
    print_table(
        f"{questions:,} questions end to end: {shown(speed)} questions/s",
        ("", "seconds", "share"),
        [
            *((part, shown(parts[part], ".2f"), shown(shares[part], ".1%")) for part in PARTS),
            ("in all", shown(parts["total"], ".2f"), ""),
            *((f"{part}, beside it", shown(parts[part], ".2f"), "") for part in BESIDE),
        ],
    )
    return {"questions": questions, "speed": speed, "seconds": parts, "shares": shares, "turns": turns}


def draw(figure, found: dict) -> None:
    """The seconds of each part."""
    axes = figure.subplots()
    draw_bars(axes, PARTS, [found["seconds"][part] for part in PARTS], "seconds")
    axes.set_title(f"{found['questions']:,} questions, {found['speed']['median']:,.0f} a second")


if __name__ == "__main__":
    run(__doc__, measure, draw)
