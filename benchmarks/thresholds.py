"""The best threshold of a reader for texts where few or many questions have no answer, and what it brings.

    python benchmarks/thresholds.py --model=fabir-base --dataset=held-out.json --picture=docs/pictures/no_answer.png

The questions with and those without an answer are weighted so that the given share of them has none. Name questions
that the reader was neither trained nor calibrated on to see what it will reach; on others the figures are too good.
"""

import numpy as np
from absl import flags
from common import print_table, run

import fabir_tf
from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad_metrics import answer_scores, f1
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.reader import Reader

flags.DEFINE_string("model", "fabir-base", "Folder of a reader, or the name of one that comes with the package.")
flags.DEFINE_string(
    "dataset", "sample", "Questions with and without answers: a SQuAD JSON file, a TFDS name or sample."
)
flags.DEFINE_list("shares", ["0.1", "0.3", "0.5"], "Shares of questions without an answer.")

LEVELS = np.linspace(0, 1, 201)
# The usual decision: the likelier of an answer and of none.
MIDDLE = len(LEVELS) // 2


def measure(values: flags.FlagValues) -> dict:
    """Answers all questions, and prints F1 at the thresholds."""
    shares = [_share(text) for text in values.shares]
    data = fabir_tf.load_dataset(values.dataset, "dev")
    is_unanswerable = np.array([not question.answers for question in data.questions])
    if is_unanswerable.all() or not is_unanswerable.any():
        raise UserError(f"--dataset={values.dataset}: expected questions with and without an answer, found one kind")
    reader = Reader.load(values.model, no_answer_threshold=None)
    answers = reader.answer_batch(
        [question.text for question in data.questions], [data.passages[question.passage] for question in data.questions]
    )
    overlap = np.array(answer_scores(f1, data, [answer.text for answer in answers]))
    answered = np.array([answer.no_answer_probability for answer in answers]) <= LEVELS[:, None]
    of_answerable = 100 * np.where(answered, overlap, 0.0)[:, ~is_unanswerable].mean(axis=1)
    of_unanswerable = 100 * (~answered)[:, is_unanswerable].mean(axis=1)
    curves = {share: (1 - share) * of_answerable + share * of_unanswerable for share in shares}
    rows = []
    for share, curve in curves.items():
        best = int(np.argmax(curve))
        figures = (curve[best], of_answerable[best], of_unanswerable[best], curve[MIDDLE], curve[-1])
        rows.append((f"{share:.0%}", f"{LEVELS[best]:.2f}", *(f"{value:.1f}" for value in figures)))
    head = ("have no answer", "best threshold", "F1", "HasAns", "NoAns", "F1 at 0.5", "F1 if it always answers")
    print_table(f"{values.model}, {len(answers):,} questions", head, rows)
    return {"levels": LEVELS.tolist(), "f1": {f"{share:.0%}": curve.tolist() for share, curve in curves.items()}}


def _share(text: str) -> float:
    share = cli.fraction(text)
    if share is None:
        raise UserError(f"--shares: found {text!r}, expected numbers from 0 to 1, such as 0.3")
    return share


def draw(figure, found: dict) -> None:
    """Draws F1 over the threshold, and the best point of each share."""
    figure.set_size_inches(7, 4)
    axes = figure.subplots()
    for share, curve in found["f1"].items():
        (line,) = axes.plot(found["levels"], curve, label=f"{share} of the questions have no answer")
        best = int(np.argmax(curve))
        axes.plot(found["levels"][best], curve[best], "o", color=line.get_color())
    axes.set(xlabel="threshold: it abstains above this no-answer probability", ylabel="F1", xlim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()


if __name__ == "__main__":
    cli.import_modules()
    run(__doc__, measure, draw, turns=1)
