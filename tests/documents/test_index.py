"""The index finds what BM25 finds in memory, follows every change, and survives being killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents import index as module
from fabir_tf.pipelines.documents import search_words
from fabir_tf.pipelines.documents.bm25 import BM25, BM25Settings
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import Changes, DocumentIndex, _Statistics
from fabir_tf.pipelines.documents.sqlite import sqlite3
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError

ROOT = Path(__file__).parents[2]
QUESTIONS = [
    *("Which flag resumes a run?", "When is a question declined?", "How many trainable parameters has FABIR?"),
    *(
        "the",
        "What?",
        "",
        "...",
        '"',
        "a OR b AND NOT (c*",
        "NEAR(mill wheel)",
        "text:mill",
        "磨坊",
        "\ud800\x00",
        "é" * 300,
    ),
]


def check_alike(index, documents, questions=QUESTIONS, settings=None):
    """The index holds these documents and no more, in their order, and ranks them as BM25 does in memory."""
    assert index.sources() == [document.source for document in documents]
    paragraphs = [paragraph for document in documents for paragraph in document.paragraphs()]
    assert len(index) == len(paragraphs)
    ranker = BM25((paragraph.searched_text for paragraph in paragraphs), settings)
    for question in questions:
        expected = [(paragraphs[number], score) for number, score in ranker.rank(question)]
        assert [tuple(found) for found in index.search(question)] == expected


@pytest.fixture(scope="module")
def pages():
    return list(read_documents(ROOT / "docs"))


def test_our_own_pages_are_found_as_in_memory(tmp_path, pages):
    rng = random.Random(0)
    words = sorted({word for page in pages for word in page.text.split()})
    questions = [" ".join(rng.sample(words, 6)) for _ in range(30)]
    with DocumentIndex(tmp_path / "index", create=True) as index:
        assert index.update(pages) == Changes(added=len(pages))
        check_alike(index, pages, QUESTIONS + questions)
    with DocumentIndex(tmp_path / "index", BM25Settings(1.5, 0.3)) as index:
        check_alike(index, pages, questions[:5], BM25Settings(1.5, 0.3))
    assert os.listdir(tmp_path) == ["index"]


def test_little_memory_for_words_changes_nothing(tmp_path, pages, monkeypatch):
    from fabir_tf.pipelines.documents import index as module

    monkeypatch.setattr(module, "MOST_REMEMBERED", 150)
    with DocumentIndex(tmp_path / "index", create=True) as index:
        index.update(pages)
        for _ in range(2):
            check_alike(index, pages)
            kept = [len(postings.texts) for postings in index._postings.values()]
            assert len(kept) > 1
            assert sum(kept) == index._remembered <= 150


def test_changes_are_followed(tmp_path):
    first = [Document("a", "the mill"), Document("b", "the wheel"), Document("c", "the lake")]
    second = [Document("d", "the hill"), Document("b", "the **new** wheel", "markdown"), Document("c", "the lake")]
    with DocumentIndex(tmp_path / "index", create=True) as index:
        assert index.update(first) == Changes(added=3)
        check_alike(index, first, ["the mill wheel lake"])
        assert index.update(first) == Changes(unchanged=3)
        assert index.update(second) == Changes(added=1, changed=1, unchanged=1, removed=1)
        check_alike(index, second, ["the mill wheel lake new hill"])
        assert index.update(second[::-1]) == Changes(unchanged=3)
        check_alike(index, second[::-1], ["the"])
        assert index.update([]) == Changes(removed=3)
        assert index.search("the mill") == []


COLLECTIONS = st.dictionaries(
    st.sampled_from("abcd\ud800"),
    st.lists(
        st.sampled_from(["mill", "wheel\n\n", "# The", "é", "&amp;", "磨", "\ud800", "\x00", "**x**"]), max_size=6
    ).map(" ".join),
    max_size=4,
)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(COLLECTIONS, min_size=1, max_size=4), st.text(max_size=12))
def test_any_changes_leave_what_a_new_index_holds(tmp_path_factory, states, question):
    folder = tmp_path_factory.mktemp("index")
    with DocumentIndex(folder / "index", create=True) as index:
        for state in states:
            documents = [Document(source, text, "markdown") for source, text in state.items()]
            index.update(documents)
            check_alike(index, documents, ["the mill wheel 磨 x", question])


def test_a_paragraph_comes_back_as_it_was(tmp_path):
    source = "# Mill\n\nBuilt by **Anna** Keld &amp; sons.\n\n## Parts\n\n| a | b |\n|---|---|\n| wheel | 2 |\n"
    document = Document("m", source, "markdown", "The title")
    with DocumentIndex(tmp_path / "index", create=True) as index:
        index.update([document])
        (found,) = index.search("wheel")
    assert found.paragraph == document.paragraphs()[1]
    assert found.paragraph.heading == "Mill > Parts"
    assert source[slice(*found.paragraph.span(5, 10))] == "wheel"


def test_what_cannot_be_read_now_stays(tmp_path):
    """A closed folder, a file that may not be opened; what was deleted beside them goes."""
    names = ("a.txt", "a/b.txt", "a/c/d.txt", "ab.txt", "e.txt", "f.txt")
    everything = [Document(name, f"A mill of {name}.") for name in names]
    with DocumentIndex(tmp_path / "x", create=True) as index:
        index.update(everything)
        # Filled while the documents are read, as `read_documents` does it.
        unread: set[str] = set()

        def read():
            yield everything[0]
            unread.update(["a", "e.txt"])

        assert index.update(read(), unread=unread) == Changes(unchanged=1, removed=2)
        assert index.sources() == ["a.txt", "a/b.txt", "a/c/d.txt", "e.txt"]
        assert index.update([], unread=["."]).removed == 0
        assert index.update([]).removed == 4


def test_another_file_in_its_place_is_taken_up(tmp_path):
    path, old, new = tmp_path / "x", [Document("a", "An old mill.")], [Document("b", "A new mill and a wheel.")]
    for name, documents in (("x", old), ("y", new)):
        with DocumentIndex(tmp_path / name, create=True) as index:
            index.update(documents)
    with DocumentIndex(path) as index:
        check_alike(index, old, ["mill"])
        path.unlink()
        assert [found.paragraph.source for found in index.search("mill")] == ["a"]
        (tmp_path / "y").rename(path)
        assert [found.paragraph.source for found in index.search("wheel")] == ["b"]
        check_alike(index, new, ["mill"])
        path.unlink()
        path.write_text("no index")
        with pytest.raises(UserError, match=f"^{path}: "):
            index.search("mill")


def test_progress_and_documents_that_cannot_be_read(tmp_path):
    documents = [Document("a", "mill"), Document("b", b"no PDF", "pdf"), Document("c", "lake")]
    seen, sentences = [], []
    with DocumentIndex(tmp_path / "index", create=True) as index:
        assert index.update(documents, lambda *at: seen.append(at), sentences.append) == Changes(added=2, skipped=1)
        assert (seen, len(sentences), sentences[0][:3]) == ([(1, "a"), (2, "c")], 1, "b: ")
        assert index.sources() == ["a", "c"]
        with pytest.raises(UserError, match=r"^b: "):
            index.update(documents)
        with pytest.raises(UserError, match="found two documents with the source 'a', expected one"):
            index.update([Document("a", "x"), Document("a", "y")])


INDEX_SLOWLY = """
import sys, time
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import DocumentIndex
from fabir_tf.pipelines.documents.sqlite import sqlite3
from fabir_tf.pipelines.errors import UserError

def wait(count, source):
    print(count, flush=True)
    time.sleep(float(sys.argv[3]))

try:
    with DocumentIndex(sys.argv[2], create=True) as index:
        print(index.update(read_documents(sys.argv[1]), wait))
except UserError as error:
    print("error:", error)
"""


def start(folder, path, pause=0.0):
    return subprocess.Popen(
        [sys.executable, "-c", INDEX_SLOWLY, str(folder), str(path), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for number in range(40):
        (folder / f"{number:02}.md").write_text(f"# Mill {number}\n\n" + f"The wheel number {number} turns. " * 50)
    return folder


@pytest.mark.parametrize("count", [1, 7, 25])
def test_an_update_that_was_killed_goes_on(tmp_path, many, count):
    process = start(many, tmp_path / "index", 0.01)
    for line in process.stdout:
        if line.strip() == str(count):
            break
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with DocumentIndex(tmp_path / "index", create=True) as index:
        # What is there now is whole, and can be searched.
        assert count <= len(index.sources()) < 40
        assert index.search("the wheel")
        changes = index.update(read_documents(many))
        assert (changes.added + changes.unchanged, changes.changed) == (40, 0)
        assert changes.unchanged >= count
        check_alike(index, list(read_documents(many)), ["Which wheel turns at mill 7?", "number 39"])
    assert os.listdir(tmp_path) == ["index"]


def test_of_two_updates_at_once_the_later_one_goes_on_and_the_earlier_one_says_so(tmp_path):
    path = tmp_path / "index"
    later = [Document("c", "the hill"), Document("d", "the wheel")]

    def earlier():
        yield Document("a", "the mill")
        with DocumentIndex(path) as other:
            assert other.update(later) == Changes(added=2, removed=1)
        yield Document("b", "the lake")

    with DocumentIndex(path, create=True) as index:
        with pytest.raises(UserError) as error:
            index.update(earlier(), skipped=pytest.fail)
        assert str(error.value) == f"{path}: another process has begun to update the index, so this one ends."
        check_alike(index, later, ["the mill lake hill wheel"])


def test_two_processes_that_index_the_same_folder_both_end_right(tmp_path, many):
    first = start(many, tmp_path / "index", 0.05)
    assert first.stdout.readline() == "1\n"
    second = start(many, tmp_path / "index")
    for process in (second, first):
        printed = process.communicate()[0].splitlines()
        assert printed[-1].startswith(("Changes(", f"error: {tmp_path / 'index'}: another process has begun to update"))
        assert process.returncode == 0
    with DocumentIndex(tmp_path / "index") as index:
        check_alike(index, list(read_documents(many)), ["Which wheel turns at mill 7?"])


def test_an_index_is_searched_while_it_is_updated(tmp_path, many):
    with DocumentIndex(tmp_path / "index", create=True) as index:
        index.update([Document("before", "an old wheel")])
        process = start(many, tmp_path / "index", 0.02)
        counts = []
        while process.poll() is None:
            counts.append(len(index.search("wheel", 1000)))
            time.sleep(0.01)
        assert "Changes(added=40" in process.communicate()[0]
        # The old document goes last.
        grown = counts[: counts.index(max(counts)) + 1]
        assert grown == sorted(grown)
        assert (grown[0], set(counts[len(grown) :]) <= {40, 41}) == (1, True)
        assert 1 < max(counts) <= 41
        check_alike(index, list(read_documents(many)), ["Which wheel turns at mill 7?"])


SEARCH = """
import sys
from fabir_tf.pipelines.documents.index import DocumentIndex
with DocumentIndex(sys.argv[1]) as index:
    print("open", flush=True)
    for line in sys.stdin:
        print(*[found.paragraph.source for found in index.search(line.strip())], flush=True)
"""


@contextlib.contextmanager
def searching(path):
    """Another process, like a server: a function that asks it, and gives the sources that it finds."""
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    def ask(question):
        print(question, file=process.stdin, flush=True)
        return process.stdout.readline().split()

    try:
        assert process.stdout.readline() == "open\n"
        yield ask
    finally:
        process.communicate()
        assert process.returncode == 0


def test_an_updated_index_is_one_file_whoever_searched_it_meanwhile(tmp_path):
    """A copy of it is whole, and another file can take its place."""
    path, documents = tmp_path / "index", [Document(f"{number}", f"The wheel {number}.") for number in range(40)]
    with DocumentIndex(path, create=True) as index:
        index.update(documents[:1])
        with searching(path) as first, searching(path) as second:
            counts = []
            changes = index.update(
                documents, lambda *_: counts.append((len(first("wheel")), len(second("wheel")), len(index)))
            )
            assert changes == Changes(added=39, unchanged=1)
            assert counts == [(count, count, count) for count in range(1, 21)] + [
                (20, 20, count) for count in range(21, 41)
            ]
            assert os.listdir(tmp_path) == ["index"]
            shutil.copy(path, tmp_path / "copy")
            with DocumentIndex(tmp_path / "copy") as copy:
                check_alike(copy, documents, ["wheel 39"])
            with DocumentIndex(tmp_path / "new", create=True) as new:
                new.update([Document("lake", "A lake and a wheel.")])
            (tmp_path / "new").rename(path)
            assert (first("lake wheel"), second("lake wheel")) == (["lake"], ["lake"])
            assert sorted(os.listdir(tmp_path)) == ["copy", "index"]
        check_alike(index, [Document("lake", "A lake and a wheel.")], ["wheel"])


def test_statistics_are_read_once_while_nothing_changes_in_an_update(tmp_path, monkeypatch):
    """The file is opened anew for each search beside an update; a large one's statistics take seconds."""
    path, reads = tmp_path / "index", []
    monkeypatch.setattr(module, "_Statistics", lambda *parts: reads.append(1) or _Statistics(*parts))
    with DocumentIndex(path, create=True) as index, DocumentIndex(path) as searched:
        found = []

        def search(*_):
            del reads[:]
            found.append([len(searched.search("mill")) for _ in range(3)])
            assert len(reads) == 1

        index.update([Document("a", "mill"), Document("b", "mill")], search)
        # Only the place of a document changes.
        index.update([Document("b", "mill"), Document("a", "mill")])
        assert [hit.paragraph.source for hit in searched.search("mill")] == ["b", "a"]
    assert found == [[1] * 3, [2] * 3]


def test_the_log_of_a_killed_update_is_not_read_with_another_file(tmp_path, many):
    path, new = tmp_path / "index", tmp_path / "new"
    process = start(many, path, 0.01)
    for line in process.stdout:
        if line == "20\n":
            break
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert Path(f"{path}-wal").stat().st_size
    documents = [Document("lake", "A lake and a wheel.")]
    with DocumentIndex(new, create=True) as index:
        index.update(documents)
    new.rename(path)
    with DocumentIndex(path) as index:
        check_alike(index, documents, ["wheel"])
    assert os.listdir(tmp_path) == ["index"]


def test_a_closed_index_and_one_that_is_missing_for_a_moment(tmp_path):
    path = tmp_path / "index"
    with DocumentIndex(path, create=True) as index:
        index.update([Document("a", "mill")])
        path.rename(tmp_path / "kept")
        path.write_text("no index")
        for sentence in ("found another file", "found no such file"):
            with pytest.raises(UserError, match=f"^{path}: {sentence}, expected an index of documents"):
                index.search("mill")
            path.unlink(missing_ok=True)
        (tmp_path / "kept").rename(path)
        assert len(index) == 1
    with pytest.raises(UserError, match="index: the index was closed, expected one that is open"):
        index.search("mill")


def test_an_index_is_searched_by_several_threads(tmp_path, pages):
    with DocumentIndex(tmp_path / "index", create=True) as index:
        index.update(pages)
        expected = [index.search(question) for question in QUESTIONS]
        found = {}
        threads = [
            threading.Thread(target=lambda number=number: found.update({number: [index.search(q) for q in QUESTIONS]}))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(found.values()) == [expected] * 4


def test_an_index_is_searched_where_nothing_can_be_written(tmp_path, pages):
    path = tmp_path / "index"
    with DocumentIndex(path, create=True) as index:
        index.update(pages[:3])
    raw = path.read_bytes()
    path.chmod(0o444)
    with DocumentIndex(path) as index:
        assert index.search("the reader")
    assert path.read_bytes() == raw
    assert os.listdir(tmp_path) == ["index"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "found no such file, expected an index of documents."),
        (b"", "found an empty file, expected an index of documents."),
        (b"no database at all" * 100, "found another file, expected an index of documents."),
        (b"SQLite format 3\0" + b"x" * 2000, "found another file, expected an index of documents."),
    ],
    ids=["missing", "empty", "text", "header"],
)
def test_another_file_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "index"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as error:
        DocumentIndex(path)
    assert str(error.value) == f"{path}: {sentence}"
    if content:
        # It is not overwritten either.
        with pytest.raises(UserError):
            DocumentIndex(path, create=True)
        assert path.read_bytes() == content


def test_a_folder_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="found a folder, expected an index of documents"):
        DocumentIndex(tmp_path, create=True)


def test_a_database_of_another_program_is_one_sentence(tmp_path):
    path = tmp_path / "index"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mills (name)")
    connection.close()
    for create in (False, True):
        with pytest.raises(UserError, match="found an SQLite file of another program"):
            DocumentIndex(path, create=create)


def test_an_index_of_another_version_is_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "index"
    with DocumentIndex(path, create=True) as index:
        index.update([Document("a", "mill")])
    monkeypatch.setattr(search_words, "VERSION", 7)
    with pytest.raises(UserError, match="found an index with version 1 of the rules for words, expected 7"):
        DocumentIndex(path)
    monkeypatch.setattr("fabir_tf.pipelines.documents.index.FORMAT", 9)
    with pytest.raises(UserError, match="found an index of format 1, expected 9"):
        DocumentIndex(path)


def test_a_damaged_index_is_one_sentence(tmp_path, pages):
    path = tmp_path / "index"
    with DocumentIndex(path, create=True) as index:
        index.update(pages)
    whole = path.read_bytes()
    rng, sentences = random.Random(0), 0
    for number in range(60):
        raw = bytearray(whole)
        if number % 3 == 0:
            del raw[rng.randrange(100, len(raw)) :]
        else:
            start = rng.randrange(100, len(raw))
            raw[start : start + 3000] = rng.randbytes(3000)
        path.write_bytes(raw)
        try:
            with DocumentIndex(path) as index:
                for question in QUESTIONS:
                    index.search(question)
        except UserError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
            sentences += 1
    assert sentences > 5


def test_a_place_that_cannot_be_written_is_an_error_of_writing(tmp_path):
    with pytest.raises(WriteError):
        DocumentIndex(tmp_path / "no" / "index", create=True)


AFTER_TENSORFLOW = """
import sys, tensorflow
assert "_sqlite3" not in sys.modules
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.index import DocumentIndex
with DocumentIndex(sys.argv[1], create=True) as index:
    index.update([Document("a", "the mill")])
    print(len(index.search("mill")))
"""


def test_an_index_is_made_after_tensorflow_was_imported(tmp_path):
    # TensorFlow's own SQLite has no full-text search.
    command = [sys.executable, "-c", AFTER_TENSORFLOW, str(tmp_path / "index")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


IMPORT = """
import sys
from fabir_tf.pipelines.documents import folder, index
print([name for name in ("tensorflow", "keras", "nltk", "pypdf") if name in sys.modules])
"""


def test_searching_imports_neither_tensorflow_nor_keras():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [sys.executable, "-c", IMPORT], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout == "[]\n"
