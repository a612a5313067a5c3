"""The page of fabir-serve in a real browser: Debian's Chromium, driven by Playwright."""

import base64
import json
import shutil
import urllib.parse

import pytest
from serving_process import serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]
# A closed network refuses what the browser would ask its maker for.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MILL = "The old mill \U0001f600 was built by Anna Keld in 1712. It was opened in May, and closed by Karl Wend."
WAIT = 30_000


@pytest.fixture(scope="module")
def url():
    with serving("--model=fabir-base") as server:
        yield server.url


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


class Seen:
    """What a page did besides what a test asks for."""

    def __init__(self, page, url):
        self.messages, self.outside = [], []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", lambda dialog: (self.messages.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on(
            "request", lambda request: self.outside.append(request.url) if not request.url.startswith(url) else None
        )


@pytest.fixture
def page(browser, url):
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    seen = Seen(page, url)
    page.goto(url)
    page.wait_for_load_state("networkidle")
    yield page
    assert seen.outside == []
    assert seen.messages == []
    context.close()


def ask(page, question, passage):
    page.fill("#passage", passage)
    page.fill("#question", question)
    page.click("#ask")
    page.wait_for_selector("#result:not([hidden])")


def test_an_answer_is_marked_in_its_place(page):
    ask(page, "Who built the mill?", MILL)
    answer = page.inner_text("#answer")
    assert "Anna Keld" in answer
    assert page.inner_text("#shown mark") == answer
    # All of the text is there; offsets behind the emoji are right.
    assert page.text_content("#shown") == MILL
    assert "% sure that this is right" in page.inner_text("#certainty")
    assert page.evaluate("document.activeElement.id") == "answer"
    buttons = page.locator("#others button")
    assert buttons.count() == 5
    assert buttons.nth(0).get_attribute("aria-pressed") == "true"
    buttons.nth(2).click()
    assert page.inner_text("#shown mark") == buttons.nth(2).inner_text()
    assert [buttons.nth(i).get_attribute("aria-pressed") for i in range(3)] == ["false", "false", "true"]
    assert page.text_content("#shown") == MILL


def test_the_text_does_not_say(page):
    ask(page, "What is the capital of France?", MILL)
    assert page.inner_text("#answer") == "The text does not say."
    assert page.locator("#shown mark").count() == 0
    assert page.locator("#others button").count() > 0
    page.check("#always")
    page.click("#ask")
    page.wait_for_selector("#shown mark")
    assert page.inner_text("#answer") in MILL


def test_examples(page):
    for number, expected in ((0, "Margaret Oland"), (2, "The text does not say.")):
        page.click(f"[data-example='{number}']")
        page.wait_for_function("text => document.getElementById('answer').textContent === text", arg=expected)


def test_attention_of_a_word(page):
    ask(page, "Who built the mill?", MILL)
    page.click("text=Show the words")
    page.wait_for_selector("#words button[aria-pressed]")
    words = page.locator("#words button").all_inner_texts()
    assert words == ["Who", "built", "the", "mill", "?"]
    page.locator("#words button").nth(1).click()
    weights = page.eval_on_selector_all(
        "#shown .token, #shown mark", "tokens => tokens.map(token => Number(token.style.getPropertyValue('--weight')))"
    )
    assert max(weights) == 0.75
    assert len(set(weights)) > 3
    assert page.text_content("#shown") == MILL
    page.locator("#words button").nth(1).click()
    assert page.locator("#shown .token").count() == 0


def test_with_the_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the question"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "passage"
    page.keyboard.insert_text(MILL)
    page.keyboard.press("Tab")
    page.keyboard.type("Who built the mill?")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result:not([hidden])")
    # From the answer on, each control is reached.
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert {"shown", "Show the words", "link"} <= reached
    page.focus("#others button >> nth=1")
    page.keyboard.press("Space")
    assert page.locator("#others button").nth(1).get_attribute("aria-pressed") == "true"


def test_a_text_is_never_run(page):
    hostile = (
        '<script>alert(1)</script><img src=x onerror="alert(2)"> & <b>bold</b> </textarea><svg onload=alert(3)> '
        "The mill was built by <i>Anna Keld</i>."
    )
    ask(page, "Who built the <script>alert(4)</script> mill?", hostile)
    assert page.text_content("#shown") == hostile
    assert page.locator("#result script, #result img, #result b, #result svg, #result i").count() == 0


def test_200_000_characters(page):
    text = "The owl hunts at night and sleeps by day in the old oaks. " * 3_400
    text += "The old mill was built by Anna Keld in 1712. " + "It rained in the village all day long. " * 100
    assert len(text) > 200_000
    ask(page, "Who built the old mill?", text)
    assert page.text_content("#shown") == text
    if page.locator("#shown mark").count():
        box, mark = (page.locator(where).bounding_box() for where in ("#shown", "#shown mark"))
        assert box["y"] <= mark["y"] <= box["y"] + box["height"]
    page.click("#link")
    assert page.inner_text("#link-told") == "The text is too long for a link."


def test_a_link_holds_the_texts_and_no_server_sees_them(page, url):
    ask(page, "Who built the mill?", MILL)
    page.click("#link")
    page.wait_for_function("() => document.getElementById('link-told').textContent !== ''")
    link = page.evaluate("navigator.clipboard.readText()")
    fragment = urllib.parse.urlsplit(link).fragment
    assert json.loads(base64.urlsafe_b64decode(fragment + "==")) == {"q": "Who built the mill?", "p": MILL}
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#result:not([hidden])")
    assert page.input_value("#passage") == MILL
    assert all(fragment not in address for address in sent if "#" not in address)
    page.goto(url + "#damaged!")
    page.wait_for_function("() => document.getElementById('error').textContent === 'This link is damaged.'")


def test_mistakes_are_told(page):
    page.click("#ask")
    assert page.inner_text("#error") == "Paste a text first."
    assert page.evaluate("document.activeElement.id") == "passage"
    page.fill("#passage", MILL)
    page.click("#ask")
    assert page.inner_text("#error") == "Type a question first."
    page.fill("#question", "?")
    page.click("#ask")
    page.wait_for_selector("#result:not([hidden])")
    assert page.inner_text("#answer") == "There is nothing to read here."


@pytest.mark.long
def test_search_with_an_index(browser, commands, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "mill.md").write_text(
        "# The mill\n\nAnna Keld is known \U0001f600 here: the old mill was built by **Anna Keld** in 1712.\n",
        encoding="utf-8",
    )
    (folder / "lake.txt").write_text("Lake Orrin lies north of Dunmere; <script>alert(1)</script>.\n")
    index = tmp_path / "texts.index"
    assert commands("index", f"--input={folder}", f"--index={index}").status == 0
    with serving("--model=fabir-base", f"--index={index}") as server:
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        seen = Seen(page, server.url)
        page.goto(server.url)
        page.click("#place-documents")
        assert page.locator("#passage").is_hidden()
        page.fill("#question", "Who built the old mill?")
        page.keyboard.press("Enter")
        page.wait_for_selector("#result:not([hidden])")
        assert page.inner_text("#answer") == page.inner_text("#shown mark") == "Anna Keld"
        # Not the first place where these words stand.
        before = page.evaluate("document.querySelector('#shown mark').previousSibling.textContent")
        assert before == "Anna Keld is known \U0001f600 here: the old mill was built by "
        assert page.inner_text("#source") == "mill.md · The mill"
        assert page.text_content("#shown") == f"{before}Anna Keld in 1712."
        # The other document's place, whose text stays text.
        page.locator("#others button", has_text="lake.txt").first.click()
        assert page.inner_text("#source").startswith("lake.txt")
        assert "<script>" in page.text_content("#shown") and not page.locator("#result script").count()
        page.fill("#question", "Xylophone zebra?")
        page.click("#ask")
        page.wait_for_selector("#result:not([hidden])")
        assert page.inner_text("#answer") == "The documents do not say."
        assert seen.outside == [] and seen.messages == []
        page.close()


@pytest.mark.long
def test_a_server_that_has_stopped(browser):
    with serving("--model=fabir-base") as server:
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        page.goto(server.url)
        ask(page, "Who built the mill?", MILL)
    page.click("#ask")
    page.wait_for_function("() => document.getElementById('error').textContent.includes('does not answer')")
    assert page.locator("#ask").is_enabled()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_at_least_aa(browser, url, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.goto(url)
    ask(page, "Who built the mill?", MILL)
    pairs = page.evaluate(
        """() => {
          const solid = element => {
            for (let at = element; at; at = at.parentElement) {
              const color = getComputedStyle(at).backgroundColor;
              if (!/, 0\\)$/.test(color) && color !== 'transparent') return color;
            }
            return getComputedStyle(document.documentElement).backgroundColor;
          };
          const has = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
          return [...document.querySelectorAll('body *')].filter(one => has(one) && one.checkVisibility()).map(one =>
            [one.tagName + '.' + one.id, getComputedStyle(one).color, solid(one)]);
        }"""
    )
    assert len(pairs) > 15
    for name, ink, paper in pairs:
        assert contrast(ink, paper) >= 4.5, (name, ink, paper)
    context.close()


def contrast(ink, paper):
    """The ratio of two colors by WCAG 2."""

    def luminance(color):
        channels = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(ink), luminance(paper)))
    return (lighter + 0.05) / (darker + 0.05)


def test_on_a_phone_nothing_is_cut_off(browser, url):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.goto(url)
    ask(page, "Who built the mill?", MILL + " " + "x" * 300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = [box for box in (page.locator(where).bounding_box() for where in ("#ask", "[data-example='0']")) if box]
    assert all(box["height"] >= 24 for box in sizes)
    context.close()
