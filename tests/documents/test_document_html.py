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
        # Only the attribute hides, whatever the values of others say.
        ('<p title="A Hidden, hidden lake">a</p>', [("text", "", "a")]),
        ("<p>by <a href=/x title='the hidden mill'>Keld</a>.", [("text", "", "by Keld.")]),
        ("<p class='a hidden b'>a</p><p data-x = hidden>b</p>", [("text", "", "a"), ("text", "", "b")]),
        ('<p title="role=navigation aria-hidden=true class=headerlink">a</p>', [("text", "", "a")]),
        ('<p title="its role=main">a</p>b', [("text", "", "a"), ("text", "", "b")]),
        ('<p class="x" HIDDEN>a</p><p hidden="until-found">b</p><p\nhidden = ""\n>c</p>d', [("text", "", "d")]),
        ("<p aria-hidden = 'true'>a</p><ul role=navigation><li>b</ul>c", [("text", "", "c")]),
        ('<p>a<a title="x" class="x headerlink y" href="#a">link</a>', [("text", "", "a")]),
        ('<p aria-hidden="false">a</p>', [("text", "", "a")]),
        # An element ends where its own closing tag is, not one within a quoted value, a comment or a script.
        ('<button onclick="copy(() => x)">no</button>a', [("text", "", "a")]),
        ('<nav data-x="a>b">no</nav>a<NAV>no</nav >b', [("text", "", "ab")]),
        ("<nav>no <!-- </nav> --> no</nav>a", [("text", "", "a")]),
        ('<nav>no <a title="</nav>">no</a> no</nav>a', [("text", "", "a")]),
        ("<aside>no<script>'</aside>'</script>no</aside>a", [("text", "", "a")]),
        ("<nav>no<nav>no</nav>no<nav/>no</nav>a", [("text", "", "a")]),
        ('<script data-x="a>b">no</script>a', [("text", "", "a")]),
        ("<script>w('<script src=x><\\/script>')</script>a<script>no</script>b", [("text", "", "ab")]),
        ("<script>'<!--' + '<p title=\"'</script >a<style>/* <style> */</style>b", [("text", "", "ab")]),
        ("<textarea><b title='</textarea>a<iframe><nav></iframe>b</nav>", [("text", "", "ab")]),
        ("<script>'<article>'</script><article>a</article>b", [("text", "", "a")]),
        ("<script>never closed <p>text", [("text", "", "never closed"), ("text", "", "text")]),
        # The lower case of this letter is longer.
        ("\u0130\u0130<PRE>a\n b</PRE>c", [("text", "", "\u0130\u0130"), ("code", "", "a\n b"), ("text", "", "c")]),
        ("<pre>a</prefix></pre\n>b", [("code", "", "a"), ("text", "", "b")]),
        # A heading may hold blocks and buttons.
        ("<h2><div>The mill</div></h2>text", [("text", "The mill", "text")]),
        ("<h2><p>The<p>mill</h2>text", [("text", "The mill", "text")]),
        ("<h2>a<ul><li>b</ul><table><tr><td>c</table><pre>d</pre></h2>e", [("text", "a b c d", "e")]),
        ("<h2><button aria-expanded>What is it?</button></h2>A mill.", [("text", "What is it?", "A mill.")]),
        ("<h2>1. <span>+</span><button>Is it?</button></h2>a<button>no</button>", [("text", "1. +Is it?", "a")]),
        ("<h2><button hidden>no</button></h2>a", [("text", "", "a")]),
        ("<h2>The mill <button>Copy</button></h2>a", [("text", "The mill", "a")]),
        ("<table><tr><td><h3><div>a</div></h3><td><h3><button>b</button></h3>c</table>", [("table", "", "a; b; c")]),
        ("<h2>a<p>b<h2>c</h2>d", [("text", "", "a"), ("text", "", "b"), ("text", "c", "d")]),
        ("<h2>a</h3>b<h2>c</h2>d", [("text", "a", "b"), ("text", "c", "d")]),
        ("<h2>never closed <p>text <button>no</button>", [("text", "", "never closed"), ("text", "", "text")]),
        # What only asks is no subject.
        ("a<form>no <input name=x></form>b", [("text", "", "ab")]),
        ("<form id=f><h1>Hours</h1><p>At nine.</p><nav>no</nav></form>", [("text", "Hours", "At nine.")]),
        ("a<form><main>b</main></form>", [("text", "", "b")]),
        (
            "a<form><div>b<h4>c</h4></div></form>d<form>no</form>",
            [("text", "", "a"), ("text", "", "b"), ("text", "c", "d")],
        ),
        ("<h2>a</h2>b<form>no<!-- <h2> --></form>", [("text", "a", "b")]),
        ("<form hidden><h2>no</h2></form>b", [("text", "", "b")]),
    ],
)
def test_what_is_shown(source, shown):
    assert shown_by(source, "html") == shown
    check_map(Document("page", source, "html"))


@pytest.mark.parametrize(
    "piece", ["<? ", "<!a ", "<![CDATA[ ", "<!-- ", "<title ", "<script>", "</script ", "<h2>", "<form>"]
)
def test_long_pages_of_what_is_never_closed_are_read(piece):
    assert len(shown_by("a <b>" + piece * 100_000, "html")) <= 1


def test_long_pages_of_what_is_closed_are_read():
    nested = shown_by("<form>" * 20_000 + "<h2>a</h2>b" + "</form>" * 20_000, "html")
    assert nested == [("text", "a", "b")]


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
        *('<a href="#x">#</a>', "<p hidden>", "<p title=' hidden'>", "<img alt='a b'>", "<title>", "</title>", "<?"),
        *("<![CDATA[", "<a ", "</script>", "<textarea>", "</textarea>", "<button>", "</button>", "<form>", "</form>"),
        *("<h2>", "</h2>", "\u0130"),
    ]
)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60)))
def test_any_text_is_read(text):
    check_map(Document("page", text, "html"))
