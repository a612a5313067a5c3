"""What an index of very many paragraphs costs in one file and in shards, and whether both find the same.

    python benchmarks/shards.py --corpus=train-v1.1.json,docs --paragraphs=1000000 --shards=4

The paragraphs are made with a seed: each has some sentences, drawn from all of the corpus, so that its words are as
frequent as in real text and none repeats a real paragraph. Both indexes are made by `fabir-index`, in processes of
their own, from the same JSON lines. Questions are the first words of real paragraphs.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from common import machine, print_table
from search import WORDS_OF_A_QUESTION, corpus, median, seconds

from fabir_tf.pipelines.documents.sharded_index import open_index
from fabir_tf.pipelines.text.sentences import sentence_spans

flags.DEFINE_integer("paragraphs", 20_000, "Paragraphs to index.", lower_bound=1)
flags.DEFINE_integer("shards", 4, "Shards of the second index.", lower_bound=2)
flags.DEFINE_integer("depth", 100, "Paragraphs that are compared.", lower_bound=1)
flags.DEFINE_string("folder", None, "Folder for the files, which are then kept; by default a temporary one.")

SENTENCES = (2, 6)

# Runs a command, and prints the processor seconds and the megabytes of the largest of its processes. A small process of
# its own, because a new process is counted as large as the one that began it.
WRAPPER = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3]))
"""


def main(_) -> None:
    values = flags.FLAGS
    texts = corpus(values.corpus, values.seed)
    asked = [" ".join(text.split()[:WORDS_OF_A_QUESTION]) for text in texts[: values.questions]]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(values.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        lines = folder / "paragraphs.jsonl"
        write_paragraphs(lines, texts, values.paragraphs, values.seed)
        print(f"{lines}: {lines.stat().st_size / 1e6:,.0f} MB", flush=True)
        rows, found = [], []
        for name, arguments in (("one file", []), (f"{values.shards} shards", [f"--shards={values.shards}"])):
            path = folder / name.replace(" ", "-")
            row, of_this = costs(path, lines, arguments, asked, values.depth)
            rows.append((name, *row))
            found.append(of_this)
            print(f"{name}: {row}", flush=True)
    same = sum(one == other for one, other in zip(*found, strict=True))
    made = ("index, s", "processor, s", "largest process, MB", "size, MB")
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f} at the end")
    print_table(
        f"{values.paragraphs:,} paragraphs, {len(asked):,} questions: the first {values.depth} and their scores are "
        f"the same for {same:,}",
        ("", *made, "first question, ms", "median, ms", "slowest of 100, ms", "asked again, ms", "memory, MB"),
        rows,
    )


def write_paragraphs(path: Path, texts: Sequence[str], count: int, seed: int) -> None:
    """Writes paragraphs of sentences drawn from all texts, as JSON lines."""
    sentences = [text[start:end] for text in texts for start, end in sentence_spans(text)]
    draw = random.Random(seed)
    with path.open("w") as file:
        for number in range(count):
            text = " ".join(draw.choices(sentences, k=draw.randint(*SENTENCES)))
            file.write(json.dumps({"id": str(number), "text": " ".join(text.split())}) + "\n")


def costs(path: Path, lines: Path, arguments: list[str], asked: Sequence[str], depth: int) -> tuple[list[str], list]:
    """Figures of one index, and what it finds for each question."""
    command = [sys.executable, "-m", "fabir_tf.commands.index", f"--input={lines}", f"--index={path}", *arguments]
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", WRAPPER, *command], check=True, stdout=subprocess.PIPE)
    made = time.perf_counter() - begin
    used, largest = json.loads(done.stdout.splitlines()[-1])
    files = [path] if path.is_file() else list(path.iterdir())
    size = sum(file.stat().st_size for file in files) / 1e6
    resident = memory()
    with open_index(path) as index:
        times: list[float] = []
        found = []
        for question in asked:
            begin = time.perf_counter()
            hits = index.search(question, depth)
            times.append(time.perf_counter() - begin)
            found.append([(hit.paragraph.source, hit.score) for hit in hits])
        again = [seconds(lambda question=question: index.search(question, depth)) for question in asked[:100]]
        figures = (made, used, largest, size, 1e3 * times[0], 1e3 * median(times[1:]))
        slow = sorted(times)[int(0.99 * len(times))]
        figures += (1e3 * slow, 1e3 * median(again), memory() - resident)
    return [f"{figure:,.1f}" for figure in figures], found


def memory() -> float:
    """The resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    app.run(main)
