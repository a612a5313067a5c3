"""Shows F1 by the number of training questions, and what a power law predicts for more of them.

    pip install scipy
    python benchmarks/training_sizes.py --runs=2500=2500/runs.csv,5000=5000/runs.csv,10000=10000/runs.csv \\
        --expect=87599 --picture=training_sizes.png

Each of --runs is a number of questions and the table of a fabir-compare that trained on that many
(benchmarks/draw_passages.py draws them); a number may occur again with another table. The law says that the missing F1,
100 - F1, falls by the same factor whenever the questions double. It is fitted to the logarithms of both, with each run
as a point. The 95 % intervals are prediction intervals of one more run, if the law holds. As a check, the largest size
is also predicted from the smaller ones.
"""

import statistics

import numpy as np
from absl import flags
from common import new_figure, validate_picture
from runs import read_runs

from fabir_tf.commands import cli
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import validate_writable

flags.DEFINE_list("runs", [], "QUESTIONS=FILE, comma-separated: files runs.csv of fabir-compare.")
flags.DEFINE_list("configurations", ["fabir"], "Configurations to show, a curve for each.")
flags.DEFINE_integer("expect", 87_599, "Questions to predict F1 for; SQuAD's training set has 87,599.", lower_bound=1)
flags.DEFINE_string("picture", None, "File for a picture of the curves, PNG or SVG; needs the extra `plot`.")

HEAD = ("", "questions", "seeds", "EM", "F1", "F1 of each")
# The law has two parameters and is also fitted without the largest size.
FEWEST = 4


class PowerLaw:
    """The missing F1 as a power of the number of questions, by least squares of the logarithms.

    Args:
        questions: those of each run, at least three different numbers.
        f1: that of each run, in percent, less than 100.
    """

    def __init__(self, questions: list[int], f1: list[float]):
        self._x, y = np.log(questions), np.log(100 - np.asarray(f1))
        self.exponent, self._start = np.polyfit(self._x, y, 1)
        rest = y - self._start - self.exponent * self._x
        self._variance = rest @ rest / (len(y) - 2)

    def expected(self, questions: int) -> tuple[float, float, float]:
        """F1 by the law, and the lower and upper end of a run's 95 % interval, none below 0."""
        from scipy.stats import t

        x, number = np.log(questions), len(self._x)
        from_middle = self._x - self._x.mean()
        spread = 1 + 1 / number + (x - self._x.mean()) ** 2 / (from_middle @ from_middle)
        margin = t.ppf(0.975, number - 2) * np.sqrt(self._variance * spread)
        middle = self._start + self.exponent * x
        return tuple(max(0.0, float(100 - np.exp(middle + part))) for part in (0, margin, -margin))


def read_sizes(texts: list[str], configurations: list[str]) -> dict[str, dict[int, list[dict]]]:
    """Reads the runs by configuration and number of questions, in ascending order.

    Raises:
        UserError: a text is not QUESTIONS=FILE, its file cannot be used, or a configuration has too few sizes or an F1
            outside the law's range.
    """
    paths = {}
    for text in texts:
        questions, _, path = text.partition("=")
        if not questions.isdecimal() or int(questions) < 1 or not path:
            raise UserError(f"--runs: found {text!r}, expected QUESTIONS=FILE, such as 2500=comparison/runs.csv")
        paths.setdefault(int(questions), []).append(path)
    runs = {questions: read_runs(paths[questions]) for questions in sorted(paths)}
    found = {}
    for name in configurations:
        found[name] = {questions: of[name] for questions, of in runs.items() if name in of}
        if len(found[name]) < FEWEST:
            given = ", ".join(map(str, found[name])) or "no"
            raise UserError(
                f"--configurations: {name}: found runs of {given} questions, expected {FEWEST} sizes or more"
            )
        for run in (run for runs in found[name].values() for run in runs):
            if not 0 <= run["f1"] < 100:
                raise UserError(f"--runs: {name}: found an F1 of {run['f1']}, expected 0 to less than 100")
    return found


def fit(runs: dict[int, list[dict]]) -> PowerLaw:
    """Fits the law to runs by their number of questions."""
    return PowerLaw(*zip(*((questions, run["f1"]) for questions in runs for run in runs[questions]), strict=True))


def print_scores(name: str, runs: dict[int, list[dict]]) -> None:
    """Prints the table's lines of a configuration."""
    for questions, found in runs.items():
        means = [statistics.mean(run[metric] for run in found) for metric in ("exact_match", "f1")]
        scores = ", ".join(f"{run['f1']:.2f}" for run in found)
        cells = [name, f"{questions:,}", str(len(found)), *(f"{mean:.2f}" for mean in means), scores]
        print(f"| {' | '.join(cells)} |")


def print_expected(name: str, runs: dict[int, list[dict]], more: int) -> None:
    """Prints what the law predicts for a configuration."""
    *fewer, largest = runs
    law, earlier = fit(runs), fit({questions: runs[questions] for questions in fewer})
    factor = 1 - 2**law.exponent
    measured = statistics.mean(run["f1"] for run in runs[largest])
    print(f"\n{name}: the missing F1 falls by {factor:.1%} whenever the questions double.")
    print(f"Expected at {more:,}: F1 {shown(law.expected(more))}.")
    print(
        f"Expected at {largest:,} from the smaller sizes: {shown(earlier.expected(largest))}; measured: {measured:.2f}."
    )


def shown(expected: tuple[float, float, float]) -> str:
    """A prediction with its interval, as text."""
    return "{:.2f} ({:.2f} to {:.2f})".format(*expected)


def draw(path: str, found: dict[str, dict[int, list[dict]]], more: int) -> None:
    """Draws each run as a point, and the laws as lines with their intervals."""
    figure = new_figure()
    axes = figure.subplots()
    for number, (name, runs) in enumerate(found.items()):
        color = f"C{number}"
        points = [(questions, run["f1"]) for questions in runs for run in runs[questions]]
        axes.plot(*zip(*points, strict=True), "o", color=color, label=name)
        law = fit(runs)
        sizes = np.geomspace(min(runs), max(more, *runs), 50)
        middle, least, most = np.transpose([law.expected(size) for size in sizes])
        axes.plot(sizes, middle, color=color)
        axes.fill_between(sizes, least, most, color=color, alpha=0.15)
        end = law.expected(more)[0]
        axes.annotate(f"{end:.1f}", (more, end), textcoords="offset points", xytext=(4, 0), color=color, va="center")
    axes.set(xscale="log", xlabel="training questions", ylabel="F1, percent")
    ticks = sorted({size for runs in found.values() for size in runs} | {more})
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks], rotation=30, ha="right")
    axes.minorticks_off()
    axes.margins(x=0.08)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main(values: flags.FlagValues) -> None:
    """Reads the runs, fits the law, prints the tables and draws the curves."""
    cli.validate_given(values, runs="QUESTIONS=FILE of each comparison", configurations="one of them")
    found = read_sizes(values.runs, list(dict.fromkeys(values.configurations)))
    if values.picture:
        validate_writable(values.picture)
        validate_picture(values.picture)
    for row in (HEAD, ["---"] * len(HEAD)):
        print(f"| {' | '.join(row)} |")
    for name, runs in found.items():
        print_scores(name, runs)
    for name, runs in found.items():
        print_expected(name, runs, values.expect)
    if values.picture:
        draw(values.picture, found, values.expect)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
