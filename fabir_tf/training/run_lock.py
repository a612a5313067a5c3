"""The lock of a run's folder: one training at a time, and none is kept out by a training that has died."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import create_text
from fabir_tf.reading.run_directory import RunDirectory


@contextlib.contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Keeps other trainings out of a run's folder.

    The lock is a file that names this process and this machine. It goes with the training; where the training was
    killed, it stays, and the next training on this machine takes it over.

    Args:
        run: the folder; it is created, and if nothing else was written into it, it is removed again.

    Raises:
        UserError: another training is writing into the folder, or one on another machine may be.
        WriteError: the folder cannot be written.
    """
    made = [folder for folder in (run.path, *run.path.parents) if not folder.exists()]
    own = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": _start_of(os.getpid())}) + "\n"
    while not create_text(run.lock, own):
        _take_over(run)
    try:
        yield
    finally:
        run.lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()


def _take_over(run: RunDirectory) -> None:
    """Removes the lock of a training that has died.

    Raises:
        UserError: the training is alive, or may be.
    """
    try:
        found = run.lock.read_bytes()
    except FileNotFoundError:
        return
    _validate_dead(run, found)
    # Another training may be taking over the same lock. Only one of the two can rename it, and if it is the other's new
    # lock by now, it goes back.
    taken = run.lock.with_name(f"{run.lock.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        os.replace(run.lock, taken)
        if taken.read_bytes() != found:
            os.replace(taken, run.lock)
            return
        taken.unlink()
        _remove_unfinished(run, json.loads(found)["pid"])


def _remove_unfinished(run: RunDirectory, pid: int) -> None:
    """Removes files that a training was writing when it was killed."""
    for path in run.path.rglob(f"*.{pid}.tmp"):
        path.unlink(missing_ok=True)


def _validate_dead(run: RunDirectory, content: bytes) -> None:
    start = f"--run_dir={run.path}: found {run.lock.name}"
    remedy = f"if no training writes into the folder, delete {run.lock}"
    try:
        lock = json.loads(content)
        pid, host, started = lock["pid"], lock["host"], lock["started"]
        if not isinstance(pid, int) or pid < 1:
            raise ValueError(f"found the process number {pid}")
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{start} with other content than a training writes: {remedy}") from None
    if host != socket.gethostname():
        raise UserError(f"{start} of process {pid} on the machine {host}, expected no other training: {remedy}")
    if _is_alive(pid, started):
        raise UserError(f"{start} of process {pid}, which is training this run: wait for it, or name another folder")


def _is_alive(pid: int, started: str) -> bool:
    if os.name == "nt":
        # Signal 0 would end the process there.
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    found = _start_of(pid)
    # Another process may have got the number in the meantime.
    return found != "ended" and (not started or found in ("", started))


def _start_of(pid: int) -> str:
    """When a process started, as Linux tells it: "" where that is unknown, "ended" for one that waits to be removed."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The name of the program, in brackets, may contain blanks.
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "ended" if state == "Z" else f"{boot} {numbers[18]}"
    except (OSError, IndexError, ValueError):
        return ""
