"""Reports: one page that needs nothing else, what lies at the run's root, and the note that is never a person's."""

import html
import json
import re
import sys

import made_up_texts
import mlflow
import numpy as np
import pyarrow as pa
import pytest
from browsers import needs_browser, opened
from click.testing import CliRunner
from conftest import SMALL, train, train_text
from PIL import Image
from servers import Server

import actionflow
from actionflow.cli import cli
from actionflow.cli import main as command_line
from actionflow.errors import DataError, StoreError
from actionflow.present.axes import on_an_axis
from actionflow.present.pages.page import bokeh_script
from actionflow.present.pages.thumbnails import PER_SHEET, thumbnails
from actionflow.reporting.findings import drawn
from actionflow.reporting.note import is_ours, marked
from actionflow.store.datasets import dataset_run, samples_table

PNG = b"\x89PNG"
NOTE = "mlflow.note.content"
HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)> $$\\alpha$$ \u2028 | `a` \"q\""
ADDRESS = re.compile(r"""(src|href)\s*=\s*["']?\s*https?:|url\(\s*["']?\s*https?:""", re.IGNORECASE)


def record(name, losses, labels=None, predictions=None, tags=None, **own):
    """A run whose samples 0, 1, … have these losses (n, epochs)."""
    losses = np.asarray(losses, np.float32)
    with mlflow.start_run(run_name=name, tags=tags or {}) as run, actionflow.Recorder() as recorder:
        for epoch in range(losses.shape[1]):
            signals = {"loss": losses[:, epoch], **{key: np.asarray(values) for key, values in own.items()}}
            if labels is not None:
                right = np.asarray(labels) == np.asarray(predictions)
                signals |= {"label": np.asarray(labels), "prediction": np.asarray(predictions), "correct": right}
            recorder.add_signals(np.arange(len(losses)), signals)
            recorder.end_epoch()
    return run.info.run_id


def keep(store, digest, columns):
    """A data set's own run; returns the tags that a training on it has."""
    table = samples_table("made", digest, "test", {name: pa.array(values) for name, values in columns.items()}, {})
    run_id = dataset_run(store.client, store.experiment, "made", digest, lambda: {"test": table})
    return {"actionflow.dataset": "made", "actionflow.dataset_digest": digest, "actionflow.dataset_run": run_id}


def invoke(*words):
    return CliRunner().invoke(cli, ["report", *words], catch_exceptions=False)


def told(capsys, monkeypatch, *words):
    """The one line that a mistake is answered with."""
    monkeypatch.setattr(sys, "argv", ["actionflow", "report", *words])
    with pytest.raises(SystemExit) as stopped:
        command_line()
    assert stopped.value.code.startswith("Error: ")
    assert capsys.readouterr().out == ""
    return stopped.value.code


def is_self_contained(page):
    """Whether nothing on the page has an address elsewhere; the library's own script is data until it is asked."""
    assert page.count(bokeh_script()) == 1
    return not ADDRESS.search(page.replace(bokeh_script(), ""))


@pytest.fixture(scope="module")
def digits(module_store):
    return train(**SMALL, run_name="pictures")


@pytest.fixture(scope="module")
def texts(module_store, tmp_path_factory):
    """A run that sorts texts and one that writes them."""
    folder = tmp_path_factory.mktemp("corpora")
    made_up_texts.emotion(folder)
    made_up_texts.samsum(folder)
    tiny = {"model": "tiny", "epochs": 2, "learning_rate": 0.003, "data_dir": folder, "generate": 3}
    return {name: train_text(dataset=name, **tiny) for name in ("emotion", "samsum")}


@pytest.fixture(scope="module")
def numbers(module_store):
    """A run of somebody's own loop, with losses and nothing else."""
    return record("numbers", np.random.default_rng(0).gamma(1.0, 1.0, (40, 3)))


# What a training leaves.


def test_a_training_leaves_page_pictures_table_and_note(module_store, digits):
    root = module_store.artifacts(digits)
    for name in ("action_histogram.png", "hardest.png", "loss_curves.png"):
        assert (root / name).read_bytes().startswith(PNG)
    page = (root / "action_report.html").read_text()
    assert "pictures: val samples by action" in page
    assert "still training" not in page
    assert is_self_contained(page)
    assert len(page) < 3_000_000


def test_the_page_has_every_part_with_the_sql_behind_it(module_store, digits):
    page = (module_store.artifacts(digits) / "action_report.html").read_text()
    for title in (
        "Action against entropy",
        "Loss curves by cluster",
        "Action in each class",
        "The hardest and the easiest of each class",
        "What is taken for what",
        "Accuracy by quantile of action",
    ):
        assert f"<h2>{title}</h2>" in page
    for query in ("score_vs_score", "sample_curves", "class_difficulty", "hardest", "easiest", "confusion"):
        assert f"queries/{query}.sql" in page
    assert "-- Two scores of every sample side by side" in page
    assert f"actionflow query accuracy_by_score --run {digits[:8]}" in page


def test_grids_of_each_class_are_pictures_with_steps(module_store, digits):
    names = [path.name for path in (module_store.artifacts(digits) / "images").iterdir() if path.suffix == ".png"]
    for key in ("hardest", "easiest"):
        steps = sorted(int(name.split("+")[2]) for name in names if name.startswith(f"{key}+step+"))
        assert steps == list(range(10))
    image = Image.open(next((module_store.artifacts(digits) / "images").glob("hardest+step+3+*.png")))
    assert image.width > 8 * 96


def test_the_hardest_table_shows_pictures_and_texts(module_store, digits, texts):
    root = module_store.artifacts(digits)
    table = json.loads((root / "hardest.json").read_text())
    assert table["columns"][:3] == ["rank", "image", "sample_id"]
    for kind in ("filepath", "compressed_filepath"):
        assert Image.open(root / table["data"][0][1][kind]).size == (96, 96)
    written = json.loads((module_store.artifacts(texts["samsum"]) / "hardest.json").read_text())
    assert {"text", "target_text", "predicted_text"} <= set(written["columns"])
    assert not {"label", "image", "correctness"} & set(written["columns"])
    assert not (module_store.artifacts(texts["samsum"]) / "images").exists()


def test_texts_stand_on_the_page_with_what_was_asked_for_and_written(module_store, texts):
    sorted_, written = (module_store.artifacts(texts[name]) / "action_report.html" for name in ("emotion", "samsum"))
    assert "i feel" in sorted_.read_text()
    page = written.read_text()
    assert "<b>asked for</b>" in page
    assert "What is taken for what" not in page
    assert "Accuracy by quantile" not in page
    assert (written.parent / "action_histogram.png").read_bytes().startswith(PNG)


def test_the_note_tells_the_classes_and_what_to_type(module_store, digits):
    note = module_store.client.get_run(digits).data.tags[NOTE]
    assert "| class | samples | accuracy | mean action | median action |" in note
    assert f"(get-artifact?path=action_histogram.png&run_uuid={digits})" in note
    assert f"[its pages](actionflow/runs/{digits})" in note
    assert f"actionflow hardest {digits[:8]}" in note
    assert is_ours(note)


def test_the_hardest_stand_beside_what_the_model_finds_alike(module_store, digits):
    root = module_store.artifacts(digits)
    assert (root / "neighbours.png").read_bytes().startswith(PNG)
    table = json.loads((root / "neighbours.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    hardest = actionflow.query("hardest", digits, k=5)["sample_id"].to_pylist()
    assert [row["sample_id"] for row in rows if row["neighbour"] == 0] == hardest
    assert len(rows) == 5 * (1 + 8)
    page = (root / "action_report.html").read_text()
    assert "<h2>The hardest and what the model finds alike</h2>" in page
    assert f"actionflow query neighbours --run {digits[:8]} -p split=val -p hardest=5 -p k=8" in page
    assert "neighbours.png" in module_store.client.get_run(digits).data.tags[NOTE]


def test_texts_stand_beside_the_texts_that_are_alike(module_store, texts):
    for name in ("emotion", "samsum"):
        root = module_store.artifacts(texts[name])
        table = json.loads((root / "neighbours.json").read_text())
        assert {"hardest", "neighbour", "distance", "text"} <= set(table["columns"])
        assert "and what the model finds alike" in (root / "action_report.html").read_text()
        assert not (root / "neighbours.png").exists()


def test_a_run_without_features_has_no_neighbours_and_says_so(numbers):
    report = actionflow.report("numbers")
    assert any(note.startswith("No neighbours: numbers kept no features") for note in report.notes())
    assert "finds alike" not in report.html()


# Asking again.


def test_asking_again_replaces_everything_and_adds_nothing(module_store, digits):
    root = module_store.artifacts(digits)
    before = [path.name.split("+timestamp")[0] for path in sorted(root.rglob("*")) if "/actionflow/" not in str(path)]
    shown = invoke("pictures")
    assert shown.stdout == ""
    assert f"Logged into run {digits}" in shown.stderr
    after = [path.name.split("+timestamp")[0] for path in sorted(root.rglob("*")) if "/actionflow/" not in str(path)]
    assert sorted(after) == sorted(before)
    assert len(json.loads((root / "hardest.json").read_text())["data"]) == 24


def test_another_split_has_names_of_its_own_and_leaves_the_note(module_store, digits):
    before = module_store.client.get_run(digits).data.tags[NOTE]
    invoke("pictures", "--split", "train")
    root = module_store.artifacts(digits)
    assert "pictures: train samples by action" in (root / "action_report_train.html").read_text()
    assert (root / "action_histogram_train.png").exists()
    assert list((root / "images").glob("easiest_train+step+0+*"))
    assert module_store.client.get_run(digits).data.tags[NOTE] == before


def test_a_page_for_a_file_is_not_logged(module_store, numbers, tmp_path):
    file = tmp_path / "page.html"
    assert "Wrote" in invoke("numbers", "--output", str(file)).stderr
    assert is_self_contained(file.read_text())
    assert not (module_store.artifacts(numbers) / "action_report.html").exists()


@pytest.mark.parametrize(
    ("there", "written"),
    [
        ("", True),
        ("My own words.", False),
        (marked("An old report."), True),
        (marked("An old report.").replace("An", "My"), False),
    ],
)
def test_a_note_that_a_person_wrote_or_changed_stays(store, there, written):
    run_id = record("noted", [[1.0, 0.5], [2.0, 1.5], [0.1, 0.1]], tags={NOTE: there} if there else None)
    actionflow.report(run_id).log()
    note = store.client.get_run(run_id).data.tags[NOTE]
    assert (note != there) == written
    assert is_ours(note) or note == there


# Runs of every kind.


def test_a_run_of_ones_own_loop_is_shown_as_numbers(module_store, numbers):
    report = actionflow.report("numbers")
    page = report.html()
    assert "Action against last loss" in page
    assert "The hardest and the easiest samples" in page
    assert '<span class="picture' not in page
    report.log()
    root = module_store.artifacts(numbers)
    assert (root / "action_histogram.png").read_bytes().startswith(PNG)
    assert set(json.loads((root / "hardest.json").read_text())["columns"]) == {"rank", "sample_id", "action"}
    assert not (root / "images").exists()


def test_a_run_that_still_trains_shows_what_it_has_and_says_so(store):
    with mlflow.start_run(run_name="open") as run:
        recorder = actionflow.Recorder()
        recorder.add_signals([0, 1, 2, 3], {"loss": np.array([1.0, 2.0, 3.0, 0.5])})
        recorder.end_epoch()
        page = actionflow.report(run.info.run_id).html()
        recorder.finish()
    assert "This run is still training: 1 epoch so far." in page
    assert "still training" not in actionflow.report("open").html()


def test_a_run_that_failed_says_so(store):
    run_id = record("broken", [[1.0], [2.0], [3.0]])
    store.client.set_terminated(run_id, "FAILED")
    assert "This run did not finish (FAILED)" in actionflow.report("broken").html()


def test_samples_without_a_finite_action_are_counted_and_listed(store):
    record("spoilt", [[1.0, 1.0], [2.0, np.nan], [0.0, 0.0], [np.inf, 1.0], [0.5, 0.5], [0.01, 0.01]])
    report = actionflow.report("spoilt")
    assert "Not drawn, for one of the scores is not a finite number: 2." in report.notes()
    assert "1 sample with an action of about 0 stands at the left edge." in report.notes()
    report.log()


def test_one_sample_is_enough(store):
    record("one", [[1.5]])
    report = actionflow.report("one")
    assert "There are none: k is 3" in report.html()
    report.log()


def test_a_thousand_classes_do_not_explode(store):
    count = 3_000
    labels = np.arange(count) % 1_000
    tags = keep(store, "many", {"sample_id": np.arange(count), "label": labels, "image": [tiny_png()] * count})
    rng = np.random.default_rng(0)
    run_id = record("many", rng.gamma(1.0, 1.0, (count, 2)), labels, rng.integers(0, 1_000, count), tags)
    report = actionflow.report("many")
    page = report.html()
    assert "The 30 hardest of 1,000 classes" in page
    assert "the pairs that are mistaken most often" in page
    assert len(page) < 6_000_000
    report.log()
    assert len(list((store.artifacts(run_id) / "images").glob("hardest+step+*.png"))) == 30
    assert len(store.client.get_run(run_id).data.tags[NOTE]) < 8_000


def tiny_png():
    from io import BytesIO

    file = BytesIO()
    Image.new("L", (8, 8), 120).save(file, "PNG")
    return file.getvalue()


def test_a_run_on_a_server_is_reported_there(store):
    server = Server(store.folder)
    server.start()
    try:
        mlflow.set_tracking_uri(server.uri)
        mlflow.set_experiment("remote")
        run_id = record("far", np.random.default_rng(1).gamma(1.0, 1.0, (30, 2)))
        mlflow.set_tracking_uri(store.uri)
        CliRunner().invoke(cli, ["--tracking-uri", server.uri, "report", "far"], catch_exceptions=False)
        client = mlflow.MlflowClient(server.uri)
        there = {info.path for info in client.list_artifacts(run_id)}
        assert {"action_report.html", "action_histogram.png", "hardest.json"} <= there
        assert is_ours(client.get_run(run_id).data.tags[NOTE])
    finally:
        server.stop()


# Size.


def test_pictures_that_have_no_room_are_left_out_and_told(monkeypatch, store):
    """The hardest come first; as many sheets of pictures as fit are kept."""
    count = 3 * PER_SHEET
    noise = np.random.default_rng(0).integers(0, 256, (count, 20, 20), np.uint8)
    tags = keep(store, "noise", {"sample_id": np.arange(count), "image": [png(each) for each in noise]})
    record("noise", np.random.default_rng(0).gamma(1.0, 1.0, (count, 2)), tags=tags)
    monkeypatch.setattr("actionflow.reporting.sections.PICTURE_ROOM", 150_000)
    report = actionflow.report("noise")
    (note,) = [each for each in report.notes() if "have their picture" in each]
    assert note.split()[:3] in ([str(PER_SHEET), "of", str(count)], [str(2 * PER_SHEET), "of", str(count)])
    assert len(report.html()) < 2_000_000


def png(pixels):
    from io import BytesIO

    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_small_picture_keeps_its_pixels_and_lies_in_its_cell():
    from base64 import b64decode
    from io import BytesIO

    red = Image.new("RGB", (8, 8), (200, 30, 40))
    file = BytesIO()
    red.save(file, "PNG")
    made = thumbnails({7: tiny_png(), 9: file.getvalue()}, 100_000)
    assert made.cells == {7: 0, 9: 1}
    sheet = Image.open(BytesIO(b64decode(made.sheets[0].partition(",")[2])))
    assert (sheet.getpixel((3, 3)), sheet.getpixel((11, 3))) == ((120, 120, 120), (200, 30, 40))


def test_actions_that_lie_close_or_below_zero_have_a_linear_axis():
    assert on_an_axis(np.array([-1.0, 2.0]))[1:] == (False, 0)
    assert on_an_axis(np.array([0.0, 0.5, 2.0]))[1:] == (False, 0)
    assert on_an_axis(np.array([0.0, 0.05, 2.0]))[1:] == (True, 1)


def test_of_very_many_samples_evenly_spaced_ones_are_drawn():
    places = drawn(50_000)
    assert (len(places), places[0], places[-1]) == (20_000, 0, 49_999)
    assert set(np.diff(places)) == {2, 3}
    assert len(drawn(20_000)) == 20_000


@needs_browser
def test_the_page_draws_itself_in_the_sandbox_that_mlflow_shows_it_in(numbers, tmp_path):
    """A frame with scripts and without an origin."""
    page = html.escape(actionflow.report("numbers").html())
    (tmp_path / "frame.html").write_text(
        f'<meta charset="utf-8"><iframe sandbox="allow-scripts" srcdoc="{page}"></iframe>'
    )
    with opened(tmp_path / "frame.html", drawn_in=1) as frame:
        assert frame.frames[1].locator("canvas").count() >= 2
        assert frame.trouble == []


# Nothing shown is run.


@pytest.fixture(scope="module")
def hostile(module_store):
    """A run whose name, labels, keys and texts are all script."""
    columns = {
        "sample_id": np.arange(12),
        "label": np.arange(12) % 3,
        "label_name": [f"{HOSTILE} {n % 3}" for n in range(12)],
        "key": [HOSTILE] * 12,
        "text": [f"{HOSTILE} {n}" for n in range(12)],
    }
    tags = keep(module_store, "hostile", columns)
    losses = np.random.default_rng(0).gamma(1.0, 1.0, (12, 3))
    return record(HOSTILE, losses, np.arange(12) % 3, np.arange(12) % 2, tags, entropy=np.linspace(0, 1, 12))


def test_hostile_words_are_only_words(module_store, hostile):
    report = actionflow.report(hostile)
    report.log()
    page = (module_store.artifacts(hostile) / "action_report.html").read_text()
    assert "alert('x')</script>" not in page
    assert "<img" not in page
    note = module_store.client.get_run(hostile).data.tags[NOTE]
    assert "<script" not in note
    assert "<img" not in note


@needs_browser
def test_hostile_words_stay_words_in_a_browser(hostile, tmp_path):
    file = tmp_path / "hostile.html"
    file.write_text(actionflow.report(hostile).html())
    with opened(file) as page:
        frame = page.locator("[data-points]").first
        frame.focus()
        page.keyboard.press("ArrowLeft")
        assert "</script><script>alert('x')" in page.locator("#hovered").inner_text()
        page.keyboard.press("Enter")
        assert page.locator("#pinned .card").count() == 1
        assert page.locator("script").count() == 4
        assert page.locator("img").count() == 0
        assert page.trouble == []
        assert page.asked == [file.as_uri()]


# In a browser.


@needs_browser
def test_the_page_works_offline_by_mouse_and_by_keyboard(module_store, digits):
    with opened(module_store.artifacts(digits) / "action_report.html") as page:
        pinned, hovered = page.locator("#pinned .card"), page.locator("#hovered")
        page.locator("[data-points]").first.focus()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("Enter")
        assert pinned.count() == 2
        point = first_point(page)
        page.mouse.move(*point)
        hovered.wait_for(state="visible")
        assert "entropy" in hovered.inner_text()
        assert is_decoded(page, "#hovered .picture")
        page.mouse.click(*point)
        assert pinned.count() in (1, 3)  # a third one, or one of the two that a click lets go of
        page.keyboard.press("Escape")
        assert pinned.count() == 0
        assert page.locator("canvas").count() >= 5
        assert page.trouble == []
        assert all(url.startswith(("file:", "data:")) for url in page.asked)


def first_point(page):
    """Where the first point of the first figure lies in the window."""
    return page.evaluate(
        """() => {
            const drawn = Bokeh.documents[0], source = drawn.get_model_by_name("samples-right");
            const view = Bokeh.index.get_by_id(drawn.roots()[0].id), box = view.el.getBoundingClientRect();
            const inner = view.frame.bbox;
            return [box.left + inner.left + view.frame.x_scale.compute(source.data.x[0]) - inner.left,
                    box.top + view.frame.y_scale.compute(source.data.y[0])];
        }"""
    )


def is_decoded(page, selector):
    """Whether the sheet behind a picture is one that the browser can read."""
    return page.evaluate(
        """async (selector) => {
            const behind = getComputedStyle(document.querySelector(selector)).backgroundImage;
            const image = new Image();
            image.src = behind.slice(5, -2);
            await image.decode();
            return image.naturalWidth > 0;
        }""",
        selector,
    )


# A comparison.


def test_a_logged_comparison_has_a_page(module_store, digits):
    other = train(**SMALL, seed=1, run_name="other")
    run_id = actionflow.compare([digits, other]).log()
    page = (module_store.artifacts(run_id) / "comparison_report.html").read_text()
    assert is_self_contained(page)
    assert "hard for pictures, easy for other" in page
    assert '<span class="picture' in page
    for query in ("run_correlation", "quantile_correlation", "action_scores", "disagreement"):
        assert f"queries/{query}.sql" in page


def test_of_many_runs_a_handful_of_pairs_is_shown(store):
    rng = np.random.default_rng(0)
    for seed in range(5):
        record(f"run-{seed}", rng.gamma(1.0, 1.0, (60, 2)))
    page = actionflow.compare([f"run-{seed}" for seed in range(5)]).html()
    assert page.count("<h2>run-") == 4


@needs_browser
def test_a_comparison_works_in_a_browser(store, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    for name in (HOSTILE, "plain"):
        record(name, rng.gamma(1.0, 1.0, (60, 2)), labels, rng.integers(0, 3, 60))
    file = tmp_path / "comparison.html"
    file.write_text(actionflow.compare([run.info.run_id for run in store.runs()]).html())
    with opened(file) as page:
        page.locator("[data-points]").first.focus()
        page.keyboard.press("ArrowLeft")
        assert "rank, first run" in page.locator("#hovered").inner_text()
        assert page.locator("script").count() == 4
        assert page.trouble == []
        assert page.asked == [file.as_uri()]


# Mistakes.


def test_a_split_that_was_not_recorded_is_answered_with_those_that_were(numbers, capsys, monkeypatch):
    assert "recorded no split train, only val: type --split val" in told(
        capsys, monkeypatch, "numbers", "--split", "train"
    )
    with pytest.raises(DataError):
        actionflow.report("numbers", split="test")


def test_a_run_without_dynamics_says_what_it_holds(store):
    with mlflow.start_run() as run:
        mlflow.log_text("x", "notes.txt")
    with pytest.raises(StoreError, match=r"no per-sample dynamics \(found: notes\.txt\)"):
        actionflow.report(run.info.run_id)


def test_a_report_is_of_one_run(module_store, numbers, digits, capsys, monkeypatch):
    assert "a report is of one run, but tests stands for" in told(capsys, monkeypatch, "tests")


def test_a_folder_that_is_not_there_is_told(numbers, capsys, monkeypatch):
    assert "cannot write nowhere/page.html" in told(capsys, monkeypatch, "numbers", "--output", "nowhere/page.html")
