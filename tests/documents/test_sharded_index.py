"""A sharded index finds what one file finds, follows every change, and is made by processes that may be killed."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from documents.test_index import QUESTIONS, check_alike
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents import shard_building
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import read_documents, read_part
from fabir_tf.pipelines.documents.index import Changes, DocumentIndex
from fabir_tf.pipelines.documents.shard_building import build_shards
from fabir_tf.pipelines.documents.sharded_index import ShardedIndex, find_shards, open_index, total
from fabir_tf.pipelines.errors import UserError

ROOT = Path(__file__).parents[2]
WORDS = st.lists(st.sampled_from(["mill", "wheat", "pier", "the", "boat"]), min_size=1, max_size=6)
DOCUMENTS = st.dictionaries(st.sampled_from("abcdefgh"), WORDS.map(" ".join), max_size=6)


@pytest.fixture(scope="module")
def pages():
    return list(read_documents(ROOT / "docs"))


@pytest.mark.parametrize("shards", [2, 5])
def test_our_own_pages_are_found_as_in_one_file(tmp_path, pages, shards):
    with ShardedIndex(tmp_path / "index", create=shards) as index:
        changes = index.update(pages)
        assert changes == Changes(added=len(pages))
        check_alike(index, pages)
    with open_index(tmp_path / "index") as index:
        assert isinstance(index, ShardedIndex)
        check_alike(index, pages)
        paragraphs = [paragraph for page in pages for paragraph in page.paragraphs()]
        assert index.first(7) == paragraphs[:7]
        assert index.first(len(paragraphs) + 1) == paragraphs
        digest = index.digest()
    with DocumentIndex(tmp_path / "one", create=True) as one:
        one.update(pages)
        assert one.digest() == digest
    # Every shard has a part.
    for path in find_shards(tmp_path / "index").paths:
        with DocumentIndex(path) as part:
            assert 0 < len(part) < len(paragraphs)


@settings(max_examples=25, deadline=None)
@given(states=st.lists(DOCUMENTS, min_size=1, max_size=3), question=WORDS, shards=st.integers(1, 4))
def test_any_changes_leave_what_one_file_holds(tmp_path_factory, states, question, shards):
    folder = tmp_path_factory.mktemp("index")
    with ShardedIndex(folder, create=shards) as index:
        for state in states:
            documents = [Document(source, text) for source, text in state.items()]
            index.update(documents)
            check_alike(index, documents, [" ".join(question), *question])


def write_lines(path, count, changed=()):
    rows = (
        {"id": f"n{number}", "text": f"Mill {number} grinds {'rye' if number in changed else 'wheat'} since {number}."}
        for number in range(count)
    )
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def command(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "fabir_tf.commands.index", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options)


def run(*arguments):
    process = command(*arguments)
    output, errors = process.communicate()
    return process.returncode, output, errors


def test_the_command_makes_shards_keeps_their_number_and_follows_changes(tmp_path):
    lines, folder = write_lines(tmp_path / "a.jsonl", 40), tmp_path / "index"
    status, output, errors = run(f"--input={lines}", f"--index={folder}", "--shards=3")
    assert (status, errors) == (0, "")
    assert "40 paragraphs of 40 documents: 40 added" in output
    with open_index(folder) as index:
        check_alike(index, list(read_documents(lines)), [*QUESTIONS, "mill 7 wheat", "rye"])
    write_lines(lines, 30, changed=[3, 4])
    status, output, _ = run(f"--input={lines}", f"--index={folder}")
    assert "30 paragraphs of 30 documents: 0 added, 2 changed, 28 unchanged, 10 removed, 0 left out" in output
    with open_index(folder) as index:
        check_alike(index, list(read_documents(lines)), ["mill 7 wheat", "rye"])


@pytest.mark.long
def test_a_document_that_cannot_be_read_is_named_once(tmp_path):
    lines = write_lines(tmp_path / "a.jsonl", 20)
    lines.write_text(lines.read_text() + "{\n")
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(6):
        (documents / f"{number}.txt").write_bytes(b"\xff" if number == 4 else b"A mill.")
    for source, kept, named in ((lines, 20, "line 21"), (documents, 5, "4.txt")):
        _, output, errors = run(f"--input={source}", f"--index={tmp_path / source.stem}x", "--shards=4")
        assert f"{kept} documents: {kept} added" in output
        assert "1 left out" in output
        assert errors.count(named) == 1


def test_what_is_below_a_closed_folder_stays_in_every_shard(tmp_path, monkeypatch):
    docs, listed = tmp_path / "docs", os.scandir
    (docs / "shut").mkdir(parents=True)
    for number in range(8):
        (docs / "shut" / f"{number}.txt").write_text(f"Mill {number}.")
    (docs / "gone.txt").write_text("A mill.")
    with ShardedIndex(tmp_path / "index", create=3) as index:
        index.update(read_documents(docs))
        shards = index.shards

    def scandir(place):
        if Path(place) == docs / "shut":
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return listed(place)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(shard_building, "_done", multiprocessing.Value("q", 0))
    (docs / "gone.txt").rename(docs / "new.txt")
    done = [shard_building._build(shards, number, str(docs)) for number in range(3)]
    assert total([changes for changes, _ in done]) == Changes(added=1, removed=1)
    assert sum(len(faults) for _, faults in done) == 1
    with ShardedIndex(tmp_path / "index") as index:
        assert len(index) == 9


def test_a_part_of_a_folder_has_the_places_of_the_whole(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("A mill.")
    (tmp_path / "b.txt").write_bytes(b"\xff")
    assert [(place, one.source) for place, one in read_part(tmp_path, wanted=lambda name: name != "b.txt")] == [
        (0, "a.txt"),
        (2, "c.txt"),
    ]


@pytest.mark.long
def test_a_command_that_was_killed_goes_on(tmp_path):
    lines, folder = write_lines(tmp_path / "a.jsonl", 3000), tmp_path / "index"
    flags = f"--input={lines}", f"--index={folder}", "--shards=2"
    for _ in range(2):
        process = command(*flags, start_new_session=True)
        end = time.monotonic() + 120
        before = length(folder)
        while length(folder) < before + 100 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        # The command alone: the processes that index end with it.
        process.kill()
        process.communicate()
        assert no_process_is_left(process.pid)
    assert 0 < length(folder) < 3000
    assert run(*flags)[0] == 0
    with open_index(folder) as index:
        assert len(index) == 3000
        check_alike(index, list(read_documents(lines)), ["mill 7 wheat"])


def length(folder):
    try:
        with open_index(folder) as index:
            return len(index)
    except UserError:
        return 0


def no_process_is_left(group):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_process_that_was_ended_from_outside_is_one_sentence(tmp_path):
    import multiprocessing

    lines = write_lines(tmp_path / "a.jsonl", 3000)
    with ShardedIndex(tmp_path / "index", create=2) as index:
        shards = index.shards

    def end_one():
        while not length(shards.folder):
            time.sleep(0.05)
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    thread = threading.Thread(target=end_one)
    thread.start()
    with pytest.raises(UserError, match="ended from outside"):
        build_shards(shards, str(lines))
    thread.join()
    assert build_shards(shards, str(lines)).added < 3000
    with open_index(shards.folder) as index:
        assert len(index) == 3000


def test_mistakes_are_one_sentence(tmp_path):
    lines = write_lines(tmp_path / "a.jsonl", 5)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note.txt").write_text("A note.")
    with ShardedIndex(tmp_path / "two", create=2) as index:
        index.update(read_documents(lines))
    with DocumentIndex(tmp_path / "one", create=True) as index:
        index.update(read_documents(lines))
    for flags, sentence in (
        (("two", "--shards=3"), "is an index of 2 shards"),
        (("one", "--shards=2"), "is an index in one file"),
        (("other", "--shards=2"), "a folder with other files"),
        (("new", "--shards=0"), "--shards"),
    ):
        status, _, errors = run(f"--input={lines}", f"--index={tmp_path / flags[0]}", flags[1])
        assert status == 2, errors
        assert sentence in errors
        assert "Traceback" not in errors
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "text": 5}\n')
    status, _, errors = run(f"--input={tmp_path / 'bad.jsonl'}", f"--index={tmp_path / 'new'}", "--shards=2")
    assert (status, errors.count("text is the number 5")) == (2, 1), errors
    assert not (tmp_path / "new").exists()
    with pytest.raises(UserError, match="a folder without an index"):
        open_index(tmp_path / "other")
    find_shards(tmp_path / "two").paths[1].unlink()
    with pytest.raises(UserError, match=r"2-of-2\.index: no such file"):
        open_index(tmp_path / "two")
    (tmp_path / "two" / "1-of-3.index").touch()
    with pytest.raises(UserError, match="shards of 2 and of 3"):
        open_index(tmp_path / "two")
