"""A trained reader as a SavedModel that takes raw text, ready for TensorFlow Serving."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from fabir_tf.export.warm_up import WARM_UP_FILE, write_warm_up
from fabir_tf.pipelines.arguments import LARGEST_INT64, whole_number
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, removed_on_failure, user_path
from fabir_tf.reading.answers import QuestionAnswerer, validate_n_best, validate_reader
from fabir_tf.reading.calibration import Calibration


def export_reader(
    reader: QuestionAnswerer,
    export_dir: str | os.PathLike,
    version: int | None = None,
    n_best: int = 5,
) -> Path:
    """Writes `<export_dir>/<version>/`, whole or not at all.

    Its signatures are those of `reader.in_graph(n_best)`: for a `Reader`, `serving_default` is `GraphReader.answer`,
    and `token_ids` is the model itself. The folder `assets.extra` holds the warm-up requests, if tensorflow-serving-api
    is installed, and the reader's `calibration.json`, if it has one.

    Args:
        reader: a trained reader.
        export_dir: the folder that a server watches; it is created if it is missing.
        version: a positive number; None takes the one after the latest.
        n_best: spans returned per question.

    Returns:
        The folder of the version.

    Raises:
        UserError: the version exists, a number is out of its range, or the installed tokenizer cuts text in another way
            than the graph does.
        WriteError: the folder cannot be written.
    """
    validate_reader("reader", reader)
    n_best = validate_n_best(n_best)
    folder = version_folder(export_dir, version)
    with written_whole(folder) as unfinished:
        module = reader.in_graph(n_best)
        signatures = {name: _traced(function, *specs) for name, (function, specs) in module.signatures().items()}
        tf.saved_model.save(module, str(unfinished), signatures)
        _write_extras(unfinished / "assets.extra", reader.calibration)
    return folder


@contextlib.contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Makes the folder of a version appear only when everything is in it.

    Args:
        folder: the folder of the version, which does not exist.

    Yields:
        A folder beside it to write into, which gets its name in the end, and is removed after an error.

    Raises:
        UserError: another export has written the version in the meantime.
        WriteError: the folder cannot be written.
    """
    # A server takes a folder for a version only if its name is a number, so this one is not served.
    # What a killed export left may have the number of this process.
    unfinished = folder.with_name(f"unfinished-{folder.name}-{secrets.token_hex(4)}")
    with named_errors(folder, unfinished), removed_on_failure(unfinished):
        # Created here, because TensorFlow's error does not say that the folder cannot be created.
        unfinished.mkdir(parents=True)
        yield unfinished
        if folder.exists():
            raise UserError(f"{folder} exists by now, written by another export: start this one again")
        unfinished.rename(folder)


def version_folder(export_dir: str | os.PathLike, version: int | None = None) -> Path:
    """The folder of a version that does not exist yet.

    Args:
        export_dir: the folder that a server watches.
        version: a positive number; None takes the one after the latest.

    Returns:
        `<export_dir>/<version>`.

    Raises:
        UserError: the version exists, or is no number from 1 to 2^63 - 1.
    """
    export_dir = user_path(export_dir)
    if version is None:
        names = [path.name for path in export_dir.iterdir()] if export_dir.is_dir() else []
        numbers = [int(name) for name in names if name.isdecimal()]
        version = max([number for number in numbers if number < LARGEST_INT64], default=0) + 1
    version = whole_number("version", version, 1, LARGEST_INT64)
    folder = export_dir / str(version)
    if folder.exists():
        raise UserError(f"{folder} exists, expected a version that does not: it is never written over")
    return folder


def _traced(function: Callable, *specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def _write_extras(folder: Path, calibration: Calibration | None) -> None:
    folder.mkdir()
    write_warm_up(folder / WARM_UP_FILE)
    if calibration:
        calibration.save(folder / "calibration.json")
