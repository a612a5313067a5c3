"""How well a reader finds the one paragraph that answers a question, and knows those that do not.

    python benchmarks/among_paragraphs.py --readers=fabir-base --dataset=dev-v1.1.json --others=9,49 --questions=1000

Each question is asked about its own paragraph and about others, each read alone; the answer with the best score wins.
Half of the others are of the same article, or as many as it has, and none holds a reference answer. `by probability`
compares readers of before scores: the answer with the highest probability wins. The AUROC is how often a question's own
paragraph has a higher score than a wrong one, which is drawn once per question.
"""

import statistics
from collections.abc import Callable

from absl import flags
from common import print_table, run
from numpy import array
from wrong_paragraphs import KINDS, Draw, counts_of

import fabir_tf
from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, f1
from fabir_tf.reading.answers import Answer
from fabir_tf.reading.certainty import auroc
from fabir_tf.reading.reader import Reader

flags.DEFINE_list("readers", ["fabir-base"], "Folders of readers, or names of those that come with the package.")
flags.DEFINE_string("dataset", "sample", "Questions with answers: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_list("others", ["9", "49"], "Numbers of other paragraphs; empty for none.")
flags.DEFINE_integer("questions", 1000, "Questions to ask among other paragraphs.", lower_bound=1)
flags.DEFINE_integer("pairs", 2000, "Questions to ask about one wrong paragraph of each kind.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the questions and paragraphs.")


def measure(values: flags.FlagValues) -> dict:
    """Asks every reader, and prints both tables."""
    data = fabir_tf.load_dataset(values.dataset, "dev")
    counts = counts_of(values.others)
    draw = Draw(data, values.seed)
    pairs = draw.questions(values.pairs)
    wrong = {kind: {number: found[0] for number in pairs if (found := draw.wrong(number, kind, 1))} for kind in KINDS}
    among = {number: draw.others(number, max(counts, default=0)) for number in draw.questions(values.questions)}
    found = {}
    for name in values.readers:
        reader = Reader.load(name, no_answer_threshold=None)
        found[name] = {"auroc": _auroc(reader, data, pairs, wrong), "f1": _among(reader, data, among, counts)}
    rows = [(name, *(_shown_auroc(figures["auroc"][kind]) for kind in KINDS)) for name, figures in found.items()]
    print_table(f"AUROC of the score, {len(pairs):,} questions", ("reader", *KINDS), rows)
    if counts:
        rows = [(name, *(f"{value:.2f}" for value in figures["f1"].values())) for name, figures in found.items()]
        head = ("reader", *next(iter(found.values()))["f1"])
        print_table(f"F1 of {len(among):,} questions", head, rows)
    return found


def _ask(reader: Reader, data: SquadData, asked: list[tuple[int, int]]) -> list[Answer]:
    questions = [data.questions[number].text for number, _ in asked]
    return reader.answer_batch(questions, [data.passages[passage] for _, passage in asked])


def _shown_auroc(value: float | None) -> str:
    return "no such paragraph" if value is None else f"{value:.3f}"


def _auroc(
    reader: Reader, data: SquadData, pairs: list[int], wrong: dict[str, dict[int, int]]
) -> dict[str, float | None]:
    own = [(number, data.questions[number].passage) for number in pairs]
    scores = [answer.score for answer in _ask(reader, data, own)]
    found: dict[str, float | None] = {}
    for kind, passages in wrong.items():
        others = [answer.score for answer in _ask(reader, data, list(passages.items()))]
        is_own = array([True] * len(scores) + [False] * len(others))
        found[kind] = auroc(array(scores + others), is_own) if others else None
    return found


def _among(reader: Reader, data: SquadData, among: dict[int, list[int]], counts: list[int]) -> dict[str, float]:
    """F1 alone, and among each number of other paragraphs, by score and by probability."""
    asked = [(number, passage) for number, others in among.items() for passage in _own_first(data, number, others)]
    answers: dict[int, list[Answer]] = {}
    for (number, _), answer in zip(asked, _ask(reader, data, asked), strict=True):
        answers.setdefault(number, []).append(answer)
    ways: dict[str, Callable[[Answer], float]] = {
        "score": lambda answer: answer.score,
        "probability": lambda answer: answer.probability,
    }
    found = {"alone": _mean_f1(data, {number: read[0] for number, read in answers.items()})}
    for count in counts:
        for name, way in ways.items():
            best = {number: max(_shown(read, count), key=way) for number, read in answers.items()}
            found[f"{count} others, by {name}"] = _mean_f1(data, best)
    return found


def _own_first(data: SquadData, number: int, others: list[int]) -> list[int]:
    return [data.questions[number].passage, *others]


def _shown(read: list[Answer], count: int) -> list[Answer]:
    """The own paragraph and some of the others, of each kind as many as for this count alone."""
    others = read[1:]
    same = len(others) // 2
    kept = count // 2
    return [read[0], *others[:kept], *others[same : same + count - kept]]


def _mean_f1(data: SquadData, answers: dict[int, Answer]) -> float:
    return 100.0 * statistics.fmean(
        best_over_references(f1, answer.text, [reference.text for reference in data.questions[number].answers])
        for number, answer in answers.items()
    )


def _draw(figure, found: dict) -> None:
    axes = figure.subplots()
    for name, figures in found.items():
        axes.plot(list(figures["f1"]), list(figures["f1"].values()), marker="o", label=name)
    axes.set(ylabel="F1")
    axes.tick_params(axis="x", rotation=20)
    axes.legend()


if __name__ == "__main__":
    cli.import_modules()
    run(__doc__, measure, _draw, turns=1)
