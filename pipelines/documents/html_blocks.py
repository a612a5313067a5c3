"""HTML as blocks, with the offsets of its source.

Tags are found by their form alone: no closing tag has to be there, and nothing is an error. What a page says besides
its subject is left out: scripts, navigation, footers, forms, and what is hidden.
"""

import re
from collections.abc import Callable, Iterator

from fabir_tf.pipelines.documents.blocks import CELL_SEPARATOR, CODE, LIST, TEXT, Block, Outline
from fabir_tf.pipelines.documents.lines import code_of, lines_of
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced
from fabir_tf.pipelines.documents.markdown_inline import decoded

_COMMENT = r"<!--.*?(?:-->|\Z)|<\?.*?>|<![A-Za-z\[].*?>"
_TAG = r"""<(/?)([A-Za-z][^\s/>]{0,60})((?:"[^"]*"|'[^']*'|[^<>"']){0,1000})>"""
_MARKUP = re.compile(f"(?:{_COMMENT})|{_TAG}", re.DOTALL)
_PICTURE_TEXT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_HIDDEN = re.compile(
    r"""\s(?:hidden(?=[\s=/]|$)|aria-hidden\s*=\s*["']?true|role\s*=\s*["']?navigation"""
    r"""|class\s*=\s*["'][^"']*\b(?:headerlink|hash-link|skip-link)\b)""",
    re.IGNORECASE,
)
_SELF_LINK = re.compile(r"<a\s[^>]*>\s*(?:[#\u00b6\u00a7\u203b]|&para;|&#182;|&sect;)\s*</a>", re.IGNORECASE)
_MAIN_ROLE = re.compile(r"""\srole\s*=\s*["']?main\b""", re.IGNORECASE)

_SKIPPED = {
    *("script", "style", "template", "noscript", "svg", "math", "head", "nav", "footer", "aside", "form", "button"),
    *("select", "textarea", "title", "iframe", "object", "canvas", "audio", "video"),
}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "ol", "p"),
    *("pre", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
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
        self.parts: list[MappedText] = []
        self.items = 0
        self.tables = 0
        self.rows: list[MappedText] = []
        self.cells: list[MappedText] = []

    def read(self) -> None:
        text, start, position = self.content.text, 0, 0
        elements = _Elements(text)
        while match := _MARKUP.search(text, position):
            position = match.end()
            name = (match[2] or "").lower()
            is_block = name in _BLOCKS
            end = _hidden_end(elements, match, name)
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
        if name == "pre" and not is_closing:
            return self._code(match)
        if name in _HEADINGS and is_closing and not self.tables:
            self.outline.heading(int(name[1]), self._shown())
            return match.end()
        self._flush()
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

    def _code(self, match: re.Match[str]) -> int:
        self._flush()
        end = self.content.text.lower().find("</pre", match.end())
        end = end if end >= 0 else len(self.content)
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
    """A piece of code without tags and without the buttons beside it."""
    parts, end = [], 0
    elements = _Elements(content.text)
    for match in _MARKUP.finditer(content.text):
        if match.start() < end:
            continue
        parts.append(decoded(content.part(end, match.start())))
        end = _hidden_end(elements, match, (match[2] or "").lower())
    return joined([*parts, decoded(content.part(end))])


def _hidden_end(elements: "_Elements", match: re.Match[str], name: str) -> int:
    """The end of an element that a page does not show or that is not its subject; otherwise the end of the tag."""
    if not name or match[1] or name in _VOID or match[3].rstrip().endswith("/"):
        return match.end()
    if name not in _SKIPPED and not _HIDDEN.search(match[3]):
        return match.end()
    return elements.end(name, match.end())


class _Elements:
    """Where the elements of a text end."""

    def __init__(self, text: str):
        self._text = text
        self._ends: dict[str, dict[int, int]] = {}

    def end(self, name: str, start: int) -> int:
        """The end of the element whose content begins at `start`; `start` itself if it is never closed."""
        if name not in self._ends:
            self._ends[name] = dict(self._pairs(name))
        return self._ends[name].get(start, start)

    def _pairs(self, name: str) -> Iterator[tuple[int, int]]:
        """The ends of the opening and the closing tag of each element."""
        opened: list[int] = []
        for match in re.finditer(rf"<(/?){re.escape(name)}(?=[\s/>])[^<>]*>", self._text, re.IGNORECASE):
            if not match[1]:
                opened.append(match.end())
            elif opened:
                yield opened.pop(), match.end()


def _content_end(text: str, start: int, name: str) -> int:
    end = _Elements(text).end(name, start)
    return end if end > start else len(text)


def _main_part(text: str) -> tuple[int, int]:
    """The main element of a page, or its only article; otherwise all of it."""
    articles = []
    for match in _MARKUP.finditer(text):
        name = (match[2] or "").lower()
        if match[1] or not name:
            continue
        if name == "main" or _MAIN_ROLE.search(match[3]):
            return match.end(), _content_end(text, match.end(), name)
        if name == "article":
            articles.append(match)
    if len(articles) == 1:
        return articles[0].end(), _content_end(text, articles[0].end(), "article")
    return 0, len(text)


def _title(text: str) -> tuple[int, int] | None:
    """Where the title of a page without a heading of the first level is."""
    if re.search(r"<h1[\s>]", text, re.IGNORECASE):
        return None
    match = re.search(r"<title[^>]*>([^<]*)</title", text, re.IGNORECASE)
    return match.span(1) if match else None
