"""fabir-reproduce: the papers' rows are the files in configs/, and a figure is drawn from its readers."""

import csv
import json
import re
import shutil
from pathlib import Path

import bilm_folders
import pytest
from test_ablations import settings_of
from test_bad_input import assert_error
from tiny import DEV_ARTICLES, SMALL_DATA, squad_json
from wordpiece_folders import write_bert

from fabir_tf.configuration import as_flag
from fabir_tf.experiments import cheung, compare, porwal
from fabir_tf.experiments.published import FIGURES, GROUPINGS, LOSS_CURVES, TABLES, PublishedRun
from fabir_tf.reading.run_directory import RunDirectory

ROOT = Path(__file__).parents[1]


def test_tables_have_the_papers_rows():
    fabir = TABLES["fabir"]
    assert {number: len(rows) for number, rows in fabir.items()} == {"1": 9, "2": 2, "6": 12}
    assert {run.name for run in fabir["1"]} < {run.name for run in fabir["6"]}
    assert [run.settings["variant"] for run in TABLES["bologna"]["1"]] == [0, 1, 2, 3, 4]
    assert TABLES["porwal"]["6.1"] == TABLES["porwal"]["6.2"]
    assert FIGURES["fabir"] == ("3", "4", "5", "6", "11", "12")
    assert FIGURES["bologna"] == ("4", "6", "8", "10", "12") and FIGURES["porwal"] == FIGURES["cheung"] == ()
    assert set(GROUPINGS) < set(FIGURES["fabir"]) and set(LOSS_CURVES) == set(FIGURES["bologna"])


CHEUNG = TABLES["cheung"]["4"]
ROWS = [
    *TABLES["fabir"]["6"],
    TABLES["fabir"]["2"][1],
    *TABLES["porwal"]["6.1"],
    *TABLES["bologna"]["1"],
    *(row for row in CHEUNG if row.settings and row.as_published),
]


@pytest.mark.parametrize("run", ROWS, ids=lambda run: run.name)
def test_each_row_with_our_defaults_is_the_flag_file_of_its_name(run):
    path = ROOT / "configs" / f"{run.name}.flags"
    name, _, model, training = settings_of(path)
    given = {"model": name} | model | training if name != "fabir" else model | training
    assert given == {**run.settings, **run.improved}
    if run.f1:
        assert f"F1 {run.f1}, EM {run.exact_match}" in path.read_text()
    published = run.as_flags().splitlines()
    assert published[1] == "--as_published=true"
    assert published[2:] == [as_flag(name, value) for name, value in run.settings.items()]
    assert "as_published" not in run.as_flags(improved=True)


@pytest.mark.parametrize("run", [row for row in CHEUNG if not row.as_published], ids=lambda run: run.name)
def test_each_row_of_bert_has_a_flag_file(run):
    """Small and large share one; the defaults are those of the paper."""
    found = [
        path
        for path in (ROOT / "configs").glob("bert-span*.flags")
        if f"--head={run.settings['head']}\n" in path.read_text()
    ]
    assert len(found) == 1
    name, _, model, training = settings_of(found[0])
    assert {"model": name} | model | training == run.settings
    assert f"F1 {run.f1}, EM {run.exact_match}" in found[0].read_text()
    assert run.flags() == run.flags(improved=True) == [as_flag(name, value) for name, value in run.settings.items()]
    assert run.flags(folder="here")[-1] == "--encoder=here"


def test_the_published_figures_are_read_from_a_row():
    fabir = compare._published(TABLES["fabir"]["2"][0].as_flags())
    assert [fabir[name] for name in compare.PUBLISHED] == [67.6, 77.6, 390, 202, 440]
    heads = compare._published(TABLES["fabir"]["6"][6].as_flags())
    assert [heads[name] for name in compare.PUBLISHED] == [63.2, 73.8, 132, None, None]
    assert set(compare._published("--epochs=2\n").values()) == {None}


@pytest.mark.long
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
    assert config["training"]["optimizer"] == "adadelta" and config["model"]["max_answer"] is None
    assert "390" in table and "440" in table


@pytest.mark.parametrize("number", ["11", "12"])
def test_the_attention_of_positions_needs_no_training(commands, tmp_path, number):
    done = commands("reproduce", f"--figure={number}", f"--output={tmp_path}")
    assert done.status == 0, done
    assert (tmp_path / f"figure_{number}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"figure_{number}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 400 and all(float(value) == 1 for name, value in rows[0].items() if name != "position")


def test_porwals_table_of_epochs():
    rows = [
        {"epoch": "0", "loss": "", "held_out_loss": "9.91", "accuracy": "0.004"},
        {"epoch": "1", "loss": "9.5", "held_out_loss": "8.25", "accuracy": "0.0214"},
        {"epoch": "2", "loss": "8.12345", "held_out_loss": "", "accuracy": ""},
        {"epoch": "7", "loss": "3.0", "held_out_loss": "4.0", "accuracy": "0.5"},
    ]
    assert porwal.epochs_table(rows).splitlines()[2:] == [
        "| 1 | 9.5000 | 9.6661 | 2.14 | 1.35 | 8.2500 | 8.9407 |",
        "| 2 | 8.1235 | 8.5702 |  | 3.05 |  | 8.0087 |",
        "| 7 | 3.0000 |  | 50.00 |  | 4.0000 |  |",
    ]


@pytest.mark.long
def test_porwals_answers_after_one_epoch_and_after_four(commands, tiny_run, tmp_path):
    out, vectors = tmp_path / "out", tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5', '-0.5'] * 4)}\n" for word in ("the", "mill", "was")))
    data = [f"--output={out}", f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL_DATA]
    small = ["--paper=porwal", "--table=6.2", "--units=4", "--word_dim=8", f"--vectors={vectors}"]
    done = commands("reproduce", *small, *data)
    assert done.status == 0, done
    assert "not as published: words are cut by NLTK's rules, there at spaces" in done.stdout
    rows = (out / "table_6.2.md").read_text().splitlines()
    assert rows[0] == "## bidaf-porwal" and len(rows) == 4 + len(porwal.EXAMPLES)
    assert "Wittenberg jurist Jerome Schurf" in rows[9]
    again = commands("reproduce", *small, *data)
    assert again.status == 0 and again.stdout.splitlines() == rows
    other = commands("reproduce", *small, *data, "--batch_size=3")
    assert other.status == 2 and "name another --output" in other.stderr
    # It is asked with the weights of the epoch, and not with the best ones.
    run = RunDirectory(next(out.rglob("last_epoch")).parent)
    assert (run.path / "last_epoch" / "checkpoints" / "best.npz").read_bytes() == run.last.read_bytes()


# Table 4 of the report: Dev F1, Dev EM, Ensemble Dev F1, Ensemble Dev EM, and its mark: # equal, & by F1, * by EM.
TABLE_4 = """
BiDAF + GloVe 54.622 50.678
BiDAF + ELMo 62.388 59.244
BiDAF + BERT Base Uncased 59.695 56.565
BERT-Base Uncased + 1 FFN 77.158 74.050
BERT-Large Uncased + 1 FFN 80.884 77.899 81.450* 78.573*
BERT-Large Uncased + 2 FFN 81.168 78.253 81.841# 79.121#
BERT-Large Uncased + 2 FFN + ReLU 80.628 77.756 81.429# 78.624#
BERT-Large Uncased + Highway networks 80.720 77.975 81.211* 78.691*
BERT-Large Uncased + 1 Residual learning block 81.243 78.371 81.914# 79.045#
BERT-Large Uncased + 5 Residual learning blocks 81.233 78.278 82.016& 79.272&
BERT-Large Uncased + Gating 81.404 78.169 82.001* 79.205*
Ensemble of 10 and 11 (6 models) - - 82.294# 79.542#
"""


def test_cheungs_table_has_all_rows_and_the_best_seed():
    runs = [
        {"configuration": "bidaf-cheung", "seed": seed, "f1": f1, "exact_match": exact_match}
        for seed, f1, exact_match in ((1, 9.5, 8.0), (2, 51.25, 47.5), (3, 50.0, 48.0))
    ]
    runs.append({"configuration": "bert-large_ensemble", "seed": "1,2,3", "f1": 60.0, "exact_match": 58.0})
    trained = {"bidaf-cheung": "--vectors=bundled with 100 dimensions", "bert-large_ensemble": "both"}
    plan = compare.Plan(
        (), (1, 2, 3), ("--units=4", "--epochs=1"), "dev", Path("out"), 0.5, {CHEUNG[3].name: {"units"}}
    )
    commands = {row.name: cheung.command(row, plan, "a folder") for row in CHEUNG}
    lines = cheung.results_table(CHEUNG, runs, trained, commands).splitlines()
    assert lines[2] == (
        "| 1 | BiDAF + GloVe | bidaf-cheung, --vectors=bundled with 100 dimensions, seed 2 of 1,2,3 | 51.250 | 47.500 "
        "| 54.622 | 50.678 |  |"
    )
    weights = {"*": "by EM", "#": "equal", "&": "by F1"}
    table, numbered = lines[2:14], lines[17:]
    assert lines[14:17] == ["", cheung.NOTE, ""] and len(numbered) == 12
    for number, (line, expected) in enumerate(zip(table, TABLE_4.strip().splitlines(), strict=True), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        row, *scores = re.fullmatch(r"(.+?)((?: (?:[\d.]{6}|-)[*#&]?)+)", expected).groups()
        scores = scores[0].split()
        ensemble = f"{scores[2][:-1]}, {scores[3][:-1]}, {weights[scores[2][-1]]}" if len(scores) == 4 else ""
        assert cells[:2] == [str(number), row]
        assert cells[5:] == [*(score.strip("-") for score in scores[:2]), ensemble]
        if 1 < number < 12:
            needed = "--elmo" if number == 2 else "--bert_base" if number < 5 else "--bert_large"
            assert cells[2].startswith(f"no: needs {needed}, the folder of ") and cells[3:5] == ["", ""]
    assert table[11].startswith(
        "| 12 | Ensemble of 10 and 11 (6 models) | bert-large_ensemble, both, seeds 1,2,3 | 60.000 "
    )
    assert numbered[0].startswith(
        "1. `fabir-train --as_published=true --model=bidaf-cheung --units=4 --epochs=1 --seed=1"
    )
    elmo = "--as_published=true --model=bidaf-cheung --word_vectors=elmo '--word_model=a folder' --units=4 --epochs=1"
    assert numbered[1] == f"2. `fabir-train {elmo} --seed=1 --run_dir=out/bidaf-cheung_elmo/seed_1`"
    base = (
        "--model=bert-span --head=dense '--encoder=a folder' --epochs=1 --seed=1 --run_dir=out/bert-base_1-ffn/seed_1"
    )
    assert numbered[3] == f"4. `fabir-train {base}`"
    members = ",".join(f"out/bert-large_{name}/seed_{seed}" for name in ("5-residual", "gating") for seed in (1, 2, 3))
    assert numbered[11] == f"12. `fabir-pack --ensemble={members} --output=out/bert-large_ensemble/seeds_1,2,3`"


@pytest.mark.long
def test_cheungs_table_is_trained_and_resumed(commands, tmp_path):
    """A question is unanswerable where the likeliest pair of start and end has a null."""
    out, file = tmp_path / "out", tmp_path / "data.json"
    content = squad_json(DEV_ARTICLES)
    for article in content["data"]:
        asked = {"id": f"{article['title']}-none", "question": "Who sold it?", "answers": [], "is_impossible": True}
        article["paragraphs"][0]["qas"].append(asked)
    file.write_text(json.dumps(content))
    data = [f"--output={out}", f"--dataset={file}", f"--eval_dataset={file}", *SMALL_DATA]
    small = ["--units=4", "--word_dim=8", "--vectors=none", "--epochs=20", "--learning_rate=0.05", "--improved"]
    done = commands("reproduce", "--paper=cheung", "--table=4", *small, *data)
    assert done.status == 0, done
    assert "not as published: --word_dim=8 instead of --word_dim=300" in done.stdout
    rows = (out / "table_4.md").read_text().splitlines()
    run = out / "cheung" / "bidaf-cheung" / "seed_1"
    report = json.loads((run / "report.json").read_text())
    scores = f"{report['f1']:.3f} | {report['exact_match']:.3f} | 54.622 | 50.678 |  |"
    trained = f"bidaf-cheung, --vectors=none with 8 dimensions, on data.json, seed 1 of 1 | {scores}"
    assert rows[2] == f"| 1 | BiDAF + GloVe | {trained}"
    assert rows[3].startswith("| 1 | BiDAF + GloVe | bidaf-cheung_improved, ") and rows[4].startswith("| 2 | BiDAF + E")
    config = json.loads((run / "config.json").read_text())
    assert config["model"]["null_pairs"] and config["training"]["adam_epsilon"] == 1e-7
    always = commands("evaluate", f"--run_dir={run}", f"--dataset={file}", "--cache_dir=")
    # By the rule it knows some of the questions without an answer; always answering, none.
    assert json.loads(always.stdout)["NoAns_exact"] == 0 < report["NoAns_exact"]
    assert sorted(path.name for path in (out / "cheung").glob("bidaf-*")) == ["bidaf-cheung", "bidaf-cheung_improved"]
    again = commands("reproduce", "--paper=cheung", "--table=4", *small, *data)
    assert again.status == 0 and again.stdout.splitlines()[-len(rows) :] == rows and "step" not in again.stdout, again


@pytest.mark.long
def test_rows_whose_folders_are_given_are_trained(commands, tiny_run, tmp_path):
    """Each reader gets the settings that it has."""
    out, base = tmp_path / "out", write_bert(tmp_path / "base", head=False)
    elmo = bilm_folders.write_folder(tmp_path / "elmo")
    data = [f"--output={out}", f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL_DATA]
    small = ["--units=4", "--word_dim=8", "--vectors=none", "--epochs=0", "--max_sequence=80"]
    folders = [f"--elmo={elmo}", f"--bert_base={base}"]
    done = commands("reproduce", "--paper=cheung", "--table=4", *small, *data, *folders)
    assert done.status == 0, done
    rows = (out / "table_4.md").read_text().splitlines()[2:14]
    assert [number for number, row in enumerate(rows, 1) if "| no: needs --bert_large" in row] == list(range(5, 13))
    for row, trained in ((1, "elmo_elmo with 12"), (2, "bert_base with 6"), (3, "1-ffn_base with 6")):
        configuration, of = trained.split("_", 1)
        assert f"{configuration}, {of} dimensions, on train.json, seed 1 of 1 | " in rows[row]
    config = json.loads((out / "cheung" / "bert-base_1-ffn" / "seed_1" / "config.json").read_text())
    assert (config["model"]["head"], config["training"]["learning_rate"]) == ("dense", 3e-5)
    config = json.loads((out / "cheung" / "bidaf-cheung_bert" / "seed_1" / "config.json").read_text())
    assert config["model"]["tune_word_model"] and config["model"]["max_sequence"] == 80


@pytest.mark.long
def test_the_runs_of_two_rows_answer_together(tiny_run, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(tiny_run.path, tmp_path / name / "seed_3")
    row = PublishedRun("both", "1 and 2", {}, members=("one", "two"))
    plan = compare.Plan((), (3,), ("--cache_dir=",), tiny_run.dev, tmp_path)
    report = cheung.train_ensemble(row, plan)
    assert (report["configuration"], report["seed"], report["total"]) == ("both", "3", 4)
    # What is there is not made again.
    shutil.rmtree(tmp_path / "one")
    assert cheung.train_ensemble(row, plan) == report


@pytest.mark.long
def test_a_loss_curve_of_bologna(commands, tiny_run, tmp_path):
    out = tmp_path / "out"
    data = [f"--output={out}", f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL_DATA]
    vectors = tmp_path / "fifty.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5', '-0.5'] * 25)}\n" for word in ("the", "mill", "was")))
    small = ["--units=4", f"--vectors_50={vectors}", "--epochs=2", "--batch_size=4"]
    done = commands("reproduce", "--paper=bologna", "--figure=10", *small, *data)
    assert done.status == 0, done
    assert (out / "figure_10.png").read_bytes().startswith(b"\x89PNG")
    with (out / "figure_10.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["configuration"], row["epoch"]) for row in rows] == [("bidaf-bologna_3", str(k)) for k in range(3)]
    config = json.loads((out / "bologna" / "bidaf-bologna_3" / "seed_1" / "config.json").read_text())
    assert config["model"]["variant"] == 3 and config["training"]["adam_epsilon"] == 1e-7
    assert config["model"]["word_dim"] == 50 and config["training"]["vectors"] == str(vectors)


@pytest.mark.slow
def test_mistakes_are_reported(commands, tiny_run, tmp_path):
    out = f"--output={tmp_path / 'out'}"
    assert_error(commands, "reproduce", [out], ["--table", "--figure", "neither"])
    assert_error(commands, "reproduce", [out, "--table=2", "--figure=3"], ["both"])
    assert_error(commands, "reproduce", [out, "--table=3"], ["--table=3", "--paper=fabir", "1, 2, 6"])
    assert_error(commands, "reproduce", [out, "--paper=porwal", "--table=6"], ["--table=6", "6.1, 6.2"])
    assert_error(commands, "reproduce", [out, "--paper=porwal", "--figure=4"], ["--figure=4", "--table"])
    config = tmp_path / "set.json"
    config.write_text(json.dumps({"training": {"eval_dataset": str(tiny_run.dev)}}))
    parts = [f"--config={config}: found eval_dataset, expected it as --eval_dataset, which holds for all runs"]
    assert_error(commands, "reproduce", [out, "--table=2", f"--config={config}"], parts)
    assert_error(commands, "reproduce", [out, "--paper=cheung", "--figure=4"], ["--figure=4", "--table"])
    assert_error(commands, "reproduce", [out, "--paper=cheung", "--table=1"], ["--table=1", "expected one of 4"])
    assert_error(
        commands, "reproduce", [out, "--paper=cheung", "--table=4"], ["--dataset is missing", "SQuAD 2.0", "squad/v2.0"]
    )
    assert_error(commands, "reproduce", [out, "--paper=bologna", "--figure=5"], ["--figure=5", "4, 6, 8, 10, 12"])
    bolognas = [out, "--paper=bologna", "--dataset=sample"]
    assert_error(commands, "reproduce", [*bolognas, "--table=1"], ["--vectors_50 is missing", "50 dimensions"])
    assert_error(commands, "reproduce", [*bolognas, "--figure=4", "--vectors_50=x"], ["--vectors_50=x: no row here"])
    porwals = [out, "--paper=porwal", "--table=6.2", "--dataset=sample"]
    assert_error(commands, "reproduce", [*porwals, "--seeds=1,2"], ["--seeds=1,2", "expected one seed"])
    assert_error(commands, "reproduce", [*porwals, "--epochs=3"], ["--epochs=3: table 6.2 is of 1 and 4 epochs"])
    figure = [out, "--figure=6", "--dataset=sample", "--limit_evaluation"]
    assert_error(commands, "reproduce", figure, ["--limit_evaluation", "the figure counts"])
    cheungs = [out, "--paper=cheung", "--table=4", "--dataset=sample"]
    assert_error(commands, "reproduce", [*cheungs, "--elmo=nowhere"], ["nowhere: found no such folder", "options.json"])
    assert_error(commands, "reproduce", [*cheungs, "--bert_base=nowhere"], ["nowhere: found no such folder"])
    assert_error(commands, "reproduce", [*cheungs, "--encoder=x"], ["--encoder", "--elmo, --bert_base, --bert_large"])
    assert_error(commands, "reproduce", [*cheungs, "--head=dense"], ["--head", "rows of the table have their own"])
    assert_error(commands, "reproduce", [*cheungs, "--num_heads=2"], ["--num_heads", "no reader that is trained"])
    assert_error(commands, "reproduce", [out, "--table=2", "--elmo=x"], ["--elmo is for --paper=cheung"])
    assert_error(commands, "reproduce", [out, "--table=2", "--as_published"], ["--as_published", "--improved"])
    assert_error(commands, "reproduce", ["--table=2"], ["--output is missing"])
    assert_error(
        commands, "reproduce", [out, "--table=2", f"--dataset={tiny_run.train}"], ["--eval_dataset is missing"]
    )
    assert_error(commands, "reproduce", [out, "--table=2", "--model=bidaf"], ["--model", "the papers' rows"])
