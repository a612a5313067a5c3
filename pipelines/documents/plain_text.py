"""Plain text as blocks: what blank lines separate, or every line where lines are as long as paragraphs."""

import re

from fabir_tf.pipelines.documents.blocks import LIST, TEXT, Block, Outline
from fabir_tf.pipelines.documents.lines import in_parts, is_blank, lines_of
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced

LONGEST_WRAPPED = 200
"""Columns: nobody wraps lines later than this, so a longer line is a paragraph of its own."""

_ITEM = re.compile(r"\s*(?:[-*+\u2022\u2023\u2043\u25aa\u25cf]|\(?\d{1,3}[.)])[ \t]+\S")


def plain_blocks(text: str) -> list[Block]:
    """Reads plain text.

    Args:
        text: any text.

    Returns:
        Its paragraphs and the items of its lists, with the marks that they have.
    """
    outline = Outline()
    group: list[MappedText] = []
    for line in lines_of(MappedText.copy(text)):
        if group and _ends(group, line):
            _add(outline, group)
            group = []
        if not is_blank(line):
            group.append(line)
    _add(outline, group)
    return outline.finished()


def _ends(group: list[MappedText], line: MappedText) -> bool:
    """Whether a paragraph ends before a line."""
    if is_blank(line) or max(len(line), len(group[-1])) > LONGEST_WRAPPED:
        return True
    # A number with a full stop may also begin a line within a paragraph, but not within an item.
    return bool(_ITEM.match(line.text) and _ITEM.match(group[0].text))


def _add(outline: Outline, group: list[MappedText]) -> None:
    for part in in_parts(group):
        outline.add(LIST if _ITEM.match(group[0].text) else TEXT, spaced(joined(part, "\n")))
