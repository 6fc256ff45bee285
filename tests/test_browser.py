"""The pages in a real browser: what a person sees, types and drags, on real small runs, and no error on any page."""

import re

import made_up_texts
import pytest
from browsers import CHROMIUM, FLAGS, needs_browser
from conftest import SMALL, train, train_text
from made_up_runs import HOSTILE, flipped_run, hostile_run, named_classes
from servers import Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_browser

SERVE = ("-m", "actionflow.cli", "serve")
DECODED = """selector => {
    const images = [...document.querySelectorAll(selector)];
    return images.length > 0 && images.every(each => each.complete && each.naturalWidth > 0);
}"""


@pytest.fixture(scope="module")
def runs(module_store, tmp_path_factory):
    corpora = made_up_texts.emotion(tmp_path_factory.mktemp("corpora"))
    return {
        "a": train(**SMALL, seed=0, run_name="a", record="both"),
        "b": train(**SMALL, seed=1, run_name="b", record="both"),
        "texts": train_text(dataset="emotion", data_dir=corpora, model="tiny", epochs=2, run_name="texts"),
        "hostile": hostile_run(module_store),
        "flipped": flipped_run("flipped", tags=named_classes(module_store)),
    }


@pytest.fixture(scope="module")
def server(module_store, runs):
    served = Server(module_store.folder, SERVE)
    try:
        served.start()
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as player:
        opened = player.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser, server):
    """A page of the server; whatever goes wrong on it fails the test."""
    context = browser.new_context(base_url=server.uri, viewport={"width": 1000, "height": 760})
    shown = context.new_page()
    trouble = []
    shown.on("pageerror", lambda error: trouble.append(str(error)))
    shown.on("dialog", lambda dialog: (trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
    shown.on("console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None)
    shown.on("response", lambda got: trouble.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    asked = []
    shown.on("request", lambda request: asked.append(request.url))
    yield shown
    context.close()
    assert trouble == []
    assert [url for url in asked if not url.startswith((server.uri, "data:"))] == []


def go(page, path):
    page.goto(f"/actionflow{path}")
    page.wait_for_load_state("networkidle")
    return page


def all_decoded(page, selector):
    """Whether every picture becomes one; those further down would wait until somebody scrolls."""
    page.eval_on_selector_all(selector, "images => images.forEach(each => each.loading = 'eager')")
    return bool(page.wait_for_function(DECODED, arg=selector))


def ids(page, selector="#wall .cell"):
    return page.eval_on_selector_all(selector, "cells => cells.map(each => Number(each.href.split('/').pop()))")


def test_runs_are_filtered_while_one_types_and_picked(page, runs):
    go(page, "/")
    compare = page.locator("#compare")
    assert compare.is_disabled()
    page.keyboard.press("/")
    page.keyboard.type("digits")
    assert page.locator("#runs tbody tr:visible").count() == 2
    for name in ("a", "b"):
        page.get_by_label(f"pick {name}", exact=True).check()
    compare.click()
    page.wait_for_selector("#scatter")
    assert re.search(r"/actionflow/compare\?runs=\w+&runs=\w+", page.url)


def test_links_lead_to_mlflows_page_of_the_run_and_back(browser, server, runs):
    # Not the fixture `page`: where no auth is on, MLflow's own pages ask for a user in vain, and say so.
    context = browser.new_context(base_url=server.uri)
    page = go(context.new_page(), "/")
    row = page.locator("#runs tr", has=page.get_by_role("link", name="a", exact=True))
    assert row.locator("a.out").get_attribute("href").endswith(f"/runs/{runs['a']}")
    row.get_by_role("link", name="a", exact=True).click()
    page.get_by_role("link", name="Run in MLflow").click()
    page.wait_for_url(f"**/#/experiments/*/runs/{runs['a']}*")
    assert page.wait_for_function(DECODED, arg="img[src*='action_histogram.png']")
    with context.expect_page() as opened:
        page.get_by_role("link", name="its pages").click()
    opened.value.wait_for_selector("#wall .cell")
    assert opened.value.url == f"{server.uri}/actionflow/runs/{runs['a']}"
    context.close()


def test_the_wall_grows_while_one_scrolls_and_every_picture_is_decoded(page, runs):
    go(page, f"/runs/{runs['a']}?split=train")
    before = page.locator("#wall .cell").count()
    assert before >= 60
    total = int(re.search(r"([\d,]+) samples", page.locator("#count").inner_text())[1].replace(",", ""))
    for _ in range(20):
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(50)
    page.wait_for_function("n => document.querySelectorAll('#wall .cell').length == n", arg=total)
    assert len(set(ids(page))) == total
    assert all_decoded(page, "#wall img")


def test_a_filter_is_used_as_soon_as_it_is_chosen(page, runs):
    go(page, f"/runs/{runs['a']}?split=train")
    page.get_by_label("Last taken").select_option("wrong")
    page.wait_for_url("**outcome=wrong**")
    said = page.locator("#wall .said i").count()
    assert said == page.locator("#wall .cell").count() > 0


def test_the_arrow_keys_go_from_sample_to_sample(page, runs):
    go(page, f"/runs/{runs['a']}")
    page.locator("#wall .cell").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focused = page.evaluate("document.activeElement.href")
    assert focused != page.locator("#wall .cell").nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(focused)
    assert all_decoded(page, "img.large")


def test_texts_are_read_on_the_wall_and_on_their_page(page, runs):
    go(page, f"/runs/{runs['texts']}?split=train")
    first = page.locator("#wall .words").first.inner_text()
    assert first.startswith("i feel")
    page.locator("#wall .cell").first.click()
    page.wait_for_selector(".reading")
    assert page.locator(".reading").first.inner_text() == first
    assert page.locator(".chart .dot").count() == 2


def test_a_mark_is_made_and_found_again_after_a_restart(page, runs, server):
    go(page, f"/runs/{runs['b']}")
    page.locator("#wall .cell").first.click()
    page.get_by_label("mislabelled").check()
    page.get_by_label("Right label").select_option("7")
    page.get_by_label("Note").fill("<b>looks like a seven</b>")
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Mark").click()
    page.wait_for_selector(".marks")
    server.stop()
    server.start()
    page.reload()
    marked = page.locator(".marks").inner_text()
    assert "mislabelled → 7 by ann" in marked
    assert "<b>looks like a seven</b>" in marked
    go(page, f"/runs/{runs['b']}")
    assert page.locator("#wall .cell").first.locator(".mark").inner_text() == "mislabelled"


def test_sql_is_asked_by_ctrl_enter_and_drawn(page, runs):
    go(page, "/sql")
    page.locator("#sql").fill(
        f"select run_id, split, sample_id, action from scores where run_id = '{runs['a']}' and split = 'val' limit 7"
    )
    page.locator("#sql").press("Control+Enter")
    page.wait_for_selector(".rows tbody tr")
    assert page.locator(".rows tbody tr").count() == 7
    assert all_decoded(page, ".rows img")
    page.locator("#chart select[name=x]").select_option("sample_id")
    page.wait_for_load_state("networkidle")
    page.locator("#chart select[name=y]").select_option("action")
    page.wait_for_load_state("networkidle")
    page.locator("#chart select[name=chart]").select_option("bar")
    page.wait_for_selector("svg .bar")
    assert page.locator("svg .bar").count() == 7
    page.locator("#link").click()
    page.wait_for_selector(".rows tbody tr")
    with page.expect_download() as download:
        page.get_by_role("link", name="csv").click()
    assert len(download.value.path().read_text().splitlines()) == 8


def test_a_question_of_the_house_is_one_click_away(page, runs):
    go(page, f"/sql?runs={runs['a']}")
    page.get_by_role("link", name="hardest", exact=True).click()
    page.wait_for_selector("input[name='p.k']")
    page.locator("input[name='p.k']").fill("4")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".rows tbody tr")
    assert page.locator(".rows tbody tr").count() == 4


def test_a_comparison_is_brushed(page, runs):
    go(page, f"/compare?runs={runs['a']},{runs['b']}")
    assert page.locator("#walls h2").count() == 2
    box = page.locator("#scatter svg").bounding_box()
    # The lower right: hard for a, easy for b.
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] * 0.95, steps=5)
    page.mouse.up()
    page.wait_for_function("() => document.querySelectorAll('#walls h2').length == 1")
    assert page.locator("#walls h2").inner_text().startswith("In the box")
    drawn = page.eval_on_selector_all(".dot.inside", "dots => dots.map(each => Number(each.dataset.name))")
    assert f": {len(drawn)} samples" in page.locator("#walls h2").inner_text()
    shown = ids(page, "#walls .cell")
    assert len(shown) == min(len(drawn), 60) > 0
    assert set(shown) <= set(drawn)
    assert all_decoded(page, "#walls img")
    page.reload()
    assert page.locator(".brush").count() == 1


def test_a_curriculum_is_chosen_and_written(page, runs):
    go(page, f"/runs/{runs['a']}/curriculum")
    page.get_by_label("Keep").fill("0.5")
    page.get_by_label("Keep").press("Enter")
    page.wait_for_url("**fraction=0.5**")
    assert all_decoded(page, ".cell img")
    page.get_by_role("button", name="Write").click()
    page.wait_for_selector("#write pre:visible")
    assert f"-P curriculum=runs:/{runs['a']}/" in page.locator("#write pre").inner_text()


def test_words_that_would_be_script_stay_words(page, runs):
    go(page, "/")
    assert page.get_by_role("link", name=HOSTILE, exact=True).count() == 1
    go(page, f"/runs/{runs['hostile']}")
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("#wall .words").first.inner_text() == HOSTILE
    page.locator("#wall .cell").first.click()
    page.wait_for_selector(".reading")
    assert page.locator(".reading").inner_text() == HOSTILE
    go(page, "/sql?sql=select+text,label_name+from+samples+where+digest='hostile'")
    assert page.locator(".rows td").first.inner_text() == HOSTILE
    assert page.evaluate("document.querySelectorAll('img[src=x], main script').length") == 0


def test_the_suspects_of_an_audit_are_marked_by_keys(page, runs):
    go(page, f"/runs/{runs['flipped']}")
    page.get_by_role("link", name="Audit").click()
    page.wait_for_selector("#queue")
    page.get_by_label("Your name").fill("Ann")
    page.keyboard.press("Enter")  # is no answer
    page.locator("h1").click()
    for key, marked in (("m", 1), ("a", 2), ("ArrowRight", 2), ("f", 3)):
        before = page.url
        page.wait_for_load_state("networkidle")  # until then nobody listens to keys
        page.keyboard.press(key)
        page.wait_for_url(lambda url, before=before: url != before)
        assert f"{marked} marked" in page.locator("[role=status]").inner_text()
    assert page.get_by_label("Your name").input_value() == "Ann"
    page.wait_for_load_state("networkidle")
    page.keyboard.press("o")
    page.keyboard.type("class 3")
    assert page.get_by_label("Right label").evaluate("each => each.selectedOptions[0].text").startswith("class")
    assert "3 marked" in page.locator("[role=status]").inner_text()
    before = page.url
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != before)
    assert "4 marked" in page.locator("[role=status]").inner_text()
    page.goto(f"/actionflow/runs/{runs['flipped']}/audit")
    assert page.locator("[role=status]").inner_text().strip().startswith("Suspect 3 of 60")


def test_wall_and_tables_work_without_script(browser, server, runs):
    context = browser.new_context(base_url=server.uri, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/actionflow/runs/{runs['a']}?split=train")
    first = page.locator("#wall .cell").first.get_attribute("href")
    page.get_by_role("link", name="Next →").click()
    assert page.locator("#wall .cell").first.get_attribute("href") != first
    page.get_by_label("Last taken").select_option("wrong")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**outcome=wrong**")
    page.goto("/actionflow/sql")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".rows tbody tr")
    page.goto(f"/actionflow/runs/{runs['flipped']}/audit")
    shown = page.locator("[name=sample_id]").get_attribute("value")
    page.get_by_role("button", name="Ambiguous").click()
    page.wait_for_url("**after=**")
    assert page.locator("[name=sample_id]").get_attribute("value") != shown
    context.close()
