"""The blocks of a document in order, each under its headings."""

from dataclasses import dataclass, field

from fabir_tf.pipelines.documents.mapped_text import MappedText

TEXT, LIST, TABLE, CODE, HEADING = "text", "list", "table", "code", "heading"
KINDS = (TEXT, LIST, TABLE, CODE, HEADING)

CELL_SEPARATOR = "; "
"""Stands between the cells of a row."""

DEEPEST = 20
"""Lists, quotes and notes inside each other; what lies deeper is read as plain text."""


@dataclass(frozen=True)
class Block:
    """A paragraph, list item, table row or piece of code; or a heading with nothing below.

    Attributes:
        kind: one of `KINDS`.
        content: its text.
        headings: those that it stands under, the outermost first.
        page: of a PDF, from 1; 0 elsewhere.
        table: the number of its table, from 1; 0 outside tables. The first row of a table has its header cells.
    """

    kind: str
    content: MappedText
    headings: tuple[MappedText, ...] = ()
    page: int = 0
    table: int = 0


@dataclass
class Outline:
    """Collects the blocks of a document.

    Attributes:
        blocks: those that were added.
        page: of the blocks that are added next.
    """

    blocks: list[Block] = field(default_factory=list)
    page: int = 0
    _headings: list[tuple[int, MappedText]] = field(default_factory=list)
    _tables: int = 0
    _is_empty: bool = False

    def heading(self, level: int, content: MappedText) -> None:
        """Begins a section, and ends those of its level and below it.

        Args:
            level: 1 for the outermost.
            content: the heading's text; an empty one only ends sections.
        """
        self._end_sections(level)
        if content.text:
            self._headings.append((level, content))
            self._is_empty = True

    def add(self, kind: str, content: MappedText) -> None:
        """Adds a block, unless it is empty."""
        if content.text:
            self._append(Block(kind, content, self._path(), self.page))

    def add_table(self, rows: list[MappedText]) -> None:
        """Adds the rows of a table, the header first."""
        self._tables += 1
        for row in rows:
            if row.text:
                self._append(Block(TABLE, row, self._path(), self.page, self._tables))

    def finished(self) -> list[Block]:
        """All blocks."""
        self._end_sections(0)
        return self.blocks

    def _append(self, block: Block) -> None:
        self.blocks.append(block)
        self._is_empty = False

    def _end_sections(self, level: int) -> None:
        if self._headings and self._is_empty and self._headings[-1][0] >= level:
            _, content = self._headings.pop()
            self.add(HEADING, content)
        self._headings = [(other, text) for other, text in self._headings if other < level]

    def _path(self) -> tuple[MappedText, ...]:
        return tuple(text for _, text in self._headings)
