"""Trains a set of configurations on the same data with the same seeds, and writes one table of them.

    fabir-compare --configs=configs/fabir.flags,configs/bidaf.flags --seeds=1,2,3 --output=comparison \\
        --dataset=train.json --eval_dataset=dev.json --epochs=3

Settings of fabir-train on this command line replace those of all flag files. The best epoch of each run is chosen on
--eval_dataset; --test_dataset scores the readers on other data. Type the same command to resume an interrupted
comparison; more configurations and seeds may be added.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("compare")

import re
from pathlib import Path

from absl import flags

from fabir_tf.commands import cli, setting_flags
from fabir_tf.configuration import as_flag
from fabir_tf.experiments.compare import DATA_FLAGS, Plan, compare
from fabir_tf.models import MODELS
from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import validate_writable
from fabir_tf.training.training_config import TrainingConfig

# Scoring needs it, too, and reads no flag file.
_IMPORT = re.compile(r"\s*--?import[= ]")


def define_flags() -> None:
    """Flags of the command, including those of fabir-train."""
    flags.DEFINE_list("configs", [], "Flag files of fabir-train, comma-separated; each is a row of the table.")
    flags.DEFINE_list("seeds", ["1"], "Seeds, comma-separated; each configuration is trained once with each seed.")
    flags.DEFINE_string("output", None, "Folder for the runs and the table.")
    flags.DEFINE_string(
        "test_dataset",
        None,
        "Data that the trained readers are scored on; by default --eval_dataset, on which the best epoch is chosen.",
    )
    setting_flags.define_setting_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the flags and compares."""
    cli.validate_given(values, output="the folder for the runs and the table")
    folder = Path(values.output)
    compare(_plan(values, folder), lambda line: print(line, flush=True))


def _plan(values: flags.FlagValues, folder: Path) -> Plan:
    configs = tuple(Path(name) for name in values.configs)
    if not configs:
        raise UserError("--configs is missing: name the flag files to compare")
    for path in configs:
        if not path.is_file():
            raise UserError(f"--configs: {path}: no such file, expected a flag file of fabir-train")
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            found = f"found bytes that are not UTF-8 at {error.start}"
            raise UserError(f"--configs: {path}: {found}, expected a flag file of fabir-train") from None
        if any(_IMPORT.match(line) for line in lines):
            raise UserError(f"--configs: {path}: found --import, expected it on the command line, for all readers")
    if len({path.stem for path in configs}) < len(configs):
        raise UserError(
            "--configs: found two files with the same name, expected different ones, which name the table's rows"
        )
    refuse_single_run(values, "--seeds and the flag files set it")
    dataset = values.eval_dataset or values.dataset
    if not dataset:
        raise UserError("--dataset is missing: name the data that all runs are trained and scored on")
    if names_file(dataset) and not values.eval_dataset:
        raise UserError(f"--eval_dataset is missing: name the data that all runs of --dataset={dataset} are scored on")
    plan = Plan(configs, training_seeds(values.seeds), shared_flags(values), values.test_dataset or dataset, folder)
    if values.test_dataset:
        # Reports a mistake before hours of training.
        folders = cli.data_options(values).tfds_folders
        load_dataset(values.test_dataset, "dev", **folders, flag="--test_dataset", log=cli.to_stderr)
    validate_writable(folder / "plan.json")
    return plan


def refuse_single_run(values: flags.FlagValues, instead: str) -> None:
    """Refuses the flags that only make sense for a single run.

    Args:
        values: the flags.
        instead: what sets these here, for the message.

    Raises:
        UserError: one of them is given.
    """
    for name in ("seed", "model"):
        if values[name].present:
            raise UserError(f"--{name} is for fabir-train, found it here: {instead}")


def training_seeds(texts: list[str]) -> tuple[int, ...]:
    """The numbers of --seeds.

    Raises:
        UserError: they are not different whole numbers.
    """
    # Python reads no longer numbers.
    is_whole = bool(texts) and all(text.isdecimal() and len(text) < 20 for text in texts)
    seeds = tuple(int(text) for text in texts) if is_whole else ()
    if not is_whole or len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds={','.join(texts)}: expected different whole numbers, such as 1,2,3")
    for seed in seeds:
        TrainingConfig.check("seed", seed)
    return seeds


def shared_flags(values: flags.FlagValues) -> tuple[str, ...]:
    """The given settings, which hold for every run."""
    classes = [TrainingConfig, *(family.config for family in MODELS.values())]
    given = {name: values[name].value for name in ("config", *DATA_FLAGS) if values[name].present}
    if "import" in given:
        given["import"] = ",".join(given["import"])
    given |= {name: values[name].value for name in ("as_published", "adapt") if values[name].present}
    for cls in classes:
        given |= cls.given_flags(values)
    return tuple(as_flag(name, value) for name, value in sorted(given.items()))


def run() -> None:
    """Entry point of `fabir-compare`."""
    define_flags()
    cli.run_command(main, __doc__)
