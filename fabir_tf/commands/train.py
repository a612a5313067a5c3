"""Trains a reader on SQuAD or data like it.

    fabir-train --flagfile=base.flags --run_dir=runs/base

Settings come from the defaults, with --as_published from the paper of the --model, then from --config=FILE.json, then
from flags and --flagfile; later ones win. With --resume they are those of the run, and only --epochs, --max_steps,
--patience, --max_minutes, --distribution and --logical_devices may change.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("train")

import dataclasses

from absl import flags

from fabir_tf.commands import cli, setting_flags
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training.run_setup import validate_resumable
from fabir_tf.training.train import train


def define_flags() -> None:
    """Flags of the command; those of the two configurations are made from their fields."""
    flags.DEFINE_string("run_dir", None, "Folder for all files of the run.")
    flags.DEFINE_bool("resume", False, "Continue the run in run_dir exactly, with its own settings.")
    flags.DEFINE_string("prepared", None, "Folder that fabir-prepare wrote, instead of the data and its settings.")
    flags.DEFINE_string(
        "vector_cache",
        None,
        "Folder that keeps the vectors of a frozen --word_model between runs, in half precision: they are computed "
        "once instead of in every step.",
    )
    setting_flags.define_setting_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the flags and trains."""
    cli.validate_given(values, run_dir="the folder for all files of the run")
    run = RunDirectory(values.run_dir)
    if values.resume:
        validate_resumable(run)
        model_config, training = setting_flags.resumed_configurations(values, run)
    else:
        model_config, training = setting_flags.configurations(values, values.prepared)
    for note in setting_flags.published_notes(values, model_config, training):
        print(note, flush=True)
    options = dataclasses.replace(cli.data_options(values, values.prepared), vector_cache=values.vector_cache or None)
    train(run.path, model_config, training, options, values.resume)


def run() -> None:
    """Entry point of `fabir-train`."""
    define_flags()
    cli.run_command(main, __doc__)
