"""Versions of models in processes of their own: which answers, what happens when one appears, fails or ends."""

import asyncio
import contextlib
import functools
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from serve_backends import Upper, load_upper, load_version

from fabir_tf.serving.batching import BatchingSettings
from fabir_tf.serving.errors import RequestError
from fabir_tf.serving.models import AVAILABLE, END, LOADING, Models, ModelSettings, VersionPolicy
from fabir_tf.serving.work import Predict

pytestmark = pytest.mark.slow


def texts(*values):
    return Predict("serving_default", {"x": np.array([value.encode() for value in values], object)})


def write(base, number, name):
    folder = base / f"copying-{number}"
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(name)
    folder.rename(base / str(number))


def served(settings, scenario, log=None):
    """Runs a scenario with models that are started, and returns what was logged."""
    log = [] if log is None else log

    async def whole():
        models = Models(settings, BatchingSettings(threads=2), (), log.append, poll_seconds=0.05)
        try:
            await models.start()
            await scenario(models)
        finally:
            await models.stop()

    asyncio.run(whole())
    return log


async def answer(models, name, text, **which):
    version = models.find(name, **which)
    with version.used():
        found, _ = await version.run(texts(text), time.monotonic() + 20)
    return found["y"].tolist()[0].decode()


async def until(condition):
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


def folder_model(base, **settings):
    return ModelSettings("m", base_path=base, load_version=load_version, **settings)


class Dying(Upper):
    """Ends its process a moment after it has told that it is loaded."""

    def describe(self):
        threading.Timer(0.2, os._exit, [7]).start()
        return super().describe()


def load_told(path):
    """The model that a file tells: its name, or how it cannot be loaded."""
    with open(f"{path}.loads", "a") as loads:
        loads.write("loaded\n")
    told = Path(path).read_text()
    if told == "memory":
        raise MemoryError("a table of 9 GB")
    if told == "exit":
        sys.exit(5)
    if told == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return Dying(told) if told == "dying" else Upper(told)


def load_told_version(path):
    return load_told(Path(path) / "saved_model.pb")


def told_model(base, name="m", is_reader=False):
    """A model that a file tells, once as a reader and once as a folder of versions."""
    if is_reader:
        return ModelSettings(name, load=functools.partial(load_told, base / "1" / "saved_model.pb"))
    return ModelSettings(name, base_path=base, load_version=load_told_version)


def numbers(models, name, state=AVAILABLE):
    return [one.number for one in models.versions(name) if one.state == state]


def logs(lines, text):
    return [line for line in lines if text in line]


def test_versions_are_taken_up_under_load(tmp_path):
    write(tmp_path, 1, "one")
    answers, stop = [[] for _ in range(4)], []

    async def scenario(models):
        async def client(own):
            while not stop:
                own.append((await answer(models, "m", "a")).split()[0])

        clients = [asyncio.create_task(client(own)) for own in answers]
        first = models.find("m").pid
        for number, name in ((2, "two"), (5, "five")):
            write(tmp_path, number, name)
            await until(
                lambda number=number: [one.number for one in models.versions("m") if one.state == AVAILABLE] == [number]
            )
        stop.append(True)
        # Each request was answered; one that failed would raise here.
        await asyncio.gather(*clients)
        # A version without requests still takes a moment to end.
        await until(lambda: {one.number: one.state for one in models.versions("m")} == {5: AVAILABLE, 2: END, 1: END})
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        with pytest.raises(RequestError, match=r"Servable not found for request: Specific\(m, 1\)"):
            models.find("m", 1)

    log = served([folder_model(tmp_path)], scenario)
    assert {name for own in answers for name in own} == {"one", "two", "five"}
    # Each client sees the versions in their order, without a way back; one may still wait for an old version's
    # answer when another has the new version's.
    for own in answers:
        assert own == sorted(own, key=["one", "two", "five"].index)
    assert "model m version 2 is unloaded" in log


def test_a_version_can_be_taken_back(tmp_path):
    write(tmp_path, 1, "one")
    write(tmp_path, 2, "two")

    async def scenario(models):
        assert await answer(models, "m", "a") == "two A"
        (tmp_path / "2" / "saved_model.pb").unlink()
        await until(lambda: [one.number for one in models.versions("m") if one.state == AVAILABLE] == [1])
        assert await answer(models, "m", "a") == "one A"

    served([folder_model(tmp_path)], scenario)


def test_a_damaged_version_takes_nobodys_place(tmp_path):
    write(tmp_path, 1, "one")

    async def scenario(models):
        write(tmp_path, 2, "damaged")
        await until(lambda: any(one.error for one in models.versions("m")))
        assert await answer(models, "m", "a") == "one A"
        assert models.why_not_ready() == ""
        error = models.versions("m")[0].error
        assert (error.code, "found a damaged model" in error.message) == ("INVALID_ARGUMENT", True)
        # The copy is finished later.
        (tmp_path / "2" / "saved_model.pb").write_text("two")
        await until(lambda: models.find("m").number == 2)

    log = served([folder_model(tmp_path)], scenario)
    assert sum("cannot be loaded" in line for line in log) == 1


def test_labels_and_policies(tmp_path):
    for number, name in enumerate(("one", "two", "three"), 1):
        write(tmp_path, number, name)

    async def scenario(models):
        assert await answer(models, "m", "a", label="stable") == "one A"
        assert await answer(models, "m", "a", number=3) == "three A"
        with pytest.raises(RequestError, match="Unrecognized servable version label: canary"):
            models.find("m", label="canary")
        with pytest.raises(RequestError, match=r"Specific\(m, 2\)"):
            models.find("m", 2)

    policy = VersionPolicy(specific=(1, 3))
    served([folder_model(tmp_path, policy=policy, labels={"stable": 1})], scenario)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (VersionPolicy(), [9]),
        (VersionPolicy(latest=2), [4, 9]),
        (VersionPolicy(latest=None), [1, 4, 9]),
        (VersionPolicy(specific=(1, 2)), [1]),
    ],
)
def test_policies(policy, expected):
    assert policy.chosen([9, 1, 4]) == expected


def test_several_models():
    settings = [ModelSettings(name, load=functools.partial(load_upper, name)) for name in ("a", "b")]

    async def scenario(models):
        assert await answer(models, "a", "x") == "a X"
        assert await answer(models, "b", "x") == "b X"
        with pytest.raises(RequestError, match="model is missing, expected one of: a, b"):
            models.find(None)

    served(settings, scenario)


def test_a_process_that_ends_is_started_again():
    settings = [ModelSettings("m", load=functools.partial(load_upper, "v"))]

    async def scenario(models):
        version = models.find("m")
        with pytest.raises(RequestError) as error:
            await version.run(texts("exit"), time.monotonic() + 20)
        assert error.value.code == "UNAVAILABLE"
        assert models.why_not_ready()
        with pytest.raises(RequestError, match="is loading"):
            models.find("m")
        await until(lambda: not models.why_not_ready())
        assert await answer(models, "m", "a") == "v A"
        os.kill(models.find("m").pid, signal.SIGKILL)
        await until(models.why_not_ready)
        await until(lambda: not models.why_not_ready())
        assert await answer(models, None, "b") == "v B"

    log = served(settings, scenario)
    assert sum("is started again" in line for line in log) == 2


def test_a_mistake_in_a_model_ends_nothing():
    settings = [ModelSettings("m", load=functools.partial(load_upper, "v"))]

    async def scenario(models):
        version = models.find("m")
        with pytest.raises(RequestError, match="the request failed: ValueError"):
            await version.run(texts("broken"), time.monotonic() + 20)
        assert await answer(models, "m", "a") == "v A"

    served(settings, scenario)


def test_a_folder_without_versions(tmp_path):
    async def scenario(models):
        raise AssertionError("it started")

    with pytest.raises(RequestError, match=r"found no version of model m, expected a folder with SavedModels"):
        served([folder_model(tmp_path / "nowhere")], scenario)


# === What cannot be loaded, or not again ===


@pytest.mark.long
@pytest.mark.parametrize(
    ("told", "reason", "is_reader"),
    [
        (None, "FileNotFoundError", True),
        ("memory", "MemoryError: a table of 9 GB", False),
        ("exit", "its process ended with status 5 while it was loading", False),
        ("kill", "its process ended with signal 9 while it was loading", True),
    ],
)
def test_a_version_that_cannot_be_loaded_again_is_tried_until_it_can(tmp_path, told, reason, is_reader):
    write(tmp_path, 1, "one")
    log = []

    async def scenario(models):
        path = tmp_path / "1" / "saved_model.pb"
        if told:
            path.write_text(told)
        else:
            path.rename(tmp_path / "away")
        os.kill(models.find("m").pid, signal.SIGKILL)
        await until(lambda: len(logs(log, "cannot be loaded")) == 2)
        first, second = logs(log, "cannot be loaded")
        assert first.startswith(f"model m version 1 cannot be loaded: {reason}"), log
        # A longer pause each time.
        assert (first.endswith("it is tried again in 2 s"), second.endswith("it is tried again in 4 s")) == (True, True)
        assert models.why_not_ready() == "model m cannot be loaded: the log of the server tells why"
        with pytest.raises(RequestError, match="is loading") as error:
            models.find("m")
        assert error.value.code == "UNAVAILABLE"
        path.write_text("two")
        await until(lambda: not models.why_not_ready())
        assert await answer(models, "m", "a") == "two A"
        assert models.find("m").error is None

    served([told_model(tmp_path, is_reader=is_reader)], scenario, log)
    assert logs(log, "model m version 1 is available again")


@pytest.mark.long
@pytest.mark.parametrize(("told", "end", "is_reader"), [("exit", "status 5", True), ("kill", "signal 9", False)])
def test_a_model_that_dies_while_it_is_loaded_is_given_up_at_the_start(tmp_path, told, end, is_reader):
    write(tmp_path, 1, told)
    log = []

    async def scenario(models):
        raise AssertionError("it started")

    with pytest.raises(RequestError) as error:
        served([told_model(tmp_path, is_reader=is_reader)], scenario, log)
    assert error.value.message == (
        f"model m version 1 cannot be loaded: its process ended with {end} while it was loading, 3 times"
    )
    assert len((tmp_path / "1" / "saved_model.pb.loads").read_text().splitlines()) == 3
    assert len(logs(log, f"ended with {end} while it was loading; it is tried again in")) == 2


def test_a_model_that_dies_twice_while_it_is_loaded_starts_in_the_end(tmp_path):
    write(tmp_path, 1, "kill")

    async def scenario(models):
        assert await answer(models, "m", "a") == "one A"

    class Log(list):
        def append(self, line):
            super().append(line)
            if len(logs(self, "is tried again")) == 2:
                (tmp_path / "1" / "saved_model.pb").write_text("one")

    served([told_model(tmp_path, is_reader=True)], scenario, Log())


def test_a_new_version_that_dies_or_hangs_keeps_no_other_model_from_its_versions(tmp_path):
    for name in ("a", "b", "c"):
        write(tmp_path / name, 1, "one")
    log = []

    async def scenario(models):
        write(tmp_path / "a", 2, "kill")
        # Nobody writes into it, so what reads it waits.
        (tmp_path / "b" / "copying-2").mkdir()
        os.mkfifo(tmp_path / "b" / "fifo")
        (tmp_path / "b" / "copying-2" / "saved_model.pb").write_text("")
        (tmp_path / "b" / "copying-2").rename(tmp_path / "b" / "2")
        await until(lambda: numbers(models, "b", LOADING) == [2])
        await until(lambda: logs(log, "model a version 2 cannot be loaded: its process ended with signal 9"))
        write(tmp_path / "c", 2, "two")
        await until(lambda: numbers(models, "c") == [2])
        assert (numbers(models, "a"), numbers(models, "b")) == ([1], [1])
        assert not models.why_not_ready()
        await until(lambda: len(logs(log, "model a version 2 cannot be loaded")) == 2)

    settings = [told_model(tmp_path / name, name) for name in ("a", "c")]
    hanging = ModelSettings("b", base_path=tmp_path / "b", load_version=load_waiting)
    served([settings[0], hanging, settings[1]], scenario, log)


def load_waiting(path):
    """A model whose second version waits for somebody who writes into a pipe."""
    if Path(path).name == "2":
        (Path(path).parent / "fifo").read_text()
    return Upper("b")


def test_a_process_that_ends_as_soon_as_it_has_loaded_is_started_again(tmp_path):
    write(tmp_path, 1, "dying")
    log = []

    async def whole():
        models = Models([told_model(tmp_path, is_reader=True)], BatchingSettings(threads=1), (), log.append)
        starting = asyncio.create_task(models.start())
        while not multiprocessing.active_children():
            await asyncio.sleep(0)
        (tmp_path / "1" / "saved_model.pb").write_text("dying")
        # The event loop stands still, so that it learns of the beginning and of the end at the same time.
        (child,) = multiprocessing.active_children()
        child.join(60)
        for thread in threading.enumerate():
            if thread.name == "receiving":
                thread.join(60)
        (tmp_path / "1" / "saved_model.pb").write_text("one")
        try:
            await starting
            assert await answer(models, "m", "a") == "one A"
        finally:
            await models.stop()

    asyncio.run(whole())
    assert logs(log, "its process ended with status 7 while it was loading")


def test_a_version_that_cannot_be_loaded_again_gives_way_to_a_new_one(tmp_path):
    write(tmp_path, 1, "one")
    log = []

    async def scenario(models):
        (tmp_path / "1" / "saved_model.pb").write_text("memory")
        os.kill(models.find("m").pid, signal.SIGKILL)
        await until(lambda: logs(log, "cannot be loaded"))
        write(tmp_path, 2, "two")
        await until(lambda: numbers(models, "m") == [2])
        await until(lambda: numbers(models, "m", END) == [1])
        assert await answer(models, "m", "a") == "two A"

    served([told_model(tmp_path)], scenario, log)
    assert logs(log, "model m version 1 is unloaded")


# === What the watcher cannot look at, or start ===


def test_a_number_that_no_client_can_name_is_told_and_left_out(tmp_path):
    log = []
    write(tmp_path, 1, "one")
    write(tmp_path, 2**63, "large")

    async def scenario(models):
        await until(lambda: numbers(models, "m") == [1])
        await until(lambda: logs(log, f"{tmp_path / str(2**63)}: the number is larger than 2^63 - 1"))

    served([folder_model(tmp_path)], scenario, log)


@contextlib.contextmanager
def closed(folder):
    """A folder that this process may not enter, not even as the superuser."""
    folder.chmod(0)
    user = os.geteuid()
    if not user:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


def test_a_folder_that_may_not_be_entered_ends_no_watching():
    log = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        write(base, 1, "one")

        async def scenario(models):
            (base / "3").mkdir()
            with closed(base / "3"):
                await until(lambda: logs(log, f"{base / '3'}: cannot be looked at (Permission denied)"))
                assert numbers(models, "m") == [1]
            write(base, 2, "two")
            await until(lambda: numbers(models, "m") == [2])

        served([folder_model(base)], scenario, log)
    # Once, not with every look.
    assert len(logs(log, "cannot be looked at")) == 1


def test_a_version_that_cannot_be_looked_at_for_a_moment_stays():
    """Its folder may lie on another machine."""
    log = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        for number, text in ((1, "one"), (2, "two")):
            write(base, number, text)

        async def scenario(models):
            with closed(base / "2"):
                await until(lambda: logs(log, f"{base / '2'}: cannot be looked at (Permission denied)"))
                # Twice more than it is looked at.
                await asyncio.sleep(0.15)
                assert numbers(models, "m") == [2]
            assert await answer(models, "m", "a") == "two A"

        served([folder_model(base)], scenario, log)
    assert not logs(log, "version 1 is available")


def test_a_base_path_that_may_not_be_entered_is_told_and_ends_no_watching(tmp_path):
    log = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        write(base, 1, "one")

        async def scenario(models):
            with closed(base):
                await until(lambda: logs(log, f"{base}: cannot be looked at (Permission denied)"))
                assert numbers(models, "m") == [1]
            write(base, 2, "two")
            await until(lambda: numbers(models, "m") == [2])

        served([folder_model(base)], scenario, log)


def test_a_process_that_cannot_be_started_ends_no_watching(tmp_path):
    write(tmp_path, 1, "one")
    log = []

    async def scenario(models):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        # So that a folder can be looked at, and no process gets its pipes.
        free = os.dup(0)
        os.close(free)
        (tmp_path / "copying").mkdir()
        (tmp_path / "copying" / "saved_model.pb").write_text("two")
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, limits[1]))
        try:
            (tmp_path / "copying").rename(tmp_path / "2")
            await until(lambda: logs(log, "model m version 2 cannot be loaded: its process cannot be started"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await until(lambda: numbers(models, "m") == [2])

    served([folder_model(tmp_path)], scenario, log)
