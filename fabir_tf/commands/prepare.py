"""Writes the training data as plain arrays, for machines that train without TensorFlow.

    fabir-prepare --flagfile=base.flags --output=prepared
    KERAS_BACKEND=jax fabir-train --prepared=prepared --run_dir=runs/base

Takes the settings of fabir-train; only those that affect the data matter.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("prepare")

from pathlib import Path

from absl import flags

from fabir_tf.commands import cli, setting_flags
from fabir_tf.pipelines.files import removed_on_failure
from fabir_tf.training.prepared_data import prepare_data, save_data, validate_free


def define_flags() -> None:
    """Flags of the command, including those of fabir-train, so that both accept the same flag file, but for
    --vector_cache."""
    flags.DEFINE_string("output", None, "Folder for the arrays.")
    flags.DEFINE_string("run_dir", None, "Ignored; fabir-train uses it.")
    setting_flags.define_setting_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the flags and prepares the data."""
    cli.validate_given(values, output="the folder for the arrays")
    folder = Path(values.output)
    model_config, training = setting_flags.configurations(values)
    validate_free(folder)
    data = prepare_data(model_config, training, cli.data_options(values), print)
    with removed_on_failure(folder):
        save_data(data, folder, model_config, training)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    table = sum(array.nbytes for array in data.processor.frozen_tables.values())
    print(
        f"{data.summary}\n{len(data.features):,} questions to train on in {folder}: {(size - table) / 1e6:.0f} MB and "
        f"{table / 1e6:.0f} MB of word vectors"
    )


def run() -> None:
    """Entry point of `fabir-prepare`."""
    define_flags()
    cli.run_command(main, __doc__)
