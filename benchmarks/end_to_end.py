"""From a JSON file of questions to a file of answers: questions a second, and where the time goes.

    python benchmarks/end_to_end.py --dataset=dev-v1.1.json --run_dir=runs/base --json_file=end.json --picture=end.png

fabir-predict itself runs, on a reader that is loaded and has read once: importing, loading and tracing are not counted.
Nothing is kept between turns; the tokenizer's cache is emptied. Without --run_dir the weights are initial ones.

Stopwatches run around the steps of the command. `tokens` is the time spent waiting for tokens, and `model` the time
spent waiting for logits; work that other threads do in the meantime costs nothing here. The time that another thread
spends on tokenizing is listed below the total.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from absl import flags
from common import draw_bars, print_table, run, show_turn, shown, spread

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_string("run_dir", None, "Run whose best checkpoint answers; initial weights when empty.")
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Precision of the layers.")
flags.DEFINE_integer("max_passage", 512, "Passages of more tokens are read in overlapping windows.", lower_bound=1)

# The parts of the total, in the order of the work.
PARTS = ("reading", "tokens", "features", "model", "decoding", "writing")
# Work of another thread.
BESIDE = ("tokenizing",)


class Stopwatches:
    """Seconds spent in several parts of a program."""

    def __init__(self):
        self.seconds: Counter[str] = Counter()

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        """Adds the time spent in the context to a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - begin

    def around(self, part: str, function: Callable) -> Callable:
        """Wraps a function and adds the time of its calls to a part."""

        def watched(*args, **kwargs):
            with self.running(part):
                return function(*args, **kwargs)

        return watched

    def between(self, part: str, iterator: Iterable) -> Iterator:
        """Yields an iterator's items and adds the time spent waiting for them to a part."""
        iterator = iter(iterator)
        while True:
            with self.running(part):
                item = next(iterator, None)
            if item is None:
                return
            yield item


def measure(values: flags.FlagValues) -> dict:
    """Runs the command in several turns."""
    from workload import load_questions

    tokenized = load_questions(values.dataset)
    questions = len(tokenized.data.questions)
    reader = _reader(values, tokenized)
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        # The first turn is not counted, because the model is traced in it.
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
    return fabir_tf.Reader(reader.model, reader.processor, reader.config, values.max_passage)


def _given(**values: str) -> flags.FlagValues:
    """The flags of fabir-predict that decide what it does, apart from those of this benchmark."""
    given = flags.FlagValues()
    for name in ("run_dir", "model", "question", "passage", "document", "input_file", "output_file"):
        flags.DEFINE_string(name, values.get(name), "", flag_values=given)
    flags.DEFINE_integer("n_best", 1, "", flag_values=given)
    flags.DEFINE_integer("paragraphs", 5, "", flag_values=given)
    flags.DEFINE_boolean("resume", False, "", flag_values=given)
    given.mark_as_parsed()
    return given


def _predict(values: flags.FlagValues, reader, output: Path) -> dict[str, float]:
    """Seconds of each part of fabir-predict, and in total."""
    from fabir_tf.commands import predict
    from fabir_tf.pipelines.datasets.sources import BUNDLED
    from fabir_tf.pipelines.text.tokenizer import clear_cache

    watches = Stopwatches()
    source = str(BUNDLED / "sample-dev.json") if values.dataset == "sample" else values.dataset
    given = _given(run_dir="loaded", input_file=source, output_file=str(output))
    clear_cache()
    logits_of, read, one_ahead = reader._logits, predict.read_records, reader._one_ahead
    processor = reader.processor
    with (
        mock.patch.object(predict.cli, "load_reader", lambda *_: reader),
        mock.patch.object(predict, "read_records", lambda *where: watches.between("reading", read(*where))),
        mock.patch.object(reader, "_tokenize_texts", watches.around("tokenizing", reader._tokenize_texts)),
        mock.patch.object(reader, "_one_ahead", lambda items: watches.between("tokens", one_ahead(items))),
        mock.patch.object(processor, "features", watches.around("features", processor.features)),
        mock.patch.object(reader, "predict", watches.around("predict", reader.predict)),
        mock.patch.object(reader, "_logits", lambda *batches: watches.between("model", logits_of(*batches))),
        watches.running("total"),
    ):
        predict.main(given)
    seconds = watches.seconds
    # The rest of `predict` searches the spans and plans the batches.
    seconds["decoding"] = seconds.pop("predict") - seconds["model"] - seconds["features"]
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
            ("total", shown(parts["total"], ".2f"), ""),
            *((f"{part}, in another thread", shown(parts[part], ".2f"), "") for part in BESIDE),
        ],
    )
    return {"questions": questions, "speed": speed, "seconds": parts, "shares": shares, "turns": turns}


def draw(figure, found: dict) -> None:
    """Draws the seconds of each part."""
    axes = figure.subplots()
    draw_bars(axes, PARTS, [found["seconds"][part] for part in PARTS], "seconds")
    axes.set_title(f"{found['questions']:,} questions, {found['speed']['median']:,.0f} a second")


if __name__ == "__main__":
    run(__doc__, measure, draw)
