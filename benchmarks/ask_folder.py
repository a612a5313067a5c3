"""Asks a folder of documents questions whose answers are known, some of which it does not answer.

    python benchmarks/ask_folder.py --folder="$(npm root -g)/npm/docs/content" --questions=benchmarks/npm_questions.json

The questions were written from the documents of npm 11.19 before any of them was asked. An answer is right if it equals
one of its references after the official normalization; `markup` counts shown answers with a sign of Markdown.
"""

import collections
import re

from absl import flags
from common import print_table, run

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.reading.document_reader import DocumentReader
from fabir_tf.reading.reader import Reader

flags.DEFINE_string("reader", "fabir-base", "Folder of a reader, or the name of one that comes with the package.")
flags.DEFINE_string("folder", None, "The documents.")
flags.DEFINE_string("questions", None, "JSON list of objects with a question and its answers; none where it has none.")
flags.DEFINE_integer("paragraphs", 5, "Paragraphs that are read for a question.", lower_bound=1)

_MARKUP = re.compile(r"\*\*|`|\]\(|^##+ |</?\w+>")


def measure(values: flags.FlagValues) -> dict:
    """Asks every question, and prints what came of it."""
    cli.validate_given(values, folder="the documents", questions="a file of questions")
    asked = read_json(values.questions)
    is_list = isinstance(asked, list) and all(isinstance(one, dict) for one in asked)
    if not is_list or not all({"question", "answers"} <= one.keys() for one in asked):
        raise UserError(f"{values.questions}: expected a list of objects with question and answers, found others")
    reader = DocumentReader.from_folder(values.folder, Reader.load(values.reader), paragraphs=values.paragraphs)
    rows, counts = [], collections.Counter()
    for one, answer in zip(asked, reader.answer_batch([one["question"] for one in asked]), strict=True):
        result = judged(answer.text if answer.is_answer else "", one["answers"])
        counts[result] += 1
        counts["markup"] += bool(_MARKUP.search(answer.text))
        rows.append((result, one["question"], answer.text, answer.source or "", f"{answer.no_answer_probability:.2f}"))
    print_table(values.folder, ("", "question", "answer", "source", "no answer"), rows)
    found = {name: counts[name] for name in ("right", "wrong", "declined rightly", "declined wrongly", "markup")}
    print(", ".join(f"{name}: {count}" for name, count in found.items()))
    return found


def judged(text: str, references: list[str]) -> str:
    """What an answer is; an empty text says that there is none."""
    if not text:
        return "declined wrongly" if references else "declined rightly"
    return "right" if references and best_over_references(exact_match, text, references) else "wrong"


def draw(figure, found: dict) -> None:
    """The counts as bars."""
    figure.subplots().bar(list(found), list(found.values()))


if __name__ == "__main__":
    run(__doc__, measure, draw, turns=1)
