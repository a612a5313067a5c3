"""What all commands share: flags that are defined once, and mistakes told in one sentence."""

import sys
from collections.abc import Callable
from pathlib import Path

from absl import app, flags

from fabir_tf.configuration import Config
from fabir_tf.pipelines.errors import UserError
from fabir_tf.training_config import DataOptions


def run_command(main: Callable[[flags.FlagValues], None], doc: str) -> None:
    """Runs a command whose flags are defined; a person's mistake ends it with status 2 and one line.

    Args:
        main: the command.
        doc: what it is for, shown above the flags by --help.
    """
    sys.modules["__main__"].__doc__ = doc

    def guarded(arguments: list[str]) -> None:
        try:
            if arguments[1:]:
                raise UserError(f"unexpected argument {arguments[1]!r}: everything is given as --flag=value")
            main(flags.FLAGS)
        except UserError as error:
            _fail(str(error))
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _fail(f"{place}{error.strerror or error}")
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)

    app.run(guarded)


def to_stderr(line: str) -> None:
    """Tells a person something that is no result."""
    print(line, file=sys.stderr, flush=True)


def show_progress(done: int, total: int) -> None:
    """A counter that overwrites itself on a terminal; silent where there is none."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} answered", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _fail(message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def define_data_flags() -> None:
    """Flags of `DataOptions`."""
    text = "Where tokenised texts are kept between runs; empty keeps none."
    flags.DEFINE_string("cache_dir", DataOptions.cache_dir, text)
    flags.DEFINE_string("tfds_data_dir", None, "Where TFDS keeps prepared datasets; its own default when empty.")
    text = "Folder with the official SQuAD files, to prepare them through TFDS without the internet."
    flags.DEFINE_string("tfds_manual_dir", None, text)


def data_options(values: flags.FlagValues) -> DataOptions:
    """The `DataOptions` of the flags."""
    return DataOptions(values.cache_dir or None, values.tfds_data_dir or None, values.tfds_manual_dir or None)


def read_config_file(path: str, *classes: type[Config]) -> list[dict]:
    """Fields of several configurations from one JSON file.

    Args:
        path: a JSON object of fields, flat, or nested under "model" and "training" as a run's config.json.
        classes: the configurations.

    Returns:
        For each class its fields.

    Raises:
        UserError: the file is missing or malformed, or a field belongs to none of the classes.
    """
    from fabir_tf.pipelines.squad import read_json

    content = read_json(Path(path))
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object of settings, found {type(content).__name__}")
    values = {}
    for name, value in content.items():
        values |= value if name in ("model", "training") and isinstance(value, dict) else {name: value}
    for extra in ("name", "data"):
        values.pop(extra, None)
    parts = [{name: values.pop(name) for name in list(values) if name in cls.__dataclass_fields__} for cls in classes]
    if values:
        raise UserError(f"{path}: unknown setting {next(iter(values))!r}; fabir-train --helpfull lists them all")
    return parts
