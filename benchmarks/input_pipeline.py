"""How fast the input pipeline makes batches without a model, and how long a model waits for them.

    python benchmarks/input_pipeline.py --dataset=dev-v1.1.json --json_file=input.json --picture=input.png

Training measures `make_batches` with targets, then the training step on batches that were made beforehand, then both
together. Evaluation does the same with `batches_to_read` and the reader's model. Each ratio says how much faster the
batches are made than the model consumes them. The first batch of a pass cannot be made ahead, so its waiting time is
listed separately; `waiting for a later one` is the mean over all others.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

from absl import flags
from common import draw_bars, print_table, ratios, run, show_turn, shown, spread, timed

TASKS = ("training", "evaluation")

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_integer(
    "questions", None, "About how many, evenly spread over the passages' lengths; all when empty.", lower_bound=1
)
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Precision of the layers.")


class Waiting:
    """Seconds spent waiting for items.

    Attributes:
        first: for the first item of a pass.
        later: for each other item.
    """

    def __init__(self):
        self.first = 0.0
        self.later: list[float] = []

    def over(self, items: Iterable) -> Iterator:
        """Yields the items and measures the waiting time."""
        items, is_first = iter(items), True
        while True:
            begin = time.perf_counter()
            item = next(items, None)
            if item is None:
                return
            seconds = time.perf_counter() - begin
            if is_first:
                self.first, is_first = seconds, False
            else:
                self.later.append(seconds)
            yield item


def measure(values: flags.FlagValues) -> dict:
    """Measures training and evaluation in turns."""
    from workload import load_questions

    tokenized = load_questions(values.dataset, values.questions)
    tasks = {"training": _training(tokenized, values.precision), "evaluation": _evaluation(tokenized, values.precision)}
    turns = {name: [] for name in TASKS}
    for turn in range(1, values.turns + 1):
        for name, task in tasks.items():
            turns[name].append(_turn(*task))
            alone, model = (turns[name][-1][part]["speed"] for part in ("pipeline", "model"))
            show_turn(turn, values.turns, f"{name}: {alone:,.0f} questions/s made, {model:,.0f} consumed")
    found = {name: _figures(of_one) for name, of_one in turns.items()}
    _report(found)
    return found


def _turn(batches: Callable[[], Iterable], consume: Callable[[Iterable], object], questions: int) -> dict:
    """Measures the pipeline alone, the model alone, and both together."""
    made = []

    def drain() -> int:
        made.extend(batches())
        return questions

    def use(items: Iterable) -> int:
        consume(items)
        return questions

    waiting = Waiting()
    return {
        "pipeline": timed(drain),
        "model": timed(lambda: use(made)),
        "both": timed(lambda: use(waiting.over(batches()))),
        "first_wait_ms": 1000 * waiting.first,
        "later_wait_ms": 1000 * sum(waiting.later),
        "steps": len(made),
    }


def _training(tokenized, precision: str) -> tuple:
    from workload import Training

    training = Training("fabir", tokenized, precision)
    return training.epoch, training.train, training.questions


def _evaluation(tokenized, precision: str) -> tuple:
    """The reader's own batches, recorded when it asks for their logits."""
    from workload import fresh_reader

    from fabir_tf.pipelines.features.tensor_batches import batches_to_read

    reader = fresh_reader("fabir", tokenized, precision)
    logits_of, recorded = reader._logits, []

    def recording(*batches):
        recorded.append(batches)
        return logits_of(*batches)

    with mock.patch.object(reader, "_logits", recording):
        reader.predict(tokenized)

    def consume(batches: Iterable) -> None:
        for _ in logits_of.of(batches):
            pass

    return lambda: batches_to_read(*recorded[0]), consume, len(tokenized.data.questions)


def _figures(turns: list[dict]) -> dict:
    speeds = {part: [turn[part]["speed"] for turn in turns] for part in ("pipeline", "model", "both")}
    return {
        "questions": turns[0]["model"]["questions"],
        "steps": turns[0]["steps"],
        "speed": {part: spread(of_one) for part, of_one in speeds.items()},
        "ratio": ratios(speeds["pipeline"], speeds["model"]),
        "first_wait_ms": spread(turn["first_wait_ms"] for turn in turns),
        "later_wait_ms": spread(turn["later_wait_ms"] / max(1, turn["steps"] - 1) for turn in turns),
        "turns": turns,
    }


def _report(found: dict) -> None:
    header = (
        "",
        "pipeline alone, questions/s",
        "model alone",
        "both",
        "pipeline : model",
        "waiting for the first batch, ms",
        "waiting for a later one, ms",
    )
    print_table(
        ", ".join(
            f"{name}: {task['questions']:,} questions in {task['steps']} batches" for name, task in found.items()
        ),
        header,
        [
            (
                name,
                *(shown(task["speed"][part]) for part in ("pipeline", "model", "both")),
                shown(task["ratio"], ".1f"),
                shown(task["first_wait_ms"], ".1f"),
                shown(task["later_wait_ms"], ".2f"),
            )
            for name, task in found.items()
        ],
    )


def draw(figure, found: dict) -> None:
    """Draws a panel for each task."""
    for axes, (name, task) in zip(figure.subplots(len(found), squeeze=False)[:, 0], found.items(), strict=True):
        draw_bars(axes, list(task["speed"]), list(task["speed"].values()), "questions/s")
        axes.set_title(name)


if __name__ == "__main__":
    run(__doc__, measure, draw)
