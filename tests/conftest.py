"""Fixtures that several test files share."""

import dataclasses
import gc
import sys
from pathlib import Path
from typing import Any

import before_tensorflow  # noqa: F401
import pytest
from command_line import CommandLines
from hypothesis import HealthCheck, settings
from long_tests import share
from tiny import (
    ARTICLES,
    DEV_ARTICLES,
    EXPORTED_N_BEST,
    EXPORTED_WINDOW,
    SMALL_DATA,
    SMALL_MODEL,
    make_reader,
    squad_data,
    write_squad,
)

# For tests/test_fuzzing.py, which tries little without it.
settings.register_profile("fuzzing", max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser):
    """Says which of the tests marked long run."""
    parser.addoption(
        "--long",
        default="none",
        metavar="none|all|K/N",
        help="which of the tests marked long run: none, all, or the Kth of N shares; those named with :: always do",
    )


def pytest_collection_modifyitems(config, items):
    """Leaves out the long tests that nobody asked for."""
    marks = {item: item.get_closest_marker("long") for item in items}
    groups = {item: mark.args or item.nodeid for item, mark in marks.items() if mark}
    wanted = config.getoption("--long")
    try:
        chosen = share(list(dict.fromkeys(groups.values())), wanted)
    except ValueError as error:
        raise pytest.UsageError(f"--long={wanted}: {error}") from None
    if any("::" in argument for argument in config.args):
        return
    left_out = {item for item, group in groups.items() if group not in chosen}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish():
    """Looks for garbage rarely, and never among the modules and tests themselves, which saves a tenth of the time."""
    gc.set_threshold(50_000)
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Seeds every test, so that one that passes here passes everywhere; tests that need no Keras do not import it."""
    if keras := sys.modules.get("keras"):
        keras.utils.set_random_seed(0)


@dataclasses.dataclass(frozen=True)
class TinyRun:
    """A run of one epoch on a dozen questions.

    Attributes:
        path: its folder; tests that change something do so in a copy.
        train, dev: the SQuAD files that it was trained and scored on.
        flags: what it was trained with, but for --run_dir and --epochs.
        printed: what the command printed.
    """

    path: Path
    train: str
    dev: str
    flags: tuple[str, ...]
    printed: str


@dataclasses.dataclass(frozen=True)
class Exported:
    """An untrained reader and its SavedModel, of version 7.

    Attributes:
        reader: it knows all words of the small data.
        folder: of the version.
        signatures: the loaded ones.
    """

    reader: Any
    folder: Path
    signatures: Any


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Exported:
    """One SavedModel that all tests of the export share."""
    # Here, because the commands' tests need none of it.
    import tensorflow as tf

    from fabir_tf.export import export_reader
    from fabir_tf.pipelines.text.tokenizer import tokenize
    from fabir_tf.reading.calibration import FIGURES, Calibration

    texts = squad_data(ARTICLES + DEV_ARTICLES).passages
    words = sorted({word.lower() for text in texts for word in tokenize(text).words})
    reader = make_reader(words, max_passage=EXPORTED_WINDOW)
    figures = dict.fromkeys(FIGURES, 0.5)
    reader.calibration = Calibration(0.7, 1, 1.0, figures, figures, [])
    folder = export_reader(reader, tmp_path_factory.mktemp("exported"), 7, EXPORTED_N_BEST)
    return Exported(reader, folder, tf.saved_model.load(str(folder)).signatures)


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Runs command lines in an empty folder."""
    command_lines = CommandLines(tmp_path_factory.mktemp("commands"))
    yield command_lines
    command_lines.close()


@pytest.fixture(scope="session")
def tiny_run(commands, tmp_path_factory) -> TinyRun:
    """One run that all tests of the commands share."""
    folder = tmp_path_factory.mktemp("tiny")
    train = write_squad(folder / "train.json", ARTICLES)
    dev = write_squad(folder / "dev.json", DEV_ARTICLES)
    flags = (f"--dataset={train}", f"--eval_dataset={dev}", *SMALL_MODEL, *SMALL_DATA)
    flag_file = folder / "tiny.flags"
    flag_file.write_text("# A comment.\n" + "\n".join(flags) + "\n")
    result = commands("train", f"--flagfile={flag_file}", f"--run_dir={folder / 'run'}", "--epochs=1")
    assert result.status == 0, result
    return TinyRun(folder / "run", train, dev, flags, result.stdout)
