"""What an ensemble gains over its members, and what it costs.

    fabir-pack --ensemble=fabir-base,runs/bidaf --output=both --weights=f1 --calibration_dataset=held-out.json
    python benchmarks/ensembles.py --ensemble=both --datasets=dev-v1.1.json,dev-v2.0.json

Every member reads each question once; the ensemble's answers are sums of what they said. On a dataset without
unanswerable questions all of them always answer, on others each abstains at its own threshold. The time of the ensemble
is that of all members and of the sums.
"""

import functools
import time
from pathlib import Path

import numpy as np
from absl import flags
from common import print_table, run

import fabir_tf
from fabir_tf.analysis.intervals import interval, resampled_means
from fabir_tf.commands import cli
from fabir_tf.models import model_name
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import best_over_references, exact_match, f1, references_v2
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import Answer
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.reader import Reader

flags.DEFINE_string("ensemble", None, "Folder that fabir-pack --ensemble wrote.")
flags.DEFINE_list("datasets", ["sample"], "Questions to answer: files of questions, TFDS names or sample.")
TOGETHER = "ensemble"


def measure(values: flags.FlagValues) -> dict:
    """Answers the questions of each dataset, and prints a table of scores."""
    cli.validate_given(values, ensemble="the folder of an ensemble")
    ensemble = Reader.load(values.ensemble, log=cli.to_stderr)
    if not isinstance(ensemble, Ensemble):
        raise UserError(f"--ensemble={values.ensemble}: found a single reader, expected an ensemble")
    datasets = {name: fabir_tf.load_dataset(name, "dev", flag="--datasets") for name in values.datasets}
    return {Path(name).name: _measured(ensemble, name, data) for name, data in datasets.items()}


def _measured(ensemble: Ensemble, name: str, data: SquadData) -> dict:
    threshold = "own" if data.has_unanswerable else None
    ensemble = ensemble.with_threshold(threshold)
    names = [f"{number}: {model_name(member.config)}" for number, member in enumerate(ensemble.members)]
    said, answers, seconds = [[] for _ in data.questions], {}, {}
    for number, member in enumerate(ensemble.members):
        alone = Ensemble([member]).with_threshold(threshold)
        begin = time.monotonic()
        proposals = list(alone.proposals(data, cli.show_progress))
        seconds[names[number]] = time.monotonic() - begin
        answers[names[number]] = alone.answers_to(proposals)
        for question, found in proposals:
            said[question] += [(number, *one[1:]) for one in found]
    begin = time.monotonic()
    answers[TOGETHER] = ensemble.answers_to(enumerate(said))
    seconds[TOGETHER] = time.monotonic() - begin + sum(seconds.values())
    return _scored(name, data, answers, seconds)


def _scored(name: str, data: SquadData, answers: dict[str, list[Answer]], seconds: dict[str, float]) -> dict:
    metrics = {"EM": exact_match, "F1": functools.partial(f1, empty_equals_empty=data.has_unanswerable)}
    values = np.array([_scores(metric, data, found) for found in answers.values() for metric in metrics.values()])
    means = 100 * resampled_means(values)
    rows, found = [], {}
    for number, reader in enumerate(answers):
        figures = {}
        for column, metric in enumerate(metrics, 2 * number):
            low, high = interval(means[:, column])
            # The same questions are drawn for all readers.
            less, more = interval(means[:, -2 + column % 2] - means[:, column])
            figures[metric] = {"mean": 100 * values[column].mean(), "low": low, "high": high, "gain": [less, more]}
        speed = len(data.questions) / seconds[reader]
        found[reader] = figures | {"questions_per_second": speed}
        cells = (f"{one['mean']:.2f} ({one['low']:.2f} to {one['high']:.2f})" for one in figures.values())
        gains = "" if reader == TOGETHER else "{:+.2f} to {:+.2f}".format(*figures["F1"]["gain"])
        rows.append((reader, *cells, gains, f"{speed:.1f}"))
    head = ("reader", *metrics, "F1 that the ensemble gains", "questions/s")
    print_table(f"{name}, {len(data.questions):,} questions, 95 % intervals", head, rows)
    return found


def _scores(metric, data: SquadData, answers: list[Answer]) -> list[float]:
    pairs = zip(data.questions, answers, strict=True)
    return [best_over_references(metric, answer.text, references_v2(question)) for question, answer in pairs]


def draw(figure, found: dict) -> None:
    """Draws F1 against the time of a question."""
    figure.set_size_inches(7, 3.5)
    for axes, (name, readers) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
        for reader, figures in readers.items():
            score, milliseconds = figures["F1"], 1000 / figures["questions_per_second"]
            error = [[score["mean"] - score["low"]], [score["high"] - score["mean"]]]
            marker = "D" if reader == TOGETHER else "o"
            axes.errorbar(milliseconds, score["mean"], yerr=error, marker=marker, capsize=3, label=reader)
        axes.set(xlabel="milliseconds a question", ylabel="F1", title=name)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")


if __name__ == "__main__":
    cli.import_modules()
    run(__doc__, measure, draw, turns=1)
