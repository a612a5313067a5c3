"""Versions of models in processes of their own: which answers, what happens when one appears, fails or ends."""

import asyncio
import functools
import os
import signal
import time

import numpy as np
import pytest
from serve_backends import load_upper, load_version

from fabir_tf.serving.batching import BatchingSettings
from fabir_tf.serving.errors import RequestError
from fabir_tf.serving.models import AVAILABLE, END, Models, ModelSettings, VersionPolicy
from fabir_tf.serving.work import Predict

pytestmark = pytest.mark.slow


def texts(*values):
    return Predict("serving_default", {"x": np.array([value.encode() for value in values], object)})


def write(base, number, name):
    folder = base / f"copying-{number}"
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(name)
    folder.rename(base / str(number))


def served(settings, scenario):
    """Runs a scenario with models that are started, and returns what was logged."""
    log = []

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
        assert models.is_ready()
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
        assert not models.is_ready()
        with pytest.raises(RequestError, match="is loading"):
            models.find("m")
        await until(models.is_ready)
        assert await answer(models, "m", "a") == "v A"
        os.kill(models.find("m").pid, signal.SIGKILL)
        await until(lambda: not models.is_ready())
        await until(models.is_ready)
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
