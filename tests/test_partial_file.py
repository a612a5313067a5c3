"""The file that is made chunk by chunk: what an interruption leaves, and what another process makes of it."""

import json
import multiprocessing
import os

import pytest

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError
from fabir_tf.pipelines.partial_file import partial_file

CHUNKS = ((1, "zwei"), ("drei\u2028", "\udc80"), (5,))
ORIGIN = {"reader": "a reader", "--n_best": "--n_best=1"}


class StopError(Exception):
    pass


def line(identifier) -> bytes:
    return (json.dumps({"id": identifier, "answer": "ü"}, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


WHOLE = b"".join(line(identifier) for chunk in CHUNKS for identifier in chunk)


def make(path, chunks=3, resume=False, origin=ORIGIN):
    """Makes the file, and is interrupted behind a number of chunks; returns those that had been finished before."""
    kept = []
    with partial_file(path, origin, resume) as partial:
        for number, ids in enumerate(CHUNKS):
            if number == chunks:
                raise StopError
            if (lines := partial.kept(ids)) is None:
                partial.write(list(map(line, ids)))
            else:
                kept.append([found["id"] for found in lines])
    return kept


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "lines.jsonl"


def left(path) -> set[str]:
    return {found.name for found in path.parent.iterdir()} if path.parent.exists() else set()


def test_a_whole_file_leaves_nothing_beside_it(path):
    assert make(path) == []
    assert path.read_bytes() == WHOLE and left(path) == {"lines.jsonl"}


@pytest.mark.parametrize("chunks", [1, 2])
def test_what_is_finished_is_kept_and_the_rest_is_made(path, chunks):
    with pytest.raises(StopError):
        make(path, chunks)
    assert left(path) == {"lines.jsonl.partial", "lines.jsonl.partial.json"}
    assert make(path, resume=True) == [list(chunk) for chunk in CHUNKS[:chunks]]
    assert path.read_bytes() == WHOLE and left(path) == {"lines.jsonl"}


def test_an_interruption_before_the_first_chunk_leaves_nothing(path):
    with pytest.raises(StopError):
        make(path, 0)
    assert not path.parent.exists()


def test_an_interruption_while_the_finished_chunks_are_read_again_loses_none(path):
    with pytest.raises(StopError):
        make(path, 2)
    for chunks in (0, 1):
        with pytest.raises(StopError):
            make(path, chunks, resume=True)
    assert make(path, resume=True) == [list(chunk) for chunk in CHUNKS[:2]]
    assert path.read_bytes() == WHOLE


def test_an_interruption_between_the_last_chunk_and_the_end_of_the_input(path):
    with pytest.raises(StopError), partial_file(path, ORIGIN, False) as partial:
        for ids in CHUNKS:
            partial.write(list(map(line, ids)))
        raise StopError
    assert make(path, resume=True) == [list(chunk) for chunk in CHUNKS]
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "tail",
    [
        line("drei\u2028"),
        line("drei\u2028") + line("\udc80")[:-1],
        line("drei\u2028")[:9],
        b"\0" * 50,
        b"\0" * 50 + b"\n" + line("\udc80"),
        b'["id"]\n\xff\n',
        line("\udc80") + line("drei\u2028"),
    ],
)
def test_what_stands_behind_the_finished_chunks_goes(path, tail):
    with pytest.raises(StopError):
        make(path, 1)
    partial = path.with_name("lines.jsonl.partial")
    partial.write_bytes(partial.read_bytes() + tail)
    assert make(path, resume=True) == [list(CHUNKS[0])]
    assert path.read_bytes() == WHOLE


def test_lines_behind_the_last_chunk_go(path):
    with pytest.raises(StopError):
        make(path, 2)
    partial = path.with_name("lines.jsonl.partial")
    partial.write_bytes(WHOLE + line(6))
    assert make(path, resume=True) == [list(chunk) for chunk in CHUNKS]
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("size", [0, 1, len(line(1))])
def test_less_than_a_chunk_is_nothing(path, size):
    with pytest.raises(StopError):
        make(path, 1)
    os.truncate(path.with_name("lines.jsonl.partial"), size)
    assert make(path, resume=True) == []
    assert path.read_bytes() == WHOLE


def test_finished_lines_are_never_lost_without_a_word(path):
    path.parent.mkdir()
    path.write_text("from yesterday")
    with pytest.raises(StopError):
        make(path, 2)
    with pytest.raises(UserError, match=r"lines.jsonl.partial holds what .* has finished: add --resume to go on, or"):
        make(path)
    path.with_name("lines.jsonl.partial").unlink()
    assert path.read_text() == "from yesterday"
    make(path)
    assert path.read_bytes() == WHOLE and left(path) == {"lines.jsonl"}


@pytest.mark.parametrize(
    ("origin", "part"),
    [
        (ORIGIN | {"--n_best": "--n_best=2"}, "was made with --n_best=1, found --n_best=2"),
        (ORIGIN | {"documents": "documents of a folder"}, "was made with no documents, found documents of a folder"),
        ({"reader": "a reader"}, "was made with --n_best=1, found no --n_best"),
    ],
)
def test_what_is_made_from_something_else_is_not_gone_on_with(path, origin, part):
    with pytest.raises(StopError):
        make(path, 1)
    before = path.with_name("lines.jsonl.partial").read_bytes()
    with pytest.raises(UserError, match=part):
        make(path, resume=True, origin=origin)
    assert path.with_name("lines.jsonl.partial").read_bytes() == before
    assert make(path, resume=True) == [list(CHUNKS[0])]


@pytest.mark.parametrize("note", [None, "[]"])
def test_a_file_of_unknown_origin_is_not_gone_on_with(path, note):
    with pytest.raises(StopError):
        make(path, 1)
    place = path.with_name("lines.jsonl.partial.json")
    place.write_text(note) if note else place.unlink()
    with pytest.raises(UserError, match=r"what .*lines.jsonl.partial was made from: delete"):
        make(path, resume=True)


def test_what_is_finished_is_not_gone_on_with(path):
    make(path)
    with pytest.raises(UserError, match="is finished, expected an interrupted one"):
        make(path, resume=True)
    assert path.read_bytes() == WHOLE


def test_two_processes_do_not_write_at_once(path):
    with pytest.raises(StopError):
        make(path, 1)
    with partial_file(path, ORIGIN, True) as partial, multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(UserError, match="another process is writing"):
            pool.apply(make, (path, 3, True))
        for ids in CHUNKS:
            if partial.kept(ids) is None:
                partial.write(list(map(line, ids)))
    assert path.read_bytes() == WHOLE


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    make(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == WHOLE


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError):
        make(tmp_path / "file" / "lines.jsonl")
    assert {found.name for found in tmp_path.iterdir()} == {"file"}
