"""Merges questions with and without an answer on their passages, and holds out articles for choices.

    python benchmarks/merge_unanswerable.py --dataset=train.json --unanswerable=no-answer.json --output=merged \\
        --titles=IPod,Pain --unanswerable_titles=Pain,Department_store

It writes merged/held.json with the articles of --titles, merged/watch.json with these and the questions without an
answer of --unanswerable_titles, merged/choose.json with every second paragraph of that, and merged/train.json with all
other articles. Passages that share 60 characters with a held-out one are removed, as `fabir-train --set_aside` does.
"""

import json
from collections import defaultdict
from pathlib import Path

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.set_aside import overlaps
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file of questions with an answer.")
flags.DEFINE_string("unanswerable", None, "SQuAD 2.0 file of questions without one.")
flags.DEFINE_list("titles", [], "Articles of --dataset to hold out, comma-separated.")
flags.DEFINE_list("unanswerable_titles", [], "Articles of --unanswerable to hold out, comma-separated.")
flags.DEFINE_string("output", None, "Folder for the files.")

# Articles as SQuAD's JSON has them: by title, the questions of each passage.
Articles = dict[str, dict[str, list[dict]]]


def merged(*parts: Articles) -> Articles:
    """The articles of all parts; the questions about one passage stand together, where it stood first."""
    title_of: dict[str, str] = {}
    articles: Articles = defaultdict(lambda: defaultdict(list))
    for part in parts:
        for title, passages in part.items():
            for passage, questions in passages.items():
                articles[title_of.setdefault(passage, title)][passage] += questions
    return articles


def read_articles(path: str) -> Articles:
    """The articles of a file."""
    # Says what is wrong with a file that is not SQuAD's.
    read_squad(path)
    articles: Articles = defaultdict(lambda: defaultdict(list))
    for article in read_json(path)["data"]:
        for passage in article["paragraphs"]:
            articles[article["title"]][passage["context"]] += passage["qas"]
    return articles


def of_titles(articles: Articles, titles: list[str], flag: str) -> Articles:
    """Some of the articles."""
    missing = set(titles) - set(articles)
    if missing:
        raise UserError(f"--{flag}: found no article {sorted(missing)[0]!r}")
    return {title: articles[title] for title in titles}


def every_second(articles: Articles) -> Articles:
    """The articles with half of their passages."""
    return {title: dict(list(passages.items())[::2]) for title, passages in articles.items()}


def write(path: Path, articles: Articles) -> Path:
    """Writes articles as SQuAD 2.0's JSON."""
    data = [
        {"title": title, "paragraphs": [{"context": passage, "qas": asked} for passage, asked in passages.items()]}
        for title, passages in articles.items()
        if passages
    ]
    write_text(path, json.dumps({"version": "v2.0", "data": data}, ensure_ascii=False))
    return path


def tell(path: Path) -> None:
    """Prints what a file holds."""
    questions = read_squad(path).questions
    without = sum(not question.answers for question in questions)
    print(f"{path}: {len(questions):,} questions, {without:,} without an answer")


def main(values: flags.FlagValues) -> None:
    """Reads the files, separates the articles and writes the results."""
    cli.validate_given(values, dataset="a SQuAD file", unanswerable="a SQuAD 2.0 file", output="a folder")
    cli.validate_given(values, titles="articles to hold out")
    folder = Path(values.output)
    held, choose, watch, train = (folder / f"{name}.json" for name in ("held", "choose", "watch", "train"))
    for path in (held, choose, watch, train):
        cli.validate_other_file("output", str(path), {"dataset": values.dataset, "unanswerable": values.unanswerable})
    answerable, unanswerable = read_articles(values.dataset), read_articles(values.unanswerable)
    chosen = of_titles(answerable, values.titles, "titles")
    watched = merged(chosen, of_titles(unanswerable, values.unanswerable_titles, "unanswerable_titles"))
    everything = merged(answerable, unanswerable)
    write(held, chosen)
    write(choose, every_second(watched))
    shared = iter(overlaps(read_squad(write(train, everything)), read_squad(write(watch, watched))))
    kept = {
        title: {passage: asked for passage, asked in passages.items() if not next(shared)}
        for title, passages in everything.items()
    }
    write(train, kept)
    for path in (held, watch, choose, train):
        tell(path)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
