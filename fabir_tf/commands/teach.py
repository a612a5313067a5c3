"""Writes the start and end distributions of trained readers, for fabir-train --teacher to learn from.

    fabir-teach --run_dirs=runs/one,runs/two --dataset=train.json --output=teacher.npz
    fabir-train --flagfile=base.flags --dataset=train.json --teacher=teacher.npz

The distributions of several readers are averaged. Choose readers that were not trained on these questions: on their own
training data, readers are overconfident.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("teach")

from pathlib import Path

from absl import flags

from fabir_tf.commands import cli, entry, reader_flags
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, validate_writable
from fabir_tf.pipelines.text.tokenized import Tokenizer
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceTokenizer
from fabir_tf.reading.pretrained import pretrained_readers


def define_flags() -> None:
    """Flags of the command."""
    flags.DEFINE_list("run_dirs", [], "Runs whose best checkpoints are the teachers, comma-separated.")
    flags.DEFINE_string("dataset", None, "The questions: a file of questions, a TFDS name, sample or auto.")
    flags.DEFINE_string(
        "student",
        None,
        "Reader that will learn from the file, or the folder of its encoder in Hugging Face's layout, if it cuts "
        "passages into other tokens than its teachers; the distributions are then over its tokens",
    )
    flags.DEFINE_string("output", None, "File for the distributions.")
    reader_flags.define_reading_flags()
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the questions and writes the file."""
    cli.validate_given(
        values, run_dirs="the folders of trained runs", dataset="the questions", output="the file to write"
    )
    if not all(values.run_dirs):
        found = ",".join(values.run_dirs)
        raise UserError(f"--run_dirs={found}: expected the folders of trained runs, found an empty name")
    output = Path(values.output)
    if output.exists():
        raise UserError(f"--output={values.output}: found an existing file, expected a new one")
    validate_writable(output)
    student = _tokenizer(values.student) if values.student is not None else None
    with entry.importing():
        from fabir_tf.training.distillation import teach

    teachers = [reader_flags.load_reader(values, folder) for folder in values.run_dirs]
    options = cli.data_options(values)
    data = load_dataset(values.dataset, "train", **options.tfds_folders, log=cli.to_stderr)
    distributions = teach(teachers, data, cli.show_progress, student)
    distributions.save(output)
    with named_errors("standard output"):
        print(f"{output}: {len(distributions.ids):,} of {len(data.questions):,} questions")


def _tokenizer(name: str) -> Tokenizer:
    """The processor of a student, which may be an encoder without a head."""
    if not Path(name).is_dir() and name not in pretrained_readers():
        raise UserError(f"--student={name}: found no folder, expected that of a reader or of its encoder")
    with entry.importing():
        from fabir_tf.models.hugging_face import is_hugging_face
        from fabir_tf.reading.run_directory import reader_directory
    if is_hugging_face(name):
        return WordPieceTokenizer(*read_wordpieces(name))
    directory = reader_directory(name)
    if not directory.is_started:
        raise UserError(f"--student={name}: found a folder of neither, expected that of a reader or of its encoder")
    return directory.read_processor()


def run() -> None:
    """Entry point of `fabir-teach`."""
    define_flags()
    cli.run_command(main, __doc__)
