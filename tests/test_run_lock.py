"""The lock of a run's folder: one training at a time, whatever became of the last one."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training import process_lock
from fabir_tf.training.run_lock import locked

HOST = socket.gethostname()


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "runs" / "one")


@pytest.fixture
def other_process():
    """A process that is alive until its input ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.stdin.close()


def write_lock(run, content):
    run.path.mkdir(parents=True, exist_ok=True)
    run.lock.write_text(content if isinstance(content, str) else json.dumps(content))


def test_the_lock_names_process_and_machine_and_goes_with_the_training(run):
    with locked(run):
        assert json.loads(run.lock.read_text()).items() >= {"pid": os.getpid(), "host": HOST}.items()
    assert not run.path.parent.exists()


def test_what_was_written_stays(run):
    with locked(run):
        run.config.write_text("{}")
    assert [path.name for path in run.path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("error", [UserError("a mistake"), KeyboardInterrupt(), MemoryError()])
def test_a_failure_unlocks(run, error):
    with pytest.raises(type(error)), locked(run):
        raise error
    assert not run.path.parent.exists()


def test_a_second_training_is_refused(run):
    with locked(run):
        with pytest.raises(UserError, match=rf"of process {os.getpid()}, which is training this run: wait for it"):
            locked(run).__enter__()
        assert run.lock.exists()


def test_the_lock_of_a_living_process_holds(run, other_process):
    started = process_lock._start_of(other_process.pid)
    for known in (started, ""):
        write_lock(run, {"pid": other_process.pid, "host": HOST, "started": known})
        with pytest.raises(UserError, match=f"of process {other_process.pid}, which is training this run"):
            locked(run).__enter__()


def test_the_lock_of_a_dead_process_is_taken_over(run, other_process):
    write_lock(run, {"pid": other_process.pid, "host": HOST, "started": process_lock._start_of(other_process.pid)})
    other_process.stdin.close()
    other_process.wait()
    with locked(run):
        assert json.loads(run.lock.read_text())["pid"] == os.getpid()
        assert [path.name for path in run.path.iterdir()] == [run.lock.name]


@pytest.mark.skipif(not process_lock._start_of(os.getpid()), reason="only Linux tells that a process has ended")
def test_a_killed_process_that_nobody_has_waited_for_is_dead(run):
    """Its number stays taken, for example in a container or a notebook, whose first process waits for no other."""
    with subprocess.Popen(["sleep", "60"]) as process:
        write_lock(run, {"pid": process.pid, "host": HOST, "started": process_lock._start_of(process.pid)})
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with locked(run):
            assert json.loads(run.lock.read_text())["pid"] == os.getpid()


def test_what_a_killed_training_was_writing_goes_with_its_lock(run):
    write_lock(run, {"pid": 10**30, "host": HOST, "started": ""})
    names = ("last.npz", f"last.npz.{10**30}.tmp", "last.npz.77.tmp", "model.keras")
    run.last.parent.mkdir()
    for name in names:
        (run.last.parent / name).write_text("x")
    with locked(run):
        assert sorted(path.name for path in run.last.parent.iterdir()) == sorted({*names} - {names[1]})


@pytest.mark.skipif(not process_lock._start_of(os.getpid()), reason="only Linux tells when a process started")
def test_another_process_with_the_number_of_a_dead_one_holds_nothing(run, other_process):
    write_lock(run, {"pid": other_process.pid, "host": HOST, "started": "an-earlier-boot 17"})
    with locked(run):
        assert json.loads(run.lock.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("pid", [1, 99999999])
def test_nobody_knows_whether_a_process_of_another_machine_is_alive(run, pid):
    write_lock(run, {"pid": pid, "host": "elsewhere", "started": ""})
    with pytest.raises(UserError, match=f"of process {pid} on the machine elsewhere, expected no other training"):
        locked(run).__enter__()
    assert run.lock.exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "\x00", '{"pid": 1}', '{"pid": "1", "host": "a", "started": ""}']
    + [json.dumps({"pid": pid, "host": HOST, "started": ""}) for pid in (0, -1, 1.5, None)],
)
def test_a_damaged_lock_is_told(run, content):
    write_lock(run, content)
    with pytest.raises(UserError, match=f"with other content than a training writes: .* delete {run.lock}$"):
        locked(run).__enter__()


def test_a_number_that_no_process_can_have_is_dead(run):
    write_lock(run, {"pid": 10**30, "host": HOST, "started": ""})
    with locked(run):
        pass


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError) as error:
        locked(RunDirectory(tmp_path / "file" / "run")).__enter__()
    assert error.value.filename.endswith("training.lock")


def test_of_many_that_take_over_a_stale_lock_one_succeeds(run):
    write_lock(run, {"pid": 10**30, "host": HOST, "started": ""})

    def take(_):
        lock = locked(run)
        try:
            lock.__enter__()
        except UserError:
            return None
        return lock

    with ThreadPoolExecutor(8) as pool:
        locks = [lock for lock in pool.map(take, range(8)) if lock]
    assert len(locks) == 1
    locks[0].__exit__(None, None, None)
    assert not run.path.exists() or not list(run.path.iterdir())


def test_a_lock_that_is_being_written_is_no_damaged_one(run, monkeypatch):
    write_lock(run, "")
    monkeypatch.setattr(process_lock.time, "sleep", lambda seconds: run.lock.unlink())
    with locked(run):
        assert json.loads(run.lock.read_text())["pid"] == os.getpid()
