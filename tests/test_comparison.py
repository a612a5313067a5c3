"""fabir-compare: a table of runs, which can be resumed."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_bad_input import assert_error
from test_readers import SMALL
from tiny import SMALL_DATA

from fabir_tf.experiments.compare import COLUMNS, Plan, _exact_match_and_f1, as_markdown, check_plan, run_command
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.errors import UserError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def configs(tmp_path):
    fabir, bidaf = tmp_path / "small_fabir.flags", tmp_path / "small_bidaf.flags"
    fabir.write_text('# Thesis table 6, "FABIR": F1 75.6, EM 65.1.\n' + "\n".join(SMALL["fabir"]))
    bidaf.write_text("\n".join(SMALL["bidaf"]))
    return fabir, bidaf


@pytest.mark.long
def test_runs_are_compared_and_more_may_follow(commands, tiny_run, tmp_path, configs):
    """The scores are those of data that no epoch is chosen on."""
    fabir, bidaf = configs
    plain = (
        f"--output={tmp_path / 'out'}",
        f"--dataset={tiny_run.train}",
        f"--eval_dataset={tiny_run.dev}",
        "--epochs=2",
        *SMALL_DATA,
    )
    absent = ["--test_dataset=absent.json"]
    assert_error(commands, "compare", [f"--configs={fabir}", *plain, *absent], ["absent.json", "no such file"])
    assert not (tmp_path / "out").exists()
    scored = Path(shutil.copy(tiny_run.train, tmp_path / "scored.json"))
    flags = (*plain, f"--test_dataset={scored}")
    first = commands("compare", f"--configs={fabir}", *flags)
    assert first.status == 0, first
    run = tmp_path / "out" / "small_fabir" / "seed_1"
    written = (run / "checkpoints" / "last.npz").stat().st_mtime_ns
    second = commands("compare", f"--configs={fabir},{bidaf}", *flags)
    assert second.status == 0, second
    # What was done is not done again.
    assert (run / "checkpoints" / "last.npz").stat().st_mtime_ns == written
    assert "resuming" not in second.stdout
    with (tmp_path / "out" / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["configuration"] for row in rows] == ["small_fabir", "small_bidaf"]
    with (tmp_path / "out" / "runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert [(row["configuration"], row["seed"]) for row in runs] == [("small_fabir", "1"), ("small_bidaf", "1")]
    assert [row["f1"] for row in runs] == [row["f1"] for row in rows]
    report, coverage = (json.loads((run / name).read_text()) for name in ("report.json", "coverage.json"))
    history = list(csv.DictReader((run / "history.csv").open(newline="")))
    seconds = sum(float(row["seconds"]) for row in history)
    questions, chosen_on = (len(read_squad(path).questions) for path in (tiny_run.train, tiny_run.dev))
    assert report["total"] == questions != chosen_on == sum(coverage["eval"]["counts"].values())
    assert float(rows[0]["f1"]) == report["f1"]
    assert float(rows[0]["inference"]) == report["questions_per_second"]
    assert float(rows[0]["training"]) == pytest.approx(2 * questions / seconds, rel=0.01)
    assert (rows[0]["epochs"], rows[0]["published_f1"], rows[1]["published_f1"]) == ("2", "75.6", "")
    assert rows[0]["parameters"] in first.stdout.replace(",", "")
    assert (tmp_path / "out" / "comparison.md").read_text().strip() in second.stdout
    assert (tmp_path / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    bidaf.write_text(bidaf.read_text() + "\n--dropout=0.3\n")
    assert_error(commands, "compare", [f"--configs={bidaf}", *flags], [str(bidaf), "other flags", "settings.flags"])
    assert_error(
        commands, "compare", [f"--configs={fabir}", *flags, "--epochs=3"], ["plan.json", "--epochs=2", "name another"]
    )
    assert_error(commands, "compare", [f"--configs={fabir}", *plain], ["plan.json", tiny_run.train, "name another"])
    scored.write_text(scored.read_text() + "\n")
    assert_error(commands, "compare", [f"--configs={fabir}", *flags], ["plan.json: the files of", "have changed since"])


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_run_ends_with_the_command_that_is_terminated(tiny_run, tmp_path, configs):
    flags = (f"--configs={configs[0]}", f"--output={tmp_path / 'out'}", f"--dataset={tiny_run.train}")
    flags += (f"--eval_dataset={tiny_run.dev}", "--epochs=99", *SMALL_DATA)
    entry = [sys.executable, "-m", "fabir_tf.commands.entry", "compare", *flags]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(entry, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while "epoch 1/99" not in process.stdout.readline():
            assert process.poll() is None
        trained = json.loads((tmp_path / "out" / "small_fabir" / "seed_1" / "training.lock").read_text())["pid"]
        process.terminate()
        assert process.wait(60) == 143
    assert trained != process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(trained, 0)


def test_the_table_has_the_spread_over_seeds():
    row = dict.fromkeys(COLUMNS, 1.0) | {"configuration": "a", "seeds": 2, "exact_match": 50.0, "f1": 60.126}
    row |= {"exact_match_spread": 0.5, "f1_spread": 1.25, "published_f1": 75.6, "published_exact_match": 65.1}
    assert as_markdown([row]).splitlines()[-1].endswith("| 50.00 ± 0.50 | 60.13 ± 1.25 | 65.1, 75.6 | 1 | 1 | 1 |")
    row |= dict.fromkeys(("published_training", "published_inference", "published_minutes"))
    assert as_markdown([row]).splitlines()[-1].endswith("| 50.00 ± 0.50 | 60.13 ± 1.25 | 65.1, 75.6 |")
    slow = as_markdown([row, row | {"published_minutes": 134.0}]).splitlines()
    assert slow[-2].endswith("| 65.1, 75.6 |  |  |  |") and slow[-1].endswith("| 65.1, 75.6 |  |  | 134 |")


def test_a_reader_with_a_null_head_is_scored_at_its_best_threshold():
    """It has none of its own before it is calibrated, and would always answer."""
    scores = {"exact_match": 40.0, "f1": 44.0, "best_exact": 51.0, "best_f1": 54.0}
    assert _exact_match_and_f1(scores, null_head=True) == (51.0, 54.0)
    assert _exact_match_and_f1(scores, null_head=False) == (40.0, 44.0)
    # Every question of the data has an answer.
    assert _exact_match_and_f1({"exact_match": 40.0, "f1": 44.0}, null_head=True) == (40.0, 44.0)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--configs=a.flags", ["--output is missing"]),
        ("--output=new", ["--configs is missing"]),
        ("--output=new --configs=absent.flags", ["absent.flags", "no such file"]),
        ("--output=new --configs={fabir},{fabir}", ["same name"]),
        ("--output=new --configs={fabir} --seed=3 --dataset=sample", ["--seed is for fabir-train"]),
        ("--output=new --configs={fabir} --model=bidaf --dataset=sample", ["--model is for fabir-train"]),
        ("--output=new --configs={fabir}", ["--dataset is missing"]),
        ("--output=new --configs={fabir} --dataset=a.json", ["--eval_dataset is missing", "--dataset=a.json"]),
        ("--output=new --configs={fabir} --dataset=sample --seeds=1,1", ["--seeds=1,1", "different whole numbers"]),
        ("--output=new --configs={fabir} --dataset=sample --seeds=a", ["--seeds=a", "different whole numbers"]),
        ("--output=new --configs={fabir} --dataset=sample --seeds=1,01", ["--seeds=1,01", "different whole numbers"]),
        ("--output=new --configs={fabir} --dataset=sample --seeds=1,3000000000", ["seed", "found 3000000000"]),
        (f"--output=new --configs={{fabir}} --dataset=sample --seeds={'9' * 5000}", ["different whole numbers"]),
    ],
)
def test_mistakes(commands, configs, arguments, parts):
    assert_error(commands, "compare", arguments.format(fabir=configs[0]), parts)
    assert not (commands.folder / "new").exists()


def test_its_runs_adapt(commands, configs, tiny_run, tmp_path):
    flags = (f"--configs={configs[0]}", f"--output={tmp_path / 'out'}", f"--dataset={tiny_run.train}", "--adapt")
    done = commands("compare", *flags, f"--eval_dataset={tiny_run.dev}")
    assert done.status == 2 and "--adapt needs a trained reader to adapt" in done.stderr, done


@pytest.mark.parametrize("changed", ["train.json", "vectors.txt", "settings.json", "dev.json"])
def test_files_that_have_changed_are_told(tmp_path, changed):
    for name in ("train.json", "vectors.txt", "settings.json", "dev.json"):
        (tmp_path / name).write_text("before")
    files = {"dataset": "train.json", "vectors": "vectors.txt", "config": "settings.json"}
    flags = (*(f"--{flag}={tmp_path / name}" for flag, name in files.items()), "--epochs=2")
    plan = Plan((), (1,), flags, str(tmp_path / "dev.json"), tmp_path / "out")
    check_plan(plan)
    check_plan(plan)
    (tmp_path / changed).write_text("after")
    with pytest.raises(UserError, match=rf"{changed} have changed since the first runs, expected the same"):
        check_plan(plan)
    # An earlier version recorded the scored files alone, or nothing.
    recorded = json.loads((tmp_path / "out" / "plan.json").read_text())
    for name in ("digests", "digest"):
        del recorded[name]
    (tmp_path / "out" / "plan.json").write_text(json.dumps(recorded))
    check_plan(plan)


def test_a_file_with_the_name_of_a_module_does_not_take_its_place(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise SystemExit('my own module ran')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^mine.flags: fabir-train ended with status 2, see the message above$"):
        run_command("train", ["--num_heads=0"], Path("mine.flags"))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGKILL, "was ended by SIGKILL, as the system does where memory is short"),
        (signal.SIGTERM, "was ended by SIGTERM"),
    ],
)
def test_a_run_that_is_ended_from_outside(tmp_path, monkeypatch, number, message):
    (tmp_path / "mine.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^mine.flags: fabir-train {message}$"):
        run_command("train", ["--import=mine"], Path("mine.flags"))


def test_a_flag_file_that_imports(commands, tmp_path):
    """It would be trained, and could not be scored."""
    for line in ("--import=mine", "-import mine", "  --import=mine"):
        (tmp_path / "mine.flags").write_text(f"# A reader of one's own.\n{line}\n--model=mine\n")
        flags = [f"--configs={tmp_path / 'mine.flags'}", "--output=new", "--dataset=sample"]
        assert_error(commands, "compare", flags, ["mine.flags: found --import", "on the command line"])


def test_a_flag_file_that_is_no_text(commands, tmp_path):
    config = tmp_path / "binary.flags"
    config.write_bytes(b"\xff\xfe")
    assert_error(
        commands, "compare", [f"--configs={config}", "--output=new", "--dataset=sample"], [str(config), "not UTF-8"]
    )


@pytest.mark.slow
def test_a_run_that_fails_is_named(commands, tmp_path):
    config = tmp_path / "wrong.flags"
    config.write_text("--num_heads=0\n")
    result = commands("compare", f"--configs={config}", f"--output={tmp_path / 'out'}", "--dataset=sample")
    assert result.status == 2
    assert "num_heads must be between 1 and" in result.stderr
    assert result.stderr.splitlines()[-1] == f"error: {config}: fabir-train ended with status 2, see the message above"
