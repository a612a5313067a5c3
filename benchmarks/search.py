"""How often the right paragraph is among the first that are found, and what an index costs.

    python benchmarks/search.py --dataset=dev-v1.1.json
    python benchmarks/search.py --dataset=train-v1.1.json --k1=0.4,0.6,0.9,1.2 --b=0.5,0.75,1
    python benchmarks/search.py --dataset= --corpus=train-v1.1.json,docs --sizes=2000,20000

The passages of `--dataset` are one collection, and each of its questions that has an answer looks for its own passage:
the passage as it is, and with the title of its article. `--corpus` names SQuAD files, files of JSON lines and folders,
whose paragraphs, shuffled and without doubles, are what is indexed in each size; questions are then their first words.
"""

import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from absl import app, flags
from common import print_table

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.documents.bm25 import BM25, BM25Settings
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import COLLECTIONS, read_documents
from fabir_tf.pipelines.documents.index import DocumentIndex

DEPTHS = (1, 5, 20)
WORDS_OF_A_QUESTION = 10

flags.DEFINE_string("dataset", "sample", "Questions and passages for the recall, as for fabir-train; empty for none.")
flags.DEFINE_string("split", "dev", "train or dev; a file is always read whole.")
flags.DEFINE_string("id_pattern", "", "Only questions whose id matches this regular expression, and their passages.")
flags.DEFINE_list("k1", ["0.6"], "BM25's k1, perhaps several.")
flags.DEFINE_list("b", ["0.75"], "BM25's b, perhaps several.")
flags.DEFINE_list("corpus", [], "Files and folders whose paragraphs are indexed.")
flags.DEFINE_list("sizes", ["2000", "20000"], "Numbers of paragraphs.")
flags.DEFINE_integer("questions", 200, "Questions that are timed.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the shuffled corpus.")


def main(_) -> None:
    values = flags.FLAGS
    if values.dataset:
        settings = [BM25Settings(float(k1), float(b)) for k1 in values.k1 for b in values.b]
        data = load_dataset(values.dataset, values.split)
        print_recall(data, settings, values.id_pattern)
    if values.corpus:
        texts = corpus(values.corpus, values.seed)
        sizes = [size for size in map(int, values.sizes) if size <= len(texts)]
        rows = [costs(texts[:size], values.questions) for size in sizes]
        header = ("paragraphs", "index, s", "processor, s", "again, s", "size, MB", "first question, ms", "later, ms")
        memory = ("in memory, processor s", "a question, ms", "same first 20")
        print_table(f"{len(texts):,} paragraphs found", (*header, *memory), rows)


def print_recall(data: SquadData, settings: Sequence[BM25Settings], pattern: str) -> None:
    """Prints the recall with each setting."""
    asked = [question for question in data.questions if question.answers and re.search(pattern, question.given_id)]
    places = {passage: place for place, passage in enumerate(sorted({question.passage for question in asked}))}
    rows = []
    for name, with_title in (("passage", False), ("title and passage", True)):
        texts = [f"{data.titles[passage] if with_title else ''}\n{data.passages[passage]}" for passage in places]
        for setting in settings:
            ranker = BM25(texts, setting)
            ranks = np.array([rank(ranker, question.text, places[question.passage]) for question in asked])
            shares = [f"{100 * np.mean(ranks < depth):.2f}" for depth in DEPTHS]
            rows.append((name, setting.k1, setting.b, *shares))
    header = ("searched", "k1", "b", *(f"among the first {depth}, %" for depth in DEPTHS))
    print_table(f"{len(asked):,} questions, {len(places):,} passages", header, rows)


def rank(ranker: BM25, question: str, place: int) -> int:
    """The rank of a passage, from 0; one past the deepest where it is not found."""
    found = [ranked.number for ranked in ranker.rank(question, max(DEPTHS))]
    return found.index(place) if place in found else max(DEPTHS)


def corpus(names: Sequence[str], seed: int) -> list[str]:
    """The texts of all distinct paragraphs, shuffled."""
    texts = list(dict.fromkeys(text for name in names for text in paragraphs(name)))
    random.Random(seed).shuffle(texts)
    return texts


def paragraphs(name: str) -> Iterator[str]:
    if os.path.isdir(name) or name.endswith(COLLECTIONS):
        for document in read_documents(name, skipped=print):
            yield from (paragraph.text for paragraph in document.paragraphs())
    else:
        yield from load_dataset(name, "train").passages


def costs(texts: Sequence[str], count: int) -> tuple:
    """What the index of some paragraphs costs: one document each."""
    documents = [Document(str(number), " ".join(text.split())) for number, text in enumerate(texts)]
    asked = [" ".join(text.split()[:WORDS_OF_A_QUESTION]) for text in texts[:: max(1, len(texts) // count)][:count]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index")
        with DocumentIndex(path, create=True) as index:
            used = time.process_time()
            made = seconds(lambda: index.update(documents))
            used = time.process_time() - used
            again = seconds(lambda: index.update(documents))
        size = path.stat().st_size / 1e6
        with DocumentIndex(path) as index:
            first = seconds(lambda: index.search(asked[0]))
            later = [seconds(lambda question=question: index.search(question)) for question in asked[1:]]
            found = [[(hit.paragraph.source, hit.score) for hit in index.search(question)] for question in asked]
    begin = time.process_time()
    kept = [paragraph for document in documents for paragraph in document.paragraphs()]
    ranker = BM25(paragraph.searched_text for paragraph in kept)
    built = time.process_time() - begin
    times = [seconds(lambda question=question: ranker.rank(question)) for question in asked]
    # A text without a word is no paragraph.
    same = [[(kept[hit.number].source, hit.score) for hit in ranker.rank(question)] for question in asked] == found
    figures = (made, used, again, size, 1000 * first, 1000 * median(later), built, 1000 * median(times))
    return f"{len(texts):,}", *(f"{figure:,.1f}" for figure in figures), "yes" if same else "no"


def seconds(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median(times: Sequence[float]) -> float:
    return statistics.median(times) if times else 0.0


if __name__ == "__main__":
    app.run(main)
