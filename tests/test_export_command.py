"""fabir-export as a command line."""

import json

import pytest
import tensorflow as tf
from test_bad_input import assert_error, contents
from tiny import DEV_ARTICLES, squad_data

from fabir_tf.edge import EdgeReader
from fabir_tf.export import SavedModelReader
from fabir_tf.pipelines.errors import UserError

QUESTIONS = len(squad_data(DEV_ARTICLES).questions)


@pytest.mark.slow
def test_a_run_is_calibrated_and_exported(commands, tiny_run, tmp_path):
    flags = (f"--run_dir={tiny_run.path}", f"--export_dir={tmp_path / 'exported'}", "--n_best=2", "--max_answer=1")
    result = commands("export", *flags, f"--calibration_dataset={tiny_run.dev}")
    assert result.status == 0, result
    assert result.stdout == f"{tmp_path / 'exported' / '1'}\n"
    assert f"{QUESTIONS} held-out questions" in result.stderr
    report = json.loads((tmp_path / "exported" / "1" / "assets.extra" / "calibration.json").read_text())
    assert report["questions"] == QUESTIONS
    served = tf.saved_model.load(str(tmp_path / "exported" / "1")).signatures["serving_default"]
    question, passage = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."
    found = served(question=tf.constant([question]), passage=tf.constant([passage]))
    asked = ("--max_answer=1", f"--question={question}", f"--passage={passage}")
    expected = json.loads(commands("predict", f"--run_dir={tiny_run.path}", *asked).stdout)
    assert " " not in expected["answer"]
    assert bool(found["is_answer"][0]) == expected["is_answer"]
    assert found["answer"][0].numpy().decode() == expected["answer"]
    assert (found["start"][0], found["end"][0]) == (expected["start"], expected["end"])
    assert found["n_best_answer"].shape == (1, 2)
    before = contents(tmp_path)
    parts = ["1 exists", "never written over"]
    assert_error(commands, "export", [*flags, "--version=1", "--calibration_dataset=none"], parts)
    assert contents(tmp_path) == before


KILLED = """
import os, signal
import tensorflow as tf
from fabir_tf.commands import entry

def killed(module, path, signatures):
    with open(os.path.join(path, "half"), "w") as file:
        file.write("begun")
    os.kill(os.getpid(), signal.SIGKILL)

tf.saved_model.save = killed
entry.run("export")
"""


@pytest.mark.long
def test_a_killed_export_leaves_no_version(commands, tiny_run, tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    folder = tmp_path / "exported"
    flags = (f"--run_dir={tiny_run.path}", f"--export_dir={folder}", "--calibration_dataset=none")
    assert commands(str(tmp_path / "killed.py"), *flags).status == -9
    (left,) = folder.iterdir()
    # No number, so that no server takes it for a version.
    assert left.name.startswith("unfinished-1-") and (left / "half").exists()
    with pytest.raises(UserError, match="no SavedModel"):
        SavedModelReader(folder / "1")
    result = commands("export", *flags)
    assert (result.status, result.stdout) == (0, f"{folder / '1'}\n"), result


@pytest.mark.slow
def test_a_run_is_exported_for_programs_without_tensorflow(commands, tiny_run, tmp_path):
    pytest.importorskip("tf2onnx", reason="needs tf2onnx: pip install -e .[onnx]")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install -e .[onnx]")
    flags = (f"--run_dir={tiny_run.path}", f"--export_dir={tmp_path / 'exported'}", "--max_answer=1", "--format=onnx")
    result = commands("export", *flags, f"--calibration_dataset={tiny_run.dev}", "--max_passage=20")
    assert result.status == 0, result
    assert result.stdout == f"{tmp_path / 'exported' / '1'}\n"
    assert f"{QUESTIONS} held-out questions" in result.stderr and "64 of 64 answers" in result.stderr
    assert len(result.stderr.splitlines()) == 2, result.stderr
    read = EdgeReader.load(tmp_path / "exported" / "1")
    assert read.calibration.questions == QUESTIONS and read.max_passage == 20
    question, passage = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."
    asked = ("--max_answer=1", f"--question={question}", f"--passage={passage}")
    expected = json.loads(commands("predict", f"--run_dir={tiny_run.path}", *asked).stdout)
    assert read.answer(question, passage).text == expected["answer"]
    before = contents(tmp_path)
    assert_error(commands, "export", [*flags, "--version=1", "--calibration_dataset=none"], ["never written over"])
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--export_dir=new", ["--run_dir is missing"]),
        ("--run_dir={run}", ["--export_dir is missing"]),
        ("--run_dir=absent --export_dir=new --calibration_dataset=none", ["absent", "no run"]),
        ("--model={run} --export_dir=new", ["--model=", "found the folder of a run, expected it as --run_dir="]),
        ("--run_dir={run} --export_dir=new", ["--calibration_dataset is missing", "held out no articles"]),
        ("--run_dir={run} --export_dir=new --calibration_dataset=absent.json", ["absent.json", "no such file"]),
        ("--run_dir={run} --export_dir={run}/config.json --calibration_dataset=none", ["config.json"]),
        ("--run_dir={run} --export_dir=new --n_best=0", ["--n_best=0"]),
        ("--run_dir={run} --export_dir=new --version=0", ["--version=0"]),
        (
            "--run_dir={run} --export_dir=new --format=tflite",
            ["--format=tflite", "saved_model, onnx, litert, openvino"],
        ),
        ("--run_dir={run} --export_dir=new --quantization=int8", ["--quantization=int8 needs --format=litert"]),
        ("--run_dir={run} --export_dir=new --format=onnx --n_best=2", ["--n_best is of no effect with --format=onnx"]),
        (
            "--run_dir={run} --export_dir=new --format=onnx --quantization=int8",
            ["quantization=int8: found the format onnx, expected litert"],
        ),
        (
            "--run_dir={run} --export_dir=new --format=litert --precision=mixed_bfloat16",
            ["--precision=mixed_bfloat16: expected float32, which --format=litert computes in"],
        ),
        (
            "--run_dir={run} --export_dir=new --precision=half",
            ["--precision=half: expected one of float32, mixed_bfloat16, mixed_float16"],
        ),
    ],
)
def test_mistakes(commands, tiny_run, arguments, parts):
    assert_error(commands, "export", arguments.format(run=tiny_run.path), parts)
    assert not (commands.folder / "new").exists()
