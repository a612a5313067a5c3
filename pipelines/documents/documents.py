"""One document: its text as an author wrote it, and the paragraphs in it."""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from fabir_tf.pipelines.documents.blocks import Block
from fabir_tf.pipelines.documents.html_blocks import html_blocks
from fabir_tf.pipelines.documents.markdown import markdown_blocks
from fabir_tf.pipelines.documents.paragraphs import Paragraph, paragraphs_of
from fabir_tf.pipelines.documents.pdf import PAGE_BREAK, pdf_blocks, pdf_pages
from fabir_tf.pipelines.documents.plain_text import plain_blocks
from fabir_tf.pipelines.documents.rst import rst_blocks

VERSION = 2
"""Rules that change the paragraphs of any document are a new version; an index then reads its documents again."""

PLAIN, PDF = "plain", "pdf"

READERS: dict[str, Callable[[str], list[Block]]] = {
    PLAIN: plain_blocks,
    "markdown": markdown_blocks,
    "rst": rst_blocks,
    "html": html_blocks,
    PDF: lambda text: pdf_blocks(text.split(PAGE_BREAK)),
}
"""By the name of each format, what turns its text into blocks."""

_RST = re.compile(r"^\.\. (?:[\w-]+::|_[^:\n]+:|\|[^|\n]+\| )", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """A document.

    Attributes:
        source: its name: a path, an id.
        content: its text; a PDF's bytes.
        format: one of `READERS`. Plain text that holds directives or targets of reStructuredText is read as such.
        title: its title, if that is not in its text.
    """

    source: str
    content: str | bytes
    format: str = PLAIN
    title: str = ""

    def __post_init__(self):
        if self.format not in READERS:
            raise ValueError(f"format is one of {', '.join(READERS)}. Received: {self.format!r}")
        if isinstance(self.content, bytes) != (self.format == PDF):
            expected = "bytes" if self.format == PDF else "a str"
            raise ValueError(f"content of format {self.format} is {expected}. Received: {type(self.content).__name__}")

    @cached_property
    def text(self) -> str:
        """What offsets refer to: the content, or what was extracted from a PDF.

        Raises:
            UserError: the PDF cannot be read.
        """
        if isinstance(self.content, bytes):
            return PAGE_BREAK.join(pdf_pages(self.content, self.source))
        return self.content

    @property
    def digest(self) -> str:
        """A hash that changes with the content, its format and the rules that make its paragraphs."""
        content = self.content if isinstance(self.content, bytes) else self.content.encode("utf-8", "surrogatepass")
        head = f"{VERSION} {self.format} {self.title}\0".encode("utf-8", "surrogatepass")
        return hashlib.sha256(head + content).hexdigest()

    def paragraphs(self) -> list[Paragraph]:
        """Its paragraphs, in order.

        Raises:
            UserError: it is a PDF that cannot be read.
        """
        format = "rst" if self.format == PLAIN and _RST.search(self.text) else self.format
        return list(paragraphs_of(READERS[format](self.text), self.source, self.title))


def digest_of_documents(documents: Iterable[tuple[str, str]]) -> str:
    """A hash that changes with documents and their order.

    Args:
        documents: the source and the digest of each.
    """
    digest = hashlib.sha256()
    for source, content in documents:
        digest.update(f"{source}\0{content}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
