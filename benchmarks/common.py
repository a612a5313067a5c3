"""What the benchmarks share: contenders that take turns, medians and spreads, tables, JSON files and pictures.

Nothing of fabir_tf or TensorFlow is imported at the top, because contenders of another commit or another library import
this module too. They must load neither this tree's package nor TensorFlow.
"""

import contextlib
import datetime
import importlib.util
import json
import multiprocessing
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from absl import flags

ROOT = Path(__file__).resolve().parents[1]
OUTPUT_FLAGS = ("turns", "json_file", "picture")
LIBRARIES = ("tensorflow", "keras", "numpy", "torch", "transformers")


def run(
    doc: str, measure: Callable[[flags.FlagValues], dict], draw: Callable[[Any, dict], None], turns: int = 3
) -> None:
    """Runs a benchmark as a command; a user's mistake ends it with one sentence and status 2.

    Args:
        doc: the question that the benchmark answers, shown by --help.
        measure: takes the flags, prints tables and returns the results as JSON values.
        draw: takes a matplotlib figure and the results.
        turns: the default of --turns.
    """
    from fabir_tf.commands import cli
    from fabir_tf.pipelines.files import write_text

    flags.DEFINE_integer("turns", turns, "Turns of each contender.", lower_bound=1)
    flags.DEFINE_string("json_file", None, "File for all figures, those of each turn included.")
    flags.DEFINE_string("picture", None, "File for a picture, PNG or SVG; needs the extra `plot`.")
    for name in OUTPUT_FLAGS:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def main(values: flags.FlagValues) -> None:
        _check_outputs(values)
        found = measure(values)
        if values.json_file:
            content = {"machine": machine(), "settings": _settings(values), "found": found}
            write_text(values.json_file, json.dumps(content, indent=2) + "\n")
        if values.picture:
            figure = new_figure()
            draw(figure, found)
            figure.savefig(values.picture, dpi=120)

    # Without a handler, a benchmark that is terminated would leave its temporary folders behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    cli.run_command(main, doc)


def _check_outputs(values: flags.FlagValues) -> None:
    """Checks the files to be written before a long measurement begins."""
    from fabir_tf.pipelines.files import validate_writable

    for path in (values.json_file, values.picture):
        if path:
            validate_writable(path)
    if values.picture:
        validate_picture(values.picture)


def validate_picture(path: str) -> None:
    """Raises a UserError if no picture can be written to a path."""
    from fabir_tf.pipelines.errors import UserError

    try:
        endings = new_figure().canvas.get_supported_filetypes()
    except ImportError:
        raise UserError('--picture needs matplotlib: pip install "fabir_tf[plot]"') from None
    if Path(path).suffix[1:].lower() not in endings:
        raise UserError(f"--picture={path}: expected a name that ends in one of {', '.join(endings)}")


def new_figure():
    """A matplotlib figure without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _settings(values: flags.FlagValues) -> dict:
    given = {flag.name: flag.value for flag in values.get_key_flags_for_module(sys.argv[0])}
    return {name: value for name, value in given.items() if name not in ("json_file", "picture")}


def machine() -> dict:
    """The machine and the versions of the libraries, for the record."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES if importlib.util.find_spec(name)},
    }


class Contender:
    """A process that measures on request; contenders do not share threads or memory.

    Args:
        make: called in the process; returns the function that is asked. It must be at the top level of a module, where
            the process finds it by its name.
        *arguments: the arguments of `make`.

    Example:
        >>> with Contender(our_reader, "fabir", "float32", 2, tokenized, tokenized) as contender:
        ...     contender.ask("inference")["speed"]
        319.2
    """

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, make, arguments), daemon=True)
        with _first_environment():
            self._process.start()
        other.close()
        self._is_ready = False

    def wait(self) -> None:
        """Waits until `make` has returned."""
        if not self._is_ready:
            self._receive()
            self._is_ready = True

    def ask(self, *request) -> Any:
        """The process's answer to a request."""
        self.wait()
        self._pipe.send(request)
        return self._receive()

    def __enter__(self) -> "Contender":
        return self

    def __exit__(self, *_) -> None:
        """Ends the process at once."""
        self._process.terminate()
        self._process.join()

    def _receive(self) -> Any:
        from fabir_tf.pipelines.errors import UserError

        try:
            answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            raise UserError(f"a contender's process has ended with status {status}; its output says why") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextlib.contextmanager
def _first_environment() -> Iterator[None]:
    """Restores the environment that this process was started with: a contender must not inherit fabir_tf's settings."""
    current = dict(os.environ)
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    os.environ.clear()
    os.environ.update(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(current)


def _serve(pipe, make: Callable[..., Callable[..., Any]], arguments: tuple) -> None:
    # Ctrl+C reaches all processes; the main one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            answer = make(*arguments)
            pipe.send(None)
            while True:
                pipe.send(answer(*pipe.recv()))
        except ValueError as error:
            # Compared by name, because not every contender has fabir_tf.
            if type(error).__name__ != "UserError":
                raise
            pipe.send(error)
    except (EOFError, ConnectionError):
        return


def take_turns(
    contenders: dict[Any, Contender], turns: int, *request, describe: Callable[[dict], str]
) -> dict[Any, list[dict]]:
    """Asks the contenders in turns, so that other work on the machine affects all of them.

    Args:
        contenders: by their names.
        turns: number of turns of each.
        *request: what is asked.
        describe: turns an answer into a phrase for the progress report.

    Returns:
        Each contender's answers.
    """
    for contender in contenders.values():
        contender.wait()
    found = {name: [] for name in contenders}
    for turn in range(1, turns + 1):
        for name, contender in contenders.items():
            found[name].append(contender.ask(*request))
            words = name if isinstance(name, str) else " ".join(map(str, name))
            show_turn(turn, turns, f"{' '.join([*request, words])}: {describe(found[name][-1])}")
    return found


def show_turn(turn: int, turns: int, line: str) -> None:
    """Reports the progress of a long measurement."""
    print(f"turn {turn} of {turns}, {line}", file=sys.stderr, flush=True)


def spaced(items: Sequence[Any], count: int) -> Sequence[Any]:
    """At most `count` items, at equal distances."""
    return items[:: max(1, len(items) // count)][:count]


def timed(work: Callable[[], int]) -> dict[str, float]:
    """Runs `work`, which returns its number of questions, and measures speed, processor time and peak memory."""
    begin, used = time.perf_counter(), time.process_time()
    questions = work()
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    return {
        "questions": questions,
        "speed": questions / seconds,
        "processor_ms": 1000 * used / questions,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> int:
    """The peak memory of this process."""
    # Not ru_maxrss, which a process inherits from the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) // 1024


def unpack_commit(commit: str, folder: str) -> None:
    """Writes a commit's files into a folder. Unlike a worktree, this leaves no trace in the repository."""
    from fabir_tf.pipelines.errors import UserError

    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    if archive.returncode:
        raise UserError(f"--commit={commit}: git finds no such commit in {ROOT}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, lowest and highest value of some turns."""
    values = list(values)
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def ratios(ones: Iterable[float], others: Iterable[float]) -> dict[str, float]:
    """The spread of the turns' ratios; the two sides of each were measured directly one after the other."""
    return spread(one / other for one, other in zip(ones, others, strict=True))


def median_interval(values: Sequence[float], samples: int = 10_000, seed: int = 0) -> dict[str, float]:
    """The median of some values, and its 95 % interval from a bootstrap.

    Args:
        values: at least one.
        samples: number of samples drawn, with replacement, from the values.
        seed: seed of the samples.

    Returns:
        `median`, and `low` and `high`: the 2.5th and 97.5th percentile of the samples' medians.
    """
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(samples))
    cut = round(0.025 * samples)
    return {"median": statistics.median(values), "low": medians[cut], "high": medians[-1 - cut]}


def shown(values: dict[str, float] | None, form: str = ",.0f") -> str:
    """A spread as the cell of a table."""
    if values is None:
        return ""
    median, low, high = (format(values[name], form) for name in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a Markdown table; all columns but the first are aligned right."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    align = [str.ljust] + [str.rjust] * (len(header) - 1)
    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    print(f"\n{title}\n")
    for line in (lines[0], rule, *lines[1:]):
        print("| " + " | ".join(put(cell, width) for put, cell, width in zip(align, line, widths, strict=True)) + " |")
    print(flush=True)


def chosen(values: flags.FlagValues, flag: str, choices: Iterable[str], may_be_empty: bool = False) -> list[str]:
    """The distinct values of a list flag.

    Raises:
        UserError: a value is not among the choices, or there is none.
    """
    from fabir_tf.pipelines.errors import UserError

    choices = list(choices)
    found = list(dict.fromkeys(values[flag].value))
    wrong = [name for name in found if name not in choices] or ([] if found or may_be_empty else [""])
    if wrong:
        raise UserError(f"--{flag}: found {wrong[0]!r}, expected some of {', '.join(choices)}")
    return found


def counts(values: flags.FlagValues, flag: str) -> list[int]:
    """The values of a flag that is a list of positive numbers.

    Raises:
        UserError: a value is not a positive number.
    """
    from fabir_tf.pipelines.errors import UserError

    found = values[flag].value
    for text in found:
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise UserError(f"--{flag}: found {text!r}, expected numbers from 1, separated by commas")
    return [int(text) for text in found]


def draw_bars(axes, names: Sequence[str], values: Sequence[dict[str, float]], label: str) -> None:
    """Draws medians as bars with their spread, the first one on top."""
    medians = [value["median"] for value in values]
    errors = [[abs(value["median"] - value[end]) for value in values] for end in ("low", "high")]
    bars = axes.barh(names, medians, xerr=errors, color="tab:blue", ecolor="0.3")
    axes.bar_label(bars, [f"{median:,.3g}" for median in medians], padding=8)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel(label)
