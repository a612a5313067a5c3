"""Runs command lines as a user would, without importing TensorFlow for each.

One process imports everything once and forks for each command line, so every command has its own flags, files, limits
and exit status. `python command_line.py` is that process: it reads one JSON request per line.
"""

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

COMMANDS = (
    "prepare",
    "train",
    "evaluate",
    "predict",
    "export",
    "compare",
    "analyze",
    "pack",
    "teach",
    "reproduce",
    "convert",
    "describe",
    "negatives",
    "index",
    "search",
    "serve",
    "beam",
)


@dataclasses.dataclass(frozen=True)
class Result:
    """Exit status and output of a command line."""

    status: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The one sentence that reports a mistake."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        assert self.status == 2 and len(lines) == 1 and self.stderr.endswith(lines[0] + "\n"), self
        assert "Traceback" not in self.stderr + self.stdout, self
        return lines[0].removeprefix("error: ")


class CommandLines:
    """Runs command lines in forks of one process.

    Args:
        folder: the commands' working directory.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        # The forks end without the interpreter's clean-up, and leave their temporary files here.
        self._temporary = tempfile.TemporaryDirectory()
        # No accelerator, because its driver does not survive a fork.
        changes = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(__file__).parents[1])}
        environment = os.environ | changes | {"TMPDIR": self._temporary.name}
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def __call__(
        self,
        command: str,
        *arguments: str,
        stdin: str | bytes = "",
        stdout: str | None = None,
        closed: Sequence[str] = (),
        file_limit: int | None = None,
        memory_limit: int | None = None,
        killed_behind: tuple[str, int] | None = None,
    ) -> Result:
        """Runs one command line.

        Args:
            command: one of `COMMANDS`, or the path of a Python script.
            arguments: its flags.
            stdin: its standard input.
            stdout: a file for its standard output, for example /dev/full, or "closed" for a pipe without a reader.
            closed: standard streams that are not open at all, as "stdin".
            file_limit: most bytes that it may write into one file, as on a nearly full disk.
            memory_limit: most bytes of memory that it may allocate beyond those at its start.
            killed_behind: a file and a number of bytes; as soon as the file has more, the command is killed.

        Returns:
            The result.
        """
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "stdin"
            source.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
            request = {
                "command": command,
                "arguments": arguments,
                "folder": str(self.folder),
                "stdin": str(source),
                "stdout": stdout,
                "closed": closed,
                "file_limit": file_limit,
                "memory_limit": memory_limit,
                "killed_behind": killed_behind,
            }
            self._server.stdin.write(json.dumps(request).encode() + b"\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        assert answer, "the process that runs the commands has ended"
        return Result(**json.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        self._server.stdin.close()
        self._server.wait()
        self._temporary.cleanup()


def _serve() -> None:
    entry = importlib.import_module("fabir_tf.commands.entry")
    for name in COMMANDS:
        importlib.import_module(f"fabir_tf.commands.{name}")
    # What most commands import when they need it.
    for name in ("reading.reader", "training.train", "pipelines.text.nltk_tokenizers"):
        importlib.import_module(f"fabir_tf.{name}")
    # What is imported is no garbage; no fork looks through it.
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        # Pipes, because the limit on the size of files must not cut off the message about it.
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        child = os.fork()
        if not child:
            _run(entry, request, {name: pipe[1] for name, pipe in pipes.items()})
        output = {}
        readers = [threading.Thread(target=_read, args=(output, name, *pipe)) for name, pipe in pipes.items()]
        for reader in readers:
            reader.start()
        if request["killed_behind"]:
            _kill_behind(*request["killed_behind"], child, readers)
        for reader in readers:
            reader.join()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"status": status} | output), flush=True)


def _read(output: dict[str, str], name: str, end: int, other_end: int) -> None:
    os.close(other_end)
    with open(end, "rb") as file:
        output[name] = file.read().decode("utf-8", "backslashreplace")


def _kill_behind(name: str, size: int, child: int, readers: Sequence[threading.Thread]) -> None:
    """Kills a process, unless it ends, as soon as a file has grown beyond a size."""
    path = Path(name)
    while any(reader.is_alive() for reader in readers):
        if path.exists() and path.stat().st_size > size:
            # It has not been waited for, so its number belongs to no other process.
            os.kill(child, signal.SIGKILL)
            return
        time.sleep(0.005)


def _run(entry, request: dict, outputs: dict[str, int]) -> None:
    status = 1
    try:
        os.chdir(request["folder"])
        os.dup2(os.open(request["stdin"], os.O_RDONLY), 0)
        os.dup2(_output(request["stdout"]) if request["stdout"] else outputs["stdout"], 1)
        os.dup2(outputs["stderr"], 2)
        if request["file_limit"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], resource.RLIM_INFINITY))
        if request["memory_limit"] is not None:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + request["memory_limit"], resource.RLIM_INFINITY))
        command = request["command"]
        is_script = command.endswith(".py")
        sys.argv = [command if is_script else f"fabir-{command}", *request["arguments"]]
        for name in request["closed"]:
            os.close(("stdin", "stdout", "stderr").index(name))
            setattr(sys, name, None)
        status = _status_of(lambda: _run_script(command) if is_script else entry.run(command))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def _run_script(path: str) -> None:
    # As Python does; most scripts import their neighbors.
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")


def _output(name: str) -> int:
    if name != "closed":
        return os.open(name, os.O_WRONLY)
    end, other_end = os.pipe()
    os.close(end)
    return other_end


def _status_of(run) -> int:
    """The exit status that the interpreter would give."""
    try:
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error}", file=sys.stderr)
        status = 120
    return status


if __name__ == "__main__":
    _serve()
