"""Markdown is read as the text that it shows, with exact offsets."""

from pathlib import Path

import pytest
from document_testing import check_map, shown_by
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.documents import Document

ROOT = Path(__file__).parents[2]
OWN_PAGES = [ROOT / "README.md", ROOT / "WORKSPACE.md", *sorted((ROOT / "docs").rglob("*.md"))]
STABLE = {"max_examples": 150, "deadline": None, "derandomize": True, "database": None}


def texts(source):
    return [text for _, _, text in shown_by(source, "markdown")]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("The **mill** *was* _built_ __here__, ~~not~~ now.", "The mill was built here, not now."),
        ("***Both*** and **one *inside* it**", "Both and one inside it"),
        ("2 * 3 * 4, snake_case_name, __init__ and a*b*c", "2 * 3 * 4, snake_case_name, init and abc"),
        ("`pip install x` and ``a ` b`` and ` `` `", "pip install x and a ` b and ``"),
        ("`**not bold** &amp;`", "**not bold** &amp;"),
        ('[the mill](https://example.org/a_(b) "A title") grinds', "the mill grinds"),
        ("[the mill](<https://a b>) [x]( y )", "the mill x"),
        ("[the *old* mill][ref], [ref] and [Ref][]\n\n[ref]: https://example.org 'Mill'", "the old mill, ref and Ref"),
        ("[not a link] and a[i][j] stay", "[not a link] and a[i][j] stay"),
        ("See ![a picture of the old mill](mill.png).", "See a picture of the old mill."),
        ("[![Build](b.svg)](https://ci) [![Coverage](c.svg)](https://cov)", None),
        ("![A passage and a question go in](a.svg)", "A passage and a question go in"),
        ("<https://example.org> <me@example.org>", "https://example.org me@example.org"),
        ("AT&amp;T &lt;b&gt; &#65;&#x42; &copy; &unknown; & co", "AT&T <b> AB © &unknown; & co"),
        (r"\*literal\* \_stars\_ \[x\](y) a\b", r"*literal* _stars_ [x](y) a\b"),
        (
            "One<br>two<br/>three <b>bold</b> <span class='x'>s</span> <!-- no --> 3 < 4 > 2",
            "One two three bold s 3 < 4 > 2",
        ),
        ("a<!-- b --><? c > d ?><!E f><![CDATA[ g > ]h]]>i <!-- -->j", "ai j"),
        ("a <! b > <!-- c -> <? d > <![CDATA[ e ]> <!F", "a <! b > <!-- c -> <? d > <![CDATA[ e ]> <!F"),
        ("a <!-- never <? closed ?> <!-- a <!B> b", "a <!-- never <!-- a b"),
        ("wrapped\nlines   of  text  \nbreak\\\nhere", "wrapped lines of text break here"),
        ("A note[^1] here", "A note here"),
        ("A [link](x){ .button } and `code`{.python} {ref}`the title <target>`", "A link and code the title"),
        ("an [unclosed](link and `tick and **star", "an [unclosed](link and `tick and **star"),
        ("[`Reader`][fabir_tf.Reader] and [fabir_tf.train][]", "Reader and fabir_tf.train"),
    ],
)
def test_inline(source, shown):
    assert texts(source) == ([shown] if shown else [])
    check_map(Document("page", source, "markdown"))


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        (
            "# One #\ntext\n## Two\nmore\n\n# Three\nlast",
            [("text", "One", "text"), ("text", "One > Two", "more"), ("text", "Three", "last")],
        ),
        ("One\n===\ntext\n\nTwo\n---\nmore", [("text", "One", "text"), ("text", "One > Two", "more")]),
        ("# 1.2.0 (2024-05-01)\n# 1.1.0\nfixed", [("heading", "", "1.2.0 (2024-05-01)"), ("text", "1.1.0", "fixed")]),
        ("- a\n  b\n- c\n\n  d\n1. e\n2) f\n- [x] g", [("list", "", text) for text in ("a b", *"cdefg")]),
        (
            "- a\n  - b\n    - c\nlazy\n\nend",
            [("list", "", "a"), ("list", "", "b"), ("list", "", "c lazy"), ("text", "", "end")],
        ),
        (
            "| a | b |\n|---|:-:|\n| `x|y` \\| z | **1** |\n| 2 |\nend\n\nafter",
            [
                ("table", "", "a; b"),
                ("table", "", "`x; y` | z; 1"),
                ("table", "", "2"),
                ("table", "", "end"),
                ("text", "", "after"),
            ],
        ),
        ("a | b\n--|--\n`c\\|d` | e", [("table", "", "a; b"), ("table", "", "c|d; e")]),
        (
            "text:\n\n```python\ndef f():\n\n    *x*\n```\n~~~\n~~~\nend",
            [("text", "", "text:"), ("code", "", "def f():\n    *x*"), ("text", "", "end")],
        ),
        ("    indented\n      code\n\ntext", [("code", "", "indented\n  code"), ("text", "", "text")]),
        (
            "> quoted *text*\nlazy\n>\n> - item\n\nend",
            [("text", "", "quoted text lazy"), ("list", "", "item"), ("text", "", "end")],
        ),
        ("> [!NOTE]\n> Mind this.", [("text", "", "Mind this.")]),
        (
            '!!! note "Mind"\n    this *text*\n\n    and this\n\nend',
            [("text", "", "Mind"), ("text", "", "this text"), ("text", "", "and this"), ("text", "", "end")],
        ),
        (
            '=== "Linux"\n    a\n===!  two  words-here\t"Mind"\n    b\n\n??? \n    c\n???+ note"Title" \t\n    d',
            [("text", "", text) for text in ("Linux", "a", "Mind", "b", "c", "Title", "d")],
        ),
        (
            '!!!note\n\n!!! a\tb\n\n=== "a\n\n??? a! \n',
            [("text", "", t) for t in ("!!!note", "!!! a b", '=== "a', "??? a!")],
        ),
        (
            "text\n\n[^1]: The *note*.\n    More.\n\n[a]: https://b 'c'\n*[HTML]: x",
            [("text", "", "text"), ("text", "", "The note. More.")],
        ),
        ("---\ntitle: The mill\ntags: [a]\n---\ntext", [("text", "The mill", "text")]),
        ("---\n\ntext\n\n---", [("text", "", "text")]),
        (
            "<!-- a\n\nb -->\n<div align='center'>\n<h1>Mill &amp; Co</h1>\n<p>It <b>grinds</b></p>\n</div>\n\ntext",
            [("text", "Mill & Co", "It grinds"), ("text", "Mill & Co", "text")],
        ),
        (
            "<details>\n<summary>More</summary>\n\n**inside**\n\n</details>",
            [("text", "", "More"), ("text", "", "inside")],
        ),
        (
            "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
            [("table", "", "a; b"), ("table", "", "1; 2")],
        ),
        (
            "```{note} Title\n:class: tip\nThe *text*.\n```\n```{toctree}\nother\n```\n:::{tip}\nthe tip\n:::",
            [("text", "", "Title"), ("text", "", "The text."), ("text", "", "the tip")],
        ),
        ("text\n***\nmore\n\n* * *\n", [("text", "", "text"), ("text", "", "more")]),
        ("::: fabir_tf.Reader\n    options:\n      heading_level: 3\n\ntext\n\n[TOC]", [("text", "", "text")]),
    ],
)
def test_blocks(source, blocks):
    assert shown_by(source, "markdown") == blocks
    check_map(Document("page", source, "markdown"))


def test_offsets_point_at_the_source():
    source = "# Mill\r\n\r\nBuilt by **Anna** [Keld](x)\r\nin AT&amp;T's year.\r\n"
    (paragraph,) = Document("page", source, "markdown").paragraphs()
    assert paragraph.text == "Built by Anna Keld in AT&T's year."
    for words, original in (("Anna Keld", "Anna** [Keld"), ("Keld in", "Keld](x)\r\nin"), ("AT&T", "AT&amp;T")):
        start = paragraph.text.index(words)
        first, last = paragraph.span(start, start + len(words))
        assert source[first:last] == original
    read = paragraph.with_heading()
    assert read.text == "Mill\nBuilt by Anna Keld in AT&T's year."
    assert source[slice(*read.span(0, 4))] == "Mill"


@pytest.mark.parametrize("piece", ["<!-- ", "<? ", "<!a ", "<![CDATA[ "])
def test_long_paragraphs_of_what_is_never_closed_are_read(piece):
    assert texts("a " + piece * 50_000) == ["a " + (piece * 50_000).strip()]


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("===", "===", "=== ==="),
        ("!!!", "!", "!!! !"),
        ("??? a", "!", "??? a !"),
        ('=== "a"', "!", '=== "a" !'),
        ("!!! a", '"', '!!! a "'),
        ("# a", "b", "a b"),
        ("[a]:", "b c", "[a]: b c"),
        ("a|b\n:-", "c", "a|b :- c"),
        ("---\ntitle: a", "b\n---", "a b"),
    ],
)
def test_long_lines_of_blanks_are_read(first, last, shown):
    assert [" ".join(text.split()) for text in texts(first + " \t" * 100_000 + last)] == [shown]


WORD = st.text("abcdefghij", min_size=1, max_size=6)
INLINE = st.one_of(
    WORD.map(lambda word: (word, word)),
    WORD.map(lambda word: (f"**{word}**", word)),
    WORD.map(lambda word: (f"_{word}_", word)),
    WORD.map(lambda word: (f"`{word}*`", f"{word}*")),
    WORD.map(lambda word: (f"[{word}](https://x.y/{word}_z)", word)),
    WORD.map(lambda word: (f"[**{word}** {word}](<{word}> 'x')", f"{word} {word}")),
    WORD.map(lambda word: (f"{word}&amp;{word}&#33;", f"{word}&{word}!")),
    WORD.map(lambda word: (f"\\*{word}\\_", f"*{word}_")),
    WORD.map(lambda word: (f"<b>{word}</b>", word)),
    WORD.map(lambda word: (f"{word}[^1]", word)),
)
SENTENCE = st.lists(INLINE, min_size=1, max_size=6)
# A line within a paragraph may not begin like another block.
GAP = st.sampled_from([" ", "\n", "  \n", "\\\n", "\n  "])


@st.composite
def paragraph_blocks(draw):
    sentence = draw(SENTENCE)
    source = sentence[0][0] + "".join(draw(GAP) + piece for piece, _ in sentence[1:])
    return source, [("text", " ".join(shown for _, shown in sentence))]


@st.composite
def list_blocks(draw):
    mark = draw(st.sampled_from(["-", "*", "1."]))
    items = draw(st.lists(SENTENCE, min_size=1, max_size=3))
    source = "\n".join(f"{mark} {' '.join(piece for piece, _ in item)}" for item in items)
    return source, [("list", " ".join(shown for _, shown in item)) for item in items]


@st.composite
def table_blocks(draw):
    rows = draw(st.lists(st.lists(INLINE, min_size=2, max_size=2), min_size=1, max_size=3))
    lines = ["| " + " | ".join(piece for piece, _ in row) + " |" for row in rows]
    lines.insert(1, "| --- | ---: |")
    return "\n".join(lines), [("table", "; ".join(shown for _, shown in row)) for row in rows]


CODE_BLOCK = st.lists(WORD, min_size=1, max_size=3).map(
    lambda words: (
        "```\n" + "\n".join(f"**{word}**" for word in words) + "\n```",
        [("code", "\n".join(f"**{word}**" for word in words))],
    )
)
HEADING_BLOCK = st.tuples(st.integers(1, 3), SENTENCE).map(
    lambda drawn: (
        "#" * drawn[0] + " " + " ".join(piece for piece, _ in drawn[1]),
        (drawn[0], " ".join(shown for _, shown in drawn[1])),
    )
)


@settings(**STABLE)
@given(
    st.lists(st.one_of(paragraph_blocks(), list_blocks(), table_blocks(), CODE_BLOCK, HEADING_BLOCK), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_page_that_is_put_together_is_read_as_its_parts(parts, line_end):
    source = "\n\n<!-- between -->\n\n".join(part for part, _ in parts).replace("\n", line_end)
    expected, path, is_empty = [], [], False

    def leave(level):
        nonlocal path
        if path and is_empty and path[-1][0] >= level:
            above = " > ".join(text for _, text in path[:-1])
            expected.append(("heading", above, path[-1][1]))
        path = [(other, text) for other, text in path if other < level]

    for _, shown in parts:
        if isinstance(shown, tuple):
            leave(shown[0])
            path.append(shown)
            is_empty = True
        else:
            expected += [(kind, " > ".join(text for _, text in path), text) for kind, text in shown]
            is_empty = False
    leave(0)
    assert shown_by(source, "markdown") == expected
    check_map(Document("page", source, "markdown"))


PIECES = st.sampled_from(
    [
        *(
            "**",
            "*",
            "_",
            "`",
            "``",
            "```\n",
            "~~~",
            "[",
            "](x)",
            "](",
            "]",
            "![",
            "<",
            ">",
            "<b>",
            "</div>",
            "<table>",
        ),
        *("<tr>", "<td>", "<!--", "-->", "<script>", "&amp;", "&#65;", "&", "\\", "|", "|---|\n", "\n", "\n\n", "    "),
        *("\t", "- ", "1. ", "> ", "# ", "===\n", "---\n", "[^1]: ", "[a]: b\n", '!!! note "x"\n', "{#a}", "{ref}`"),
        *(":::", "a", "two words", "é", "日", "\u200b", "\r\n", "\x00", "\ud800", '"', "(", "<pre>", "</h1>", "<nav>"),
    ]
)


@settings(**STABLE | {"max_examples": 400})
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60)))
def test_any_text_is_read(text):
    check_map(Document("page", text, "markdown"))


@pytest.mark.parametrize("path", OWN_PAGES, ids=lambda path: path.name)
def test_our_own_pages(path):
    check_map(Document(path.name, path.read_text(encoding="utf-8"), "markdown"))


def test_our_own_pages_hold_the_words_that_another_parser_finds():
    markdown_it = pytest.importorskip("markdown_it", reason="needs markdown-it-py")
    parser = markdown_it.MarkdownIt("commonmark").enable(["table"])
    # Notes, tabs and references to the program are no CommonMark.
    generated = ("!!! ", '=== "', "::: ")
    sources = {path: path.read_text(encoding="utf-8") for path in OWN_PAGES}
    pages = {path: source for path, source in sources.items() if not any(mark in source for mark in generated)}
    assert len(pages) > 15
    for path, source in pages.items():
        expected = " ".join(_words_of(parser.parse(source))).split()
        found, seen = [], []
        for kind, heading, text in shown_by(source, "markdown"):
            # Each heading stands before the first block below it.
            found += [part for part in heading.split(" > ") if part not in seen] if kind != "heading" else []
            seen += heading.split(" > ")
            found.append(text)
        found = " ".join(" ".join(found).replace(";", " ").split()).split()
        assert sorted(found) == sorted(" ".join(expected).replace(";", " ").split()), path


def _words_of(tokens):
    for token in tokens:
        if token.type == "inline":
            yield "".join(_inline_words(token.children))
        elif token.type in ("fence", "code_block"):
            yield token.content


def _inline_words(children):
    for child in children:
        if child.type in ("text", "code_inline"):
            yield child.content
        elif child.type in ("softbreak", "hardbreak"):
            yield " "
        elif child.type == "image":
            yield from _inline_words(child.children)
