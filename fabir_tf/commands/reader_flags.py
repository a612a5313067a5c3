"""Flags that name a trained reader and set how it reads."""

from typing import TYPE_CHECKING

from absl import flags

from fabir_tf.commands import cli, entry
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE
from fabir_tf.precision import POLICIES
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers

if TYPE_CHECKING:
    from fabir_tf.reading.reader import Reader

READING_FLAGS = ("max_passage", "precision", "max_answer", "no_answer_threshold")
"""How a reader reads."""


def define_reader_flags(purpose: str) -> None:
    """Defines the flags that name a trained reader and set how it reads.

    Args:
        purpose: what the command does with the reader, for the help.
    """
    flags.DEFINE_string("run_dir", None, f"Run whose best checkpoint {purpose}.")
    text = f"Reader of the package that {purpose}, instead of a run: {', '.join(pretrained_readers()) or 'none yet'}"
    flags.DEFINE_string("model", None, f"{text}; or the folder of a model in Hugging Face's layout.")
    text = "No-answer probability above which the reader abstains; none always answers. By default the reader's own."
    flags.DEFINE_string("no_answer_threshold", None, text)
    define_reading_flags()


def define_reading_flags() -> None:
    """Defines the flags that set how a trained reader reads."""
    cli.import_modules()
    text = "Longer passages are read in overlapping windows, in tokens."
    flags.DEFINE_integer("max_passage", 512, text, lower_bound=1, upper_bound=LONGEST_PASSAGE)
    flags.DEFINE_enum("precision", POLICIES[0], POLICIES, "Precision of the layers, independent of the training's.")
    text = "Longest predicted answer, in tokens; by default the run's own."
    flags.DEFINE_integer("max_answer", None, text, lower_bound=1)


def no_answer_threshold(values: flags.FlagValues) -> float | str | None:
    """The threshold of --no_answer_threshold, as `Reader.load` takes it.

    Args:
        values: the flags of `define_reader_flags`, or of `define_reading_flags` alone.

    Raises:
        UserError: it is neither a number from 0 to 1 nor none.
    """
    text = values.no_answer_threshold if "no_answer_threshold" in values else None
    if text is None:
        return "own"
    if text == "none":
        return None
    number = cli.fraction(text)
    if number is None:
        raise UserError(f"--no_answer_threshold={text}: expected a number from 0 to 1, or none")
    return number


def load_reader(values: flags.FlagValues, folder: str) -> "Reader":
    """Loads the reader in a folder, with the flags of `define_reading_flags`, and of `define_reader_flags` if given."""
    threshold = no_answer_threshold(values)
    with entry.importing():
        from fabir_tf.reading.reader import Reader
    return Reader.load(folder, values.max_passage, values.precision, values.max_answer, cli.to_stderr, threshold)


def reader_folder(values: flags.FlagValues) -> str | None:
    """The folder of the reader of --run_dir or --model; None if neither is given.

    Args:
        values: the flags of `define_reader_flags`.

    Raises:
        UserError: both are given, or there is no such reader.
    """
    if values.run_dir and values.model:
        raise UserError("expected either --run_dir or --model, found both")
    if not values.model:
        return values.run_dir
    if values.model in pretrained_readers():
        return str(pretrained_folder(values.model))
    with entry.importing():
        from fabir_tf.models.hugging_face import is_hugging_face
        from fabir_tf.reading.run_directory import RunDirectory
    if is_hugging_face(values.model):
        return values.model
    if RunDirectory(values.model).is_started:
        raise UserError(f"--model={values.model}: found the folder of a run, expected it as --run_dir={values.model}")
    known = ", ".join(pretrained_readers()) or "none in this installation"
    raise UserError(
        f"--model={values.model}: no such reader comes with the package, expected one of: {known}; or the folder of a "
        "question-answering model in Hugging Face's layout"
    )


def needed_reader_folder(values: flags.FlagValues) -> str:
    """The folder of the reader of --run_dir or --model.

    Args:
        values: the flags of `define_reader_flags`.

    Raises:
        UserError: both or neither are given, or there is no such reader.
    """
    folder = reader_folder(values)
    if not folder:
        raise UserError(
            "--run_dir is missing: name the folder of a trained run, or a reader of the package with --model"
        )
    return folder
