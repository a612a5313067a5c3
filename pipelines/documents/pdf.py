"""PDF as blocks. pypdf gives the lines of each page; offsets refer to them.

A PDF has no paragraphs. One ends where a line is clearly shorter than the others, and where an item begins.
"""

import io
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from fabir_tf.pipelines.documents.blocks import LIST, TEXT, Block, Outline
from fabir_tf.pipelines.documents.lines import is_blank, lines_of
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced
from fabir_tf.pipelines.errors import UserError

PAGE_BREAK = "\f"
"""Stands between two pages of the extracted text."""

SHORT_LINE = 0.75
"""A line shorter than this share of the long ones ends a paragraph."""

FEWEST_RUNNING = 3
"""Pages that begin or end alike, but for numbers, where that line is a running head."""

_HEADING = re.compile(r"(?:(?:Chapter|Appendix|Section)\s+\w{1,4}[.:]?\s.{1,80}|(\d+(?:\.\d+)+)\.?\s+[^\W\d].{0,80})")
_ITEM = re.compile(r"\s*(?:[\u2022\u2023\u2043\u25aa\u25cf\u2013*-]|\(?\d{1,2}[.)])\s+\S")
_SENTENCE_END = re.compile(r"[.!?:;,]\s*$")
_DIGITS = re.compile(r"\d+")
_LAST_HALF, _FIRST_HALF = re.compile(r"([^\W\d_]+)-$"), re.compile(r"[a-z][^\W\d_]*")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def pdf_pages(raw: bytes, name: str) -> list[str]:
    """The text of each page.

    Args:
        raw: the PDF.
        name: its name, for messages.

    Raises:
        UserError: pypdf is not installed, or the PDF is damaged, encrypted or without text.
    """
    try:
        import pypdf
    except ImportError:
        raise UserError(f'{name}: reading PDF needs pypdf: pip install "fabir_tf[documents]".') from None
    # Its remarks on slips of other programs would be printed among the answers.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        file = pypdf.PdfReader(io.BytesIO(raw))
        if file.is_encrypted and not file.decrypt(""):
            raise UserError(f"{name}: found an encrypted PDF, expected one that opens without a password.")
        pages = [page.extract_text().replace(PAGE_BREAK, "\n") for page in file.pages]
    except UserError:
        raise
    # What is raised depends on the damaged byte.
    except Exception as error:
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise UserError(f"{name}: cannot be read as PDF ({reason}).") from None
    if not any(page.strip() for page in pages):
        raise UserError(f"{name}: found a PDF without text (scanned pages, perhaps), expected one with text.")
    return pages


def pdf_blocks(pages: Sequence[str]) -> list[Block]:
    """Reads the text of a PDF.

    Args:
        pages: the text of each.

    Returns:
        Its blocks with their pages, without running heads; offsets are those in the pages joined by `PAGE_BREAK`.
    """
    whole = MappedText.copy(PAGE_BREAK.join(pages))
    words = set(_WORD.findall(whole.text.lower()))
    parts, start = [], 0
    for page in pages:
        parts.append([line for line in lines_of(whole.part(start, start + len(page))) if not is_blank(line)])
        start += len(page) + len(PAGE_BREAK)
    outline = Outline()
    for number, lines in enumerate(_without_running_heads(parts), 1):
        outline.page = number
        for group in _groups(lines):
            _add(outline, group, words)
    return outline.finished()


def _add(outline: Outline, group: list[MappedText], words: set[str]) -> None:
    text = group[0].text.strip()
    heading = _HEADING.fullmatch(text) if len(group) == 1 else None
    if heading and not _SENTENCE_END.search(text) and not text[-1].isdigit():
        outline.heading(heading[1].count(".") + 1 if heading[1] else 1, spaced(group[0]))
    else:
        outline.add(LIST if _ITEM.match(text) else TEXT, spaced(_unhyphenated(group, words)))


def _without_running_heads(pages: list[list[MappedText]]) -> Iterator[list[MappedText]]:
    """The lines of each page without the first and the last one where many pages begin or end so."""
    firsts, lasts = _running(lines[:1] for lines in pages), _running(lines[-1:] for lines in pages)
    for lines in pages:
        first = 1 if lines and _alike(lines[0]) in firsts else 0
        last = 1 if lines and _alike(lines[-1]) in lasts else 0
        # Within a page such a line is text: a row of a table may hold only a number, as the foot of the page does.
        yield lines[first : len(lines) - last]


def _running(ends: Iterable[list[MappedText]]) -> set[str]:
    """The lines, without their numbers, that many pages have at the same end."""
    counts = Counter(_alike(line) for lines in ends for line in lines)
    return {head for head, count in counts.items() if count >= FEWEST_RUNNING}


def _alike(line: MappedText) -> str:
    return " ".join(_DIGITS.sub("#", line.text).split())


def _groups(lines: list[MappedText]) -> Iterator[list[MappedText]]:
    """The lines of each paragraph."""
    lengths = sorted(len(line) for line in lines)
    long = lengths[len(lengths) * 9 // 10] if lengths else 0
    group: list[MappedText] = []
    for line in lines:
        if group and (_ends(group[-1], long) or _ITEM.match(line.text) or _HEADING.fullmatch(line.text)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _ends(line: MappedText, long: int) -> bool:
    """Whether a paragraph ends with a line, where the long ones of the page have `long` characters."""
    return len(line) < SHORT_LINE * long and not line.text.endswith("-")


def _unhyphenated(group: list[MappedText], words: set[str]) -> MappedText:
    """The lines as one text; a hyphen at the end of a line goes, unless the document has the word with its hyphen."""
    pieces: list[MappedText] = []
    begun: list[MappedText] = []
    for line, following in zip(group, [*group[1:], MappedText()], strict=True):
        before, after = _LAST_HALF.search(line.text), _FIRST_HALF.match(following.text)
        if not (before and after):
            pieces.append(joined([*begun, line]))
            begun = []
        else:
            is_kept = f"{before[1]}-{after[0]}".lower() in words
            begun.append(line if is_kept else line.part(0, len(line) - 1))
    return joined(pieces, "\n")
