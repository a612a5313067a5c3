"""Reads documents: a file, a folder with all that is below it, or a collection in JSON lines."""

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fabir_tf.pipelines.documents.documents import PDF, PLAIN, READERS, Document
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position, file_lines, read_input, user_path
from fabir_tf.pipelines.json_files import loads, quoted, shown

FORMATS = {
    ".txt": PLAIN,
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".pdf": PDF,
}
"""The formats of documents by the endings of their files."""

COLLECTIONS = (".jsonl", ".ndjson")
"""Endings of JSON lines: one document a line, with `text`, `id` or `source`, and perhaps `title` and `format`."""

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EXPECTED = "a document or a folder of documents"

Skipped = Callable[[str], None]


def read_documents(
    path: str | os.PathLike,
    skipped: Skipped | None = None,
    position: Position | None = None,
    unread: Callable[[str], object] | None = None,
) -> Iterator[Document]:
    """Reads documents one at a time.

    Args:
        path: a folder, whose files with the endings of `FORMATS` are read in the order of their names, hidden ones
            left out; a file of `COLLECTIONS`; or any other file, which is plain text if its ending is unknown.
        skipped: takes the sentence about a document that cannot be read, which is then left out; None raises it. Links
            to folders are not followed, and told here only.
        position: is kept up to date in a file of `COLLECTIONS`.
        unread: takes the source of each file or closed folder that cannot be read at all, and of linked folders.

    Yields:
        The documents. The source of a file in a folder is its path below the folder, with `/`; that of a line is its
        `source`, `id` or number; that of a file is the path as it was given.

    Raises:
        UserError: nothing is there, or a document cannot be read and `skipped` is None.
    """
    for _, document in read_part(path, skipped, position=position, unread=unread):
        yield document


def read_part(
    path: str | os.PathLike,
    skipped: Skipped | None = None,
    wanted: Callable[[str], bool] | None = None,
    position: Position | None = None,
    unread: Callable[[str], object] | None = None,
) -> Iterator[tuple[int, Document]]:
    """Reads some of the documents, one at a time; files of a folder that are not wanted are not opened.

    Args:
        path, skipped, position: as for `read_documents`.
        unread: as for `read_documents`; it also takes closed folders that are not wanted.
        wanted: takes a document's source; None wants all.

    Yields:
        The documents, each with its place among all of them.

    Raises:
        UserError: as `read_documents`.
    """
    place, wanted, unread = user_path(path), wanted or (lambda source: True), unread or (lambda source: None)
    if place.is_dir():
        told = skipped or (lambda sentence: None)
        yield from _without_faults(_from_folder(place, path, wanted, unread, told), skipped)
    elif place.suffix.lower() in COLLECTIONS:
        for number, document in _without_faults(_from_lines(path, position or Position()), skipped):
            if wanted(document.source):
                yield number, document
    elif wanted(str(path)):
        yield 0, _read(path, str(path), unread)


def format_of(name: str) -> str:
    """The format of a document by the ending of its name; plain text where that is unknown."""
    return FORMATS.get(os.path.splitext(name)[1].lower(), PLAIN)


def decode_text(raw: bytes, name: str) -> str:
    """Decodes UTF-8, or UTF-16 and UTF-32 with a byte order mark.

    Args:
        raw: the file.
        name: its name, for messages.

    Returns:
        The text without its mark.

    Raises:
        UserError: it is in another encoding, or no text.
    """
    encoding = next((encoding for mark, encoding in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is not {encoding.upper().removesuffix('-SIG')}"
        raise UserError(f"{name}: {found}, expected UTF-8, or UTF-16 with a byte order mark.") from None
    if "\0" in text:
        raise UserError(f"{name}: found binary data at character {text.index(chr(0))}, expected text.")
    return text


def document_of(raw: bytes, source: str, name: str) -> Document:
    """The document in a file, whose format shows in the ending of its source.

    Args:
        raw: the file.
        source: the document's.
        name: the file's name, for messages.

    Raises:
        UserError: it is no text that can be decoded.
    """
    format = format_of(source)
    return Document(source, raw if format == PDF else decode_text(raw, name), format)


_Reader = Callable[[], Document]


def _without_faults(readers: Iterable[tuple[int, _Reader]], skipped: Skipped | None) -> Iterator[tuple[int, Document]]:
    for place, read in readers:
        try:
            document = read()
        except UserError as error:
            if skipped is None:
                raise
            skipped(str(error))
        else:
            yield place, document


def _from_folder(
    folder: Path,
    name: str | os.PathLike,
    wanted: Callable[[str], bool],
    unread: Callable[[str], object],
    told: Callable[[str], None],
) -> Iterator[tuple[int, _Reader]]:
    closed: list[OSError] = []
    links: list[Path] = []
    sources = sorted(_sources(folder, closed.append, links.append))
    for link in links:
        source = link.relative_to(folder).as_posix()
        unread(source)
        if wanted(source):
            told(f"{link}: the link to a folder is not followed; read that folder by its own name.")
    if not sources and not closed:
        raise UserError(f"{name}: found no document, expected files that end in {', '.join(FORMATS)}.")
    for error in closed:
        source = Path(error.filename).relative_to(folder).as_posix()
        unread(source)
        # Of several processes that read a part each, one tells it.
        if wanted(source):
            yield 0, partial(_refuse, error)
    for place, source in enumerate(sources):
        if wanted(source):
            yield place, partial(_read, folder / source, source, unread)


def _refuse(error: OSError) -> Document:
    raise UserError(f"{error.filename}: the folder cannot be read ({error.strerror}), expected one of documents.")


def _sources(folder: Path, closed: Callable[[OSError], object], linked: Callable[[Path], object]) -> Iterator[str]:
    for place, folders, names in os.walk(folder, onerror=closed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if os.path.islink(os.path.join(place, name)):
                linked(Path(place, name))
        for name in names:
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in FORMATS:
                yield Path(place, name).relative_to(folder).as_posix()


def _read(path: str | os.PathLike, source: str, unread: Callable[[str], object]) -> Document:
    try:
        raw = read_input(path, _EXPECTED)
    except UserError:
        unread(source)
        raise
    return document_of(raw, source, str(path))


def _from_lines(path: str | os.PathLike, position: Position) -> Iterator[tuple[int, _Reader]]:
    sources: dict[str, int] = {}
    for number, line in enumerate(file_lines(path, _EXPECTED, position), 1):
        if line.strip():
            yield number, partial(_from_line, line, number, str(path), sources)
    if not sources:
        raise UserError(f"{path}: found no document, expected one JSON object a line.")


def _from_line(line: bytes, number: int, name: str, sources: dict[str, int]) -> Document:
    place = f"{name}: line {number}"
    try:
        fields = loads(decode_text(line, place))
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is no valid JSON ({error}).") from None
    if not isinstance(fields, dict):
        raise UserError(f"{place} is {shown(fields)}, expected an object with the field text.")
    source = _source(fields, number, place)
    title = _text(fields, "title", place) if fields.get("title") is not None else ""
    document = Document(source, _text(fields, "text", place), _format(fields, place), title)
    first = sources.setdefault(source, number)
    if first != number:
        raise UserError(f"{place}: the source {quoted(source)} is that of line {first}, expected another.")
    return document


def _source(fields: dict[str, Any], number: int, place: str) -> str:
    key = next((key for key in ("source", "id") if fields.get(key) is not None), None)
    if key is None:
        return str(number)
    value = fields[key]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UserError(f"{place}: {key} is {shown(value)}, expected a text or a whole number.")
    return str(value)


def _text(fields: dict[str, Any], key: str, place: str) -> str:
    if key not in fields:
        raise UserError(f"{place}: {key} is missing, expected a text.")
    if not isinstance(fields[key], str):
        raise UserError(f"{place}: {key} is {shown(fields[key])}, expected a text.")
    return fields[key]


def _format(fields: dict[str, Any], place: str) -> str:
    format = fields.get("format", PLAIN)
    choices = [name for name in READERS if name != PDF]
    if format not in choices:
        raise UserError(f"{place}: format is {shown(format)}, expected one of {', '.join(choices)}.")
    return format
