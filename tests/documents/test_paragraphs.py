"""Short blocks are joined to paragraphs within their section; plain text and PDF are cut into blocks."""

import sys

import pytest
from document_testing import check_map, shown_by
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.blocks import CODE, LIST, TABLE, TEXT, Outline
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.mapped_text import MappedText
from fabir_tf.pipelines.documents.paragraphs import paragraphs_of
from fabir_tf.pipelines.documents.pdf import PAGE_BREAK, pdf_blocks
from fabir_tf.pipelines.errors import UserError

STABLE = {"max_examples": 200, "deadline": None, "derandomize": True, "database": None}


class Writer:
    """Writes an original and the outline of its blocks beside it."""

    def __init__(self):
        self.original, self.outline = "", Outline()

    def part(self, text):
        start = len(self.original)
        self.original += f"{text}\n\n"
        return MappedText.copy(self.original, start, start + len(text))

    def paragraphs(self, least, most):
        return [
            (paragraph.kind, paragraph.heading, paragraph.text)
            for paragraph in paragraphs_of(self.outline.finished(), "page", "", least, most)
        ]


def words(count, word="w"):
    return " ".join([word] * count)


def test_short_blocks_of_a_section_are_joined():
    writer = Writer()
    writer.outline.add(TEXT, writer.part(words(3, "a")))
    writer.outline.add(CODE, writer.part(words(2, "b")))
    writer.outline.heading(1, writer.part("One"))
    writer.outline.add(LIST, writer.part(words(3, "c")))
    writer.outline.add(LIST, writer.part(words(3, "d")))
    writer.outline.add(TEXT, writer.part(words(6, "e")))
    writer.outline.add(TEXT, writer.part(words(20, "f")))
    writer.outline.add(TEXT, writer.part(words(1, "g")))
    assert writer.paragraphs(5, 9) == [
        ("text", "", "a a a\nb b"),
        ("list", "One", "c c c\nd d d"),
        ("text", "One", words(6, "e")),
        ("text", "One", words(20, "f")),
        ("text", "One", "g"),
    ]


def test_sections_of_the_same_name_are_kept_apart():
    writer = Writer()
    for word in "ab":
        writer.outline.heading(1, writer.part("One"))
        writer.outline.add(TEXT, writer.part(word))
    assert writer.paragraphs(5, 9) == [("text", "One", "a"), ("text", "One", "b")]


def test_a_heading_with_nothing_below_is_a_paragraph():
    writer = Writer()
    writer.outline.heading(1, writer.part("One"))
    writer.outline.heading(2, writer.part("Sub"))
    writer.outline.heading(1, writer.part("Two"))
    writer.outline.add(TEXT, writer.part("a"))
    writer.outline.heading(2, writer.part("End"))
    assert writer.paragraphs(5, 9) == [
        ("heading", "One", "Sub"),
        ("text", "Two", "a"),
        ("heading", "Two", "End"),
    ]


def test_every_part_of_a_table_has_its_header():
    writer = Writer()
    rows = [writer.part(text) for text in ("name; year", "mill; 1846", "lake; 1900", "hill; 1950")]
    writer.outline.add_table(rows)
    assert writer.paragraphs(1, 6) == [
        ("table", "", "name; year\nmill; 1846\nlake; 1900"),
        ("table", "", "name; year\nhill; 1950"),
    ]
    content = list(paragraphs_of(writer.outline.finished(), "page", "", 1, 6))[1]
    assert content.offsets[0] == 0
    assert writer.original[slice(*content.span(11, 15))] == "hill"


def test_long_code_is_cut_at_line_ends():
    writer = Writer()
    lines = [words(150, letter) for letter in "abcdefg"]
    lines[4] = f"\n    {lines[4]}"
    writer.outline.heading(1, writer.part("One"))
    writer.outline.add(CODE, writer.part("\n".join(lines)))
    writer.outline.add(TEXT, writer.part(words(2, "h")))
    writer.outline.add(CODE, writer.part(words(700, "i")))
    assert writer.paragraphs(60, 150) == [
        ("code", "One", "\n".join(lines[:4])),
        ("code", "One", "\n".join(lines[4:]).strip("\n")),
        ("text", "One", words(2, "h")),
        ("code", "One", words(700, "i")),
    ]
    for paragraph in paragraphs_of(writer.outline.finished(), "page"):
        assert writer.original[slice(*paragraph.span(0, len(paragraph.text)))] == paragraph.text


@settings(**STABLE)
@given(
    st.lists(st.tuples(st.sampled_from([TEXT, LIST, CODE, TABLE, "heading"]), st.integers(1, 30)), max_size=20),
    st.integers(0, 20),
    st.integers(0, 40),
)
def test_joining_loses_and_repeats_nothing(parts, least, most):
    writer, expected = Writer(), []
    for number, (kind, count) in enumerate(parts):
        part = writer.part(" ".join(f"w{number}x{index}" for index in range(count)))
        expected += part.text.split()
        if kind == "heading":
            writer.outline.heading(1 + number % 2, part)
        elif kind == TABLE:
            writer.outline.add_table([part])
        else:
            writer.outline.add(kind, part)
    found = list(paragraphs_of(writer.outline.finished(), "page", "", least, most))
    assert [paragraph.number for paragraph in found] == list(range(len(found)))
    texts = [word for paragraph in found for word in paragraph.text.split()]
    headings = {word for paragraph in found for heading in paragraph.headings for word in heading.text.split()}
    assert len(texts) == len(set(texts))
    assert set(texts) | headings == set(expected)
    assert all("\n" not in paragraph.text or len(paragraph.text.split()) <= most for paragraph in found)


def test_plain_text():
    source = (
        "The mill was\nbuilt in 1846.\n\n\n- a wheel\n  of oak\n- a stone\n1846. It\nwas old\n\n"
        + "x " * 150
        + "\nnext"
    )
    assert shown_by(source, "plain") == [
        ("text", "", "The mill was built in 1846."),
        ("list", "", "- a wheel of oak"),
        ("list", "", "- a stone 1846. It was old"),
        ("text", "", ("x " * 150).strip()),
        ("text", "", "next"),
    ]
    check_map(Document("page", source))


@pytest.mark.parametrize(("format", "mark"), [("plain", ""), ("plain", "- "), ("markdown", ""), ("rst", "")])
def test_long_text_without_blank_lines_is_cut_at_line_ends(format, mark):
    lines = [f"{number:05} the wheel has turned   once" for number in range(2000)]
    document = Document("page", mark + "\r\n".join(lines), format)
    paragraphs = document.paragraphs()
    shown = [paragraph.text.removeprefix(mark) for paragraph in paragraphs]
    assert [len(text.split()) for text in shown] == [504] * 23 + [408]
    assert {paragraph.kind for paragraph in paragraphs} == {"list" if mark else "text"}
    assert " ".join(shown).split() == " ".join(lines).split()
    for paragraph in paragraphs:
        last = paragraph.text[-len("00000 the wheel has turned once") :][:5]
        start = paragraph.text.index(last)
        assert document.text[slice(*paragraph.span(start, len(paragraph.text)))] == lines[int(last)]
    check_map(document)


@settings(**STABLE)
@given(st.text(st.sampled_from("ab1.-* \n\r\t\x0c\u2028é"), max_size=80))
def test_any_plain_text_is_read(text):
    check_map(Document("page", text))
    shown = "".join(text for _, _, text in shown_by(text, "plain"))
    assert "".join(shown.split()) == "".join(text.split())


PAGES = [
    "Mill Handbook 1\n1.1 The wheel\nThe wheel is made of oak and turns in the water of the river all\n"
    "day, so that the well-known engi-\nneers of the town admire it.\n• one\n• two",
    "Mill Handbook 2\nIts stone is well-\nknown and has been turned by one family since the year 1846\nto this day.",
    "Mill Handbook 3\n2.1 Engineers\nEngineers come from all over to see the mill at work and\nto learn from it.",
]


def test_the_pages_of_a_pdf():
    blocks = pdf_blocks(PAGES)
    assert [
        (block.page, block.kind, " > ".join(h.text for h in block.headings), block.content.text) for block in blocks
    ] == [
        (
            1,
            "text",
            "1.1 The wheel",
            "The wheel is made of oak and turns in the water of the river all day, so that the well-known engineers of"
            " the town admire it.",
        ),
        (1, "list", "1.1 The wheel", "• one"),
        (1, "list", "1.1 The wheel", "• two"),
        (
            2,
            "text",
            "1.1 The wheel",
            "Its stone is well-known and has been turned by one family since the year 1846 to this day.",
        ),
        (
            3,
            "text",
            "2.1 Engineers",
            "Engineers come from all over to see the mill at work and to learn from it.",
        ),
    ]
    whole = PAGE_BREAK.join(PAGES)
    start = blocks[0].content.text.index("engineers")
    assert whole[slice(*blocks[0].content.span(start, start + len("engineers")))] == "engi-\nneers"


def test_a_running_head_is_left_out_only_where_pages_begin_or_end():
    # Page numbers stand below tables of years.
    years = [["Year", "1846", "1900", "of the mill", str(page)] for page in range(1, 4)]
    pages = [*years, ["1950", "the lake", "Year", "4"], ["Year"], ["the 4", "5", "1960"], ["5"], [], ["Year", "6", "7"]]
    blocks = pdf_blocks(["\n".join(lines) for lines in pages])
    shown = [" ".join(block.content.text for block in blocks if block.page == page) for page in range(1, 10)]
    assert shown == [*["1846 1900 of the mill"] * 3, "1950 the lake Year", "", "the 4 5", "", "", "6"]


def pdf_file(pages):
    """A PDF with one line of Helvetica under the other."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for lines in pages:
        drawn = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        stream = f"BT /F1 10 Tf 50 700 Td {drawn} ET"
        objects.append(f"<</Length {len(stream)}>>\nstream\n{stream}\nendstream")
        font = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]{font}/Contents {len(objects)} 0 R>>")
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>"
    raw, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(raw))
        raw += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    trailer = f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(raw)}\n%%EOF\n"
    return raw + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def test_a_pdf_is_read_page_by_page():
    pytest.importorskip("pypdf", reason="needs pypdf")
    document = Document(
        "mill.pdf", pdf_file([["The mill was built in 1846.", "", "It grinds."], ["Anna Keld."]]), "pdf"
    )
    first, second = document.paragraphs()
    assert (first.page, second.page) == (1, 2)
    assert second.text == "Anna Keld."
    assert document.text[slice(*second.span(0, 4))] == "Anna"
    check_map(document)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "mill.pdf: cannot be read as PDF ("),
        (b"no PDF at all", "mill.pdf: cannot be read as PDF ("),
        (pdf_file([["mill"]])[:200], "mill.pdf: cannot be read as PDF ("),
        (pdf_file([[]]), "mill.pdf: found a PDF without text (scanned pages, perhaps), expected one with text."),
    ],
    ids=["empty", "other", "cut", "blank"],
)
def test_a_pdf_that_cannot_be_read_is_one_sentence(raw, sentence):
    pytest.importorskip("pypdf", reason="needs pypdf")
    with pytest.raises(UserError) as error:
        Document("mill.pdf", raw, "pdf").paragraphs()
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_without_pypdf_the_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(UserError, match=r'^mill\.pdf: reading PDF needs pypdf: pip install "fabir_tf\[documents\]"\.$'):
        Document("mill.pdf", b"", "pdf").paragraphs()
