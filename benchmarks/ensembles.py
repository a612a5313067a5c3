"""What ensembles gain over their members, and what they cost.

    fabir-pack --ensemble=fabir-base,runs/bidaf --output=both --weights=f1 --calibration_dataset=held-out.json
    python benchmarks/ensembles.py --ensembles=both --datasets=dev-v1.1.json,dev-v2.0.json

Every member reads each question once, also one that several ensembles have; the answers of an ensemble are sums of what
its members said. On a dataset without unanswerable questions all of them always answer, on others each abstains at its
own threshold. The time of an ensemble is that of all its members and of the sums. The gain is that over the member
which is best on these questions. With --kept, what a member said is kept, and later measurements read it there.
"""

import functools
import hashlib
import pickle
import time
from pathlib import Path
from typing import NamedTuple

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
from fabir_tf.pipelines.files import validate_writable
from fabir_tf.reading.answers import Answer
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.reader import Reader

flags.DEFINE_list("ensembles", [], "Folders that fabir-pack --ensemble wrote.")
flags.DEFINE_string("kept", None, "Folder that keeps what the members said, of this program alone.")
flags.DEFINE_list("datasets", ["sample"], "Questions to answer: files of questions, TFDS names or sample.")


class Result(NamedTuple):
    """What a reader said of all questions.

    Attributes:
        answers: one for each question.
        seconds: how long it took.
        members: the names of an ensemble's members; none of a single reader.
    """

    answers: list[Answer]
    seconds: float
    members: tuple[str, ...] = ()


def measure(values: flags.FlagValues) -> dict:
    """Answers the questions of each dataset, and prints a table of scores."""
    cli.validate_given(values, ensembles="folders of ensembles")
    if len({Path(folder).name for folder in values.ensembles}) < len(values.ensembles):
        raise UserError("--ensembles: found two folders of the same name, expected different names for the table")
    if values.kept:
        # Before anything is read.
        validate_writable(Path(values.kept) / "said")
    ensembles = {Path(folder).name: _load(folder) for folder in values.ensembles}
    datasets = {name: fabir_tf.load_dataset(name, "dev", flag="--datasets") for name in values.datasets}
    return {
        Path(name).name: _scored(name, data, _results(ensembles, data, values.kept)) for name, data in datasets.items()
    }


def _load(folder: str) -> Ensemble:
    found = Reader.load(folder, log=cli.to_stderr)
    if not isinstance(found, Ensemble):
        raise UserError(f"--ensembles={folder}: found a single reader, expected an ensemble")
    return found


def _results(ensembles: dict[str, Ensemble], data: SquadData, kept: str | None) -> dict[str, Result]:
    """What the members and then the ensembles say, by name."""
    threshold = "own" if data.has_unanswerable else None
    names: dict[str, str] = {}
    said, results, together = {}, {}, {}
    for title, whole in ensembles.items():
        ensemble = whole.with_threshold(threshold)
        members = []
        for member in ensemble.members:
            key = _digest(member)
            members.append(names.setdefault(key, f"{len(names)}: {model_name(member.config)}"))
            if members[-1] in results:
                continue
            alone = Ensemble([member]).with_threshold(threshold)
            path = Path(kept) / f"{Path(data.name).name}-{key}.pickle" if kept else None
            said[members[-1]], seconds = _said_by(alone, data, path)
            results[members[-1]] = Result(alone.answers_to(said[members[-1]]), seconds)
        begin = time.monotonic()
        proposals = [[] for _ in data.questions]
        for number, name in enumerate(members):
            for question, found in said[name]:
                proposals[question] += [(number, *one[1:]) for one in found]
        answers = ensemble.answers_to(enumerate(proposals))
        seconds = time.monotonic() - begin + sum(results[name].seconds for name in members)
        together[title] = Result(answers, seconds, tuple(members))
    return results | together


def _said_by(reader: Ensemble, data: SquadData, path: Path | None) -> tuple[list, float]:
    """What a reader says of each question, and how many seconds it takes."""
    if path and path.exists():
        return pickle.loads(path.read_bytes())
    begin = time.monotonic()
    found = list(reader.proposals(data, cli.show_progress)), time.monotonic() - begin
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(found))
        unfinished.replace(path)
    return found


def _digest(reader: Reader) -> str:
    """The same for readers of the same weights and calibration."""
    digest = hashlib.sha256(repr((reader.config, reader.calibration)).encode())
    for weight in reader.model.get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()


def _scored(name: str, data: SquadData, results: dict[str, Result]) -> dict:
    metrics = {"EM": exact_match, "F1": functools.partial(f1, empty_equals_empty=data.has_unanswerable)}
    names = list(results)
    values = np.array([[_scores(metric, data, one.answers) for metric in metrics.values()] for one in results.values()])
    # The same questions are drawn for all readers.
    means = 100 * resampled_means(values.reshape(-1, len(data.questions))).reshape(-1, *values.shape[:2])
    rows, found = [], {}
    for row, (reader, result) in enumerate(results.items()):
        figures, gains = {}, []
        for column, metric in enumerate(metrics):
            low, high = interval(means[:, row, column])
            figures[metric] = {"mean": 100 * values[row, column].mean(), "low": low, "high": high}
            if result.members:
                best = max(map(names.index, result.members), key=lambda other: values[other, column].mean())
                less, more = interval(means[:, row, column] - means[:, best, column])
                figures[metric]["gain"] = [less, more]
                gains.append(f"{less:+.2f} to {more:+.2f}")
        speed = len(data.questions) / result.seconds
        found[reader] = figures | {"questions_per_second": speed}
        cells = (f"{one['mean']:.2f} ({one['low']:.2f} to {one['high']:.2f})" for one in figures.values())
        rows.append((reader, *cells, *(gains or ["", ""]), f"{speed:.1f}"))
    head = ("reader", *metrics, *(f"{metric} gained over the best member" for metric in metrics), "questions/s")
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
            marker = "D" if "gain" in score else "o"
            axes.errorbar(milliseconds, score["mean"], yerr=error, marker=marker, capsize=3, label=reader)
        axes.set(xlabel="milliseconds a question", ylabel="F1", title=name)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")


if __name__ == "__main__":
    cli.import_modules()
    run(__doc__, measure, draw, turns=1)
