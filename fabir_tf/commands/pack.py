"""Writes a trained reader as one small folder, to be copied anywhere and read with --run_dir as a run is.

    fabir-pack --run_dir=runs/base --output=my-reader --words=100000

A run keeps all of its word vectors, 80 MB for those of GloVe 6B; here the commonest are kept, each number in 8 bits.
"""

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.files import named_errors


def define_flags() -> None:
    """Flags of the command."""
    flags.DEFINE_string("run_dir", None, "Run whose best checkpoint is packed, or a reader of the package.")
    flags.DEFINE_list(
        "average_with",
        [],
        "Runs, separated by commas, whose weights are averaged with those of --run_dir: such as began as the same "
        "reader (--start_from), or that reader. One that is named twice counts twice.",
    )
    flags.DEFINE_string("output", None, "Folder to write.")
    flags.DEFINE_integer("words", 100_000, "Word vectors to keep, the commonest ones.", lower_bound=0)
    flags.DEFINE_string(
        "calibration_dataset",
        None,
        "Held-out questions that make the reader's probabilities honest: a SQuAD JSON file, a TFDS name, or sample; "
        "when not given, they stay as those of --run_dir, and those of a mean as the model has them.",
    )
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Packs the reader."""
    cli.validate_given(values, run_dir="the folder of a trained run", output="the folder to write")
    from fabir_tf.reading.packing import pack

    name, places = values.calibration_dataset, cli.data_options(values).tfds_folders | {"log": cli.to_stderr}
    held_out = load_dataset(name, "dev", flag="--calibration_dataset", **places) if name else None
    folder = pack(values.run_dir, values.output, values.words, values.average_with, held_out, cli.show_progress)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with named_errors("standard output"):
        print(f"{folder}: {size / 1e6:.1f} MB")


def run() -> None:
    """Entry point of `fabir-pack`."""
    define_flags()
    cli.run_command(main, __doc__)


if __name__ == "__main__":
    run()
