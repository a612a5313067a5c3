"""How well a reader answers from documents of many paragraphs, and how often it says rightly that they do not answer.

    python benchmarks/documents.py --dataset=dev-v1.1.json --others=9,49 --questions=1000
    python benchmarks/documents.py --dataset=dev-v1.1.json --others= --declined=0 --open

Each question is asked about a document of its own paragraph and of others, half of them of the same article, or as many
as it has; none of these holds a reference answer. F1 is that of an answer that is always given, for each --rank_weight.
Then --declined questions are asked with their own paragraph among 50, and as many others without it, at the reader's
own threshold. --open asks all questions about all paragraphs of the dataset as one collection.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from absl import flags
from common import print_table, run
from wrong_paragraphs import Draw, counts_of

import fabir_tf
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match, f1
from fabir_tf.pipelines.documents.collection import Collection
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import OWN_THRESHOLD
from fabir_tf.reading.document_reader import RANK_WEIGHT, DocumentAnswer, DocumentReader
from fabir_tf.reading.reader import Reader

AMONG = 49
AT_ONCE = 250

flags.DEFINE_string("reader", "fabir-base", "Folder of a reader, or the name of one that comes with the package.")
flags.DEFINE_string("dataset", "sample", "Questions with answers: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_list("others", ["9", "49"], "Numbers of other paragraphs; empty for none.")
flags.DEFINE_integer("questions", 1000, "Questions to ask about each number of paragraphs.", lower_bound=1)
flags.DEFINE_integer("declined", 500, "Questions with, and as many without, their own paragraph; 0 for none.")
flags.DEFINE_integer("paragraphs", 5, "Paragraphs that are read for a question.", lower_bound=1)
flags.DEFINE_list("rank_weights", [str(RANK_WEIGHT)], "Weights of the rank, perhaps several.")
flags.DEFINE_bool("open", False, "Ask all questions about all paragraphs.")
flags.DEFINE_integer("seed", 1, "Seed of the questions and paragraphs.")


@dataclass(frozen=True)
class Asked:
    """A question and the passages that it is asked about, by number."""

    question: int
    passages: Sequence[int]


def ask(reader: DocumentReader, data: SquadData, asked: Sequence[Asked]) -> list[DocumentAnswer]:
    """Asks each question about one document of its passages."""
    answers = []
    for one in asked:
        document = "\n\n".join(data.passages[passage] for passage in one.passages)
        answers.append(reader.answer(data.questions[one.question].text, document, n_best=reader.paragraphs))
    return answers


def scored(data: SquadData, asked: Sequence[Asked], texts: Sequence[str]) -> list[float]:
    """EM and F1, in percent."""
    references = [[answer.text for answer in data.questions[one.question].answers] for one in asked]
    found = [
        [best_over_references(metric, text, own) for text, own in zip(texts, references, strict=True)]
        for metric in (exact_match, f1)
    ]
    return [float(100 * np.mean(values)) for values in found]


def chosen(answer: DocumentAnswer, rank_weight: float, score_scale: float) -> str:
    """The text that a rank weight makes the best of those that were read."""
    spans = sorted(answer.n_best, key=lambda span: (-span.rank_score, span.paragraph))
    return max(spans, key=lambda span: score_scale * span.score + rank_weight * span.rank_score).text if spans else ""


def measure(values: flags.FlagValues) -> dict:
    """Asks, and prints the tables."""
    weights = _weights(values.rank_weights)
    data = fabir_tf.load_dataset(values.dataset, "dev")
    draw, found = Draw(data, values.seed), {}
    always = DocumentReader(Reader.load(values.reader, no_answer_threshold=None), values.paragraphs)
    if counts := counts_of(values.others):
        numbers = draw.questions(values.questions)
        others = {number: draw.others(number, max(counts)) for number in numbers}
        found["among"] = [_among(always, data, others, count, weights, draw) for count in [0, *counts]]
        rows = [(row["paragraphs"], row["speed"], *row["f1"]) for row in found["among"]]
        head = ("paragraphs", "questions/s", *(f"F1, rank weight {weight:g}" for weight in weights))
        print_table(f"F1 of {len(numbers):,} questions", head, _rounded(rows))
    if values.declined:
        own = DocumentReader(Reader.load(values.reader, no_answer_threshold=OWN_THRESHOLD), values.paragraphs)
        found["declined"] = _declined(own, data, draw, values.declined)
        print_table("declined at the reader's threshold", ("own paragraph", "of", "declined, %"), found["declined"])
    if values.open:
        found["open"] = _open(always, data, weights)
        print_table("all paragraphs as one collection", ("rank weight", "EM", "F1"), _rounded(found["open"]))
    return found


def _weights(given: list[str]) -> list[float]:
    try:
        return [float(text) for text in given]
    except ValueError:
        raise UserError(f"--rank_weights={','.join(given)}: expected numbers") from None


def _among(reader, data, others, count, weights, draw) -> dict:
    asked = []
    for number, passages in others.items():
        # The first half is of the same article, so that a smaller document has as many of it.
        half = len(passages) // 2
        mine = [*passages[: count // 2], *passages[half : half + count - count // 2]]
        mine.insert(draw.place(len(mine) + 1), data.questions[number].passage)
        asked.append(Asked(number, mine))
    begun = time.monotonic()
    answers = ask(reader, data, asked)
    speed = len(asked) / (time.monotonic() - begun)
    texts = [[chosen(answer, weight, reader.score_scale) for answer in answers] for weight in weights]
    return {"paragraphs": count + 1, "speed": speed, "f1": [scored(data, asked, part)[1] for part in texts]}


def _declined(reader, data, draw, count) -> list[tuple]:
    rows = []
    numbers = draw.questions(2 * count)
    for is_there, part in ((True, numbers[:count]), (False, numbers[count:])):
        asked = []
        for number in part:
            passages = draw.others(number, AMONG + (not is_there))
            if is_there:
                passages.insert(draw.place(len(passages) + 1), data.questions[number].passage)
            asked.append(Asked(number, passages))
        declined = [not answer.is_answer for answer in ask(reader, data, asked)]
        rows.append(("yes" if is_there else "no", len(asked), f"{100 * np.mean(declined):.1f}"))
    return rows


def _open(reader: DocumentReader, data: SquadData, weights: Sequence[float]) -> list[list[float]]:
    collection = Collection([Document(str(number), passage) for number, passage in enumerate(data.passages)])
    whole = DocumentReader(reader.reader, reader.paragraphs, searched=collection)
    asked = [Asked(number, ()) for number, question in enumerate(data.questions) if question.answers]
    answers: list[DocumentAnswer] = []
    for begin in range(0, len(asked), AT_ONCE):
        questions = [data.questions[one.question].text for one in asked[begin : begin + AT_ONCE]]
        answers += whole.answer_batch(questions, n_best=reader.paragraphs)
    texts = [[chosen(answer, weight, reader.score_scale) for answer in answers] for weight in weights]
    return [[weight, *scored(data, asked, part)] for weight, part in zip(weights, texts, strict=True)]


def _rounded(rows) -> list[tuple]:
    return [tuple(f"{value:.2f}" if isinstance(value, float) else value for value in row) for row in rows]


def draw_picture(figure, found: dict) -> None:
    """F1 by the number of paragraphs."""
    axes = figure.subplots()
    rows = found.get("among", [])
    axes.plot([row["paragraphs"] for row in rows], [row["f1"][0] for row in rows], "o-")
    axes.set(xlabel="paragraphs of the document", ylabel="F1")


if __name__ == "__main__":
    run(__doc__, measure, draw_picture, turns=1)
