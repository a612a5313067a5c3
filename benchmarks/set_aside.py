"""Holds out articles of a SQuAD file for model selection, and removes overlapping passages from training files.

    python benchmarks/set_aside.py --dataset=train.json --titles=IPod,Pain --output=chosen --others=reddit.json

It writes chosen/held.json with the articles, and chosen/train.json and chosen/reddit.json without them. Passages that
share 60 characters with them are removed, too, as `fabir-train --set_aside` does. `fabir-base` was selected on
2008_Sichuan_earthquake, Alfred_North_Whitehead, Antibiotics, Frédéric_Chopin, IPod and Pain.
"""

import json
from pathlib import Path

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.set_aside import overlaps
from fabir_tf.pipelines.datasets.squad import SquadData, read_squad, select_passages
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file with the articles.")
flags.DEFINE_list("titles", [], "Titles of the articles, comma-separated.")
flags.DEFINE_list("others", [], "More training files, comma-separated.")
flags.DEFINE_string("output", None, "Folder for the files.")

HELD = "held.json"


def without(path: Path, data: SquadData, held: SquadData) -> list[dict]:
    """The articles of a file without what overlaps with `held`; they are of its own JSON, so unknown fields stay."""
    shared = iter(overlaps(data, held))
    kept = []
    for article in read_json(path)["data"]:
        passages = [part for part in article["paragraphs"] if not next(shared)]
        kept += [article | {"paragraphs": passages}] if passages else []
    return kept


def main(values: flags.FlagValues) -> None:
    """Reads the files, separates the articles and writes the results."""
    cli.validate_given(values, dataset="a SQuAD file", titles="the articles", output="a folder")
    files = [Path(name) for name in (values.dataset, *values.others)]
    if len({HELD, *(path.name for path in files)}) <= len(files):
        raise UserError("--others: found two files of the same name, expected different names for the files to write")
    data = {path: read_squad(path) for path in files}
    for path in files:
        flag = "dataset" if path == files[0] else "others"
        cli.validate_other_file("output", str(Path(values.output) / path.name), {flag: str(path)})
    whole, titles = data[files[0]], set(values.titles)
    held = select_passages(whole, [title in titles for title in whole.titles])
    missing = titles - set(held.titles)
    if missing:
        raise UserError(f"--titles: found no article {sorted(missing)[0]!r} in {values.dataset}")
    chosen = [article for article in read_json(files[0])["data"] if article.get("title") in titles]
    parts = {path.name: without(path, data[path], held) for path in files}
    for name, articles in ({HELD: chosen} | parts).items():
        write_text(Path(values.output) / name, json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False))
        questions = sum(len(part["qas"]) for article in articles for part in article["paragraphs"])
        print(f"{Path(values.output) / name}: {questions:,} questions")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
