"""A lock between processes, which a process that has died does not keep."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import create_text

# More than a lock needs to be written once it is there.
SECONDS_OF_WRITING = 0.5


@contextlib.contextmanager
def held(
    lock: Path, flag: str, is_held: Callable[[int], object], took_over: Callable[[int], object] = lambda pid: None
) -> Iterator[None]:
    """Holds a lock, a file that names this process and this machine.

    The file goes with the process. Where that was killed, it stays, and the next process on this machine takes it over.

    Args:
        lock: the file; missing folders are created.
        flag: what locks, for messages: a flag and its value.
        is_held: called with the number of the process that holds it; raises, or waits until the next attempt.
        took_over: called with the number of a process that has died with it.

    Raises:
        UserError: a process on another machine may hold it, or the file is no lock.
        WriteError: the file cannot be written.
    """
    own = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": _start_of(os.getpid())}) + "\n"
    while not create_text(lock, own):
        if (pid := _take_over(lock, flag, is_held)) is not None:
            took_over(pid)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _take_over(lock: Path, flag: str, is_held: Callable[[int], object]) -> int | None:
    """Removes the lock of a process that has died, and returns the number of that process."""
    try:
        found = lock.read_bytes()
        if not found:
            # It may have been made a moment ago.
            time.sleep(SECONDS_OF_WRITING)
            found = lock.read_bytes()
    except FileNotFoundError:
        return None
    pid, is_alive = _holder(lock, flag, found)
    if is_alive:
        is_held(pid)
        return None
    # Another process may be taking over the same lock. Only one of the two can rename it, and if it is the other's new
    # lock by now, it goes back.
    taken = lock.with_name(f"{lock.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        os.replace(lock, taken)
        if taken.read_bytes() == found:
            taken.unlink()
            return pid
        os.replace(taken, lock)
    return None


def _holder(lock: Path, flag: str, content: bytes) -> tuple[int, bool]:
    """The number of the process that wrote a lock, and whether it is alive."""
    start = f"{flag}: found {lock.name}"
    remedy = f"if no training writes into the folder, delete {lock}"
    try:
        found = json.loads(content)
        pid, host, started = found["pid"], found["host"], found["started"]
        if not isinstance(pid, int) or pid < 1:
            raise ValueError(f"found the process number {pid}")
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{start} with other content than a training writes: {remedy}") from None
    if host != socket.gethostname():
        raise UserError(f"{start} of process {pid} on the machine {host}, expected no other training: {remedy}")
    return pid, _is_alive(pid, started)


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
