"""reStructuredText is read as the text that it shows, with exact offsets."""

import re
from collections import Counter
from email import message_from_bytes
from pathlib import Path

import pytest
from document_testing import check_map, shown_by
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.documents import Document

STABLE = {"max_examples": 150, "deadline": None, "derandomize": True, "database": None}


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("The **mill** *was* ``built ** here``.", "The mill was built ** here."),
        ("See `the mill <https://x.y/a_b>`_, `Keld`_, `x`__ and Anna_ here.", "See the mill, Keld, x and Anna here."),
        (":ref:`Mill <mill>`, :class:`~a.b.C`, :func:`!run`, `text`:strong: and `text`", "Mill, C, run, text and text"),
        ("A note [1]_, [#name]_ and [CIT2002]_.", "A note, and [CIT2002]."),
        (r"\*literal\* and a\ b and C:\\x", r"*literal* and ab and C:\x"),
        ("2 * 3 * 4, a*b*c, snake_case, __init__ and 'x'_", "2 * 3 * 4, a*b*c, snake_case, __init__ and 'x'_"),
        ("https://example.org/a_ and https://x.y/*z*", "https://example.org/a_ and https://x.y/*z*"),
        ("an _`inline target` here", "an inline target here"),
        ("wrapped\nlines   of text", "wrapped lines of text"),
        ("|A| and |b| and |c|\n\n.. |a| replace:: the ``mill``\n.. |c| image:: b.svg", "the mill and b and"),
        ("an `unclosed and **star", "an `unclosed and **star"),
    ],
)
def test_inline(source, shown):
    assert [text for _, _, text in shown_by(source, "rst")] == [shown]
    check_map(Document("page", source, "rst"))


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        (
            "====\nMill\n====\n\ntext\n\nSub\n---\nmore\n\nOther\n-----\nlast",
            [("text", "Mill", "text"), ("text", "Mill > Sub", "more"), ("text", "Mill > Other", "last")],
        ),
        ("- a\n  b\n- c\n\n  d\n\n1. e\n#. f\n\n(a) g", [("list", "", text) for text in ("a b", *"cdefg")]),
        ("A. Keld built\nthe mill.", [("text", "", "A. Keld built the mill.")]),
        (
            "Run it::\n\n    $ mill --go\n\n      **x**\n\nend ::\n\n  y\n\n::\n\n  z",
            [
                ("text", "", "Run it:"),
                ("code", "", "$ mill --go\n  **x**"),
                ("text", "", "end"),
                ("code", "", "y"),
                ("code", "", "z"),
            ],
        ),
        (
            ".. code-block:: python\n   :linenos:\n\n   def f():\n       pass\n\nend",
            [("code", "", "def f():\n    pass"), ("text", "", "end")],
        ),
        (
            ".. note:: Mind *this*.\n\n   And this.\n\n.. warning::\n   Hot.",
            [("text", "", "Mind this."), ("text", "", "And this."), ("text", "", "Hot.")],
        ),
        (
            ".. versionadded:: 1.2\n   The mill.\n\n.. function:: grind(wheat)\n   :module: mill\n\n   Grinds.",
            [("text", "", "New in version 1.2 The mill."), ("text", "", "grind(wheat)"), ("text", "", "Grinds.")],
        ),
        (
            ".. a comment\n   over lines\n\n.. _target: https://x\n.. __: https://y\n__ https://z\nend",
            [("text", "", "end")],
        ),
        (".. toctree::\n   :maxdepth: 1\n\n   other\n\n.. image:: a.png\n   :alt: Badge\n\nend", [("text", "", "end")]),
        (".. image:: b.png\n   :alt: The mill seen from afar", [("text", "", "The mill seen from afar")]),
        (".. figure:: a.png\n   :width: 3\n\n   The mill in 1846.", [("text", "", "The mill in 1846.")]),
        (".. [1] The *note*.\n.. [CIT] Another.", [("text", "", "The note."), ("text", "", "Another.")]),
        (":Author: Anna *Keld*\n:Date: 1846\n", [("list", "", "Author: Anna Keld"), ("list", "", "Date: 1846")]),
        (
            "mill\n    Grinds *wheat*.\nlake : water\n    Blue.",
            [("list", "", "mill"), ("list", "", "Grinds wheat."), ("list", "", "lake : water"), ("list", "", "Blue.")],
        ),
        (
            "-a, --all  All of it.\n--size=N   How many.",
            [("list", "", "-a, --all All of it."), ("list", "", "--size=N How many.")],
        ),
        (
            "+---+---+\n| a | b |\n+===+===+\n| c | d |\n|   | e |\n+---+---+\n| f g h |\n+---+---+\n",
            [("table", "", "a; b"), ("table", "", "c; d; e"), ("table", "", "f g h")],
        ),
        (
            "=====  ====\nname   year\n=====  ====\nmill   1846\nlake   *old*\n       more\n=====  ====\n\nend",
            [
                ("table", "", "name; year"),
                ("table", "", "mill; 1846"),
                ("table", "", "lake; old; more"),
                ("text", "", "end"),
            ],
        ),
        (
            "| First line\n| second *line*\n\n    a quote\n\n>>> 1 + 1\n2\n\nend",
            [
                ("text", "", "First line second line"),
                ("text", "", "a quote"),
                ("code", "", ">>> 1 + 1\n2"),
                ("text", "", "end"),
            ],
        ),
        ("text\n\n-----\n\nmore", [("text", "", "text"), ("text", "", "more")]),
    ],
)
def test_blocks(source, blocks):
    assert shown_by(source, "rst") == blocks
    check_map(Document("page", source, "rst"))


def test_offsets_point_at_the_source():
    source = "Mill\n====\n\nBuilt by **Anna** `Keld <https://x>`_\nin |year|.\n\n.. |year| replace:: 1846\n"
    (paragraph,) = Document("page", source, "rst").paragraphs()
    assert paragraph.text == "Built by Anna Keld in 1846."
    for words, original in (("Anna Keld", "Anna** `Keld"), ("1846", "|year|")):
        start = paragraph.text.index(words)
        assert source[slice(*paragraph.span(start, start + len(words)))] == original


def test_plain_text_with_directives_is_read_as_rst():
    source = "Mill\n====\n\n.. note:: Mind **this**.\n"
    assert [paragraph.text for paragraph in Document("README.txt", source).paragraphs()] == ["Mind this."]


WORD = st.text("bcdfgh", min_size=2, max_size=6)
INLINE = st.one_of(
    WORD.map(lambda word: (word, word)),
    WORD.map(lambda word: (f"**{word}**", word)),
    WORD.map(lambda word: (f"*{word}*", word)),
    WORD.map(lambda word: (f"``{word}*``", f"{word}*")),
    WORD.map(lambda word: (f"`{word} {word} <https://x.y/{word}_z>`_", f"{word} {word}")),
    WORD.map(lambda word: (f":ref:`{word} <{word}>`", word)),
    WORD.map(lambda word: (f"{word}_", word)),
    WORD.map(lambda word: (f"\\*{word}", f"*{word}")),
    WORD.map(lambda word: (f"|{word}|", word)),
)
SENTENCE = st.lists(INLINE, min_size=1, max_size=6)


@st.composite
def paragraph_blocks(draw):
    sentence = draw(SENTENCE)
    source = sentence[0][0] + "".join(draw(st.sampled_from([" ", "\n"])) + piece for piece, _ in sentence[1:])
    return source, [("text", " ".join(shown for _, shown in sentence))]


@st.composite
def list_blocks(draw):
    mark = draw(st.sampled_from(["-", "*", "#."]))
    items = draw(st.lists(SENTENCE, min_size=1, max_size=3))
    source = "\n".join(f"{mark} {' '.join(piece for piece, _ in item)}" for item in items)
    return source, [("list", " ".join(shown for _, shown in item)) for item in items]


@st.composite
def code_blocks(draw):
    words = draw(st.lists(WORD, min_size=1, max_size=3))
    text = "\n".join(f"**{word}**" for word in words)
    return ".. code-block:: x\n\n" + "\n".join(f"   {line}" for line in text.split("\n")), [("code", text)]


@settings(**STABLE)
@given(st.lists(st.one_of(paragraph_blocks(), list_blocks(), code_blocks()), max_size=6))
def test_a_page_that_is_put_together_is_read_as_its_parts(parts):
    source = "\n\n.. between\n\n".join(part for part, _ in parts)
    expected = [(kind, "", text) for _, shown in parts for kind, text in shown]
    assert shown_by(source, "rst") == expected
    check_map(Document("page", source, "rst"))


PIECES = st.sampled_from(
    [
        *(
            "`",
            "``",
            "`_",
            "_",
            "*",
            "**",
            "|",
            "|x|",
            ":ref:`",
            "<t>`",
            ".. ",
            ".. note:: ",
            ".. image:: x\n",
            "::\n\n",
        ),
        *(
            "   :alt: a b c d e f\n",
            ".. code-block:: python\n\n",
            ".. |x| replace:: y\n",
            ".. _a: b\n",
            ".. [1] ",
            "[1]_",
        ),
        *(
            "====\n",
            "----\n",
            "+--+--+\n",
            "|a |b |\n",
            "=== ===\n",
            "- ",
            "1. ",
            "(b) ",
            ":f: ",
            "-a  x",
            ">>> ",
            "| ",
        ),
        *(
            "\n",
            "\n\n",
            "   ",
            "\t",
            "a",
            "two words",
            "é",
            "\\",
            "\r\n",
            "\x0c",
            ".. function:: f(x)\n",
            "\ud800",
            '"',
        ),
    ]
)


@settings(**STABLE | {"max_examples": 400})
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60)))
def test_any_text_is_read(text):
    check_map(Document("page", text, "rst"))


DESCRIPTIONS = sorted(
    path
    for path in Path(pytest.__file__).parents[1].glob("*.dist-info/METADATA")
    if b"\nDescription-Content-Type: text/x-rst" in path.read_bytes()
)


def description(path):
    return message_from_bytes(path.read_bytes()).get_payload(decode=True).decode(errors="replace")


@pytest.mark.skipif(not DESCRIPTIONS, reason="needs an installed package with a description in reStructuredText")
def test_descriptions_of_installed_packages():
    for path in DESCRIPTIONS:
        check_map(Document(path.parent.name, description(path), "rst"))


@pytest.mark.skipif(len(DESCRIPTIONS) < 5, reason="needs five installed packages with such a description")
def test_descriptions_hold_the_words_that_docutils_finds():
    core = pytest.importorskip("docutils.core", reason="needs docutils")
    expected, found = Counter(), Counter()
    for path in DESCRIPTIONS:
        source = description(path)
        expected += words(text_by_docutils(core, source))
        blocks = shown_by(source, "rst")
        headings = dict.fromkeys(part for _, heading, _ in blocks for part in heading.split(" > "))
        found += words(" ".join([*headings, *(text for _, _, text in blocks)]))
    # Numbers of sections, tables of contents and badges are shown by docutils and not here.
    assert (expected - found).total() < 0.01 * expected.total(), (expected - found).most_common(20)
    assert (found - expected).total() < 0.005 * expected.total(), (found - expected).most_common(20)


def words(text):
    return Counter(re.findall(r"\w+", text))


def text_by_docutils(core, source):
    """All texts of the tree but comments and what is not shown."""
    from docutils import nodes

    quiet = {"report_level": 5, "halt_level": 5, "file_insertion_enabled": False, "raw_enabled": False}
    tree = core.publish_doctree(source, settings_overrides=quiet)
    hidden = (nodes.comment, nodes.system_message, nodes.substitution_definition, nodes.footnote_reference, nodes.label)
    for node in [node for kind in hidden for node in tree.findall(kind)]:
        node.parent.remove(node)
    return " ".join(node.astext().replace("\x00", "") for node in tree.findall(nodes.Text))
