"""The commands' entry points: what must hold before TensorFlow is imported, and until the process ends.

    python -m fabir_tf.commands.entry train --run_dir=runs/base

is fabir-train, and so is `python -m fabir_tf.commands.train`. This module imports the standard library only, so an
interruption is told from the first moment on.
"""

import contextlib
import functools
import gc
import importlib
import io
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell gives it."""

# New objects between two collections of garbage. Imports and graphs make millions that live on; with Python's few
# hundred, the search among them takes a tenth of the time until the first answer.
_OBJECTS = 50_000
# After Ctrl-C, files are put right for a moment; a second one must not leave them half made.
_SECONDS_TO_END = 1.0
# What TensorFlow says when it starts, which no setting turns off.
_NOTICES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|To enable the following instructions: .*rebuild TensorFlow"
    rb"|INFO: Created TensorFlow Lite XNNPACK delegate for CPU"
    rb"|(?:[IWE]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IWE] )\S*?(?:"
    rb"cudart_stub\.cc:\d+\] Could not find cuda drivers"
    rb"|cpu_feature_guard\.cc:\d+\] This TensorFlow binary is optimized"
    rb"|util\.cc:\d+\] oneDNN supports DT_\w+ only on platforms with"
    rb"|port\.cc:\d+\] oneDNN custom operations are on"
    rb"|cuda_\w+\.cc:\d+\] (?:Unable to register cu\w+ factory|failed call to cuInit)"
    rb"|cuda_diagnostics\.cc:\d+\] "
    rb"|computation_placer\.cc:\d+\] computation placer already registered"
    rb"|py_utils\.cc:\d+\] TF-TRT Warning)"
)


def run(name: str) -> None:
    """Runs a command and ends the process.

    Args:
        name: of a module in `fabir_tf.commands`.
    """
    global _interruption
    gc.set_threshold(_OBJECTS)
    interruption = _interruption = _Interruption()
    interruption.install()
    _open_closed_streams()
    status = 1
    try:
        with _without_notices():
            with importing():
                module = _imported(name)
            status = _status_of(module, interruption)
    finally:
        # All is written. What is left of the process may be interrupted without a word.
        interruption.uninstall()
    if status == INTERRUPTED:
        # Not through the interpreter's end, which waits for threads.
        _end(status)
    sys.exit(status)


# Of the command that this process runs.
_interruption: "_Interruption | None" = None


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Surrounds an import of TensorFlow or Keras.

    Ctrl-C ends the process at once, and a mistake in Keras' settings is told in one sentence.
    """
    if _interruption:
        _interruption.is_importing = True
    try:
        yield
    except Exception as error:
        sentence = mistake_in_settings(error)
        if not sentence:
            raise
        print(f"error: {sentence}", file=sys.stderr)
        sys.exit(2)
    finally:
        if _interruption:
            _interruption.is_importing = False


class _Interruption:
    """What Ctrl-C does: it ends an import at once, and raises KeyboardInterrupt in a command.

    Attributes:
        is_importing: whether TensorFlow is being imported, or will be at once. It turns a KeyboardInterrupt into other
            errors.
        happened: whether there was one in the command.
    """

    def __init__(self):
        self.is_importing = True
        self.happened = False
        self._last = -_SECONDS_TO_END
        self._installed = False

    def install(self) -> None:
        """Handles Ctrl-C, unless the caller of this process decided to ignore it."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._installed = True
            signal.signal(signal.SIGINT, self._interrupt)
            sys.unraisablehook = self._unraisable

    def uninstall(self) -> None:
        """Lets Ctrl-C end the process at once."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _interrupt(self, number, frame) -> None:
        if self.is_importing:
            print("interrupted", file=sys.stderr)
            _end(INTERRUPTED)
        now = time.monotonic()
        if now - self._last >= _SECONDS_TO_END:
            self._last, self.happened = now, True
            raise KeyboardInterrupt

    def _unraisable(self, error) -> None:
        """Interrupts again if the interruption met code that swallows every exception, such as a destructor."""
        if not issubclass(error.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(error)
            return
        self._last = -_SECONDS_TO_END
        # To this thread: a signal wakes only the one that receives it.
        threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()


def _imported(name: str):
    return importlib.import_module(f"fabir_tf.commands.{name}")


def mistake_in_settings(error: Exception) -> str:
    """The message of a mistake in Keras' settings, for an error while it was imported; "" for another error."""
    # The class is compared by name: its module belongs to the package that may not be importable.
    if type(error).__name__ == "UserError":
        return str(error)
    lacks_backend = isinstance(error, ModuleNotFoundError) and error.name in ("torch", "jax", "tensorflow", "openvino")
    place = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if not lacks_backend and place.parts[-4:-1] != ("keras", "src", "backend"):
        return ""
    asked = os.environ.get("KERAS_BACKEND")
    folder = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    source = f"KERAS_BACKEND={asked}" if asked else str(folder / "keras.json")
    return f"{source}: Keras cannot be imported ({error}), expected the backend tensorflow or jax and valid settings"


def _status_of(module, interruption: _Interruption) -> int:
    """Runs a command and returns its exit status."""
    try:
        module.run()
        return 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        if not interruption.happened:
            raise
        status = 1
    if interruption.happened and status not in (0, INTERRUPTED):
        # A library has turned the interruption into an error of its own.
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def _end(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _open_closed_streams() -> None:
    """Opens streams that the caller has closed; the next file would otherwise take their place.

    Standard input is then empty, and nothing can be written to standard output.
    """
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, _text_stream(os.open(os.devnull, flags), mode, "utf-8"))


def _text_stream(descriptor: int, mode: str, encoding: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding, "backslashreplace", line_buffering=True)


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Keeps TensorFlow's notices from standard error; all else that libraries write there is passed on, line by line.

    A process of its own passes it on, so what is written last comes through, even if this process is aborted. What
    Python prints goes to standard error directly.
    """
    if not hasattr(os, "fork"):
        yield
        return
    sys.stderr.flush()
    original, (source, sink) = os.dup(2), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if not child:
        _pass_on(source, original, (0, 1, 2, sink))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.close(source)
    os.dup2(sink, 2)
    os.close(sink)
    former = sys.stderr
    sys.stderr = _text_stream(original, "w", former.encoding)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)
        sys.stderr = former
        _wait_for(child)


def _wait_for(child: int) -> None:
    """Waits until all lines stand before what follows, such as a shell's prompt.

    Not forever: a process that a library has started may keep its standard error open until this one ends.
    """
    latest = time.monotonic() + 1
    while not os.waitpid(child, os.WNOHANG)[0] and time.monotonic() < latest:
        time.sleep(0.002)


def _pass_on(source: int, target: int, unused: tuple[int, ...]) -> None:
    """Copies lines that are no notices until the last writer has closed, then ends this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for descriptor in unused:
            os.close(descriptor)
        rest = b""
        while chunk := os.read(source, 1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            _write(target, b"".join(line + b"\n" for line in lines if not _NOTICES.match(line)))
        if not _NOTICES.match(rest):
            _write(target, rest)
    finally:
        os._exit(0)


def _write(target: int, content: bytes) -> None:
    # Without a reader of standard error, its writers must not wait for one.
    with contextlib.suppress(OSError):
        while content:
            content = content[os.write(target, content) :]


convert = functools.partial(run, "convert")
describe = functools.partial(run, "describe")
index = functools.partial(run, "index")
negatives = functools.partial(run, "negatives")
prepare = functools.partial(run, "prepare")
train = functools.partial(run, "train")
evaluate = functools.partial(run, "evaluate")
predict = functools.partial(run, "predict")
search = functools.partial(run, "search")
beam = functools.partial(run, "beam")
serve = functools.partial(run, "serve")
export = functools.partial(run, "export")
compare = functools.partial(run, "compare")
reproduce = functools.partial(run, "reproduce")
teach = functools.partial(run, "teach")
pack = functools.partial(run, "pack")
analyze = functools.partial(run, "analyze")


if __name__ == "__main__":
    command = sys.argv.pop(1)
    sys.argv[0] = f"fabir-{command}"
    # Of the module that the commands import, which is not this one.
    importlib.import_module("fabir_tf.commands.entry").run(command)
