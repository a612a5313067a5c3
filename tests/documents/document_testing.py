"""What holds for the paragraphs of any document."""

import numpy as np

from fabir_tf.pipelines.documents.documents import Document

# What a parser itself puts between the parts of a paragraph.
SEPARATORS = ("", ";", ":")


def check_map(document: Document) -> None:
    """Checks every paragraph of a document: its characters are those of the original, in its order.

    A character of a replaced run stands for an entity (`&`), a substitution (`|`), a directive (`.`) or for what lies
    between two parts.
    """
    original = document.text
    for number, paragraph in enumerate(document.paragraphs()):
        assert (paragraph.source, paragraph.number) == (document.source, number)
        assert paragraph.text.strip()
        for shown in (paragraph, paragraph.with_heading()):
            offsets = shown.offsets
            assert offsets.shape == (len(shown.text),)
            assert np.all(np.diff(offsets) >= 0)
            _check_runs(shown.content, original)
            for index in range(0, len(shown.text), 7):
                start, end = shown.span(index, index + 1)
                assert start == offsets[index]
                assert start < end <= len(original)


def _check_runs(content, original):
    borders = [run.position for run in content.runs] + [len(content.text)]
    assert borders[0] == 0
    assert borders == sorted(set(borders))
    for run, end in zip(content.runs, borders[1:], strict=True):
        text = content.text[run.position : end]
        if run.width:
            assert text.strip() in SEPARATORS or original[run.start] in "&|.", (text, original[run.start :][:20])
            continue
        source = original[run.start : run.start + len(text)]
        assert len(source) == len(text)
        for shown, char in zip(text, source, strict=True):
            assert shown == char or (shown in " \n" and char.isspace()), (text, source)


def shown_by(text: str, format: str) -> list[tuple[str, str, str]]:
    """Kind, path of headings and text of each block of a document, before short ones are joined."""
    from fabir_tf.pipelines.documents.documents import READERS

    blocks = READERS[format](text)
    return [
        (block.kind, " > ".join(heading.text for heading in block.headings), block.content.text) for block in blocks
    ]
