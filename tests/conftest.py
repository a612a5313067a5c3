"""Fixtures that several test files share."""

import dataclasses
from pathlib import Path

import pytest
from command_line import CommandLines
from tiny import ARTICLES, DEV_ARTICLES, write_squad

# A FABIR that trains in seconds.
SMALL_MODEL = (
    "--word_dim=20",
    "--character_filters=20",
    "--d_model=20",
    "--num_heads=2",
    "--reduction_hidden_dim=20",
    "--hidden_dim=20",
    "--num_layers=1",
    "--vectors=none",
)
# Low thresholds, or so little text would have no vocabulary.
SMALL_DATA = ("--min_word_count=1", "--min_character_count=1", "--batch_size=5", "--length_groups=2", "--cache_dir=")


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
