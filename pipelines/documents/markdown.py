"""Markdown as blocks: what CommonMark and GitHub show, and the notes, tabs and lists of documentation generators.

Left out: link definitions, comments, rules, front matter but for its title, and directives that only generate text.
"""

import re

from fabir_tf.pipelines.documents.block_reader import BlockReader
from fabir_tf.pipelines.documents.blocks import CELL_SEPARATOR, CODE, LIST, TEXT, Block, Outline
from fabir_tf.pipelines.documents.html_blocks import add_html
from fabir_tf.pipelines.documents.lines import code_of, indentation, indented_end, is_blank, lines_of, outdented
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined
from fabir_tf.pipelines.documents.markdown_inline import TAG, label_key, shown_text

CODE_INDENTATION = 4

# Each blank has one place only: the time is linear where many of them stand in a line that is none of its kind.
_FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,}(?=\{\w))(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+([^ \t]+(?:[ \t]+[^ \t]+)*?))??(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_QUOTE = re.compile(r" {0,3}>[ \t]?")
_ITEM = re.compile(r"( {0,3}(?:[-+*]|\d{1,9}[.)]))(?=[ \t]|$)")
_INTERRUPTING_ITEM = re.compile(r" {0,3}(?:[-+*]|1[.)])[ \t]+\S")
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_ALERT = re.compile(r"\[![A-Za-z]+\][+-]?[ \t]*")
_NOTE = re.compile(
    r"""\s*(?:!!!|\?\?\?\+?|===[+!]?)(?=[ \t])(?:[ \t]+[\w-]+(?: +[\w-]+)*)?(?:[ \t]*"([^"]*)")?[ \t]*"""
)
_TITLE = r"""(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\))"""
_LABEL = r"\[(?!\^)((?:[^\[\]\\]|\\.){1,999})\]:"
_DEFINITION = re.compile(rf" {{0,3}}{_LABEL}(?:[ \t]*\S+)?(?:[ \t]+{_TITLE})?[ \t]*")
_DEFINITIONS = re.compile(rf"^(?:[ \t]|>|[-+*]|\d+[.)]){{0,20}}{_DEFINITION.pattern}$", re.MULTILINE)
_DEFINITION_TITLE = re.compile(rf"[ \t]*{_TITLE}[ \t]*")
_FOOTNOTE = re.compile(r" {0,3}\[\^[^\]\s]{1,100}\]:[ \t]*")
_ABBREVIATION = re.compile(r" {0,3}\*\[[^\]]+\]:.*")
_TERM_TEXT = re.compile(r" {0,3}[:~][ \t]+(?=\S)")
_DELIMITER_ROW = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?")
_CELL_END = re.compile(r"(?:[^|\\]|\\.)*")
_DIRECTIVE = re.compile(r"\{([\w:.-]+)\}[ \t]*(.*)")
_OPTION = re.compile(r"\s*:[\w-]+:.*")
_SKIPPED_LINE = re.compile(r"\s*(?:\[\[?_?TOC_?\]?\]|-{1,2}8<-{1,2}.*|\{:[^}]*\}|\{[%<].*[%>]\})\s*|\(\S+\)=\s*|%\s.*")
_GENERATED = re.compile(r":{3,}.*")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*")
_FRONT_TITLE = re.compile(r"""title[ \t]*[:=][ \t]*(?:"([^"]+)"|'([^']+)'|(\S(?:.*[^ \t])?))[ \t]*""")
_FRONT_KEY = re.compile(r"[\w.-]+[ \t]*[:=].*|#.*|\[.*")

_HTML_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt"
    "|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu"
    "|menuitem|nav|noframes|ol|optgroup|option|p|param|picture|search|section|summary|table|tbody|td|tfoot|th|thead"
    "|title|tr|track|ul"
)
# The beginning of an HTML block and its end, which is on the same line or a later one; None: a blank line.
_HTML_BLOCKS: tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...] = (
    (re.compile(r" {0,3}<(?:script|pre|style|textarea)(?:[\s>]|$)", re.IGNORECASE),
     re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE)),
    (re.compile(r" {0,3}<!--"), re.compile(r"-->")),
    (re.compile(r" {0,3}<\?"), re.compile(r"\?>")),
    (re.compile(r" {0,3}<![A-Za-z]"), re.compile(r">")),
    (re.compile(rf" {{0,3}}</?(?:{_HTML_NAMES})(?:[\s>]|/>|$)", re.IGNORECASE), None),
)  # fmt: skip
_TAG_LINE = re.compile(rf" {{0,3}}(?:{TAG.pattern})\s*")

# Directives of MyST, by what their content is.
_CODE_DIRECTIVES = ("code", "code-block", "code-cell", "sourcecode", "literalinclude", "doctest", "testcode")
_TEXT_DIRECTIVES = (
    *("note", "tip", "hint", "important", "warning", "caution", "attention", "danger", "error", "seealso", "todo"),
    *("admonition", "versionadded", "versionchanged", "deprecated", "details", "dropdown", "topic", "sidebar"),
    *("figure", "epigraph", "card", "grid", "grid-item-card", "tab-item", "tab-set", "margin", "list-table", "table"),
)


def markdown_blocks(text: str) -> list[Block]:
    """Reads Markdown.

    Args:
        text: any text; nothing is an error in Markdown.

    Returns:
        Its blocks in order, each character with its offset in the text.
    """
    reader = _Reader(text)
    reader.document(lines_of(MappedText.copy(text)))
    return reader.outline.finished()


class _Reader(BlockReader):
    def __init__(self, text: str):
        super().__init__()
        self.labels = {label_key(match[1]) for match in _DEFINITIONS.finditer(text)}
        self.readers = (
            self._skipped,
            self._code,
            self._fence,
            self._heading,
            self._html,
            self._rule,
            self._quote,
            self._note,
            self._item,
            self._table,
            self._footnote,
            self._paragraph,
        )

    def document(self, lines: list[MappedText]) -> None:
        """Reads all lines, the front matter first."""
        self.blocks(lines[self._front_matter(lines) :], TEXT, 0)

    def shown(self, content: MappedText) -> MappedText:
        """The text of a paragraph as it is shown, without its marks."""
        return shown_text(content, self.labels)

    def _front_matter(self, lines: list[MappedText]) -> int:
        fence = _FRONT_MATTER.fullmatch(lines[0].text)
        if not fence or len(lines) < 2 or not _FRONT_KEY.fullmatch(lines[1].text):
            return 0
        for index in range(1, len(lines)):
            if lines[index].text.rstrip() in (fence[1], "..."):
                return index + 1
            if title := _FRONT_TITLE.fullmatch(lines[index].text):
                self.outline.heading(0, lines[index].part(*title.span(title.lastindex or 0)))
        self.outline = Outline()
        return 0

    def _skipped(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        text = lines[index].text
        if _GENERATED.fullmatch(text) and not _opening_fence(lines[index]):
            return indented_end(lines, index + 1, CODE_INDENTATION)
        if _SKIPPED_LINE.fullmatch(text) or _ABBREVIATION.fullmatch(text):
            return index + 1
        if not _DEFINITION.fullmatch(text):
            return index
        has_title = index + 1 < len(lines) and _DEFINITION_TITLE.fullmatch(lines[index + 1].text)
        return index + 2 if has_title else index + 1

    def _code(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        if indentation(lines[index]) < CODE_INDENTATION:
            return index
        end = indented_end(lines, index, CODE_INDENTATION)
        self.outline.add(CODE, code_of(lines[index:end]))
        return end

    def _fence(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        fence = _opening_fence(lines[index])
        if not fence:
            return index
        end = next((at for at in range(index + 1, len(lines)) if _closes(lines[at], fence[1])), len(lines))
        columns = indentation(lines[index])
        inner = [outdented(line, min(columns, indentation(line))) for line in lines[index + 1 : end]]
        directive = _DIRECTIVE.fullmatch(fence[2].strip())
        if directive and directive[1] not in _CODE_DIRECTIVES:
            self._directive(directive, lines[index], inner, kind, depth)
        else:
            self.outline.add(CODE, code_of(_without_options(inner) if directive else inner))
        return end + 1

    def _directive(
        self, directive: re.Match[str], line: MappedText, inner: list[MappedText], kind: str, depth: int
    ) -> None:
        if directive[1] not in _TEXT_DIRECTIVES:
            return
        if directive[2] and directive[1] != "figure":
            start = line.text.rindex(directive[2])
            self.add(kind, [line.part(start, start + len(directive[2]))])
        self.contained(_without_options(inner), kind, depth)

    def _heading(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        match = _HEADING.fullmatch(lines[index].text)
        if not match:
            return index
        content = lines[index].part(*match.span(2)) if match[2] else MappedText()
        self._add_heading(len(match[1]), content, kind, depth)
        return index + 1

    def _add_heading(self, level: int, content: MappedText, kind: str, depth: int) -> None:
        """A heading inside a list or a quote is a paragraph: what follows the list does not stand under it."""
        if depth and kind != TEXT:
            self.add(kind, [content])
        else:
            self.outline.heading(level, self.shown(content))

    def _html(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        text = lines[index].text
        ends = [finish for begin, finish in _HTML_BLOCKS if begin.match(text)]
        if not ends and not _TAG_LINE.fullmatch(text):
            return index
        end = _html_end(lines, index, ends[0] if ends else None)
        add_html(self.outline, joined(lines[index:end], "\n"), self.shown)
        return end

    def _rule(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        return index + 1 if _RULE.fullmatch(lines[index].text) else index

    def _quote(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        inner: list[MappedText] = []
        end = index
        while end < len(lines):
            mark = _QUOTE.match(lines[end].text)
            if mark:
                inner.append(lines[end].part(mark.end()))
            elif inner and not is_blank(lines[end]) and not is_blank(inner[-1]) and not self._interrupts(lines, end):
                inner.append(lines[end])
            else:
                break
            end += 1
        if not inner:
            return index
        if alert := _ALERT.match(inner[0].text):
            inner[0] = inner[0].part(alert.end())
        self.contained(inner, kind, depth)
        return end

    def _note(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        match = _NOTE.fullmatch(lines[index].text)
        if not match:
            return index
        columns = indentation(lines[index]) + CODE_INDENTATION
        end = indented_end(lines, index + 1, columns)
        title = [lines[index].part(*match.span(1))] if match[1] else []
        self.add(kind, title)
        self.contained([outdented(line, columns) for line in lines[index + 1 : end]], kind, depth)
        return end

    def _item(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        mark = _ITEM.match(lines[index].text)
        if not mark:
            return index
        rest = lines[index].part(mark.end())
        gap = indentation(rest)
        # More than four columns are code that begins the item.
        columns = mark.end() + (gap if not is_blank(rest) and gap <= CODE_INDENTATION else 1)
        first = outdented(rest, columns - mark.end())
        if task := _TASK.match(first.text):
            first = first.part(task.end())
        end = self._item_end(lines, index, columns)
        inner = [first, *(outdented(line, min(columns, indentation(line))) for line in lines[index + 1 : end])]
        self.contained(inner, LIST, depth)
        return end

    def _item_end(self, lines: list[MappedText], index: int, columns: int) -> int:
        """The end of an item: before a line that is less indented, unless it continues a paragraph."""
        end = index + 1
        for at in range(index + 1, len(lines)):
            if is_blank(lines[at]):
                continue
            is_lazy = at == end and not is_blank(lines[at - 1]) and not self._interrupts(lines, at)
            if indentation(lines[at]) < columns and not (is_lazy and not _ITEM.match(lines[at].text)):
                break
            end = at + 1
        return end

    def _table(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        if not _begins_table(lines, index):
            return index
        end = index + 2
        while end < len(lines) and not is_blank(lines[end]) and not self._interrupts(lines, end):
            end += 1
        rows = [lines[index], *lines[index + 2 : end]]
        self.outline.add_table([self._row(line) for line in rows])
        return end

    def _row(self, line: MappedText) -> MappedText:
        return joined((self.shown(cell) for cell in _cells(line)), CELL_SEPARATOR)

    def _footnote(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        """The text of a footnote, or of a term."""
        mark = _FOOTNOTE.match(lines[index].text) or _TERM_TEXT.match(lines[index].text)
        if not mark:
            return index
        end = index + 1
        while end < len(lines) and not is_blank(lines[end]) and not self._interrupts(lines, end):
            end += 1
        end = indented_end(lines, end, CODE_INDENTATION)
        following = [outdented(line, min(CODE_INDENTATION, indentation(line))) for line in lines[index + 1 : end]]
        self.contained([lines[index].part(mark.end()), *following], kind, depth)
        return end

    def _paragraph(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        end = index + 1
        while end < len(lines) and not is_blank(lines[end]):
            underline = _UNDERLINE.fullmatch(lines[end].text)
            if underline:
                self._add_heading(1 if underline[1][0] == "=" else 2, joined(lines[index:end], "\n"), kind, depth)
                return end + 1
            if self._interrupts(lines, end) or _begins_table(lines, end):
                break
            end += 1
        self.add(kind, lines[index:end])
        return end

    def _interrupts(self, lines: list[MappedText], index: int) -> bool:
        """Whether a line begins another block, although a paragraph goes before it."""
        text = lines[index].text
        if indentation(lines[index]) >= CODE_INDENTATION:
            return False
        patterns = (_QUOTE, _INTERRUPTING_ITEM, *(begin for begin, _ in _HTML_BLOCKS))
        if any(pattern.match(text) for pattern in patterns):
            return True
        whole = (_HEADING, _RULE, _FOOTNOTE, _NOTE)
        return bool(_opening_fence(lines[index])) or any(pattern.fullmatch(text) for pattern in whole)


def _opening_fence(line: MappedText) -> re.Match[str] | None:
    fence = _FENCE.fullmatch(line.text)
    if not fence or indentation(line) >= CODE_INDENTATION:
        return None
    return None if fence[1][0] == "`" and "`" in fence[2] else fence


def _closes(line: MappedText, fence: str) -> bool:
    text = line.text.strip()
    return len(text) >= len(fence) and not text.strip(fence[0])


def _without_options(lines: list[MappedText]) -> list[MappedText]:
    """The content of a directive without the options on top."""
    index = 0
    while index < len(lines) and _OPTION.fullmatch(lines[index].text):
        index += 1
    return lines[index:]


def _html_end(lines: list[MappedText], index: int, finish: re.Pattern[str] | None) -> int:
    if finish is None:
        return next((at for at in range(index, len(lines)) if is_blank(lines[at])), len(lines))
    return next((at + 1 for at in range(index, len(lines)) if finish.search(lines[at].text)), len(lines))


def _begins_table(lines: list[MappedText], index: int) -> bool:
    if index + 1 >= len(lines) or "|" not in lines[index].text:
        return False
    if "-" not in lines[index + 1].text or not _DELIMITER_ROW.fullmatch(lines[index + 1].text):
        return False
    return len(_cells(lines[index])) == len(_cells(lines[index + 1]))


def _cells(line: MappedText) -> list[MappedText]:
    """The cells of a row, an escaped `|` without its backslash."""
    line = line.stripped()
    start = 1 if line.text.startswith("|") else 0
    cells: list[MappedText] = []
    while start < len(line) or not cells:
        end = _CELL_END.match(line.text, start).end()  # type: ignore[union-attr]
        cells.append(_unescaped(line.part(start, end)).stripped())
        start = max(end, start) + 1
    return cells


def _unescaped(cell: MappedText) -> MappedText:
    parts, start = [], 0
    while (at := cell.text.find("\\|", start)) >= 0:
        parts += [cell.part(start, at), cell.part(at + 1, at + 2)]
        start = at + 2
    return joined([*parts, cell.part(start)]) if parts else cell
