"""Paragraphs: what a search ranks and a reader reads, with the map into the original."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fabir_tf.pipelines.documents.blocks import CODE, HEADING, TABLE, TEXT, Block
from fabir_tf.pipelines.documents.lines import in_parts, lines_of
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined

LEAST_WORDS, MOST_WORDS = 60, 150
"""Blocks of one section are joined while one of them has fewer words than the first number, up to the second.

Of 44 questions about 142 package descriptions, the right paragraph was among BM25's first five for 35 without joining
(a median of 10 words), 39 with 20 and 80 words, 41 with 40 and 120, 60 and 150 or more; fabir-base answered 10, 12, 13,
16 rightly, and 14 with 80 and 200.
"""

PATH_SEPARATOR = " > "


@dataclass(frozen=True)
class Paragraph:
    """A part of a document that is ranked and read as a whole.

    Attributes:
        source: the document's name.
        number: its place in the document, from 0.
        content: its text and where each character comes from.
        headings: those that it stands under, the outermost first.
        kind: `text`, `list`, `table`, `code`, or `heading` for one with nothing below it; `text` also where several
            are joined.
        page: of a PDF, from 1; 0 elsewhere.
        title: of the document, where it is not in its text; "" elsewhere.
    """

    source: str
    number: int
    content: MappedText
    headings: tuple[MappedText, ...] = ()
    kind: str = TEXT
    page: int = 0
    title: str = ""

    @property
    def text(self) -> str:
        """What a reader reads and a person sees: no markup, and one space for each line break within a block."""
        return self.content.text

    @property
    def heading(self) -> str:
        """The path of headings, for example `Install > From source`; "" where there is none."""
        return PATH_SEPARATOR.join(heading.text for heading in self.headings)

    @property
    def searched_text(self) -> str:
        """What a search looks at: title, headings and text."""
        return "\n".join(part for part in (self.title, self.heading, self.text) if part)

    @property
    def offsets(self) -> np.ndarray:
        """The offset of each character of `text` in the original, int64; they never decrease."""
        return self.content.offsets()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The offsets in the original of a span of `text`: of its first character, and behind its last one."""
        return self.content.span(start, end)

    def with_heading(self) -> "Paragraph":
        """The paragraph with its innermost heading as the first line of its text, mapped like all of it."""
        if not self.headings:
            return self
        return replace(self, content=joined([self.headings[-1], self.content], "\n"))


def paragraphs_of(
    blocks: Sequence[Block], source: str, title: str = "", least: int = LEAST_WORDS, most: int = MOST_WORDS
) -> Iterator[Paragraph]:
    """Joins short blocks of one section to paragraphs. A long block stays whole; very long code is cut at line ends.

    Args:
        blocks: of one document, in order.
        source: its name.
        title: its title, if that is not in its text.
        least: a paragraph with fewer words is joined with the next block, and such a block with the one before it.
        most: the most words of a joined paragraph.

    Yields:
        The paragraphs in order.
    """
    headers = {block.table: block for block in reversed(blocks) if block.table}
    group: list[Block] = []
    number = 0
    for block in _cut(blocks):
        if group and not _may_join(group, block, least, most):
            yield _paragraph(group, source, title, number)
            number += 1
            group = []
        header = headers.get(block.table)
        if header and header is not block and not any(other.table == block.table for other in group):
            # The rows of a long table are told apart by its header, which every part of it has.
            group.append(header)
        group.append(block)
    if group:
        yield _paragraph(group, source, title, number)


def _cut(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, code of very many lines in parts; the readers have cut what else has lines."""
    for block in blocks:
        if block.kind != CODE:
            yield block
            continue
        for part in in_parts(lines_of(block.content)):
            yield replace(block, content=joined(part, "\n"))


def _may_join(group: list[Block], block: Block, least: int, most: int) -> bool:
    last = group[-1]
    if last.page != block.page or HEADING in (last.kind, block.kind) or not _same_section(last, block):
        return False
    before, added = sum(map(_words, group)), _words(block)
    if before + added > most:
        return False
    return min(before, added) < least or (block.kind == TABLE and last.table == block.table)


def _same_section(one: Block, other: Block) -> bool:
    if len(one.headings) != len(other.headings):
        return False
    return all(mine.runs == others.runs for mine, others in zip(one.headings, other.headings, strict=True))


def _words(block: Block) -> int:
    return len(block.content.text.split())


def _paragraph(group: list[Block], source: str, title: str, number: int) -> Paragraph:
    kinds = {block.kind for block in group}
    content = joined((block.content for block in group), "\n")
    kind = group[0].kind if len(kinds) == 1 else TEXT
    return Paragraph(source, number, content, group[-1].headings, kind, group[-1].page, title)
