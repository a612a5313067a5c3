"""Files are whole or not there."""

import pytest

from fabir_tf.pipelines.files import replacing, write_text


def test_the_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "a" / "b" / "file.bin"
    with replacing(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_stands_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_without_an_old_file_leaves_nothing(tmp_path):
    with pytest.raises(ValueError), replacing(tmp_path / "file.bin"):
        raise ValueError
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("here stands a file")
    with pytest.raises(OSError), replacing(tmp_path / "file" / "below"):
        pass
    assert (tmp_path / "file").read_text() == "here stands a file"


@pytest.mark.parametrize("text", ["", "plain\n", "é 日本 😀\r\n", "half a pair \ud83d"])
def test_text_is_written_as_it_is(tmp_path, text):
    write_text(tmp_path / "new" / "file.txt", text)
    assert (tmp_path / "new" / "file.txt").read_bytes().decode("utf-8", "surrogatepass") == text


def test_text_replaces_what_stood_there(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "a long text that was here before")
    write_text(str(path), "short")
    assert path.read_bytes() == b"short"
