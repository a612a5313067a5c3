"""What the readers of marked-up text share: each kind of block has a method that recognizes and reads it."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from fabir_tf.pipelines.documents.blocks import DEEPEST, Outline
from fabir_tf.pipelines.documents.lines import in_parts, is_blank
from fabir_tf.pipelines.documents.mapped_text import MappedText, joined

ReadBlock = Callable[[list[MappedText], int, str, int], int]
"""Takes the lines of a container, an index, the kind of its paragraphs and its depth; returns the index behind what it
has read, or the same one if that is no block of its kind."""


class BlockReader(ABC):
    """Reads the lines of a document into an outline.

    Attributes:
        outline: what was read.
        readers: those of the kinds of blocks; the first that recognizes a line reads it, and the last one reads any.
    """

    def __init__(self) -> None:
        self.outline = Outline()
        self.readers: tuple[ReadBlock, ...] = ()

    @abstractmethod
    def shown(self, content: MappedText) -> MappedText:
        """The text of a paragraph as it is shown, without its marks."""

    def blocks(self, lines: list[MappedText], kind: str, depth: int) -> None:
        """Reads the lines of one container.

        Args:
            lines: without the container's own marks.
            kind: of the paragraphs in it.
            depth: the number of containers around them.
        """
        index = 0
        while index < len(lines):
            if is_blank(lines[index]):
                index += 1
                continue
            index = next(end for read in self.readers if (end := read(lines, index, kind, depth)) > index)

    def contained(self, lines: list[MappedText], kind: str, depth: int) -> None:
        """Reads what is in a container; below the deepest one, as a paragraph."""
        if depth < DEEPEST:
            self.blocks(lines, kind, depth + 1)
        else:
            self.add(kind, lines)

    def add(self, kind: str, lines: list[MappedText]) -> None:
        """Adds a paragraph."""
        for part in in_parts(lines):
            self.outline.add(kind, self.shown(joined(part, "\n")))
