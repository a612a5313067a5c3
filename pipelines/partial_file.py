"""A file of JSON lines that is made chunk by chunk; what is finished survives an interruption, and is gone on with."""

import contextlib
import errno
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import keep_mode, make_room, named_errors, user_path, write_text
from fabir_tf.pipelines.json_files import read_json

try:
    import fcntl
except ImportError:
    # Windows has other locks, and does not rename what another process has open.
    fcntl = None  # type: ignore[assignment]

ENDING = ".partial"
"""Ends the name of the unfinished file, which stands beside its final place."""

ORIGIN_ENDING = ".partial.json"
"""Ends the name of the file that says what the unfinished one is made from."""

_NOT_LOCKED = (errno.EAGAIN, errno.EACCES)


class PartialFile:
    """An unfinished file, which `partial_file` opens.

    Attributes:
        path: where it is.
        lines: those that are finished.
    """

    def __init__(self, path: Path, name: str, descriptor: int, former: BinaryIO):
        self.path = path
        self.lines = 0
        self._name = name
        self._descriptor = descriptor
        self._size = 0
        # What an interrupted process has left; None as soon as what is finished of it has been read.
        self._former: BinaryIO | None = former if os.fstat(descriptor).st_size else None

    @property
    def is_behind_former(self) -> bool:
        """Whether all that an interrupted process has finished is among `lines`."""
        return self._former is None

    def kept(self, ids: Sequence[str | int]) -> list[dict[str, Any]] | None:
        """The lines of the next chunk, if an interrupted process has finished it.

        Args:
            ids: of its lines.

        Returns:
            The lines; None if the chunk is to be written, as all that follow then are.
        """
        if self._former is None:
            return None
        raw = list(itertools.islice(self._former, len(ids)))
        found = [line for line in map(_parsed, raw) if line]
        if [line["id"] for line in found] != list(ids):
            # A killed process leaves half a line, a machine that lost its power perhaps other bytes than were written.
            self._former = None
            return None
        self.lines += len(found)
        self._size += sum(map(len, raw))
        return found

    def write(self, lines: Sequence[bytes]) -> None:
        """Writes the next chunk behind those that are finished, so that it stays whatever happens to this process.

        Raises:
            WriteError: it cannot be written.
        """
        content = memoryview(b"".join(lines))
        size = len(content)
        with named_errors(self._name):
            self.cut()
            while content:
                content = content[os.write(self._descriptor, content) :]
            os.fsync(self._descriptor)
        self.lines += len(lines)
        self._size += size

    def cut(self) -> None:
        """Removes what stands behind the finished chunks."""
        os.ftruncate(self._descriptor, self._size)


@contextlib.contextmanager
def partial_file(path: str | os.PathLike, origin: Mapping[str, str], resume: bool) -> Iterator[PartialFile]:
    """Opens a file that gets its name only when it is complete, and stays beside it where it is interrupted.

    Args:
        path: the file; for a symbolic link, the target is replaced.
        origin: what it is made from: texts by names, such as {"n_best": "--n_best=1"}, of which those that have changed
            are shown when it is resumed.
        resume: whether to go on with what an interrupted process has left.

    Yields:
        The unfinished file.

    Raises:
        UserError: an interrupted process has left something else, or something that is not to be gone on with, or there
            is only a finished file, or another process is writing.
        WriteError: it cannot be written.
    """
    target = Path(os.path.realpath(user_path(path)))
    place, note = target.with_name(target.name + ENDING), target.with_name(target.name + ORIGIN_ENDING)
    if resume and target.exists() and not place.exists():
        raise UserError(f"--resume: {path} is finished, expected an interrupted one; without --resume it is made anew")
    made = [folder for folder in target.parents if not folder.exists()]
    with _locked(place, path) as descriptor, open(place, "rb") as former:
        _validate_former(place, note, origin, resume)
        partial = PartialFile(place, str(path), descriptor, former)
        try:
            with named_errors(path, note):
                write_text(note, json.dumps(origin, indent=2) + "\n")
            yield partial
            partial.cut()
        except BaseException:
            if partial.is_behind_former:
                partial.cut()
                _remove_empty(place, note, made)
            raise
    with named_errors(path, place):
        keep_mode(place, target)
        os.replace(place, target)
    note.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(place: Path, path: str | os.PathLike) -> Iterator[int]:
    """Opens the unfinished file, and keeps other processes out of it until this one ends."""
    while True:
        make_room(place)
        with named_errors(path, place):
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if not _lock(descriptor):
                raise UserError(f"{place}: another process is writing into it, expected one at a time")
            # In the meantime another process may have finished it and renamed it.
            if place.exists() and os.path.samestat(os.fstat(descriptor), place.stat()):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Locks a file; False if another process has. Where a file system has no locks, none keeps others out."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in _NOT_LOCKED
    return True


def _validate_former(place: Path, note: Path, origin: Mapping[str, str], resume: bool) -> None:
    """Checks what an interrupted process has left, if it has finished anything."""
    if not place.stat().st_size:
        return
    anew = f"delete {place} to begin anew"
    if not resume:
        raise UserError(f"{place} holds what an interrupted run has finished: add --resume to go on, or {anew}")
    if not note.exists():
        raise UserError(f"--resume: {note} is missing, which says what {place} was made from: {anew}")
    former = read_json(note)
    if not isinstance(former, dict):
        raise UserError(f"--resume: {note} does not say what {place} was made from: {anew}")
    for name in former | origin:
        found, given = former.get(name, f"no {name}"), origin.get(name, f"no {name}")
        if found != given:
            raise UserError(f"--resume: {place} was made with {found}, found {given}, expected the same; or {anew}")


def _remove_empty(place: Path, note: Path, folders: Sequence[Path]) -> None:
    """Removes the unfinished file if it has no line, and what was made for it."""
    if place.stat().st_size:
        return
    place.unlink(missing_ok=True)
    note.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A whole line with an id; None for anything else."""
    try:
        content = json.loads(line.decode("utf-8", "surrogatepass")) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and "id" in content else None
