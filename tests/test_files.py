"""Tests of atomic writes, of their errors, and of damaged array files."""

import errno
import io
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from fabir_tf.pipelines.files import (
    WriteError,
    atomic_write,
    create_text,
    named_errors,
    read_arrays,
    removed_on_failure,
    validate_writable,
    write_text,
)
from fabir_tf.pipelines.partial_file import partial_file


def test_the_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "a" / "b" / "file.bin"
    with atomic_write(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"


def test_two_that_write_the_same_file_at_once_write_it_whole(tmp_path):
    """Threads of one process: the last one to be complete stays."""
    path = tmp_path / "file.bin"
    with atomic_write(path) as first:
        first.write(b"first, ")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"longer")
    assert path.read_bytes() == b"first, longer"
    assert list(tmp_path.iterdir()) == [path]
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_remains_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_without_an_old_file_leaves_nothing(tmp_path):
    with pytest.raises(ValueError), atomic_write(tmp_path / "file.bin"):
        raise ValueError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "plain\n", "é 日本 😀\r\n", "half a pair \ud83d"])
def test_text_is_written_unchanged(tmp_path, text):
    write_text(tmp_path / "new" / "file.txt", text)
    assert (tmp_path / "new" / "file.txt").read_bytes().decode("utf-8", "surrogatepass") == text


def test_text_replaces_an_existing_file(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "a long text that was here before")
    write_text(str(path), "short")
    assert path.read_bytes() == b"short"


def test_the_target_of_a_symbolic_link_is_replaced_and_not_the_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"
    assert len(list(tmp_path.rglob("*"))) == 3


def test_a_device_is_written_to_and_stays_a_device():
    write_text(os.devnull, "gone")
    validate_writable(os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_write_error_has_the_path_and_the_reason(tmp_path):
    (tmp_path / "file").write_text("old")
    reasons = {tmp_path: errno.EISDIR, tmp_path / "file" / "below": errno.ENOTDIR}
    reasons |= {tmp_path / "file" / "further" / "below": errno.ENOTDIR, Path("/proc/nowhere/file"): errno.ENOENT}
    for path, reason in reasons.items():
        for write in (validate_writable, lambda path: write_text(path, "text")):
            with pytest.raises(WriteError) as caught:
                write(path)
            assert (caught.value.filename, caught.value.strerror) == (str(path), os.strerror(reason))
    assert contents_of(tmp_path) == {"file": b"old"}


def test_the_error_of_a_full_disk_names_the_file_and_not_the_temporary_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(WriteError) as caught, atomic_write(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.filename, caught.value.strerror) == (str(path), "No space left on device")
    with pytest.raises(FileNotFoundError, match="another"), atomic_write(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "another")
    assert contents_of(tmp_path) == {"file": b"old"}


def test_the_error_of_a_closed_pipe_is_unchanged():
    with pytest.raises(BrokenPipeError), named_errors("standard output"):
        raise BrokenPipeError


def test_validating_that_a_file_can_be_written_changes_nothing(tmp_path):
    (tmp_path / "file").write_text("old")
    validate_writable(tmp_path / "file")
    validate_writable(tmp_path / "new" / "newer" / "file")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    assert contents_of(tmp_path) == {"file": b"old"}


def test_arrays_are_read_correctly_or_rejected_whichever_byte_is_damaged(tmp_path):
    path = tmp_path / "arrays.npz"
    expected = {"a": np.arange(5, dtype=np.int16), "b": np.array([[0.5, -1]], np.float32)}
    np.savez(path, **expected)
    whole = path.read_bytes()
    rejected = 0
    for index in range(len(whole)):
        for raw in (whole[:index], whole[:index] + bytes([whole[index] ^ 255]) + whole[index + 1 :]):
            path.write_bytes(raw)
            try:
                found = read_arrays(path)
            except ValueError as error:
                assert str(error)
                rejected += 1
                continue
            for name in found.keys() & expected.keys():
                np.testing.assert_array_equal(found[name], expected[name])
    assert rejected > 0.75 * 2 * len(whole)


@pytest.mark.parametrize("raw", [b"", b"text", b"PK\x03\x04", None])
def test_other_files_are_rejected_as_archives(tmp_path, raw):
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    (tmp_path / "file").write_bytes(stream.getvalue() if raw is None else raw)
    with pytest.raises(ValueError, match="not a whole zip archive"):
        read_arrays(tmp_path / "file")


def test_a_missing_archive_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "absent")


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("300 requested and 12 written"), "No space left on device"),
        (
            OSError("Can't write (message = 'No space left on device')"),
            "No space left on device",
        ),
        (RuntimeError("/run/part-0; No space left on device"), "No space left on device"),
        (RuntimeError("/run/part-0; File too large"), "File too large"),
        (ValueError("Disk quota exceeded"), "Disk quota exceeded"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (OSError("an odd error"), "an odd error"),
    ],
)
def test_whatever_a_library_raises_a_full_disk_is_told(error, reason):
    with pytest.raises(WriteError) as found, named_errors("run"):
        raise error
    assert (found.value.filename, found.value.strerror) == ("run", reason)


def test_another_error_of_a_library_is_unchanged():
    with pytest.raises(RuntimeError, match="odd"), named_errors("run"):
        raise RuntimeError("odd")


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt(), ValueError("odd")])
def test_a_failure_removes_what_is_new_and_nothing_else(tmp_path, error):
    old, folder = tmp_path / "old.json", tmp_path / "a" / "b"
    old.write_text("old")
    with pytest.raises(type(error)), removed_on_failure(old, folder, tmp_path / "new.json", tmp_path / "absent"):
        (tmp_path / "new.json").write_text("new")
        folder.mkdir(parents=True)
        (folder / "part").write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


def test_success_removes_nothing(tmp_path):
    with removed_on_failure(tmp_path / "new"):
        (tmp_path / "new").mkdir()
    assert (tmp_path / "new").is_dir()


def test_a_text_is_created_once(tmp_path):
    path = tmp_path / "a" / "lock"
    assert create_text(path, "mine") and not create_text(path, "yours")
    assert path.read_text() == "mine"
    with pytest.raises(UnicodeEncodeError):
        create_text(tmp_path / "b", "\ud800")
    assert not (tmp_path / "b").exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_the_new_file_has_the_permissions_of_the_old_one(tmp_path, mode):
    path = tmp_path / "file.txt"
    path.write_text("old")
    path.chmod(mode)
    with atomic_write(path) as file:
        # Also while it is written.
        assert os.fstat(file.fileno()).st_mode & 0o777 == mode
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == mode
    with partial_file(path, {"what": "a test"}, resume=False) as partial:
        partial.write([b"newer\n"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"newer\n", mode)
