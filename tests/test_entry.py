"""The commands' entry points: TensorFlow's notices, closed streams, Ctrl-C, and settings that Keras cannot be imported
with."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import COMMANDS
from test_bad_input import contents

from fabir_tf.commands import entry

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")

NOTICES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795829913.611211   26441 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will "
    "not be used.",
    "2026-03-01 10:00:00.123456: I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] Could not find cuda drivers on",
    "2026-03-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on. You may see",
    "I0000 00:00:1.5 7 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU instructions",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate",
    "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
    "E0000 00:00:1740000000.1  99 util.cc:131] oneDNN supports DT_HALF only on platforms with AVX-512. Falling back to",
    "E0000 00:00:1740000000.1  99 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to register factory",
    "E0000 00:00:1740000000.1  99 cuda_blas.cc:1407] Unable to register cuBLAS factory: Attempting to register factory",
    "W0000 00:00:1740000000.1  99 computation_placer.cc:177] computation placer already registered. Please check",
    "E0000 00:00:1740000000.1  99 cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: no CUDA-capable",
    "I0000 00:00:1740000000.1  99 cuda_diagnostics.cc:167] hostname: example",
)
OTHERS = (
    "error: a mistake",
    "Traceback (most recent call last):",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    "Could not find cuda drivers on your machine",
    "E0000 00:00:1740000000.1  99 cuda_executor.cc:1035] failed to allocate 2.00GiB from device: out of memory",
    "F0000 00:00:1740000000.1  99 cpu_feature_guard.cc:81] The TensorFlow library was compiled to use AVX instructions",
    "W0000 00:00:1740000000.1  99 loop_optimizer.cc:933] Skipping loop optimization for Merge node",
    "E0000 00:00:1740000000.1  99 util.cc:131] oneDNN failed to compute",
    "free(): invalid pointer",
    "ERROR: Failed to apply XNNPACK delegate.",
    "  WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "Ωhne Umlaut: täglich",
    "",
)


@pytest.mark.parametrize("line", NOTICES)
def test_a_notice_is_known(line):
    assert entry._NOTICES.match(line.encode())


@pytest.mark.parametrize("line", OTHERS)
def test_another_line_is_none(line):
    assert not entry._NOTICES.match(line.encode())


START = """
import os, signal, sys, time, types
from fabir_tf.commands import entry

def write(text):
    os.write(2, text.encode())

def command(body):
    entry._imported = lambda name: types.SimpleNamespace(run=body)
    entry.run("fake")

"""


def start(program, *arguments, **options):
    """Starts a program that imports nothing but the entry."""
    command = [sys.executable, "-c", START + program, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("environment", {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def finish(process):
    """Exit status, standard output and standard error; what does not end is killed."""
    try:
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, stdout, stderr


def test_the_entry_imports_neither_tensorflow_nor_keras_and_handles_no_signal():
    program = """
print([name for name in ("numpy", "keras", "tensorflow", "absl") if name in sys.modules])
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, sys.unraisablehook is sys.__unraisablehook__)
"""
    assert finish(start(program)) == (0, "[]\nTrue True\n", "")


def test_commands_without_settings_of_models_import_neither_tensorflow_nor_keras_at_first():
    names = [name for name in COMMANDS if name not in ("compare", "prepare", "reproduce", "train")]
    program = f"""
import importlib
for name in {names} + ["train"]:
    importlib.import_module(f"fabir_tf.commands.{{name}}")
    print(name, [module for module in ("keras", "tensorflow") if module in sys.modules])
"""
    expected = "".join(f"{name} []\n" for name in names) + "train ['keras', 'tensorflow']\n"
    assert finish(start(program))[:2] == (0, expected)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_started_as_a_module_enters_in_the_same_way(name, monkeypatch):
    def run(found):
        sys.exit(f"{found} enters")

    monkeypatch.setattr(entry, "run", run)
    modules = set(sys.modules)
    with pytest.raises(SystemExit, match=f"^{name} enters$"):
        runpy.run_module(f"fabir_tf.commands.{name}", run_name="__main__")
    assert set(sys.modules) == modules


def test_notices_go_and_all_else_comes_through():
    lines = [line for pair in zip(NOTICES, OTHERS, strict=True) for line in pair]
    program = "import json; lines = json.loads(sys.argv[1]); command(lambda: write('\\n'.join(lines)))"
    status, _, stderr = finish(start(program, json.dumps(lines)))
    assert status == 0
    assert stderr.split("\n") == [*OTHERS[:-1], ""]


def test_what_python_prints_comes_through_and_a_last_line_without_its_end():
    program = "command(lambda: [print('to the user', file=sys.stderr), time.sleep(0.1), write('no end')])"
    assert finish(start(program)) == (0, "", "to the user\nno end")


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ("[write('the last word\\n'), os.abort()]", -signal.SIGABRT, "the last word\n"),
        ("[write('x' * 300_000 + '\\n'), os.kill(os.getpid(), signal.SIGKILL)]", -signal.SIGKILL, "x" * 300_000),
        ("[write('before\\n'), sys.exit(3)]", 3, "before\n"),
        ("[write('before\\n'), sys.exit('why')]", 1, "before\n"),
        ("[write('before\\n'), 1 / 0]", 1, "ZeroDivisionError"),
        ("[write('before\\n'), __import__('no_such_module')]", 1, "No module named 'no_such_module'"),
    ],
)
def test_nothing_is_lost_however_the_process_ends(body, status, part):
    found, _, stderr = finish(start(f"command(lambda: {body})"))
    assert found == status and part in stderr


def test_a_process_that_keeps_standard_error_open_is_not_waited_for():
    program = "import subprocess; command(lambda: subprocess.Popen(['sleep', '30'], stdout=subprocess.DEVNULL))"
    begin = time.monotonic()
    process = start(program, stderr=subprocess.DEVNULL)
    assert process.wait(20) == 0 and time.monotonic() - begin < 15


# === Ctrl-C ===


def interrupt(process, times=1, pause=0.0):
    """Interrupts a program that has said that it is ready."""
    assert process.stdout.readline() == "ready\n"
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(pause)
    return finish(process)


READY = "print('ready', flush=True)"


@pytest.mark.parametrize(
    "program",
    [
        f"def imported(name):\n    {READY}\n    time.sleep(30)\nentry._imported = imported\nentry.run('fake')",
        f"def imported(name):\n    {READY}\n    while True:\n        try:\n            time.sleep(30)\n"
        "        except BaseException:\n            pass\nentry._imported = imported\nentry.run('fake')",
        f"def body():\n    with entry.importing():\n        {READY}\n        time.sleep(30)\ncommand(body)",
    ],
    ids=["it waits", "it catches everything", "a command needs it later"],
)
def test_an_import_is_interrupted_at_once(program):
    assert interrupt(start(program)) == (130, "", "interrupted\n")


BODIES = {
    "it waits": f"{READY}\n    time.sleep(30)",
    "it has imported": f"with entry.importing(): pass\n    {READY}\n    time.sleep(30)",
    "it computes": f"{READY}\n    while True: pass",
    "its error is another": f"{READY}\n    try: time.sleep(30)\n    except BaseException: raise RuntimeError('odd')",
    "it exits with a status": f"{READY}\n    try: time.sleep(30)\n    except BaseException: sys.exit(2)",
    "a destructor": "\n    class Slow:\n        def __del__(self):\n            " + READY + "\n"
    "            time.sleep(30)\n    Slow()\n    time.sleep(30)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_command_is_interrupted(body):
    status, stdout, stderr = interrupt(start(f"def body():\n    {body}\ncommand(body)"))
    assert (status, stdout, stderr) == (130, "", "interrupted\n")


def test_a_second_interruption_does_not_disturb_the_end_of_the_first(tmp_path):
    body = f"""
    open(sys.argv[1], "w").close()
    try:
        {READY}
        time.sleep(30)
    finally:
        time.sleep(0.5)
        os.unlink(sys.argv[1])
"""
    process = start(f"def body():{body}\ncommand(body)", tmp_path / "half made")
    assert interrupt(process, times=3, pause=0.1) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [0, 0.003, 0.01, 0.03, 0.07])
def test_a_file_that_is_being_written_stays_whole(tmp_path, delay):
    body = f"""
    from fabir_tf.pipelines.files import atomic_write
    {READY}
    while True:
        with atomic_write(sys.argv[1]) as file:
            for _ in range(200):
                file.write(b"x" * 10_000)
"""
    path = tmp_path / "last.npz"
    path.write_bytes(b"x" * 2_000_000)
    process = start(f"def body():{body}\ncommand(body)", path)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "interrupted\n")
    assert contents(tmp_path) == {path: b"x" * 2_000_000}


def test_an_ignored_interruption_stays_ignored():
    program = f"signal.signal(signal.SIGINT, signal.SIG_IGN)\ncommand(lambda: [{READY}, time.sleep(1)])"
    assert interrupt(start(program)) == (0, "", "")


@pytest.mark.slow
def test_a_training_is_interrupted_and_goes_on(tiny_run, tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "fabir_tf.commands.entry", "train", *tiny_run.flags, f"--run_dir={run}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for moment, more in (("epoch 1/99", ["--epochs=99"]), ("resuming", ["--epochs=99", "--resume"])):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*command, *more], env=environment, text=True, **pipes) as process:
            while moment not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            status, _, stderr = finish(process)
        assert (status, stderr) == (130, "interrupted\n")
        left = [path.name for path in run.rglob("*") if re.search(r"lock|tmp|unfinished", path.name)]
        assert left == [] and (run / "checkpoints" / "last.npz").exists()


# === Streams that are closed ===

ASK = ("--run_dir=linked", "--question=Who?", "--passage=Anna.")


@pytest.fixture
def files(commands, tiny_run):
    for name, source in (("linked", tiny_run.path), ("linked.json", Path(tiny_run.dev))):
        if not (commands.folder / name).exists():
            (commands.folder / name).symlink_to(source)
    (commands.folder / "texts.json").write_text('{"Tower-0": "Karl Wend"}')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("predict", ASK),
        ("evaluate", ("--predictions_file=texts.json", "--dataset=linked.json")),
        ("train", ("--run_dir=new", "--dataset=sample", "--cache_dir=")),
        ("pack", ("--run_dir=linked", "--output=packed")),
        *((command, ("--help",)) for command in COMMANDS),
    ],
)
def test_a_closed_standard_output_is_told(commands, files, command, arguments):
    result = commands(command, *arguments, closed=["stdout"])
    assert result.error == "standard output: cannot be written (Bad file descriptor)"
    assert command != "train" or not (commands.folder / "new").exists()


@pytest.mark.parametrize("stdout", ["closed", "/dev/full"])
def test_help_that_nobody_can_read(commands, stdout):
    result = commands("train", "--helpfull", stdout=stdout)
    if stdout == "closed":
        assert (result.status, result.stderr) == (1, "")
    else:
        assert result.error == "standard output: cannot be written (No space left on device)"


def test_a_closed_standard_input_is_empty(commands, files):
    for closed in (["stdin"], ["stdin", "stdout"]):
        error = commands("predict", "--run_dir=linked", "--input_file=-", closed=closed).error
        assert error.startswith("standard input: found no question")
    assert commands("predict", *ASK, closed=["stdin"]).status == 0


@pytest.mark.slow
def test_a_command_without_any_stream_writes_its_file(commands, files):
    result = commands("predict", *ASK, "--output_file=answer.jsonl", closed=["stdin", "stdout", "stderr"])
    assert (result.status, result.stdout, result.stderr) == (0, "", "")
    assert json.loads((commands.folder / "answer.jsonl").read_text())["id"] == "1"
    assert commands("predict", "--nonsense", closed=["stderr"]).status == 2


# === Settings of Keras ===


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "backend", "part"),
    [
        ('{"backend": "magic"}', "", "keras.json: Keras cannot be imported (Unable to import backend : magic)"),
        ("{}", "magic", "KERAS_BACKEND=magic: Keras cannot be imported (Unable to import backend : magic)"),
        ('{"floatx": "float7"}', "", "keras.json: Keras cannot be imported ("),
        ('{"epsilon": "small"}', "", "keras.json: Keras cannot be imported ("),
        ('{"image_data_format": "sideways"}', "", "keras.json: Keras cannot be imported ("),
        ("[1]", "", "keras.json: Keras cannot be imported ("),
        ("{}", "numpy", "Keras' backend is numpy, expected tensorflow or jax in KERAS_BACKEND or keras.json"),
    ],
)
def test_settings_that_keras_cannot_be_imported_with(tmp_path, settings, backend, part):
    (tmp_path / "keras.json").write_text(settings)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_HOME": str(tmp_path), "KERAS_BACKEND": backend}
    line = [sys.executable, "-m", "fabir_tf.commands.entry", "train", "--run_dir=new", "--dataset=sample"]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ") and part in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["keras.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["predict", *ASK], ["serve", "--model=fabir-base", "--rest_api_port=0", "--grpc_port=-1"]],
    ids=" ".join,
)
def test_a_command_that_imports_keras_later_tells_the_same(arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_BACKEND": "magic"}
    line = [sys.executable, "-m", "fabir_tf.commands.entry", *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    found = "KERAS_BACKEND=magic: Keras cannot be imported (Unable to import backend : magic)"
    assert (done.returncode, done.stdout) == (2, "") and found in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ") and "Traceback" not in done.stderr
