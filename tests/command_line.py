"""Runs command lines as a person would, without importing TensorFlow for each.

One process imports everything once and then forks for each command line, so that every command has its own flags,
files, limits and exit status. Started with `python command_line.py` it is that process: one JSON request a line.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = ("train", "evaluate", "predict")
SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command line came to: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The sentence that a mistake is told with, which must be the only thing said about it."""
        lines = self.stderr.splitlines()
        told = [line for line in lines if line.startswith("error: ")]
        assert self.status not in (0, None) and len(told) == 1 and lines[-1] == told[0], self
        assert "Traceback" not in self.stderr + self.stdout, self
        return told[0].removeprefix("error: ")


class CommandLines:
    """Runs command lines in forks of one process.

    Args:
        folder: the commands' working directory.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(__file__).parents[1])}
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(
        self, command: str, *arguments: str, stdin: str | bytes = "", stdout: str | None = None, file_limit: int | None = None
    ) -> Result:
        """Runs one command line.

        Args:
            command: "train", "evaluate" or "predict".
            arguments: its flags.
            stdin: what it reads from standard input.
            stdout: a file that takes its standard output, such as /dev/full.
            file_limit: most bytes that it may write into one file, as on a disk that is nearly full.

        Returns:
            The result.
        """
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "stdin").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
            request = {
                "command": command,
                "arguments": [os.fspath(argument) for argument in arguments],
                "folder": str(self.folder),
                "scratch": scratch,
                "stdout": stdout,
                "file_limit": file_limit,
            }
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
            assert answer, "the process that runs the commands has ended"
            texts = [(Path(scratch) / name) for name in ("stdout", "stderr")]
            said = [path.read_text(encoding="utf-8", errors="replace") if path.exists() else "" for path in texts]
        return Result(json.loads(answer), *said)

    def close(self) -> None:
        """Ends the process."""
        self._server.stdin.close()
        self._server.wait()


def _serve() -> None:
    import importlib

    modules = {name: importlib.import_module(f"fabir_tf.commands.{name}") for name in COMMANDS}
    importlib.import_module("fabir_tf.reader")
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(modules[request["command"]], request)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)


def _run(module, request: dict) -> None:
    import resource

    status = 1
    try:
        signal.alarm(SECONDS)
        os.chdir(request["folder"])
        scratch = Path(request["scratch"])
        places = [scratch / "stdin", request["stdout"] or scratch / "stdout", scratch / "stderr"]
        for number, place in enumerate(places):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        if request["file_limit"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], resource.RLIM_INFINITY))
        sys.argv = [f"fabir-{request['command']}", *request["arguments"]]
        status = _status_of(module.run)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


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
