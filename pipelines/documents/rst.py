"""reStructuredText as blocks: what docutils and Sphinx show.

Left out: comments, targets, pictures without a description, and directives that only generate or include text.
"""

import re
from itertools import islice

from fabir_tf.pipelines.documents.block_reader import BlockReader
from fabir_tf.pipelines.documents.blocks import CELL_SEPARATOR, CODE, LIST, TEXT, Block
from fabir_tf.pipelines.documents.lines import code_of, indentation, indented_end, is_blank, lines_of, outdented
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined
from fabir_tf.pipelines.documents.rst_inline import shown_text

SHORTEST_PICTURE_TEXT = 5
"""Words that a picture's description has at least where it is shown: badges have fewer."""

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*")
_BULLET = re.compile(r"[-*+\u2022\u2023\u2043](?:[ \t]+|$)")
_ORDINAL = r"(?:\d+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)"
_NUMBER = re.compile(rf"(?:\({_ORDINAL}\)|{_ORDINAL}[.)])(?:[ \t]+|$)")
_FIELD = re.compile(r":((?![: ])(?:[^:\\\n]|\\.|:(?![ \t`]|$)){1,200}):(?:[ \t]+|$)")
_ARGUMENT = r"(?:[ =]<?[\w.|:-]+>?)?"
_OPTION = re.compile(rf"(?:-[\w?]|--[\w-]+|/\w+){_ARGUMENT}(?:, (?:-[\w?]|--[\w-]+){_ARGUMENT})*(?:  +\S|$)")
_LINE_BLOCK = re.compile(r"\|(?:[ \t]+|$)")
_GRID_BORDER = re.compile(r"\+(?:[-=]+\+)+[ \t]*")
_SIMPLE_BORDER = re.compile(r"=+(?:[ \t]+=+)+[ \t]*")
_COLUMN = re.compile(r"=+")
_EXPLICIT = re.compile(r"\.\.(?:[ \t]+|$)")
_FOOTNOTE = re.compile(r"\.\.[ \t]+\[(?:\d+|#[\w.-]*|\*|[A-Za-z][\w.-]*)\](?:[ \t]+|$)")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|]+\|[ \t]+)?([\w][\w:.+-]*?)[ \t]?::(?:[ \t]+|$)")
_SUBSTITUTION = re.compile(r"^[ \t]*\.\.[ \t]+\|([^|\n]+)\|[ \t]+([\w-]+)::[ \t]*(.*)$", re.MULTILINE)
_ANONYMOUS = re.compile(r"__[ \t]+\S.*")
_DIRECTIVE_OPTION = re.compile(r"[ \t]*:([\w-]+):(?:[ \t]+(.*))?")

_CODE = {
    *("code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "testoutput", "ipython", "prompt"),
    *("console", "productionlist", "code-include"),
}
# Their argument is not text: a path, a name, a language.
_ARGUMENT_IS_NO_TEXT = {"figure", "container", "only", "ifconfig", "tab-set", "grid", "glossary", "list-table", "tabs"}
_LEFT_OUT = {
    *("toctree", "contents", "include", "literalinclude", "raw", "meta", "index", "highlight", "default-role"),
    *("currentmodule", "module", "py:module", "py:currentmodule", "sectnum", "section-numbering", "header", "footer"),
    *("target-notes", "role", "unicode", "date", "replace", "math", "graphviz", "plot", "rst-class", "class"),
    *("tabularcolumns", "autosummary", "restructuredtext-test-directive", "title", "default-domain", "sectionauthor"),
    *("codeauthor", "acks", "digraph", "graph", "inheritance-diagram", "image", "video", "youtube", "testsetup"),
    *("testcleanup", "bibliography", "csv-table", "click", "argparse", "program", "cmake-module", "nb-exec-table"),
}
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
    "versionremoved": "Removed in version",
}


def rst_blocks(text: str) -> list[Block]:
    """Reads reStructuredText.

    Args:
        text: any text. Where docutils would report an error, the text is read as it stands.

    Returns:
        Its blocks in order, each character with its offset in the text.
    """
    reader = _Reader(text)
    reader.document(lines_of(MappedText.copy(text)))
    return reader.outline.finished()


class _Reader(BlockReader):
    def __init__(self, text: str):
        super().__init__()
        self.substitutions = {
            " ".join(match[1].lower().split()): _plain(match[3]) if match[2] == "replace" else ""
            for match in _SUBSTITUTION.finditer(text)
        }
        self.styles: list[tuple[str, bool]] = []
        self.readers = (
            self._quote,
            self._explicit,
            self._title,
            self._grid_table,
            self._simple_table,
            self._item,
            self._field,
            self._line_block,
            self._doctest,
            self._term,
            self._paragraph,
        )

    def document(self, lines: list[MappedText]) -> None:
        """Reads all lines."""
        self.blocks(lines, TEXT, 0)

    def shown(self, content: MappedText) -> MappedText:
        """The text of a paragraph as it is shown, without its marks."""
        return shown_text(content, self.substitutions)

    def _title(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        """A section's title, or a rule between paragraphs."""
        over = _ADORNMENT.fullmatch(lines[index].text)
        at = index + 1 if over else index
        if over and (at + 1 >= len(lines) or not _is_underline(lines[at + 1], lines[at], over[1])):
            is_rule = len(over[0].rstrip()) >= 4 and (at >= len(lines) or is_blank(lines[at]))
            return index + 1 if is_rule else index
        if not over and (at + 1 >= len(lines) or not _is_underline(lines[at + 1], lines[at])):
            return index
        if depth:
            self.add(kind, [lines[at]])
            return at + 2
        style = (lines[at + 1].text[0], bool(over))
        if style not in self.styles:
            self.styles.append(style)
        self.outline.heading(self.styles.index(style) + 1, self.shown(lines[at]))
        return at + 2

    def _quote(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        columns = indentation(lines[index])
        if not columns:
            return index
        end = indented_end(lines, index, 1)
        least = min(indentation(line) for line in lines[index:end] if not is_blank(line))
        self.contained([outdented(line, least) for line in lines[index:end]], kind, depth)
        return end

    def _explicit(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        text = lines[index].text
        if _ANONYMOUS.fullmatch(text):
            return index + 1
        if not _EXPLICIT.match(text):
            return index
        end = indented_end(lines, index + 1, 1)
        if footnote := _FOOTNOTE.match(text):
            self.contained(_body(lines, index, end, footnote.end()), kind, depth)
        elif (directive := _DIRECTIVE.match(text)) and "|" not in directive[0]:
            self._directive(directive, lines, index, end, kind, depth)
        return end

    def _directive(
        self, directive: re.Match[str], lines: list[MappedText], index: int, end: int, kind: str, depth: int
    ) -> None:
        name = directive[1]
        argument = lines[index].part(directive.end())
        below = _body(lines, index, end, len(lines[index].text))[1:]
        options = _options(below)
        content = below[len(options) :]
        if name in ("image", "figure"):
            self._picture(options)
        if name in _CODE:
            self.outline.add(CODE, code_of(content))
        elif name in _VERSIONS:
            mark = lines[index].replaced(*directive.span(), f"{_VERSIONS[name]} ")
            self.contained([joined([mark, argument]), *content], kind, depth)
        elif name not in _LEFT_OUT and not name.startswith(("auto", "py:auto")):
            is_text = not is_blank(argument) and name not in _ARGUMENT_IS_NO_TEXT
            self.contained([*([argument] if is_text else []), *content], kind, depth)

    def _picture(self, options: list[MappedText]) -> None:
        for line in options:
            match = _DIRECTIVE_OPTION.fullmatch(line.text)
            if match and match[1] == "alt" and len((match[2] or "").split()) >= SHORTEST_PICTURE_TEXT:
                self.outline.add(TEXT, line.part(*match.span(2)).stripped())

    def _item(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        mark = _BULLET.match(lines[index].text) or _NUMBER.match(lines[index].text)
        if not mark or not _may_be_item(lines, index, mark.end()):
            return index
        end = indented_end(lines, index + 1, 1)
        self.contained(_body(lines, index, end, mark.end()), LIST, depth)
        return end

    def _field(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        """A field as `name: text`."""
        mark = _FIELD.match(lines[index].text)
        if not mark:
            return index
        end = indented_end(lines, index + 1, 1)
        first, *following = _body(lines, index, end, mark.end())
        name = lines[index].part(*mark.span(1))
        self.contained([joined([name, first], ": "), *following], LIST, depth)
        return end

    def _line_block(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        end = index
        inner = []
        while end < len(lines) and (mark := _LINE_BLOCK.match(lines[end].text)):
            inner.append(lines[end].part(mark.end()))
            end += 1
        self.add(kind, inner)
        return end

    def _doctest(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        if not lines[index].text.startswith(">>> "):
            return index
        end = _paragraph_end(lines, index)
        self.outline.add(CODE, code_of(lines[index:end]))
        return end

    def _term(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        """A term with its definition, or an option with its description."""
        has_option = bool(_OPTION.match(lines[index].text))
        is_term = index + 1 < len(lines) and not is_blank(lines[index + 1]) and indentation(lines[index + 1]) > 0
        if not is_term and not has_option:
            return index
        end = indented_end(lines, index + 1, 1)
        self.add(LIST, lines[index : index + 1])
        self._after_colons(lines[index], _body(lines, index, end, len(lines[index].text))[1:], LIST, depth)
        return end

    def _after_colons(self, line: MappedText, body: list[MappedText], kind: str, depth: int) -> None:
        if line.text.rstrip().endswith("::"):
            self.outline.add(CODE, code_of(body))
        else:
            self.contained(body, kind, depth)

    def _paragraph(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        end = _paragraph_end(lines, index)
        for at in range(index + 1, end):
            # Neither needs a blank line before it in practice.
            if _EXPLICIT.match(lines[at].text) or indentation(lines[at]):
                end = at
                break
        last = lines[end - 1].text.rstrip()
        paragraph = lines[index:end]
        if not last.endswith("::"):
            self.add(kind, paragraph)
            return end
        # `text::` shows one colon, `text ::` and a line of its own none.
        kept = len(last) - (1 if last[:-2].strip() and not last[:-2].endswith((" ", "\t")) else 2)
        self.add(kind, [*paragraph[:-1], paragraph[-1].part(0, kept)])
        return self._literal(lines, end)

    def _literal(self, lines: list[MappedText], index: int) -> int:
        """The code behind `::`: an indented block, or lines that begin with the same mark."""
        start = index
        while start < len(lines) and is_blank(lines[start]):
            start += 1
        if start == len(lines):
            return index
        end = indented_end(lines, start, 1)
        if end == start and _ADORNMENT.match(lines[start].text):
            mark = lines[start].text[0]
            while end < len(lines) and lines[end].text.startswith(mark):
                end += 1
        self.outline.add(CODE, code_of(lines[start:end]))
        return end if end > start else index

    def _grid_table(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        border = lines[index].text.rstrip()
        if not _GRID_BORDER.fullmatch(border):
            return index
        end = index + 1
        while end < len(lines) and lines[end].text.startswith(("|", "+")):
            end += 1
        columns = [match.start() for match in re.finditer(r"\+", border)]
        rows: list[list[list[MappedText]]] = [[]]
        for line in lines[index + 1 : end]:
            if line.text.startswith("+"):
                rows.append([])
            else:
                rows[-1].append(_grid_cells(line, columns))
        self.outline.add_table([self._row(row) for row in rows if row])
        return end

    def _simple_table(self, lines: list[MappedText], index: int, kind: str, depth: int) -> int:
        border = lines[index].text.rstrip()
        if not _SIMPLE_BORDER.fullmatch(border):
            return index
        # The second border ends the header, or the table where nothing stands under it; a third one ends the table.
        following = range(index + 1, len(lines))
        borders = list(islice((at for at in following if lines[at].text.rstrip() == border), 2))
        if not borders:
            return index
        ends_first = borders[0] + 1 >= len(lines) or is_blank(lines[borders[0] + 1])
        end = borders[0] if ends_first or len(borders) == 1 else borders[1]
        starts = [match.start() for match in _COLUMN.finditer(border)]
        rows: list[list[list[MappedText]]] = []
        for line in lines[index + 1 : end]:
            if is_blank(line) or not line.text.strip("-= \t"):
                continue
            cells = _cut(line, starts)
            if rows and not cells[0].text.strip():
                rows[-1].append(cells)
            else:
                rows.append([cells])
        self.outline.add_table([self._row(row) for row in rows])
        return end + 1

    def _row(self, lines: list[list[MappedText]]) -> MappedText:
        """A row of cells in one line; line by line, because offsets must not decrease."""
        return joined((self.shown(cell) for line in lines for cell in line), CELL_SEPARATOR)


def _plain(text: str) -> str:
    return shown_text(MappedText.copy(text)).text


def _body(lines: list[MappedText], index: int, end: int, start: int) -> list[MappedText]:
    """What a mark introduces: the rest of its line, and the lines below without their common indentation."""
    below = lines[index + 1 : end]
    least = min((indentation(line) for line in below if not is_blank(line)), default=0)
    return [lines[index].part(start), *(outdented(line, least) for line in below)]


def _options(lines: list[MappedText]) -> list[MappedText]:
    """The options on top of a directive, with the lines of its argument before them."""
    for index, line in enumerate(lines):
        if is_blank(line):
            break
        if _DIRECTIVE_OPTION.fullmatch(line.text):
            end = index + 1
            while (
                end < len(lines)
                and not is_blank(lines[end])
                and (indentation(lines[end]) or _DIRECTIVE_OPTION.fullmatch(lines[end].text))
            ):
                end += 1
            return lines[:end]
    return []


def _is_underline(line: MappedText, title: MappedText, character: str = "") -> bool:
    match = _ADORNMENT.fullmatch(line.text)
    if not match or is_blank(title) or (character and match[1] != character):
        return False
    length, expected = len(match[0].rstrip()), len(title.text.strip())
    if not character and indentation(title):
        return False
    return length >= expected or length >= 4 or length >= expected - 1 > 1


def _may_be_item(lines: list[MappedText], index: int, columns: int) -> bool:
    """Whether the line below allows an item: `A. Keld` at the beginning of a paragraph is a name."""
    if index + 1 >= len(lines) or is_blank(lines[index + 1]):
        return True
    following = lines[index + 1]
    return indentation(following) >= min(columns, 2) or bool(
        _BULLET.match(following.text) or _NUMBER.match(following.text) or _EXPLICIT.match(following.text)
    )


def _paragraph_end(lines: list[MappedText], index: int) -> int:
    return next((at for at in range(index, len(lines)) if is_blank(lines[at])), len(lines))


def _cut(line: MappedText, starts: list[int]) -> list[MappedText]:
    ends = [*starts[1:], max(len(line), starts[-1])]
    return [line.part(start, end).stripped() for start, end in zip(starts, ends, strict=True)]


def _grid_cells(line: MappedText, columns: list[int]) -> list[MappedText]:
    """The cells of one line between the borders; one that spans columns is whole."""
    cells, start = [], columns[0] + 1
    for column in columns[1:]:
        if line.text[column : column + 1] == "|" or column == columns[-1]:
            cells.append(line.part(start, max(start, column)).stripped())
            start = column + 1
    return cells
