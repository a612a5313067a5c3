"""How long a dataset takes from JSON to arrays, how much memory that needs, and how many answers whole tokens can give.

python benchmarks/encode.py --dataset=dev-v1.1.json --vectors=glove.6B.100d.txt
"""

import resource
import time

from absl import app, flags

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.features.alignment import measure_coverage
from fabir_tf.pipelines.text.tokenized import encode, tokenize_dataset
from fabir_tf.pipelines.text.vocabulary import build_vocabulary
from fabir_tf.pipelines.text.word_vectors import load_vectors

flags.DEFINE_string("dataset", "sample", "What to encode, as in fabir-train.")
flags.DEFINE_string("split", "dev", "train or dev; a JSON file is read whole.")
flags.DEFINE_string("vectors", "bundled", "Word vectors, as in fabir-train.")


def main(_) -> None:
    before = _peak_mib()
    data = _timed("read", lambda: load_dataset(flags.FLAGS.dataset, flags.FLAGS.split))
    tokenized = _timed("tokenize_dataset, without the cache", lambda: tokenize_dataset(data, None, lambda line: None))
    counts = tokenized.token_counts()
    vectors = _timed("read the vectors", lambda: load_vectors(flags.FLAGS.vectors, {word.lower() for word in counts}))
    vocabulary = _timed("vocabulary", lambda: build_vocabulary(counts, vectors.words))
    encoded = _timed("look up", lambda: encode(tokenized, vocabulary, 20))
    texts = tokenized.texts
    arrays = (texts.tokens, texts.starts, texts.ends, texts.splits, encoded.unique_words, encoded.unique_characters)
    print(
        f"{len(data.questions):,} questions, {len(data.passages):,} passages, {len(texts.tokens):,} tokens, "
        f"{len(texts.types):,} distinct\n"
        f"arrays {sum(array.nbytes for array in arrays) / 2**20:.0f} MiB, "
        f"vectors {vectors.table.nbytes / 2**20:.0f} MiB, "
        f"peak {_peak_mib():.0f} MiB of which {before:.0f} MiB are the libraries"
    )
    tokens = [texts.tokens_of(passage) for passage in range(len(data.passages))]
    ledger = _timed("align", lambda: measure_coverage(data, tokens))
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
