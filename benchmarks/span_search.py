"""How long the search for the best spans takes, and how much memory, beside a table of all spans.

    python benchmarks/span_search.py --passages=256 --tokens=400 --n_best=5 --max_answer=30
    python benchmarks/span_search.py --passages=128 --tokens=200000 --repeats=1 --turns=1

`SpanDecoder` looks for the tokens at which the best spans start, and makes spans of these alone. A table has one entry
for each start and each length. Both give the same spans. Each turn is a process of its own, whose memory is its largest
less that before the first call.
"""

import functools
import time
from collections.abc import Callable

import tensorflow as tf
from absl import flags
from common import Contender, draw_bars, peak_mib, print_table, run, show_turn, shown, spread
from keras import ops

from fabir_tf.layers import SpanDecoder
from fabir_tf.layers.core.masking import MASKED_LOGIT

flags.DEFINE_integer("passages", 256, "Passages of a batch.", lower_bound=1)
flags.DEFINE_integer("tokens", 400, "Tokens of each passage.", lower_bound=1)
flags.DEFINE_integer("n_best", 5, "Spans to return for each.", lower_bound=1)
flags.DEFINE_integer("max_answer", 15, "Tokens of the longest span.", lower_bound=1)
flags.DEFINE_integer("repeats", 20, "Calls of each search in a turn.", lower_bound=1)

TABLE, DECODER = "table of all spans", "SpanDecoder"


def table_search(start, end, max_answer: int, n_best: int):
    """First and last tokens of the best spans, from the probabilities of all short spans."""
    start, end = ops.log_softmax(start, axis=-1), ops.log_softmax(end, axis=-1)
    batch, length = ops.shape(start)
    padded = ops.pad(end, ((0, 0), (0, max_answer - 1)), constant_values=2 * MASKED_LOGIT)
    spans = start[..., None] + ops.stack([padded[:, k : k + length] for k in range(max_answer)], axis=-1)
    spans = ops.pad(ops.reshape(spans, (batch, -1)), ((0, 0), (0, n_best)), constant_values=4 * MASKED_LOGIT)
    _, index = ops.top_k(spans, n_best)
    first = index // max_answer
    return first, first + index % max_answer


def make_search(name: str, sizes: dict[str, int]) -> Callable[[], dict[str, float]]:
    """A search, for a process of its own."""
    generator = tf.random.Generator.from_seed(1)
    start, end = (generator.normal((sizes["passages"], sizes["tokens"])) for _ in range(2))
    decoder = SpanDecoder(sizes["max_answer"], sizes["n_best"])
    table = functools.partial(table_search, max_answer=sizes["max_answer"], n_best=sizes["n_best"])
    call = tf.function(decoder if name == DECODER else table, autograph=False)

    def search() -> dict[str, float]:
        before = peak_mib()
        first, last, *_ = call(start, end)
        begin = time.process_time()
        for _ in range(sizes["repeats"]):
            call(start, end)
        seconds = (time.process_time() - begin) / sizes["repeats"]
        tokens = tf.reduce_sum(tf.cast(first, tf.int64)) + tf.reduce_sum(tf.cast(last, tf.int64))
        return {"ms": 1000 * seconds, "mib": peak_mib() - before, "tokens": int(tokens)}

    return search


def measure(values: flags.FlagValues) -> dict:
    """Lets both take turns."""
    sizes = {name: values[name].value for name in ("passages", "tokens", "n_best", "max_answer", "repeats")}
    turns: dict[str, list[dict]] = {TABLE: [], DECODER: []}
    for turn in range(values.turns):
        for name, of_name in turns.items():
            # A new process, because memory that was used once counts for ever.
            with Contender(make_search, name, sizes) as contender:
                of_name.append(contender.ask())
        show_turn(turn + 1, values.turns, f"{DECODER}: {turns[DECODER][-1]['ms']:.1f} ms")
    found = {
        name: {part: spread([one[part] for one in of_name]) for part in ("ms", "mib")} | {"turns": of_name}
        for name, of_name in turns.items()
    }
    rows = [(name, shown(one["ms"], ".1f"), shown(one["mib"])) for name, one in found.items()]
    title = f"{values.passages:,} passages of {values.tokens:,} tokens, {values.n_best} spans of {values.max_answer}"
    print_table(title, ("search", "processor time, ms", "memory, MiB"), rows)
    return found


def draw(figure, found: dict) -> None:
    """Draws the milliseconds."""
    draw_bars(figure.subplots(), list(found), [one["ms"] for one in found.values()], "milliseconds of processor time")


if __name__ == "__main__":
    run(__doc__, measure, draw, turns=3)
