"""Draws passages of a SQuAD file, with all of their questions, for a training set of a given size.

    python benchmarks/draw_passages.py --dataset=train.json --questions=20000 --output=twenty.json

With the same seed, a larger file contains all passages of a smaller one.
"""

import json
import random

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file to read.")
flags.DEFINE_string("output", None, "File to write.")
flags.DEFINE_integer("questions", None, "Passages are drawn until they have this many questions.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the drawing.")


def draw(articles: list[dict], questions: int, seed: int) -> list[dict]:
    """The articles, reduced to the passages that were drawn.

    Raises:
        UserError: the articles have fewer questions.
    """
    passages = [(row, column) for row, article in enumerate(articles) for column in range(len(article["paragraphs"]))]
    random.Random(seed).shuffle(passages)
    drawn, found = set(), 0
    for row, column in passages:
        if found >= questions:
            break
        drawn.add((row, column))
        found += len(articles[row]["paragraphs"][column]["qas"])
    if found < questions:
        raise UserError(f"--questions={questions}: found {found:,} in --dataset, expected at most as many")
    kept = [
        article | {"paragraphs": [part for column, part in enumerate(article["paragraphs"]) if (row, column) in drawn]}
        for row, article in enumerate(articles)
    ]
    return [article for article in kept if article["paragraphs"]]


def main(values: flags.FlagValues) -> None:
    """Reads the file, draws passages and writes them."""
    cli.validate_given(values, dataset="a SQuAD file", output="a file", questions="how many")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Validates the file; the output is made from its own JSON, so that unknown fields stay.
    read_squad(values.dataset)
    data = draw(read_json(values.dataset)["data"], values.questions, values.seed)
    write_text(values.output, json.dumps({"version": "1.1", "data": data}, ensure_ascii=False))
    passages = [passage for article in data for passage in article["paragraphs"]]
    questions = sum(len(passage["qas"]) for passage in passages)
    print(f"{values.output}: {questions:,} questions about {len(passages):,} passages of {len(data)} articles")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
