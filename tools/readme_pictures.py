"""Walk the pages as somebody does who has just run `make demo`, and take the README's pictures on the way.

    make pictures

Finds the hardest training digit, looks at its curve, marks it, writes a curriculum without it, types the command that
the page shows, compares both runs, and asks in SQL. Needs Chromium. Everything is done by clicking and typing: what a
person could not do, it cannot either.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
STORE = "sqlite:///mlflow.db"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUESTION = """select run_id, split, sample_id, label, prediction, round(action, 2) as action
from scores
where split = 'val'
order by action desc
limit 6"""
ORIGINAL, RETRAINED = "digits-seed-0", "digits-without-marked"


def main() -> None:
    """The whole walk, one picture at each stop."""
    with served() as server, browsed(server) as page:
        find(page)
        look_and_mark(page)
        retrain(write_curriculum(page))
        compare(page)
        ask(page)


def find(page: Page) -> None:
    """The training samples, hardest first."""
    page.goto("/actionflow/")
    page.get_by_role("link", name=ORIGINAL).first.click()
    page.get_by_label("Split").select_option("train")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**split=train**")
    take(page, "page_wall.png", 620)


def look_and_mark(page: Page) -> None:
    """Its curve and scores; then a person says what it is."""
    page.locator("#wall .cell").first.click()
    page.get_by_label("mislabelled").check()
    taken_for = page.locator("h1 .wrong").inner_text().removeprefix("→ ")
    page.get_by_label("Right label").select_option(label=taken_for)
    page.get_by_label("Note").fill("the loop below is missing")
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Mark").click()
    page.wait_for_selector(".marks")
    page.evaluate("scrollTo(0, 0)")
    take(page, "page_sample.png", 690)


def write_curriculum(page: Page) -> str:
    """A curriculum without what is marked; the command to train on it."""
    page.get_by_role("link", name=ORIGINAL).first.click()
    page.get_by_role("link", name="Curriculum").click()
    for mark in ("mislabelled", "unusable"):
        page.get_by_label(mark).check()
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**without_marked=mislabelled**")
    page.get_by_role("button", name="Write").click()
    page.wait_for_selector("#write pre:visible")
    take(page, "page_curriculum.png")
    return page.locator("#write pre").inner_text()


def retrain(command: str) -> None:
    """The command as it stands on the page, with a name for the run."""
    print(f"$ {command}", file=sys.stderr)
    typed = [*shlex.split(command), "-P", f"run_name={RETRAINED}"]
    subprocess.run(typed, cwd=PROJECT, env=environment(), stdout=sys.stderr, check=True)


def compare(page: Page) -> None:
    """Both runs, and what is hard for one of them alone."""
    page.goto("/actionflow/")
    for name in (ORIGINAL, RETRAINED):
        page.get_by_role("row", name=name).first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#scatter svg")
    take(page, "page_compare.png")


def ask(page: Page) -> None:
    """Rows with pictures, and a chart of them."""
    page.goto("/actionflow/")
    page.get_by_role("link", name=ORIGINAL).first.click()
    page.get_by_role("link", name="SQL").last.click()
    page.locator("#sql").fill(QUESTION)
    page.wait_for_load_state("networkidle")  # until then nobody listens to keys
    page.locator("#sql").press("Control+Enter")
    page.wait_for_selector(".rows img")
    for name, choice in (("chart", "bar"), ("y", "action"), ("x", "sample_id")):
        page.locator(f"#chart [name={name}]").select_option(choice)
    page.get_by_role("button", name="Draw").click()
    page.wait_for_selector("main svg")
    take(page, "page_sql.png", 980)


def take(page: Page, name: str, height: int = 760) -> None:
    """A small picture: a palette is enough for what is mostly grey."""
    from PIL import Image

    page.set_viewport_size({"width": 1000, "height": height})
    page.wait_for_load_state("networkidle")
    page.screenshot(path=DOCS / name)
    with Image.open(DOCS / name) as picture:
        picture.convert("RGB").quantize(64).save(DOCS / name, optimize=True)
    print(DOCS / name, file=sys.stderr)


@contextmanager
def served() -> Iterator[str]:
    """`actionflow serve` over the demo's store."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "actionflow.cli", "serve", "--backend-store-uri", STORE, "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=PROJECT, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        server = f"http://127.0.0.1:{port}"
        wait_for(f"{server}/health")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for(address: str) -> None:
    """Until the server answers, two minutes at most."""
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@contextmanager
def browsed(server: str) -> Iterator[Page]:
    """A page in Chromium; whatever goes wrong on it ends the walk."""
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_context(base_url=server, viewport={"width": 1000, "height": 760}).new_page()
        page.set_default_timeout(60_000)
        trouble: list[str] = []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None)
        yield page
        browser.close()
    if trouble:
        sys.exit("\n".join(trouble))


def environment() -> dict[str, str]:
    """With the programs of this environment in front, and the demo's store."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "MLFLOW_TRACKING_URI": STORE}


if __name__ == "__main__":
    main()
