"""Augments a SQuAD file: adds a copy of each passage with its sentences in another order.

    python benchmarks/shuffle_sentences.py --dataset=train.json --output=shuffled.json

An answer stays correct wherever its sentence is, and the reader sees it in another position and context. The copy keeps
the questions whose answers lie within one sentence, and adds an "s" to their ids. Everything else stays unchanged.
"""

import json
import random

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import check_offsets, read_squad
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.pipelines.text.nltk_tokenizers import SENTENCES

flags.DEFINE_string("dataset", None, "SQuAD file to read.")
flags.DEFINE_string("output", None, "File to write.")
flags.DEFINE_integer("seed", 1, "Seed of the order of the sentences.")


def another_order(sentences: list[tuple[int, int]], rng: random.Random) -> list[tuple[int, int]]:
    """The sentences in random order, different from the given one if there are at least two."""
    order = list(sentences)
    while len(order) > 1 and order == sentences:
        rng.shuffle(order)
    return order


def moved(answers: list[dict], order: list[tuple[int, int]]) -> list[dict]:
    """The answers that lie within one sentence, with their offsets in the new order."""
    found, begin = [], 0
    for start, end in order:
        for answer in answers:
            offset = answer["answer_start"] - start
            if offset >= 0 and answer["answer_start"] + len(answer["text"]) <= end:
                found.append(answer | {"answer_start": begin + offset})
        begin += end - start + 1
    return found


def shuffled(passage: dict, rng: random.Random) -> dict:
    """A passage of SQuAD's JSON with its sentences in another order, and the questions that it still answers."""
    text = passage["context"]
    sentences = list(SENTENCES.span_tokenize(text))
    order = another_order(sentences, rng)
    questions = []
    # A single sentence has no other order.
    for question in passage["qas"] if len(sentences) > 1 else ():
        if answers := moved(question["answers"], order):
            questions.append(question | {"id": f"{question['id']}s", "answers": answers})
    return {"context": " ".join(text[start:end] for start, end in order), "qas": questions}


def main(values: flags.FlagValues) -> None:
    """Reads the file, adds the copies and writes the result."""
    cli.validate_given(values, dataset="a SQuAD file", output="a file")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Validates the file; the output is made from its own JSON, so that unknown fields stay.
    before = read_squad(values.dataset)
    check_offsets(before)
    content, rng = read_json(values.dataset), random.Random(values.seed)
    for article in content["data"]:
        copies = [shuffled(passage, rng) for passage in article["paragraphs"]]
        article["paragraphs"] += [copy for copy in copies if copy["qas"]]
    write_text(values.output, json.dumps(content, ensure_ascii=False))
    added = len(read_squad(values.output).questions) - len(before.questions)
    print(f"{values.output}: {len(before.questions):,} questions and {added:,} about shuffled passages")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
