"""The models that are served: their versions, which of them answers a request, and new ones that appear."""

import asyncio
import contextlib
import functools
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabir_tf.pipelines.arguments import LARGEST_INT64
from fabir_tf.serving.batching import Batcher, BatchingSettings, Timing
from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.process import Load, VersionProcess
from fabir_tf.serving.work import Description, Work

START, LOADING, AVAILABLE, UNLOADING, END = "START", "LOADING", "AVAILABLE", "UNLOADING", "END"

RESTART_PAUSE = 1.0
"""Seconds before a version's process is started again; after each failure twice as many."""

LONGEST_PAUSE = 60.0
"""Seconds before a version's process is started again, after however many failures."""

TRIES_AT_START = 3
"""How often a version is loaded at the start if its process ends meanwhile, as where memory is short."""

READER_VERSION = 1
"""The version of a reader that does not lie in a folder of versions."""


@dataclass(frozen=True)
class VersionPolicy:
    """Which versions of a folder are served.

    Attributes:
        latest: so many of the highest numbers; None for all of them, or those of `specific`.
        specific: these numbers.
    """

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def chosen(self, found: Iterable[int]) -> list[int]:
        """The versions to serve of those that are there."""
        numbers = sorted(found)
        if self.specific:
            return [number for number in numbers if number in self.specific]
        return numbers if self.latest is None else numbers[-self.latest :]


@dataclass(frozen=True)
class ModelSettings:
    """A model to serve.

    Attributes:
        name: what requests call it.
        load: makes the backend of a reader; None for a folder of versions.
        base_path: the folder whose numbered folders are SavedModels.
        load_version: makes the backend of such a folder.
        policy: which of them are served.
        labels: numbers of versions by their labels.
    """

    name: str
    load: Load | None = None
    base_path: Path | None = None
    load_version: Callable[[str], Any] | None = None
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = field(default_factory=dict)


class Version:
    """One version of a model.

    Attributes:
        model: the model's name.
        number: of the version.
        state: one of TensorFlow Serving's.
        error: why it could not be loaded the last time, or None.
        failures: how often it could not be loaded since it was available.
    """

    def __init__(self, model: str, number: int, load: Load, manager: "Models", failures: int = 0):
        self.model, self.number = model, number
        self.state = START
        self.error: RequestError | None = None
        self.failures = failures
        self._next_try = 0.0
        self._load = load
        self._manager = manager
        self._process: VersionProcess | None = None
        self._batcher: Batcher | None = None
        self._description: Description | None = None
        self._in_use = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def description(self) -> Description:
        """What it can be asked; once it is available."""
        assert self._description
        return self._description

    @property
    def pid(self) -> int | None:
        """The process that it runs in."""
        return self._process.pid if self._process else None

    @property
    def pause(self) -> float:
        """Seconds until it is tried again."""
        # No more doublings than are needed: a float does not hold a thousand.
        return min(RESTART_PAUSE * 2.0 ** min(self.failures, 10), LONGEST_PAUSE)

    async def start(self, tries: int = 1) -> None:
        """Loads it; afterwards it is available, or has an error, unless it is unloaded meanwhile.

        Args:
            tries: how often, if its process ends while it is loading.
        """
        await self._load_once()
        while self._has_failed() and self._has_ended() and self.failures < tries:
            self._manager.tell_failure(self)
            await asyncio.sleep(self.pause)
            await self._load_once()
        if self._has_failed():
            self._next_try = time.monotonic() + self.pause
            self.state = END

    async def _restart(self) -> None:
        """Loads it again, however often that fails: it was available."""
        await asyncio.sleep(self.pause)
        await self._load_once()
        while self._has_failed():
            self._manager.tell_failure(self)
            await asyncio.sleep(self.pause)
            await self._load_once()
        if self.state == AVAILABLE:
            self._manager.log(f"model {self.model} version {self.number} is available again")

    def _has_failed(self) -> bool:
        return self.state == LOADING and self.error is not None

    def _has_ended(self) -> bool:
        return self.error is not None and self.error.code == "UNAVAILABLE"

    async def _load_once(self) -> None:
        """Loads it; afterwards it is available, or still to be loaded and has an error."""
        if self.state not in (START, LOADING):
            return
        self.state = LOADING
        try:
            process, description = await self._loaded()
        except RequestError as error:
            # If it is unloaded, its process has ended for that.
            if self.state == LOADING:
                self.error = error
                self.failures += 1
            return
        if self.state == LOADING:
            self._description = description
            self._batcher = Batcher(process, self._manager.batching, self._watch)
            self.error, self.failures = None, 0
            self.state = AVAILABLE

    async def _loaded(self) -> tuple[VersionProcess, Description]:
        """A process that has loaded it.

        Raises:
            RequestError: it cannot be loaded; UNAVAILABLE if its process did not live so long.
        """
        try:
            process = self._process = VersionProcess(
                f"fabir-serve {self.model} {self.number}",
                self._load,
                self._manager.modules,
                self._manager.batching.threads,
                self._end_unexpectedly,
            )
        except Exception as error:
            # The system may have no more processes, files or threads to give; whatever it is, it is tried again.
            message = f"its process cannot be started: {type(error).__name__}: {error}"
            raise RequestError("UNAVAILABLE", message) from None
        try:
            description = await process.ready()
        except RequestError as error:
            if error.code == "UNAVAILABLE":
                raise await self._end_while_loading(process) from None
            await process.stop()
            raise
        if process.has_ended and self.state == LOADING:
            # Right after it was loaded, before it counted as available.
            raise await self._end_while_loading(process)
        return process, description

    async def _end_while_loading(self, process: VersionProcess) -> RequestError:
        end = await process.end()
        await process.stop()
        return RequestError("UNAVAILABLE", f"its process ended with {end} while it was loading")

    def _watch(self, rows: int) -> None:
        self._manager.watch_queue(self.model, self.number, rows)

    def _end_unexpectedly(self) -> None:
        if self.state == AVAILABLE:
            self._manager.log(f"the process of model {self.model} version {self.number} has ended; it is started again")
            self.state = LOADING
            self._manager.keep(asyncio.create_task(self._restart()))

    def may_start_again(self) -> bool:
        """Whether it has ended, and it is time to try again if it could not be loaded: a copy may be finished now."""
        return self.state == END and (not self.error or time.monotonic() >= self._next_try)

    async def run(self, work: Work, deadline: float) -> tuple[Any, Timing]:
        """Does work with it; see `Batcher.run`."""
        [done] = await self.run_all([work], deadline)
        return done

    async def run_all(self, works: Sequence[Work], deadline: float) -> list[tuple[Any, Timing]]:
        """Does several works of one request; see `Batcher.run_all`."""
        if self.state != AVAILABLE or not self._batcher:
            raise RequestError("UNAVAILABLE", f"model {self.model} version {self.number} is being started again")
        return await self._batcher.run_all(works, deadline)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Keeps it loaded until the end of a request."""
        self._in_use += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._idle.set()

    async def unload(self) -> None:
        """Waits for the requests that use it, then gives its memory back."""
        if self.state == END:
            return
        self.state = UNLOADING
        await self._idle.wait()
        if self._process:
            await self._process.stop()
        self.state = END


class Models:
    """All models that are served.

    Args:
        settings: of each model.
        batching: how requests are joined.
        modules: that are imported where a model is loaded.
        log: called with a sentence about what happens.
        watch_queue: called with a model's name, a version and the rows that wait for it.
        poll_seconds: between two looks at the folders of versions.
    """

    def __init__(
        self,
        settings: Sequence[ModelSettings],
        batching: BatchingSettings,
        modules: Sequence[str] = (),
        log: Callable[[str], object] = print,
        watch_queue: Callable[[str, int, int], object] = lambda model, version, rows: None,
        poll_seconds: float = 1.0,
    ):
        self.batching = batching
        self.modules = modules
        self.log = log
        self.watch_queue = watch_queue
        self._settings = {one.name: one for one in settings}
        self._versions: dict[str, dict[int, Version]] = {one.name: {} for one in settings}
        self._poll_seconds = poll_seconds
        self._tasks: set[asyncio.Task] = set()
        self._watching: asyncio.Task | None = None
        # The latest update of the versions of each model.
        self._updates: dict[str, asyncio.Task] = {}
        # What was wrong when each model's folders were last looked at, and when its versions were last updated.
        self._faults: dict[tuple[str, str], str] = {}

    @property
    def names(self) -> list[str]:
        """Of all models."""
        return list(self._settings)

    async def start(self) -> None:
        """Loads every model.

        Raises:
            RequestError: one cannot be loaded, or has no version.
        """
        for name, settings in self._settings.items():
            if not self._found(settings):
                raise invalid(
                    f"{settings.base_path}: found no version of model {name}, expected a folder with SavedModels in "
                    "folders named by numbers, such as fabir-export writes"
                )
        await asyncio.gather(*(self._update(name, TRIES_AT_START) for name in self._settings))
        for name, versions in self._versions.items():
            failed = [version for version in versions.values() if version.error]
            if failed and not self.available(name):
                raise _error_at_start(failed[-1])
            for version in failed:
                self.tell_failure(version)
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Unloads every model, each when its requests are answered."""
        for task in (self._watching, *self._updates.values()):
            if task:
                task.cancel()
        versions = [version for part in self._versions.values() for version in part.values()]
        await asyncio.gather(*(version.unload() for version in versions))
        for task in self._tasks:
            task.cancel()

    def keep(self, task: asyncio.Task) -> None:
        """Keeps a task from being forgotten before it has ended."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def why_not_ready(self) -> str:
        """One sentence, or "" if every model has a version that answers."""
        waiting = [name for name in self.names if not self.available(name)]
        for name in waiting:
            # What is loaded now tells more than a version that was given up.
            versions = sorted(self.versions(name), key=lambda version: version.state != LOADING)
            if versions and versions[0].error:
                # The reason may name a path, and who asks shows no token.
                return f"model {name} cannot be loaded: the log of the server tells why"
        return "a model is loading" if waiting else ""

    def tell_failure(self, version: Version) -> None:
        """Logs why a version could not be loaded, and when it is tried again."""
        reason = version.error.message if version.error else ""
        self.log(
            f"model {version.model} version {version.number} cannot be loaded: {reason}; it is tried again in "
            f"{version.pause:g} s"
        )

    def versions(self, name: str) -> list[Version]:
        """The versions of a model, the highest first; none for an unknown one."""
        return sorted(self._versions.get(name, {}).values(), key=lambda version: -version.number)

    def available(self, name: str) -> list[Version]:
        """The versions of a model that answer, the highest first."""
        return [version for version in self.versions(name) if version.state == AVAILABLE]

    def find(self, name: str | None, number: int | None = None, label: str | None = None) -> Version:
        """The version that answers a request.

        Args:
            name: of the model; None for the only one.
            number, label: which of its versions; by default the highest one.

        Raises:
            RequestError: there is no such version, in TensorFlow Serving's words.
        """
        if name is None:
            if len(self._settings) > 1:
                raise invalid(f"model is missing, expected one of: {', '.join(self._settings)}")
            (name,) = self._settings
        if label is not None:
            labels = self._settings[name].labels if name in self._settings else {}
            if label not in labels:
                raise invalid(f"Unrecognized servable version label: {label}")
            number = labels[label]
        available = [one for one in self.available(name) if number in (None, one.number)]
        if available:
            return available[0]
        asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        if any(one.state == LOADING and number in (None, one.number) for one in self.versions(name)):
            # It is here, and will answer in a moment.
            raise RequestError("UNAVAILABLE", f"Servable not found for request: {asked}: it is loading")
        raise RequestError("NOT_FOUND", f"Servable not found for request: {asked}")

    def _found(self, settings: ModelSettings) -> dict[int, Load]:
        """What makes the backend of each version that is to be served now."""
        if settings.base_path is None:
            assert settings.load
            return {READER_VERSION: settings.load}
        assert settings.load_version
        folders = self._folders(settings.name, settings.base_path)
        return {
            number: functools.partial(settings.load_version, str(folders[number]))
            for number in settings.policy.chosen(folders)
        }

    def _folders(self, name: str, base: Path) -> dict[int, Path]:
        """The folders of a model's versions; what cannot be looked at is told once, and left out."""
        faults, found = [], {}
        try:
            numbered = {int(path.name): path for path in base.iterdir() if path.name.isdecimal()}
        except OSError as error:
            numbered = {}
            # It may be missing for a moment.
            if not isinstance(error, FileNotFoundError):
                faults.append(f"{base}: cannot be looked at ({error.strerror})")
        # Clients name a version in 64 bits.
        folders = {number: path for number, path in numbered.items() if number <= LARGEST_INT64}
        faults += [f"{numbered[number]}: the number is larger than 2^63 - 1" for number in numbered.keys() - folders]
        for number, path in folders.items():
            try:
                if _holds_model(path):
                    found[number] = path
            except OSError as error:
                faults.append(f"{path}: cannot be looked at ({error.strerror})")
                # One that is served stays.
                if number in self._versions.get(name, {}):
                    found[number] = path
        self._tell_fault(name, "folders", "; ".join(faults))
        return found

    def _tell_fault(self, name: str, where: str, fault: str) -> None:
        """Logs what is wrong with a model, or nothing if the same was wrong the last time."""
        if fault and fault != self._faults.get((name, where)):
            self.log(f"model {name}: {fault}")
        self._faults[name, where] = fault

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            for name, settings in self._settings.items():
                # Each by itself: a model that takes long to load keeps no other one from its versions.
                if settings.base_path is not None and (name not in self._updates or self._updates[name].done()):
                    self._updates[name] = asyncio.create_task(self._update_again(name))

    async def _update_again(self, name: str) -> None:
        fault = ""
        try:
            await self._update(name)
        except Exception as error:
            # Whatever it is, the next update may succeed.
            fault = f"its versions cannot be updated: {type(error).__name__}: {error}"
        self._tell_fault(name, "update", fault)

    async def _update(self, name: str, tries: int = 1) -> None:
        """Loads new versions of a model, and unloads those that are no longer to be served."""
        versions = self._versions[name]
        # A folder that is empty for a moment, as when it is copied anew, ends no service.
        found: dict[int, Load | None] = {**self._found(self._settings[name])} or dict.fromkeys(versions)
        new = [number for number in found if number not in versions or versions[number].may_start_again()]
        for number in new:
            begin = time.monotonic()
            load = found[number]
            if load is None:
                continue
            failures = versions[number].failures if number in versions else 0
            version = versions[number] = Version(name, number, load, self, failures)
            await version.start(tries)
            if version.state == AVAILABLE:
                self.log(f"model {name} version {number} is available after {time.monotonic() - begin:.1f} s")
            elif version.error and self._watching:
                # At the start, `start` decides whether it ends the server.
                self.tell_failure(version)
        # Only when another one answers: a new version that cannot be loaded takes nobody's place.
        if not any(version.number in found for version in self.available(name)):
            return
        for version in self.versions(name):
            # Also one that is started again.
            if version.number not in found and version.state in (LOADING, AVAILABLE):
                self.keep(asyncio.create_task(self._unload(name, version.number)))

    async def _unload(self, name: str, number: int) -> None:
        await self._versions[name][number].unload()
        self.log(f"model {name} version {number} is unloaded")


def _holds_model(folder: Path) -> bool:
    """Whether a folder is one of a SavedModel.

    Raises:
        OSError: nobody can tell; `Path.is_file` would raise it in some versions of Python, and hide it in others.
    """
    try:
        return stat.S_ISREG((folder / "saved_model.pb").stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _error_at_start(version: Version) -> RequestError:
    """Why a server cannot start."""
    error = version.error
    assert error
    if error.code == "INVALID_ARGUMENT":
        # It names the file.
        return error
    times = f", {version.failures} times" if error.code == "UNAVAILABLE" else ""
    message = f"model {version.model} version {version.number} cannot be loaded: {error.message}{times}"
    return RequestError(error.code, message)
