"""Writes a trained reader as a small folder, which --run_dir reads like a run.

    fabir-pack --run_dir=runs/base --output=my-reader --words=100000
    fabir-pack --ensemble=fabir-base,runs/bidaf --output=both --weights=f1 --calibration_dataset=held-out.json

A run keeps all of its word vectors (80 MB for GloVe 6B); the packed reader keeps the most frequent ones, with 8 bits
per number. An ensemble is one folder of several readers whose probabilities are summed.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("pack")

from typing import TYPE_CHECKING

from absl import flags

from fabir_tf.commands import cli, entry
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.ensemble_weights import EQUAL, METRICS, normalised_weights

if TYPE_CHECKING:
    from fabir_tf.reading.run_directory import EnsembleDirectory


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_string("run_dir", None, "Run whose best checkpoint is packed, or a reader of the package.")
    flags.DEFINE_list(
        "average_with",
        [],
        "Runs, comma-separated, whose weights are averaged with those of --run_dir: runs that started from the same "
        "reader (--start_from), or that reader itself. A run that is named twice counts twice.",
    )
    flags.DEFINE_list("ensemble", [], "Runs, comma-separated, instead of --run_dir: they answer together.")
    flags.DEFINE_list(
        "weights",
        [EQUAL],
        "What the readers of --ensemble count: equal, a number for each, or f1 or em to choose the weights with the "
        "best score on --calibration_dataset.",
    )
    flags.DEFINE_string("output", None, "Folder to write.")
    flags.DEFINE_boolean("int8", False, "Keep the weights with 8 bits per number, too: a quarter of the size.")
    flags.DEFINE_integer("words", 100_000, "Word vectors to keep, the most frequent ones.", lower_bound=0)
    flags.DEFINE_string(
        "calibration_dataset",
        None,
        "Held-out questions to calibrate the probabilities on: a file of questions, a TFDS name, or sample. By "
        "default the calibration of --run_dir is kept; an average of several readers has none.",
    )
    cli.define_unanswerable_share()
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Packs the reader."""
    weights = _validate_ensemble(values)
    if not values.ensemble:
        cli.validate_given(values, run_dir="the folder of a trained run")
    cli.validate_given(values, output="the folder to write")
    share = cli.validate_unanswerable_share(values)
    with entry.importing():
        from fabir_tf.reading.packing import pack, pack_ensemble
        from fabir_tf.reading.run_directory import EnsembleDirectory

    name, options = values.calibration_dataset, cli.data_options(values).tfds_folders | {"log": cli.to_stderr}
    held_out = load_dataset(name, "dev", flag="--calibration_dataset", **options) if name else None
    last = (held_out, cli.show_progress, share)
    if values.ensemble:
        folder = pack_ensemble(values.ensemble, values.output, weights, values.words, *last, cli.to_stderr, values.int8)
        _tell_ensemble(values.ensemble, EnsembleDirectory(folder))
    else:
        folder = pack(values.run_dir, values.output, values.words, values.average_with, *last, values.int8)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with named_errors("standard output"):
        print(f"{folder}: {size / 1e6:.1f} MB")


def _validate_ensemble(values: flags.FlagValues) -> str | list[float]:
    """The weights as `pack_ensemble` takes them; refuses flags that contradict each other."""
    if not values.ensemble:
        cli.refuse_given(values, ("weights",), "belongs to --ensemble, found it without")
        return EQUAL
    for flag in ("run_dir", "average_with"):
        if values[flag].value:
            raise UserError(f"--{flag} and --ensemble: found both, expected one of them")
    if "" in values.ensemble:
        raise UserError(f"--ensemble={','.join(values.ensemble)}: found an empty name, expected folders of runs")
    if len(values.weights) == 1 and values.weights[0] in (EQUAL, *METRICS):
        if values.weights[0] in METRICS and not values.calibration_dataset:
            raise UserError(
                f"--weights={values.weights[0]}: --calibration_dataset is missing: name held-out questions to choose "
                "the weights on"
            )
        return values.weights[0]
    try:
        weights = [float(text) for text in values.weights]
        normalised_weights(weights, len(values.ensemble))
    except (ValueError, UserError):
        found = ",".join(values.weights)
        raise UserError(
            f"--weights={found}: expected {EQUAL}, {', '.join(METRICS)}, or {len(values.ensemble)} numbers above 0, "
            "one for each reader of --ensemble"
        ) from None
    return weights


def _tell_ensemble(names: list[str], folder: "EnsembleDirectory") -> None:
    weights = folder.read_weights_of_members()
    cli.to_stderr("weights: " + ", ".join(f"{weight:.3f} {name}" for weight, name in zip(weights, names, strict=True)))
    if folder.calibration.exists():
        cli.to_stderr(Calibration.load(folder.calibration).summary())


def run() -> None:
    """Entry point of `fabir-pack`."""
    define_flags()
    cli.run_command(main, __doc__)
