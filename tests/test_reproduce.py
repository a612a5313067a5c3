"""fabir-reproduce: the papers' rows are the files in configs/, and a figure is drawn from its readers."""

import csv
import json
from pathlib import Path

import pytest
from test_ablations import settings_of
from test_bad_input import assert_error
from tiny import SMALL_DATA

from fabir_tf.experiments.published import FIGURES, TABLES

ROOT = Path(__file__).parents[1]


def test_tables_have_the_papers_rows():
    assert [len(TABLES[number]) for number in (1, 2, 6)] == [9, 2, 12]
    assert {run.name for run in TABLES[1]} < {run.name for run in TABLES[6]}
    assert set(FIGURES) == {3, 4, 5, 6}


@pytest.mark.parametrize("run", [*TABLES[6], TABLES[2][1]], ids=lambda run: run.name)
def test_each_row_is_the_flag_file_of_its_name(run):
    path = ROOT / "configs" / f"{run.name}.flags"
    name, _, model, training = settings_of(path)
    given = {"model": name} | model | training if name != "fabir" else model | training
    assert given == run.settings
    assert f"F1 {run.f1}, EM {run.exact_match}" in path.read_text()


@pytest.mark.slow
def test_a_figure_and_then_its_table(commands, tiny_run, tmp_path):
    out = tmp_path / "out"
    data = [f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}"]
    flags = [
        f"--output={out}",
        *data,
        "--epochs=1",
        "--word_dim=8",
        "--character_filters=8",
        "--vectors=none",
        *SMALL_DATA,
    ]
    done = commands("reproduce", "--figure=5", *flags)
    assert done.status == 0, done
    table = (out / "table_2.md").read_text()
    assert "67.6, 77.6" in table and "67.3, 77.0" in table
    assert (out / "figure_5.png").read_bytes().startswith(b"\x89PNG")
    with (out / "figure_5.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert {row["predictions"] for row in found} == {"fabir", "bidaf"}
    assert sum(int(row["questions"]) for row in found) == 2 * 4
    again = commands("reproduce", "--table=2", *flags)
    assert again.status == 0 and "step" not in again.stdout, again
    config = json.loads((out / "table_2" / "bidaf" / "seed_1" / "config.json").read_text())
    assert config["training"]["epochs"] == 1 and config["model"]["name"] == "bidaf"


@pytest.mark.slow
def test_mistakes_are_reported(commands, tiny_run, tmp_path):
    out = f"--output={tmp_path / 'out'}"
    assert_error(commands, "reproduce", [out], ["--table", "--figure", "neither"])
    assert_error(commands, "reproduce", [out, "--table=2", "--figure=3"], ["both"])
    assert_error(commands, "reproduce", [out, "--table=3"], ["--table", "6"])
    assert_error(commands, "reproduce", ["--table=2"], ["--output is missing"])
    assert_error(
        commands, "reproduce", [out, "--table=2", f"--dataset={tiny_run.train}"], ["--eval_dataset is missing"]
    )
    assert_error(commands, "reproduce", [out, "--table=2", "--model=bidaf"], ["--model", "the papers' rows"])
