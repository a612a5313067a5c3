"""How many questions per second trained readers answer, and BERT's logits beside the same model in PyTorch.

    python benchmarks/reader_speed.py --readers=fabir-base,fabir-minilm --dataset=dev-v1.1.json --json_file=speed.json

Every contender runs in a process of its own with the same number of threads, in alternating turns. A reader answers
whole: text in, answers out. Then the encoder of each BERT among the readers, without decoding, is compared with
Hugging Face's model of the same sizes (extra `rivals`): the same batches, sorted by length and cut to
--batch_tokens tokens, of the same word pieces, made before the clock starts. PyTorch uses its fused attention (sdpa) in
inference_mode and has random weights, because speed does not depend on them.
"""

import contextlib
from collections.abc import Callable

import numpy as np
from absl import flags
from common import Contender, chosen, print_table, ratios, run, shown, spread, take_turns, timed

PRECISIONS = ("float32", "bfloat16")
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
LONGEST = 384

flags.DEFINE_list("readers", ["fabir-base"], "Folders of readers, or names of those that come with the package.")
flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_integer("questions", 1000, "About how many to answer, spread evenly over passage lengths.", lower_bound=1)
flags.DEFINE_list("precisions", list(PRECISIONS), "Precisions of every contender.")
flags.DEFINE_integer("threads", 2, "Threads of every contender.", lower_bound=1)
flags.DEFINE_integer("batch_tokens", 2400, "Tokens in a batch of the comparison with PyTorch.", lower_bound=1)
flags.DEFINE_bool("torch", True, "Compare with PyTorch.")


def measure(values: flags.FlagValues) -> dict:
    """Runs both races and prints their tables."""
    from workload import load_questions

    from fabir_tf.models.bert_span import BertSpanConfig
    from fabir_tf.reading.reader import Reader

    precisions = chosen(values, "precisions", PRECISIONS)
    data = load_questions(values.dataset, values.questions).data
    found = {
        "answers": _race(
            values,
            {
                (name, precision): (_whole, name, precision, values.threads, data)
                for precision in precisions
                for name in values.readers
            },
            values.readers[0],
            "answers",
        )
    }
    berts = [name for name in values.readers if isinstance(Reader.load(name).config, BertSpanConfig)]
    for name in berts if values.torch else []:
        reader = Reader.load(name)
        arguments = (values.threads, _sequences(reader, data, values.batch_tokens))
        contenders: dict = {}
        for precision in precisions:
            contenders["PyTorch", precision] = (_torch, reader.config.to_dict(), precision, *arguments)
            contenders[name, precision] = (_logits, name, precision, *arguments)
        found[f"logits of {name}"] = _race(values, contenders, "PyTorch", f"logits of {name}")
    return found


def _race(values: flags.FlagValues, arguments: dict, first: str, title: str) -> list[dict]:
    """Measures contenders, and prints them beside `first` at the same precision."""
    with contextlib.ExitStack() as stack:
        contenders = {name: stack.enter_context(Contender(*made)) for name, made in arguments.items()}
        turns = take_turns(contenders, values.turns, describe="{speed:,.1f} questions/s".format_map)
    rows = []
    for (name, precision), of_one in turns.items():
        speeds = [turn["speed"] for turn in of_one]
        beside = ratios(speeds, [turn["speed"] for turn in turns[first, precision]])
        rows.append({"contender": name, "precision": precision, "speed": spread(speeds), "ratio": beside})
    cells = [
        (row["contender"], row["precision"], shown(row["speed"], ",.1f"), shown(row["ratio"], ".2f")) for row in rows
    ]
    print_table(
        f"{title}, {turns[name, precision][0]['questions']:,} questions",
        ("", "precision", "questions/s", f"it : {first}"),
        cells,
    )
    return rows


def _sequences(reader, data, batch_tokens: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids and segments of batches, `(batch, length)` each, padded with 0 to the longest sequence of a batch."""
    from fabir_tf.pipelines.features.array_batches import token_inputs
    from fabir_tf.pipelines.features.windows import reading_examples

    tokenized = reader.tokenize(data)
    sizes = reader.processor.window_sizes(tokenized.question_lengths, LONGEST)
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    features = reader.processor.features(tokenized, reading_examples(lengths, sizes))
    order, batches, begin = np.argsort(features.longest, kind="stable"), [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - begin + 1) * features.longest[order[end]] > batch_tokens:
            inputs = token_inputs(features, order[begin:end])
            batches.append((inputs["sequence_ids"], inputs["sequence_segments"]))
            begin = end
    return batches


# === In processes of their own, where neither library's memory counts for the other ===


def _whole(name: str, precision: str, threads: int, data) -> Callable[[], dict]:
    from workload import set_threads

    set_threads(threads)
    from fabir_tf.reading.reader import Reader

    reader = Reader.load(name, precision=POLICIES[precision])
    reader.predict(data)
    return lambda: timed(lambda: len(reader.predict(data)))


def _logits(name: str, precision: str, threads: int, batches: list) -> Callable[[], dict]:
    from workload import set_threads

    set_threads(threads)
    import tensorflow as tf

    from fabir_tf.backends.tensorflow import as_graph, trainer
    from fabir_tf.reading.reader import Reader

    graph = as_graph(trainer(Reader.load(name, precision=POLICIES[precision]).model))
    # Each token is a unique one, as for a model without our deduplication.
    inputs = [
        {
            "sequence_token_index": tf.reshape(tf.range(ids.size), ids.shape),
            "unique_ids": tf.constant(ids.reshape(-1)),
            "unique_segments": tf.constant(segments.reshape(-1)),
        }
        for ids, segments in batches
    ]

    def answer() -> int:
        for batch in inputs:
            graph(batch)["start_logits"].numpy()
        return sum(len(ids) for ids, _ in batches)

    answer()
    return lambda: timed(answer)


def _torch(config: dict, precision: str, threads: int, batches: list) -> Callable[[], dict]:
    import torch
    from transformers import BertConfig, BertForQuestionAnswering

    torch.set_num_threads(threads)
    sizes = {
        "vocab_size": config["pieces"],
        "hidden_size": config["d_model"],
        "num_hidden_layers": config["num_layers"],
        "num_attention_heads": config["num_heads"],
        "intermediate_size": config["hidden_dim"],
        "max_position_embeddings": config["max_positions"],
    }
    model = BertForQuestionAnswering(BertConfig(**sizes, attn_implementation="sdpa"))
    model = model.to({"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]).eval()
    inputs = []
    for ids, segments in batches:
        tensors = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(segments).long()}
        # Without padding there is no mask, which makes it faster.
        inputs.append(tensors if (ids > 0).all() else tensors | {"attention_mask": torch.from_numpy(ids > 0).long()})

    @torch.inference_mode()
    def answer() -> int:
        for batch in inputs:
            model(**batch)
        return sum(len(ids) for ids, _ in batches)

    answer()
    return lambda: timed(answer)


def draw(figure, found: dict) -> None:
    """Draws the speeds of whole readers."""
    axes = figure.subplots()
    rows = found["answers"]
    axes.barh([f"{row['contender']}, {row['precision']}" for row in rows], [row["speed"]["median"] for row in rows])
    axes.set_xlabel("questions per second")


if __name__ == "__main__":
    run(__doc__, measure, draw)
