"""Folders, files and collections are read; what cannot be read is one sentence."""

import errno
import json
import os
from pathlib import Path

import pytest

from fabir_tf.pipelines import files
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import decode_text, read_documents, read_part
from fabir_tf.pipelines.documents.sharded_index import Shards
from fabir_tf.pipelines.errors import UserError


@pytest.fixture
def folder(tmp_path):
    for name, content in {
        "b.md": b"# Mill\ntext",
        "a/z.txt": "\ufeffé".encode(),
        "a/B.RST": "é".encode("utf-16"),
        "a.html": b"<p>x",
        ".hidden/x.md": b"no",
        ".x.md": b"no",
        "code.py": b"no",
        "lines.jsonl": b'{"text": "no"}',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_a_folder_is_read_in_the_order_of_its_names(folder):
    found = [(document.source, document.text, document.format) for document in read_documents(folder)]
    assert found == [
        ("a.html", "<p>x", "html"),
        ("a/B.RST", "é", "rst"),
        ("a/z.txt", "é", "plain"),
        ("b.md", "# Mill\ntext", "markdown"),
    ]
    assert found == [(document.source, document.text, document.format) for document in read_documents(str(folder))]


def test_a_file_with_another_ending_is_plain_text(folder):
    path = str(folder / "code.py")
    assert list(read_documents(path)) == [Document(path, "no")]


def test_a_file_is_read_by_its_ending(folder):
    path = str(folder / "b.md")
    assert list(read_documents(path)) == [Document(path, "# Mill\ntext", "markdown")]


def test_unreadable_files_of_a_folder_are_skipped_where_that_is_asked_for(folder):
    (folder / "c.txt").write_bytes(b"ab\xe9")
    (folder / "d.txt").write_bytes(b"PK\x03\0")
    sentences = []
    assert [document.source for document in read_documents(folder, sentences.append)] == [
        *("a.html", "a/B.RST", "a/z.txt", "b.md")
    ]
    assert sentences == [
        f"{folder / 'c.txt'}: byte 2 is not UTF-8, expected UTF-8, or UTF-16 with a byte order mark.",
        f"{folder / 'd.txt'}: found binary data at character 3, expected text.",
    ]
    with pytest.raises(UserError, match="byte 2 is not UTF-8"):
        list(read_documents(folder))


@pytest.mark.parametrize("name", ["a", ""])
def test_a_folder_that_may_not_be_entered_is_told(folder, monkeypatch, name):
    """Its documents would otherwise vanish from an index without a word."""
    listed = os.scandir

    def scandir(place):
        if Path(place) == folder / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return listed(place)

    monkeypatch.setattr(os, "scandir", scandir)
    sentences = []
    sources = [document.source for document in read_documents(folder, sentences.append)]
    assert sources == (["a.html", "b.md"] if name else [])
    told = f"{folder / name}: the folder cannot be read (Permission denied), expected one of documents."
    assert sentences == [told]
    with pytest.raises(UserError, match=r"the folder cannot be read \(Permission denied\)"):
        list(read_documents(folder))
    # Of the processes that make an index of several files, one tells it, and all know it.
    shards, parts = Shards(folder / "index", 4), []
    for number in range(4):
        unread = []
        list(read_part(folder, parts.append, shards.holds(number), unread=unread.append))
        assert unread == [name or "."]
    assert parts == [told]


def test_a_linked_folder_is_told_and_not_followed(folder):
    (folder / "link").symlink_to(folder / "a", target_is_directory=True)
    (folder / "linked.md").symlink_to(folder / "b.md")
    (folder / ".other").symlink_to(folder)
    sentences, unread = [], []
    sources = [document.source for document in read_documents(folder, sentences.append, unread=unread.append)]
    assert sources == ["a.html", "a/B.RST", "a/z.txt", "b.md", "linked.md"]
    assert sentences == [f"{folder / 'link'}: the link to a folder is not followed; read that folder by its own name."]
    # An index keeps the documents that were there before the link.
    assert unread == ["link"]
    assert len(list(read_documents(folder))) == 5


def test_a_file_that_cannot_be_opened_is_told_apart_from_one_in_another_encoding(folder, monkeypatch):
    opened = open

    def open_other(path, *arguments):
        if Path(path).name == "a.html":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments)

    (folder / "c.txt").write_bytes(b"\xff")
    monkeypatch.setattr(files, "open", open_other, raising=False)
    sentences, unread = [], []
    list(read_documents(folder, sentences.append, unread=unread.append))
    assert unread == ["a.html"]
    assert any("a.html: cannot be opened (Permission denied)" in sentence for sentence in sentences)
    assert any("c.txt: byte 0 is not UTF-8" in sentence for sentence in sentences)


def test_a_folder_without_documents_and_a_missing_path(tmp_path):
    with pytest.raises(UserError, match=r"found no document, expected files that end in \.txt, \.md"):
        list(read_documents(tmp_path))
    with pytest.raises(UserError, match="found no such file, expected a document or a folder of documents"):
        list(read_documents(tmp_path / "no.md"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(encoding):
    assert decode_text("Mühle 磨坊".encode(encoding), "x") == "Mühle 磨坊"


def write_lines(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_collection(tmp_path):
    path = write_lines(
        tmp_path / "mills.jsonl",
        {"id": 7, "text": "one", "title": "Mill"},
        "",
        {"source": "b", "id": 8, "text": "**two**", "format": "markdown"},
        {"text": "three", "title": None, "other": [1]},
    )
    assert list(read_documents(path)) == [
        Document("7", "one", "plain", "Mill"),
        Document("b", "**two**", "markdown"),
        Document("4", "three"),
    ]
    paragraph = next(read_documents(path)).paragraphs()[0]
    assert (paragraph.title, paragraph.searched_text) == ("Mill", "Mill\none")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{", "line 2 is no valid JSON ("),
        ("[]", "line 2 is a list, expected an object with the field text."),
        ({"id": "b"}, "line 2: text is missing, expected a text."),
        ({"text": 5}, "line 2: text is the number 5, expected a text."),
        ({"text": "x", "id": ""}, "line 2: id is the text '', expected a text or a whole number."),
        ({"text": "x", "id": True}, "line 2: id is the text"),
        ({"text": "x", "title": 1}, "line 2: title is the number 1, expected a text."),
        (
            {"text": "x", "format": "pdf"},
            "line 2: format is the text 'pdf', expected one of plain, markdown, rst, html.",
        ),
        ({"text": "x", "format": []}, "line 2: format is a list, expected one of"),
        ({"text": "x", "id": "a"}, "line 2: the source 'a' is that of line 1, expected another."),
        ('{"text": "x", "text": "y"}', "line 2: the top level.text"),
    ],
)
def test_a_faulty_line_is_one_sentence_or_skipped(tmp_path, row, sentence):
    path = write_lines(tmp_path / "mills.jsonl", {"id": "a", "text": "one"}, row, {"id": "c", "text": "three"})
    sentences = []
    assert [document.source for document in read_documents(path, sentences.append)] == ["a", "c"]
    assert len(sentences) == 1
    with pytest.raises(UserError) as error:
        list(read_documents(path))
    assert str(error.value) == sentences[0]
    assert sentences[0].startswith(f"{path}: {sentence}") or sentence.startswith(
        ("line 2: id is the text", "line 2: the top")
    )
    assert "\n" not in sentences[0]


def test_an_empty_collection(tmp_path):
    with pytest.raises(UserError, match="found no document, expected one JSON object a line"):
        list(read_documents(write_lines(tmp_path / "none.jsonl", "")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("a", "x", "docx"), "format is one of"), (("a", b"x"), "is a str"), (("a", "x", "pdf"), "is bytes")],
)
def test_a_document_checks_its_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Document(*arguments)


def test_the_digest_changes_with_content_format_and_title():
    documents = [Document("a", "x"), Document("a", "y"), Document("a", "x", "markdown"), Document("a", "x", title="t")]
    assert len({document.digest for document in documents}) == 4
    assert Document("other", "x").digest == documents[0].digest
    assert Document("a", "\ud800").digest
