"""Where the time of FABIR goes, layer by layer, and how close each layer is to this machine's limit.

    python benchmarks/layers.py --json_file=layers.json --picture=layers.png
    python benchmarks/layers.py --precision=mixed_bfloat16 --questions_per_passage=1

Each layer of the published model is called alone, on random values without padding. Layers that run once per passage
get as many passages as in the reader; layers that run once per unique token get a third of the tokens. Operations and
bytes are counted by the formulas of costs.py. A layer's limit is the longer of two times: that of its operations at the
speed of a product of two 2,048 x 2,048 matrices, and that of its least bytes at the speed of the memory, both measured
in the same turn. The last column is the time to move the bytes of today's operations: where it is close to the measured
time, memory and not arithmetic limits the layer. The counts of the whole model are the sums of the layers.
"""

import dataclasses
import time
from collections.abc import Callable

from absl import flags
from common import draw_bars, print_table, run, show_turn, shown, spread

flags.DEFINE_integer("batch", 100, "Questions in a batch.", lower_bound=1)
flags.DEFINE_integer("passage", 140, "Tokens of each passage.", lower_bound=1)
flags.DEFINE_integer("question", 12, "Tokens of each question.", lower_bound=1)
flags.DEFINE_integer("questions_per_passage", 5, "Questions per passage.", lower_bound=1)
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Precision of the layers.")
flags.DEFINE_integer("repeats", 5, "Calls of each layer in a turn.", lower_bound=1)

WHOLE = "the whole model"
PEAK = "product of 2,048 x 2,048"
MEMORY = "memory"
MATRIX = 2048
# 256 MiB: larger than any cache.
ARRAY = 2**26


def measure(values: flags.FlagValues) -> dict:
    """Times all layers in turns."""
    calls, costs = _layers(values)
    calls |= _limits(values.precision)
    seconds = {name: [] for name in calls}
    for call in calls.values():
        call()
    for turn in range(1, values.turns + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(values.repeats):
                call()
            seconds[name].append((time.perf_counter() - begin) / values.repeats)
        show_turn(turn, values.turns, f"{WHOLE}: {1000 * seconds[WHOLE][-1]:.0f} ms")
    peak = [2 * MATRIX**3 / turn for turn in seconds[PEAK]]
    bandwidth = [3 * 4 * ARRAY / turn for turn in seconds[MEMORY]]
    rows = [_row(name, cost, seconds, peak, bandwidth) for name, cost in costs.items()]
    _report(values, rows, seconds, spread(peak), spread(bandwidth))
    return {"peak": spread(peak), "bandwidth": spread(bandwidth), "layers": rows, "seconds": seconds}


def _layers(values: flags.FlagValues) -> tuple[dict[str, Callable], dict]:
    """The call of every layer as in the model, and its cost."""
    import costs as of
    from workload import READERS, fresh_model, unique_tokens

    # The size of the word table has no influence, and a small one is made faster.
    config = READERS["fabir"](frozen_words=1000)
    model = fresh_model(config, values.precision)
    size = of.FLOAT if values.precision == "float32" else of.HALF
    questions, passages = values.batch, max(1, values.batch // values.questions_per_passage)
    texts = {"passage": (passages, values.passage), "question": (questions, values.question)}
    calls, costs = {}, {}

    def add(name: str, layer: str, cost, *inputs, **options) -> None:
        calls[name] = _compiled(model.get_layer(layer), inputs, options)
        costs[name] = cost

    masks = {f"{text}_mask": _mask(questions, tokens) for text, (_, tokens) in texts.items()}
    unique = unique_tokens(*texts.values())
    words = _ids((unique, 1), config.trainable_words + config.frozen_words)
    add("word_embedding", "word_embedding", of.word_embedding(unique, config, size), words)
    characters = _ids((unique, 1, config.max_word_characters), config.characters)
    add("character_embedding", "character_embedding", of.character_embedding(unique, config, size), characters)
    vectors = _random(values, unique, 1, config.word_dim + config.character_filters)
    add("highway", "highway", of.highway(unique, config, size), vectors)
    for text, (count, tokens) in texts.items():
        vectors = _random(values, count, tokens, config.word_dim + config.character_filters)
        cost = of.decoupled_encoder(count, tokens, config, size)
        add(f"decoupled_encoder, {text}", "decoupled_encoder", cost, vectors, _mask(count, tokens), text=text)
    wide, narrow = (
        [_random(values, questions, tokens, features) for _, tokens in texts.values()]
        for features in (config.word_dim + config.character_filters, config.d_model)
    )
    shape = (questions, values.passage, values.question, config, size)
    add("reduction_layer", "reduction_layer", of.reduction_layer(*shape), *wide, *narrow, **masks)
    for number in range(1, config.num_layers + 1):
        layer = f"processing_layer_{number}"
        add(layer, layer, of.processing_layer(*shape), *narrow, **masks)
    cost = of.selector(questions * values.passage, config, size)
    add("selector", "selector", cost, narrow[0], passage_mask=masks["passage_mask"])
    calls[WHOLE] = _whole_model(model, config, texts)
    costs[WHOLE] = sum(costs.values(), of.Cost())
    return calls, costs


def _compiled(layer, inputs: tuple, options: dict) -> Callable:
    """A call of a layer, traced for any batch and length like the reader's graph."""
    import tensorflow as tf

    from fabir_tf.backends.tensorflow import reading_kernels
    from fabir_tf.layers.core.backend_kernels import backend_kernels

    tensors = {name: value for name, value in options.items() if tf.is_tensor(value)}
    fixed = {name: value for name, value in options.items() if name not in tensors}
    specs = tf.nest.map_structure(lambda x: tf.TensorSpec([None, None, *x.shape[2:]], x.dtype), (inputs, tensors))

    def call(args, kwargs):
        with backend_kernels(reading_kernels()):
            return layer(*args, **kwargs, **fixed)

    function = tf.function(call, input_signature=specs, autograph=False)
    return lambda: function(inputs, tensors)


def _whole_model(model, config, texts: dict[str, tuple[int, int]]) -> Callable:
    from workload import random_batch

    from fabir_tf.backends.tensorflow import as_graph
    from fabir_tf.models.deduplicated import DeduplicatedModel

    function, inputs = as_graph(DeduplicatedModel(model)), random_batch(config, *texts.values())
    return lambda: function(inputs)


def _limits(precision: str) -> dict[str, Callable]:
    """The machine's limits: a matrix product, and a sum that reads two arrays and writes one."""
    import tensorflow as tf

    dtype = tf.float32 if precision == "float32" else tf.bfloat16
    one, other = (tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype) for _ in range(2))
    product = tf.function(lambda: tf.matmul(one, other))
    total, part = tf.Variable(tf.zeros(ARRAY)), tf.ones(ARRAY)
    return {PEAK: product, MEMORY: tf.function(lambda: total.assign_add(part))}


def _ids(shape: tuple[int, ...], ids: int):
    import tensorflow as tf

    return tf.random.uniform(shape, 1, ids, tf.int32)


def _random(values: flags.FlagValues, *shape: int):
    import tensorflow as tf

    return tf.cast(tf.random.normal(shape), tf.float32 if values.precision == "float32" else tf.bfloat16)


def _mask(texts: int, tokens: int):
    import tensorflow as tf

    return tf.ones((texts, tokens), tf.bool)


def _row(name: str, cost, seconds: dict[str, list[float]], peak: list[float], bandwidth: list[float]) -> dict:
    limits = [max(cost.operations / speed, cost.least / rate) for speed, rate in zip(peak, bandwidth, strict=True)]
    return {
        "layer": name,
        "cost": dataclasses.asdict(cost),
        "seconds": spread(seconds[name]),
        "of_the_model": spread(one / whole for one, whole in zip(seconds[name], seconds[WHOLE], strict=True)),
        "limit": spread(limits),
        "achieved": spread(limit / turn for limit, turn in zip(limits, seconds[name], strict=True)),
        "moving": spread(cost.moved / rate for rate in bandwidth),
    }


def _report(values: flags.FlagValues, rows: list[dict], seconds: dict, peak: dict, bandwidth: dict) -> None:
    header = ("", "ms", "of the model", "GFLOP", "least MB", "limit, ms", "achieved", "MB moved", "moving them, ms")
    print_table(
        f"{values.batch} questions of {values.question} tokens, passages of {values.passage}, {values.precision}: "
        f"products {shown(_scaled(peak, 1e-9))} GFLOP/s, memory {shown(_scaled(bandwidth, 1e-9), '.1f')} GB/s",
        header,
        [
            (
                row["layer"],
                shown(_scaled(row["seconds"], 1000), ".1f"),
                f"{row['of_the_model']['median']:.1%}",
                f"{row['cost']['operations'] / 1e9:.2f}",
                f"{row['cost']['least'] / 1e6:.1f}",
                f"{1000 * row['limit']['median']:.1f}",
                f"{row['achieved']['median']:.0%}",
                f"{row['cost']['moved'] / 1e6:.0f}",
                f"{1000 * row['moving']['median']:.1f}",
            )
            for row in rows
        ],
    )


def _scaled(values: dict[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in values.items()}


def draw(figure, found: dict) -> None:
    """Draws the time of each layer, with its limit as a mark."""
    rows = [row for row in found["layers"] if row["layer"] != WHOLE]
    figure.set_figheight(0.8 + 0.35 * len(rows))
    axes = figure.subplots()
    names = [row["layer"] for row in rows]
    draw_bars(axes, names, [_scaled(row["seconds"], 1000) for row in rows], "ms")
    axes.plot(
        [1000 * row["limit"]["median"] for row in rows], names, "|", color="tab:red", markersize=14, label="limit"
    )
    axes.legend()


if __name__ == "__main__":
    run(__doc__, measure, draw)
