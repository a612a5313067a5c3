"""Draws docs/pictures/serve.png: the page of a running fabir-serve, in Chromium.

    fabir-serve --model=fabir-base &
    python docs/draw_serve_page.py

Needs the package playwright and Debian's chromium.
"""

import shutil

from playwright.sync_api import sync_playwright

PICTURE = "docs/pictures/serve.png"
ADDRESS = "http://127.0.0.1:8501"


def main() -> None:
    """Asks the first example's question and takes the picture."""
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 760, "height": 900})
        page.goto(ADDRESS)
        page.click("[data-example='0']")
        page.wait_for_selector("#result:not([hidden])")
        page.screenshot(path=PICTURE, full_page=True)
        browser.close()
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
