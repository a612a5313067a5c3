"""Joins the short passages of a SQuAD file, those of one sentence say, into passages of the usual length.

    python benchmarks/join_passages.py --dataset=train.json --words=110 --output=joined.json

A question about a passage of one sentence does not teach a reader where to look. Each short passage is put together
with those that are most like it (cosine of their words' counts, rare words counting more), in random order, so that
they are what a reader may mistake it for. All questions, answers and ids stay; longer passages stay as they are.
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

flags.DEFINE_string("dataset", None, "SQuAD file.")
flags.DEFINE_string("output", None, "The file that is written.")
flags.DEFINE_integer("short", 60, "Passages of at most this many words are joined.", lower_bound=1)
flags.DEFINE_integer("words", 110, "Passages are joined until they have this many words.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "By which the order within a passage is drawn.")

# Above this, one passage is another version of the other, and answers its questions as well.
MOST_ALIKE = 0.7
# Words of more passages than this share tell nothing of what a passage is about.
COMMON = 0.05


def length(passage: dict) -> int:
    """Words of a passage of SQuAD's JSON."""
    return len(passage["context"].split())


def weighted_words(texts: list[str]) -> list[dict[str, float]]:
    """For each text its words' weights: count times logarithm of rarity, their squares summing to 1."""
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


def groups_of_like(passages: list[dict], words: int) -> list[list[dict]]:
    """Every passage in one group, the likest that are left with the first that is left, of about `words` words."""
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
    """An answer whose passage begins `offset` characters later; a file need not say where an answer begins."""
    return answer | {"answer_start": answer["answer_start"] + offset} if "answer_start" in answer else answer


def joined(group: list[dict], rng: random.Random) -> dict:
    """One passage of SQuAD's JSON made of several, in random order, with all of their questions."""
    order = rng.sample(group, len(group))
    questions, offset = [], 0
    for passage in order:
        for question in passage["qas"]:
            lists = [name for name in ("answers", "plausible_answers") if name in question]
            questions.append(question | {name: [moved(answer, offset) for answer in question[name]] for name in lists})
        offset += len(passage["context"]) + 1
    return {"context": " ".join(passage["context"] for passage in order), "qas": questions}


def main(values: flags.FlagValues) -> None:
    """Reads, joins and writes."""
    cli.validate_given(values, dataset="a SQuAD file", output="a file")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Tells of what is not as SQuAD has it; what is written is the file's own JSON.
    read_squad(values.dataset)
    articles = read_json(values.dataset)["data"]
    short = [part for article in articles for part in article["paragraphs"] if length(part) <= values.short]
    rng = random.Random(values.seed)
    passages = [joined(group, rng) for group in groups_of_like(short, values.words)]
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
