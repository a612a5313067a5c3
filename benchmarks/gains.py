"""How much F1 each configuration of a comparison loses against one of them, beside the published losses.

    pip install scipy
    python benchmarks/gains.py --runs=comparison/runs.csv --against=fabir

The 95 % interval is Welch's for the difference of two means over the seeds; there is none for a configuration with a
single seed. Runs of several comparisons of the same plan, separated by commas, are joined.
"""

import statistics

from absl import flags
from runs import read_runs

from fabir_tf.commands import cli
from fabir_tf.experiments.published import TABLES
from fabir_tf.pipelines.errors import UserError

flags.DEFINE_list("runs", [], "The files runs.csv of fabir-compare, comma-separated.")
flags.DEFINE_string("against", "fabir", "The configuration that the others are compared with.")

HEAD = ("", "seeds", "EM", "F1", "F1 lost", "95 % interval", "published F1 lost")


def interval(first: list[float], second: list[float]) -> tuple[float, float] | None:
    """Welch's 95 % interval for the mean of `first` minus that of `second`; None if either has only one value."""
    from scipy.stats import ttest_ind

    if min(len(first), len(second)) < 2:
        return None
    found = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return found.low, found.high


def main(values: flags.FlagValues) -> None:
    """Reads the runs and prints the table."""
    cli.validate_given(values, runs="the files runs.csv")
    runs = read_runs(values.runs)
    if values.against not in runs:
        raise UserError(f"--against={values.against}: expected one of {', '.join(runs)}")
    best = [run["f1"] for run in runs[values.against]]
    published = {row.name: row.f1 for row in TABLES["fabir"]["6"]}
    table = [HEAD, ["---"] * len(HEAD)]
    for name, found in runs.items():
        scores = [run["f1"] for run in found]
        means = [statistics.mean(run[metric] for run in found) for metric in ("exact_match", "f1")]
        cells = [name, str(len(found)), *(f"{mean:.2f}" for mean in means), "", "", ""]
        if name != values.against:
            cells[4] = f"{statistics.mean(best) - means[1]:.2f}"
            bounds = interval(best, scores)
            cells[5] = f"{bounds[0]:.2f} to {bounds[1]:.2f}" if bounds else ""
            if name in published and values.against in published:
                cells[6] = f"{published[values.against] - published[name]:.1f}"
        table.append(cells)
    for cells in table:
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
