"""Joins the short passages of a SQuAD file, such as single sentences, into passages of the usual length.

    python benchmarks/join_passages.py --dataset=train.json --words=110 --output=joined.json

A question about a single sentence does not teach a reader where to look. Each short passage is therefore joined, in
random order, with the passages most similar to it (cosine of their word counts, with rare words weighted higher),
because a reader may confuse them. Questions, answers, ids and longer passages stay unchanged.
"""

import collections
import json
import math
import random
import re

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file to read.")
flags.DEFINE_string("output", None, "File to write.")
flags.DEFINE_integer("short", 60, "Passages of at most this many words are joined.", lower_bound=1)
flags.DEFINE_integer("words", 110, "Passages are joined until they have this many words.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the order within a passage.")

# A more similar passage is a version of the same text and answers the same questions.
MOST_ALIKE = 0.7
# Words that occur in a larger share of the passages say nothing about a passage's topic.
COMMON = 0.05


def length(passage: dict) -> int:
    """The number of words of a passage of SQuAD's JSON."""
    return len(passage["context"].split())


def weighted_words(texts: list[str]) -> list[dict[str, float]]:
    """TF-IDF weights of the words of each text, with norm 1."""
    counts = [collections.Counter(re.findall(r"\w+", text.lower())) for text in texts]
    found_in = collections.Counter(word for count in counts for word in count)
    most = max(2, COMMON * len(texts))
    weighted = []
    for count in counts:
        weights = {
            word: number * math.log(len(texts) / found_in[word])
            for word, number in count.items()
            if found_in[word] <= most
        }
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        weighted.append({word: weight / norm for word, weight in weights.items()})
    return weighted


def similar_groups(passages: list[dict], words: int) -> list[list[dict]]:
    """Groups of about `words` words: the first remaining passage with the remaining ones most similar to it."""
    weights = weighted_words([passage["context"] for passage in passages])
    holders = collections.defaultdict(dict)
    for number, weighted in enumerate(weights):
        for word, weight in weighted.items():
            holders[word][number] = weight

    def take(number: int) -> dict:
        for word in weights[number]:
            del holders[word][number]
        return passages[number]

    groups, left = [], dict.fromkeys(range(len(passages)))
    while left:
        first = next(iter(left))
        likeness = collections.Counter()
        for word, weight in weights[first].items():
            for other, other_weight in holders[word].items():
                likeness[other] += weight * other_weight
        others = [other for other, cosine in likeness.most_common() if other != first and cosine <= MOST_ALIKE]
        group = []
        for number in (first, *others):
            group.append(take(number))
            del left[number]
            if sum(map(length, group)) >= words:
                break
        groups.append(group)
    return groups


def moved(answer: dict, offset: int) -> dict:
    """An answer whose passage begins `offset` characters later; the field `answer_start` is optional."""
    return answer | {"answer_start": answer["answer_start"] + offset} if "answer_start" in answer else answer


def joined(group: list[dict], rng: random.Random) -> dict:
    """Joins passages of SQuAD's JSON in random order, with all of their questions."""
    order = rng.sample(group, len(group))
    questions, offset = [], 0
    for passage in order:
        for question in passage["qas"]:
            lists = [name for name in ("answers", "plausible_answers") if name in question]
            questions.append(question | {name: [moved(answer, offset) for answer in question[name]] for name in lists})
        offset += len(passage["context"]) + 1
    return {"context": " ".join(passage["context"] for passage in order), "qas": questions}


def main(values: flags.FlagValues) -> None:
    """Reads the file, joins passages and writes the result."""
    cli.validate_given(values, dataset="a SQuAD file", output="a file")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Validates the file; the output is made from its own JSON, so that unknown fields stay.
    read_squad(values.dataset)
    articles = read_json(values.dataset)["data"]
    short = [part for article in articles for part in article["paragraphs"] if length(part) <= values.short]
    rng = random.Random(values.seed)
    passages = [joined(group, rng) for group in similar_groups(short, values.words)]
    kept = [
        article | {"paragraphs": [part for part in article["paragraphs"] if length(part) > values.short]}
        for article in articles
    ]
    data = [article for article in kept if article["paragraphs"]]
    if passages:
        data.append({"title": "Joined passages", "paragraphs": passages})
    write_text(values.output, json.dumps({"version": "1.1", "data": data}, ensure_ascii=False))
    print(f"{values.output}: {len(short):,} short passages joined into {len(passages):,}")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
