"""Holds out articles of a SQuAD file for model selection, and removes overlapping passages from training files.

    python benchmarks/set_aside.py --dataset=train.json --titles=IPod,Pain --output=chosen --others=reddit.json

It writes chosen/held.json with the articles, and chosen/train.json and chosen/reddit.json without them. Passages that
share 50 consecutive letters and digits with them are removed, too. `fabir-base` was selected on
2008_Sichuan_earthquake, Alfred_North_Whitehead, Antibiotics, Frédéric_Chopin, IPod and Pain.
"""

import json
import re
from pathlib import Path

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file with the articles.")
flags.DEFINE_list("titles", [], "Titles of the articles, comma-separated.")
flags.DEFINE_list("others", [], "More training files, comma-separated.")
flags.DEFINE_string("output", None, "Folder for the files.")

SEGMENT = 50
HELD = "held.json"


def segments(passage: str) -> set[str]:
    """All segments of 50 letters and digits, in lower case; detokenizing and white space do not change them."""
    letters = re.sub(r"[\W_]", "", passage.lower())
    return {letters[begin : begin + SEGMENT] for begin in range(len(letters) - SEGMENT + 1)}


def without(articles: list[dict], titles: set[str], held: set[str]) -> list[dict]:
    """The articles with other titles, without the passages that share a segment with `held`."""
    kept = []
    for article in articles:
        passages = [part for part in article["paragraphs"] if not held & segments(part["context"])]
        if article.get("title") not in titles and passages:
            kept.append(article | {"paragraphs": passages})
    return kept


def main(values: flags.FlagValues) -> None:
    """Reads the files, separates the articles and writes the results."""
    cli.validate_given(values, dataset="a SQuAD file", titles="the articles", output="a folder")
    files = [Path(name) for name in (values.dataset, *values.others)]
    if len({HELD, *(path.name for path in files)}) <= len(files):
        raise UserError("--others: found two files of the same name, expected different names for the files to write")
    for path in files:
        # Validates the file; the output is made from its own JSON, so that unknown fields stay.
        read_squad(path)
        flag = "dataset" if path == files[0] else "others"
        cli.validate_other_file("output", str(Path(values.output) / path.name), {flag: str(path)})
    contents = [read_json(path)["data"] for path in files]
    titles = set(values.titles)
    held = [article for article in contents[0] if article.get("title") in titles]
    missing = titles - {article["title"] for article in held}
    if missing:
        raise UserError(f"--titles: found no article {sorted(missing)[0]!r} in {values.dataset}")
    shared = set().union(*(segments(part["context"]) for article in held for part in article["paragraphs"]))
    parts = {path.name: without(articles, titles, shared) for path, articles in zip(files, contents, strict=True)}
    for name, articles in ({HELD: held} | parts).items():
        write_text(Path(values.output) / name, json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False))
        questions = sum(len(part["qas"]) for article in articles for part in article["paragraphs"])
        print(f"{Path(values.output) / name}: {questions:,} questions")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
