"""Runs a pipeline: in processes of this machine, or with the runner that the user names."""

import os
import re
import shlex
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from fabir_tf.beam.pipeline import COUNTERS, NAMESPACE
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.processes import module_command

Build = Callable[[beam.Pipeline], None]
Watch = Callable[[], object]

LOST = "a worker process ended too early: the finished shards are kept, and the same command goes on"

# What TensorFlow reads when it starts.
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_MISTAKE = re.compile(r"UserError(?:\(|: )(.+?)(?: \[while running .*)?$", re.MULTILINE)
_UNWRITTEN = re.compile(r"WriteError: \[Errno \d+\] (.+?): '(.+?)'")


def run_in_processes(build: Build, processes: int, watch: Watch, seconds: float = 1.0) -> dict[str, int]:
    """Runs a pipeline in processes of this machine.

    Args:
        build: adds the steps to a pipeline.
        processes: how many; they share the cores.
        watch: is called while they work.
        seconds: between two calls.

    Returns:
        What `COUNTERS` have counted.

    Raises:
        UserError: a process ended too early, or a step failed.
    """
    threads = max(1, (os.cpu_count() or 1) // processes)
    for name in _THREADS:
        os.environ.setdefault(name, str(threads))
    options = PipelineOptions([f"--direct_num_workers={processes}"])
    with tempfile.NamedTemporaryFile(prefix="fabir-beam-") as mark:
        # `exec`, so that the shell between the two processes is gone.
        command = f"exec {shlex.join([*module_command('fabir_tf.beam.worker'), mark.name])}"
        runner = FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(command))
        return _Run(lambda: _counted(_pipeline(build, options, runner))).wait(watch, seconds)


def parsed_options(text: str) -> PipelineOptions:
    """Beam's options as one would type them.

    Args:
        text: the options; unknown ones stay, because a runner far away may know them.

    Raises:
        UserError: none names the runner.
    """
    try:
        options = PipelineOptions(shlex.split(text))
        runner = options.view_as(StandardOptions).runner
    except (ValueError, SystemExit) as error:
        raise UserError(f"--beam_options={text}: expected options of Apache Beam ({error})") from None
    if not runner:
        raise UserError(f"--beam_options={text}: found no --runner, expected one such as --runner=FlinkRunner")
    return options


def run_with_options(build: Build, options: PipelineOptions) -> dict[str, int]:
    """Runs a pipeline with the runner that Beam's options name.

    Args:
        build: adds the steps to a pipeline.
        options: what `parsed_options` returned.

    Returns:
        What `COUNTERS` have counted; empty if the runner does not tell it.

    Raises:
        UserError: a step failed.
    """
    try:
        return _counted(_pipeline(build, options, None))
    except Exception as error:
        raise UserError(_sentence(error)) from None


class _Run:
    """A pipeline that runs in a thread, while the main thread sees to it that no worker is missing.

    Beam waits forever for a worker that was killed: the error of the thread that watches it reaches nobody.
    """

    def __init__(self, run: Callable[[], dict[str, int]]):
        self._run, self._done = run, threading.Event()
        self._found: dict[str, int] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def wait(self, watch: Watch, seconds: float) -> dict[str, int]:
        former, threading.excepthook = threading.excepthook, self._lost
        self._thread.start()
        while not self._done.wait(seconds):
            watch()
        if self._error is not None:
            # The hook stays: what other threads say of the loss comes later, and is of no use.
            raise UserError(_sentence(self._error)) from None
        threading.excepthook = former
        return self._found

    def _work(self) -> None:
        try:
            self._found = self._run()
        except BaseException as error:
            self._error = self._error or error
        self._done.set()

    def _lost(self, hook: Any) -> None:
        self._error = self._error or UserError(LOST)
        self._done.set()


def _pipeline(build: Build, options: PipelineOptions, runner: Any) -> Any:
    pipeline = beam.Pipeline(runner=runner, options=options)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def _counted(result: Any) -> dict[str, int]:
    counters = result.metrics().query(beam.metrics.MetricsFilter().with_namespace(NAMESPACE))["counters"]
    found = {one.key.metric.name: one.result for one in counters}
    return {name: found.get(name, 0) for name in COUNTERS}


def _sentence(error: BaseException) -> str:
    """What went wrong, without the stack traces that Beam joins to it."""
    if isinstance(error, UserError):
        return str(error)
    text = str(error)
    unwritten, mistakes = _UNWRITTEN.search(text), _MISTAKE.findall(text)
    if unwritten:
        return f"{unwritten[2]}: cannot be written ({unwritten[1]})"
    if mistakes:
        return mistakes[-1]
    lines = [line for line in text.splitlines() if line.strip()]
    return f"Apache Beam could not run the pipeline ({lines[-1].strip() if lines else type(error).__name__})"
