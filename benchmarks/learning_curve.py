"""Draws EM and F1 over the epochs, from the history of one or several runs.

    python benchmarks/learning_curve.py --runs=runs/base --output=benchmarks/learning_curve.png

Needs the extra `plot`.
"""

import csv
from pathlib import Path

from absl import app, flags

flags.DEFINE_list("runs", None, "Run folders, comma-separated.", required=True)
flags.DEFINE_string("output", "benchmarks/learning_curve.png", "The picture to write.")


def main(_) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for run in flags.FLAGS.runs:
        with open(Path(run) / "history.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        epochs = [int(row["epoch"]) for row in rows]
        for metric, label, style in (("f1", "F1", "o-"), ("exact_match", "EM", "s--")):
            values = [float(row[metric]) for row in rows]
            name = f"{Path(run).name} {label}" if len(flags.FLAGS.runs) > 1 else label
            axes.plot(epochs, values, style, label=name)
            axes.annotate(f"{values[-1]:.1f}", (epochs[-1], values[-1]), textcoords="offset points", xytext=(-6, 6))
    axes.set(xlabel="epochs", ylabel="dev set, percent")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.xaxis.set_major_locator(pyplot.MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(flags.FLAGS.output, dpi=120)
    print(f"wrote {flags.FLAGS.output}")


if __name__ == "__main__":
    app.run(main)
