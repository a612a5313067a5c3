"""How long a dataset takes from JSON to arrays, how much memory it needs, and how many answers are whole tokens.

python benchmarks/encode.py --dataset=dev-v1.1.json --vectors=glove.6B.100d.txt
"""

import resource
import time

import numpy as np
from absl import app, flags

from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.features.alignment import measure_coverage
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordProcessor

flags.DEFINE_string("dataset", "sample", "The dataset, as for fabir-train.")
flags.DEFINE_string("split", "dev", "train or dev; a JSON file is always read whole.")
flags.DEFINE_string("vectors", "bundled", "Word vectors, as for fabir-train.")


def main(_) -> None:
    before = _peak_mib()
    data = _timed("read", lambda: load_dataset(flags.FLAGS.dataset, flags.FLAGS.split))
    created = WordProcessor.create(FabirConfig().to_dict() | {"vectors": flags.FLAGS.vectors})
    name = "tokenize, without the cache"
    tokenized = _timed(name, lambda: tokenize_dataset(data, created, None, lambda line: None))
    processor = _timed("read the vectors, build the vocabulary", lambda: created.fit([tokenized]))
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    examples = Examples(np.arange(len(lengths)), np.zeros_like(lengths), lengths)
    features = _timed("look up", lambda: processor.features(tokenized, examples))
    texts = tokenized.texts
    arrays = (texts.tokens, texts.starts, texts.ends, texts.splits, *features.unique.values())
    print(
        f"{len(data.questions):,} questions, {len(data.passages):,} passages, {len(texts.tokens):,} tokens, "
        f"{len(texts.unique):,} distinct\n"
        f"arrays {sum(array.nbytes for array in arrays) / 2**20:.0f} MiB, "
        f"vectors {processor.vectors.table.nbytes / 2**20:.0f} MiB, "
        f"peak {_peak_mib():.0f} MiB, {before:.0f} MiB of it for the libraries"
    )
    tokens = list(tokenized.passage_tokens())
    ledger = _timed("align", lambda: measure_coverage(data, tokens, FabirConfig().max_answer))
    report = ledger.to_json()
    for name, kept in (("answers", report["answers"]), ("questions", report["counts"])):
        print(f"{name} that are whole tokens: {100 * kept['kept'] / max(sum(kept.values()), 1):.3f} %")
    print(ledger.summary())


def _timed(name: str, work):
    begin = time.monotonic()
    result = work()
    print(f"{time.monotonic() - begin:8.2f} s  {name}")
    return result


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    app.run(main)
