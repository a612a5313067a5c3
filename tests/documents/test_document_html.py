"""HTML is read as the text of its subject, with the offsets of its source."""

import pytest
from document_testing import check_map, shown_by
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.documents.documents import Document

PAGE = """<!DOCTYPE html>
<html><head><title>Mill - Docs</title><style>p { color: red }</style><script>var a = "<p>no</p>";</script></head>
<body>
<nav><ul><li><a href="/">Home</a></li></ul></nav>
<main>
<h1>The mill<a class="headerlink" href="#mill">&para;</a></h1>
<p>Built in 1846 by <b>Anna</b>
   Keld &amp; sons.<br>It   grinds.</p>
<div hidden>never shown</div>
<h2>Parts <a href="#parts">#</a></h2>
<ul><li>wheel<li>stone <ul><li>lower</li></ul></li></ul>
after
<pre><code>mill <span>--go</span> &lt;x&gt;

  y</code><button>copy</button></pre>
<table><tr><th>name<th>year<tr><td>wheel<td><p>1846</p><p>1900</p></table>
<p>last
</main>
<footer>Copyright</footer>
</body></html>"""


def test_a_page():
    assert shown_by(PAGE, "html") == [
        ("text", "The mill", "Built in 1846 by Anna Keld & sons. It grinds."),
        ("list", "The mill > Parts", "wheel"),
        ("list", "The mill > Parts", "stone"),
        ("list", "The mill > Parts", "lower"),
        ("text", "The mill > Parts", "after"),
        ("code", "The mill > Parts", "mill --go <x>\n  y"),
        ("table", "The mill > Parts", "name; year"),
        ("table", "The mill > Parts", "wheel; 1846; 1900"),
        ("text", "The mill > Parts", "last"),
    ]
    check_map(Document("page", PAGE, "html"))


def test_offsets_point_at_the_source():
    first = Document("page", PAGE, "html").paragraphs()[0]
    start = first.text.index("Anna")
    assert PAGE[slice(*first.span(start, start + len("Anna Keld & sons")))] == "Anna</b>\n   Keld &amp; sons"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<title>Mill</title><p>text", [("text", "Mill", "text")]),
        ("<article><p>a</article><aside>b</aside>c", [("text", "", "a")]),
        ("<article>a</article><article>b</article>", [("text", "", "a"), ("text", "", "b")]),
        ('<div role="main">a</div>b', [("text", "", "a")]),
        ("<nav>never closed <p>text", [("text", "", "never closed"), ("text", "", "text")]),
        ("a <img alt='the mill'> b <img src=x>", [("text", "", "a the mill b")]),
        ("3 < 4 & 5 > 2 &copy; &#8364; <!-- no --> <?php no ?> ok", [("text", "", "3 < 4 & 5 > 2 © € ok")]),
        ('<p title="a > b">text</p>', [("text", "", "text")]),
        ("<table><tr><td><h2>a</h2><pre>b\nc</pre></td></tr></table>", [("table", "", "a; b c")]),
        ("<h3>a</h3>", [("heading", "", "a")]),
        ("", []),
    ],
)
def test_what_is_shown(source, shown):
    assert shown_by(source, "html") == shown
    check_map(Document("page", source, "html"))


PIECES = st.sampled_from(
    [
        *(
            "<p>",
            "</p>",
            "<div>",
            "</div>",
            "<table>",
            "</table>",
            "<tr>",
            "<td>",
            "<nav>",
            "</nav>",
            "<pre>",
            "</pre>",
        ),
        *(
            "<h1>",
            "</h1>",
            "<li>",
            "<ul>",
            "</ul>",
            "<b>",
            "</b>",
            "<br>",
            "<main>",
            "</main>",
            "<article>",
            "<script>",
        ),
        *("<!--", "-->", "&amp;", "&#65;", "&", "<", ">", '"', "a", "two words", " ", "\n", "é", "\x00", "\ud800"),
        *('<a href="#x">#</a>', "<p hidden>", "<img alt='a b'>", "<title>", "</title>", "<?", "<![CDATA[", "<a "),
    ]
)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60)))
def test_any_text_is_read(text):
    check_map(Document("page", text, "html"))
