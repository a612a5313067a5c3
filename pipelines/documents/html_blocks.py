"""HTML as blocks, with the offsets of its source.

Tags are found by their form alone: no closing tag has to be there, and nothing is an error. What a page says besides
its subject is left out: scripts, navigation, footers, forms without headings, and what is hidden.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cached_property
from typing import NamedTuple

from fabir_tf.pipelines.documents.blocks import CELL_SEPARATOR, CODE, LIST, TEXT, Block, Outline
from fabir_tf.pipelines.documents.lines import code_of, lines_of
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced
from fabir_tf.pipelines.documents.markdown_inline import decoded

# Limits of lengths keep the time linear where a bracket or quote is never closed.
_COMMENT = r"<!--.*?(?:-->|\Z)|<(?:\?|![A-Za-z\[])[^>]{0,3000}>"
_TAG = r"""<(/?)([A-Za-z][^\s/>]{0,60})((?:"[^"]*"|'[^']*'|[^<>"']){0,1000})>"""
_MARKUP = re.compile(f"(?:{_COMMENT})|{_TAG}", re.DOTALL)
_PICTURE_TEXT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([^\s"'=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']+))?""")
_SELF_LINK = re.compile(r"<a\s[^>]*>\s*(?:[#\u00b6\u00a7\u203b]|&para;|&#182;|&sect;)\s*</a>", re.IGNORECASE)
_PRE_END = re.compile(r"</pre(?:[\s/>]|\Z)", re.IGNORECASE)

# By the name of an attribute, the values with which its element is hidden, or with which it is the main one.
_HIDDEN = {
    "hidden": re.compile(""),
    "aria-hidden": re.compile(r"\Atrue", re.IGNORECASE),
    "role": re.compile(r"\Anavigation", re.IGNORECASE),
    "class": re.compile(r"\b(?:headerlink|hash-link|skip-link)\b", re.IGNORECASE),
}
_MAIN = {"role": re.compile(r"\Amain\b", re.IGNORECASE)}

_SKIPPED = {
    *("script", "style", "template", "noscript", "svg", "math", "head", "nav", "footer", "aside", "form", "button"),
    *("select", "textarea", "title", "iframe", "object", "canvas", "audio", "video"),
}
# What stands in these is no markup.
_RAW = ("script", "style", "textarea", "title", "iframe")
_RAW_END = re.compile(rf"</({'|'.join(_RAW)})(?=[\s/>])[^<>]*>", re.IGNORECASE)
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "form", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu"),
    *("ol", "p", "pre", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
}
_ITEMS = ("li", "dt", "dd")

Shown = Callable[[MappedText], MappedText]


def html_blocks(text: str) -> list[Block]:
    """Reads a page.

    Args:
        text: its HTML.

    Returns:
        The blocks of its main part, or of all of it where none is marked, each character with its offset in the text.
    """
    outline = Outline()
    page = MappedText.copy(text)
    if title := _title(text):
        outline.heading(0, shown_text(page.part(*title)))
    add_html(outline, page.part(*_main_part(text)), shown_text)
    return outline.finished()


def shown_text(content: MappedText) -> MappedText:
    """The text of inline HTML, in one line."""
    parts, end = [], 0
    for match in _MARKUP.finditer(content.text):
        if match.start() < end:
            continue
        parts.append(decoded(content.part(end, match.start())))
        self_link = _SELF_LINK.match(content.text, match.start())
        end = self_link.end() if self_link else match.end()
        name = (match[2] or "").lower()
        if name == "br":
            parts.append(content.replaced(*match.span(), " "))
        if name == "img" and (picture := _PICTURE_TEXT.search(match[0])):
            group = 1 if picture[1] is not None else 2
            start = match.start()
            parts.append(decoded(content.part(start + picture.start(group), start + picture.end(group))))
    return spaced(joined([*parts, decoded(content.part(end))]))


def add_html(outline: Outline, content: MappedText, shown: Shown) -> None:
    """Adds the blocks of HTML to an outline.

    Args:
        outline: what they are added to.
        content: the HTML, perhaps a part of a page with tags that are closed elsewhere.
        shown: turns what stands between two tags of blocks into its text; it still has inline tags.
    """
    reader = _Reader(outline, content, shown)
    reader.read()


class _Reader:
    def __init__(self, outline: Outline, content: MappedText, shown: Shown):
        self.outline, self.content, self.shown = outline, content, shown
        self.elements = _Elements(content.text)
        self.heading_end = 0
        self.heading_skipped: Set[str] = _SKIPPED
        self.parts: list[MappedText] = []
        self.items = 0
        self.tables = 0
        self.rows: list[MappedText] = []
        self.cells: list[MappedText] = []

    def read(self) -> None:
        text, start, position = self.content.text, 0, 0
        while match := _MARKUP.search(text, position):
            position = match.end()
            name = (match[2] or "").lower()
            is_block = name in _BLOCKS
            skipped = self.heading_skipped if match.start() < self.heading_end else _SKIPPED
            end = _hidden_end(self.elements, match, name, skipped)
            if name and not is_block and end == match.end():
                # An inline tag, which `shown` leaves out.
                continue
            self.parts.append(self.content.part(start, match.start()))
            start = position = end
            if is_block and end == match.end():
                start = position = self._tag(match, name)
        self.parts.append(self.content.part(start))
        self._flush()
        self._end_table()

    def _tag(self, match: re.Match[str], name: str) -> int:
        """Reads a tag of a block; returns where to go on."""
        is_closing = bool(match[1])
        if match.start() < self.heading_end and not self.tables:
            # Two blocks in a heading stand apart, as two words do.
            self.parts.append(self.content.replaced(*match.span(), " "))
            return match.end()
        if name == "pre" and not is_closing:
            return self._code(match)
        if name in _HEADINGS and is_closing and not self.tables:
            self.outline.heading(int(name[1]), self._shown())
            return match.end()
        self._flush()
        if name in _HEADINGS and not is_closing:
            self._begin_heading(match.end())
        if name in _ITEMS:
            self.items = max(0, self.items + (-1 if is_closing else 1))
        if name in ("ul", "ol", "dl") and is_closing:
            self.items = max(0, self.items - 1)
        if name in ("tr", "table"):
            self._end_row()
        if name == "table":
            self.tables = max(0, self.tables + (-1 if is_closing else 1))
            if not self.tables:
                self._end_table()
        return match.end()

    def _begin_heading(self, start: int) -> None:
        self.heading_end = self.elements.heading_end(start)
        words = _without_tags(self.content.part(start, self.heading_end)).text
        # A button beside the words of a heading copies or folds them; a button without any is the heading itself.
        self.heading_skipped = _SKIPPED if any(map(str.isalpha, words)) else _SKIPPED - {"button"}

    def _code(self, match: re.Match[str]) -> int:
        self._flush()
        closing = _PRE_END.search(self.content.text, match.end())
        end = closing.start() if closing else len(self.content)
        code = code_of(lines_of(_without_tags(self.content.part(match.end(), end))))
        if self.tables:
            self.cells.append(spaced(code))
        else:
            self.outline.add(CODE, code)
        return end

    def _shown(self) -> MappedText:
        parts, self.parts = self.parts, []
        return self.shown(joined(parts))

    def _flush(self) -> None:
        """Ends a paragraph, or a part of a cell."""
        content = self._shown()
        if self.tables:
            self.cells += [content] if content.text else []
        else:
            self.outline.add(LIST if self.items else TEXT, content)

    def _end_row(self) -> None:
        if self.cells:
            self.rows.append(joined(self.cells, CELL_SEPARATOR))
        self.cells = []

    def _end_table(self) -> None:
        self._end_row()
        if self.rows:
            self.outline.add_table(self.rows)
        self.rows = []


def _without_tags(content: MappedText) -> MappedText:
    """A piece of code, or a heading, without tags and without the buttons beside it."""
    parts, end = [], 0
    elements = _Elements(content.text)
    for match in _MARKUP.finditer(content.text):
        if match.start() < end:
            continue
        parts.append(decoded(content.part(end, match.start())))
        end = _hidden_end(elements, match, (match[2] or "").lower(), _SKIPPED)
    return joined([*parts, decoded(content.part(end))])


def _hidden_end(elements: "_Elements", match: re.Match[str], name: str, skipped: Set[str]) -> int:
    """The end of an element that a page does not show or that is not its subject; otherwise the end of the tag."""
    start = match.end()
    if not name or not _opens(match):
        return start
    if _has(match[3], _HIDDEN):
        return elements.end(start)
    if name not in skipped:
        return start
    end = elements.end(start)
    # Some programs put all of a page into one form.
    return start if name == "form" and elements.has_subject(start, end) else end


def _opens(match: re.Match[str]) -> bool:
    """Whether a tag begins an element."""
    return not (match[1] or match[3].rstrip().endswith("/") or match[2].lower() in _VOID)


def _has(attributes: str, wanted: Mapping[str, re.Pattern[str]]) -> bool:
    """Whether one of a tag's attributes has a value that is wanted."""
    found = ((name.lower(), value.strip("\"'")) for name, value in _ATTRIBUTE.findall(attributes))
    return any(name in wanted and wanted[name].search(value) for name, value in found)


def _tags(text: str) -> Iterator[re.Match[str]]:
    """The tags of a text, and not what looks like tags in comments, scripts and the like."""
    raw_ends: dict[str, list[int]] = {}
    for match in _RAW_END.finditer(text):
        raw_ends.setdefault(match[1].lower(), []).append(match.start())
    position = 0
    while found := _MARKUP.search(text, position):
        position = found.end()
        if not found[2]:
            continue
        yield found
        if (name := found[2].lower()) in _RAW and _opens(found):
            ends = raw_ends.get(name, [])
            index = bisect_left(ends, position)
            position = ends[index] if index < len(ends) else position


class _Found(NamedTuple):
    """Places in a text.

    Attributes:
        ends: by the start of its content, the end of each element that is closed.
        heading_ends: by the start of its content, where the closing tag of a heading begins.
        subjects: where headings and main elements begin.
    """

    ends: dict[int, int]
    heading_ends: dict[int, int]
    subjects: list[int]


class _Elements:
    """Where the elements of a text end, and which of them hold its subject; read when first asked."""

    def __init__(self, text: str):
        self._text = text

    def end(self, start: int) -> int:
        """The end of the element whose content begins at `start`; `start` itself if it is never closed."""
        return self._found.ends.get(start, start)

    def heading_end(self, start: int) -> int:
        """Where the heading whose content begins at `start` is closed; `start` itself if another one begins before."""
        return self._found.heading_ends.get(start, start)

    def has_subject(self, start: int, end: int) -> bool:
        """Whether a heading or a main element begins between two places."""
        subjects = self._found.subjects
        index = bisect_left(subjects, start)
        return index < len(subjects) and subjects[index] < end

    @cached_property
    def _found(self) -> _Found:
        found = _Found({}, {}, [])
        opened: dict[str, list[int]] = {}
        heading = -1
        for match in _tags(self._text):
            name, is_closing = match[2].lower(), bool(match[1])
            if is_closing and opened.get(name):
                found.ends[opened[name].pop()] = match.end()
            elif _opens(match):
                opened.setdefault(name, []).append(match.end())
            if not is_closing and (name == "main" or name in _HEADINGS):
                found.subjects.append(match.start())
            if name in _HEADINGS:
                if is_closing and heading >= 0:
                    found.heading_ends[heading] = match.start()
                heading = -1 if is_closing else match.end()
        return found


def _content_end(text: str, start: int) -> int:
    end = _Elements(text).end(start)
    return end if end > start else len(text)


def _main_part(text: str) -> tuple[int, int]:
    """The main element of a page, or its only article; otherwise all of it."""
    articles = []
    for match in _tags(text):
        name = match[2].lower()
        if match[1]:
            continue
        if name == "main" or _has(match[3], _MAIN):
            return match.end(), _content_end(text, match.end())
        if name == "article":
            articles.append(match)
    if len(articles) == 1:
        return articles[0].end(), _content_end(text, articles[0].end())
    return 0, len(text)


def _title(text: str) -> tuple[int, int] | None:
    """Where the title of a page without a heading of the first level is."""
    if re.search(r"<h1[\s>]", text, re.IGNORECASE):
        return None
    match = re.search(r"<title[^<>]*>([^<]*)</title", text, re.IGNORECASE)
    return match.span(1) if match else None
