"""Writes a trained reader as a SavedModel that takes raw text, or as a folder for programs without TensorFlow.

    fabir-export --run_dir=runs/base --export_dir=exported/fabir --calibration_dataset=held-out.json
    fabir-export --model=fabir-base --export_dir=exported/onnx --format=onnx

The SavedModel's folder assets.extra also holds warm-up requests for the server, and calibration.json, which measures
how well the probabilities can be trusted. With --format=onnx, litert or openvino, the folder is what
fabir_tf.edge.EdgeReader loads.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("export")

from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from fabir_tf.commands import cli, entry, reader_flags
from fabir_tf.edge.runtimes import RUNTIMES
from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
from fabir_tf.pipelines.datasets.squad import SquadData, hold_out
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, validate_writable

if TYPE_CHECKING:
    from fabir_tf.reading.reader import Reader
    from fabir_tf.reading.run_directory import RunDirectory

NONE = "none"
SAVED_MODEL = "saved_model"


def define_flags() -> None:
    """Flags of the command."""
    reader_flags.define_reader_flags("is exported")
    flags.DEFINE_string("export_dir", None, "Folder that a server watches; the command writes a version into it.")
    flags.DEFINE_integer("version", None, "Number of the version; by default the one after the latest.", lower_bound=1)
    flags.DEFINE_enum(
        "format",
        SAVED_MODEL,
        [SAVED_MODEL, *RUNTIMES],
        "A SavedModel, or a folder for fabir_tf.edge, which needs no TensorFlow; each has an extra of its name.",
    )
    flags.DEFINE_enum("quantization", NONE, [NONE, "int8"], "Weights of 8 bits, with --format=litert.")
    flags.DEFINE_integer("n_best", 5, "Spans per question that a SavedModel returns.", lower_bound=1, upper_bound=100)
    flags.DEFINE_string(
        "calibration_dataset",
        None,
        "Held-out questions to calibrate the probabilities on: a file of questions, a TFDS name, or sample; none keeps "
        "the reader's own probabilities. By default the articles that the run held out of its training file; a reader "
        "that is already calibrated needs none.",
    )
    cli.define_unanswerable_share()
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Calibrates and writes the reader."""
    run_dir = reader_flags.needed_reader_folder(values)
    cli.validate_given(values, export_dir="the folder of the exports")
    share = cli.validate_unanswerable_share(values)
    with entry.importing():
        from fabir_tf.export.saved_model import version_folder
        from fabir_tf.reading.calibration import calibrate
        from fabir_tf.reading.reader import Reader
        from fabir_tf.reading.run_directory import reader_directory

    # Report mistakes before the calibration, which may take minutes.
    _validate_format(values)
    folder = version_folder(values.export_dir, values.version)
    run = reader_directory(run_dir)
    data = _held_out(values, run_dir, run)
    # In the precision that is asked for, because it may be served on another machine.
    threshold = reader_flags.no_answer_threshold(values)
    reader = Reader.open(run, values.max_passage, values.precision, values.max_answer, cli.to_stderr, threshold)
    validate_writable(folder)
    if data:
        reader.calibration = calibrate(reader, data, cli.show_progress, share)
    if reader.calibration:
        cli.to_stderr(reader.calibration.summary())
    # Another export may have taken the number in the meantime.
    folder = version_folder(values.export_dir, values.version)
    if values.format == SAVED_MODEL:
        _write_saved_model(reader, folder, values.n_best)
    else:
        _write_for_edge(reader, folder, values.format, values.quantization)
    with named_errors("standard output"):
        print(folder)


def _validate_format(values: flags.FlagValues) -> None:
    """Refuses flags that do not fit the format, and a format whose packages are missing."""
    if values.format == SAVED_MODEL:
        if values.quantization != NONE:
            raise UserError(f"--quantization={values.quantization} needs --format=litert, found {SAVED_MODEL}")
        return
    from fabir_tf.export.edge import validate_target

    reason = f"is of no effect with --format={values.format}: each call of EdgeReader has its own"
    cli.refuse_given(values, ("n_best",), reason)
    if values.precision != "float32":
        raise UserError(f"--precision={values.precision}: expected float32, which --format={values.format} computes in")
    validate_target(values.format, values.quantization)


def _write_saved_model(reader: "Reader", folder: Path, n_best: int) -> None:
    from fabir_tf.export.saved_model import WARM_UP_FILE, export_reader

    export_reader(reader, folder.parent, int(folder.name), n_best)
    if not (folder / "assets.extra" / WARM_UP_FILE).exists():
        cli.to_stderr("no warm-up requests are written: they need the package tensorflow-serving-api")


def _write_for_edge(reader: "Reader", folder: Path, target: str, quantization: str) -> None:
    from fabir_tf.export.edge import export_edge

    export_edge(reader, folder.parent, target, int(folder.name), quantization, cli.to_stderr)


def _held_out(values: flags.FlagValues, run_dir: str, run: "RunDirectory") -> SquadData | None:
    """The questions to calibrate on."""
    name = values.calibration_dataset
    if name == NONE:
        return None
    options = cli.data_options(values).tfds_folders | {"log": cli.to_stderr}
    if name:
        return load_dataset(name, "dev", flag="--calibration_dataset", **options)
    # The members of an ensemble have calibrations of their own.
    if run.calibration.exists() or run.ensemble.exists():
        return None
    training = run.read_config()["training"]
    # A packed reader has no coverage, and of its data it knows the names alone.
    is_packed = not run.coverage.exists() and Path(training.get("dataset", "")).name == training.get("dataset")
    if training.get("eval_dataset") or is_packed or not names_file(training.get("dataset", "")):
        raise UserError(
            f"--calibration_dataset is missing: the run {run_dir} held out no articles, so name questions that "
            f"it was not trained on, or {NONE}"
        )
    return hold_out(load_dataset(training["dataset"], "train", **options))[1]


def run() -> None:
    """Entry point of `fabir-export`."""
    define_flags()
    cli.run_command(main, __doc__)
