"""A real browser for tests: Debian's Chromium, offline, with nothing of anybody's in it."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@contextmanager
def opened(path, drawn_in=0):
    """A page of a file whose figures are drawn (in this frame of it).

    What it asked for and what went wrong on it are noted in `page.asked` and `page.trouble`.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_context(offline=True, viewport={"width": 1160, "height": 900}).new_page()
        page.asked, page.trouble = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (page.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda said: page.trouble.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(path.as_uri())
        page.frames[drawn_in].wait_for_selector("html[data-drawn=yes]", timeout=60_000, state="attached")
        yield page
        browser.close()
