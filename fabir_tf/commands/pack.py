"""Writes a trained reader as a small folder, which --run_dir reads like a run.

    fabir-pack --run_dir=runs/base --output=my-reader --words=100000

A run keeps all of its word vectors (80 MB for GloVe 6B); the packed reader keeps the most frequent ones, with 8 bits
per number.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("pack")

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.files import named_errors


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
    flags.DEFINE_string("output", None, "Folder to write.")
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
    cli.validate_given(values, run_dir="the folder of a trained run", output="the folder to write")
    share = cli.validate_unanswerable_share(values)
    from fabir_tf.reading.packing import pack

    name, options = values.calibration_dataset, cli.data_options(values).tfds_folders | {"log": cli.to_stderr}
    held_out = load_dataset(name, "dev", flag="--calibration_dataset", **options) if name else None
    chosen = (values.words, values.average_with, held_out, cli.show_progress, share)
    folder = pack(values.run_dir, values.output, *chosen)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with named_errors("standard output"):
        print(f"{folder}: {size / 1e6:.1f} MB")


def run() -> None:
    """Entry point of `fabir-pack`."""
    define_flags()
    cli.run_command(main, __doc__)
