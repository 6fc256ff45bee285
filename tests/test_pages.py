"""The pages over HTTP, as a browser without script has them: a real server over small real runs."""

import html
import io
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
import requests
from conftest import SMALL, train
from made_up_runs import FLIPPED, HOSTILE, flipped_run, hostile_run, keep, named_classes, record
from servers import Server

import actionflow
from actionflow.serving.drawing import bar_chart, line_chart, loss_curve, scatter

SERVE = ("-m", "actionflow.cli", "serve")
CLASSES = 1000
CELL = re.compile(
    r'<a class="cell[^"]*" href="(?P<href>[^"]+/samples/(?P<split>\w+)/(?P<id>\d+))">(?P<inside>.*?)</a>', re.S
)
ESCAPED = html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


@pytest.fixture(scope="module")
def runs(module_store):
    """Runs of every kind that a page may meet."""
    losses = np.linspace(3, 0.001, CLASSES)[:, None] * np.array([[1.0, 0.5]])
    found = {
        "a": train(**SMALL, seed=0, run_name="a", record="both"),
        "b": train(**SMALL, seed=1, run_name="b", record="both"),
        "numbers": record("numbers", losses, range(CLASSES), range(CLASSES)),
        "thousand": record("thousand", losses[::-1], range(CLASSES), range(CLASSES)),
        "hostile": hostile_run(module_store),
        "flipped": flipped_run("flipped", tags=named_classes(module_store)),
        "clean": flipped_run("clean", flipped=0),
        "training": record("training", losses[:5], range(5), range(5)),
        "deleted": record("deleted", losses[:5], range(5), range(5)),
        "lacking": record("lacking", losses[:5], range(5), range(5)),
    }
    client = module_store.client
    gone = keep(module_store, "gone", {"sample_id": range(5), "text": ["words"] * 5})
    found["pictureless"] = record("pictureless", losses[:5], range(5), range(5), gone)
    client.delete_run(gone["actionflow.dataset_run"])
    client.update_run(found["training"], status="RUNNING")
    client.delete_run(found["deleted"])
    (module_store.artifacts(found["lacking"]) / "actionflow/dynamics/val/epoch-0000.parquet").unlink()
    empty = client.create_run(module_store.experiment, run_name="begun", tags={"actionflow.kind": "training"})
    return {**found, "begun": empty.info.run_id}


@pytest.fixture(scope="module")
def server(module_store, runs):
    served = Server(module_store.folder, SERVE)
    try:
        served.start()
        yield served
    finally:
        served.stop()


@pytest.fixture
def get(server):
    def got(path, status=200, **parameters):
        answer = requests.get(f"{server.uri}/actionflow{path}", params=parameters, timeout=60)
        assert answer.status_code == status, answer.text
        return answer.text

    return got


def cells(page):
    """The samples on a page: their ids and what stands below them."""
    found = [match.groupdict() for match in CELL.finditer(page)]
    return [int(each["id"]) for each in found], found


def alert(page):
    return html.unescape(re.search(r'role="alert"[^>]*>(.*?)</', page, re.S)[1])


def asked(run_id, sql, **parameters):
    return actionflow.query(sql, runs=run_id, **parameters).to_pylist()


# Runs.


def test_the_runs_page_lists_runs_with_links_to_both_pages(get, runs, module_store):
    page = get("/")
    assert f'href="/actionflow/runs/{runs["a"]}"' in page
    assert f'href="/#/experiments/{module_store.experiment}/runs/{runs["a"]}"' in page
    assert runs["deleted"] not in page


def test_the_filter_box_works_without_script(get, runs):
    page = get("/", text="digits KERAS a")
    assert runs["a"] in page
    assert runs["numbers"] not in page


def test_the_address_without_its_slash_leads_to_the_page(server):
    assert requests.get(f"{server.uri}/actionflow", timeout=60).url == f"{server.uri}/actionflow/"


# The wall.


def test_the_wall_shows_the_hardest_first(get, runs):
    ids, _ = cells(get(f"/runs/{runs['a']}"))
    hardest = "select sample_id from scores where split = 'val' order by action desc, sample_id limit 60"
    assert ids == [row["sample_id"] for row in asked(runs["a"], hardest)]


@pytest.mark.parametrize("score", ["entropy", "aum", "el2n", "confidence"])
def test_the_wall_sorts_by_any_score(get, runs, score):
    ids, _ = cells(get(f"/runs/{runs['a']}", split="train", sort=score, order="asc"))
    lowest = f"select sample_id from scores where split = 'train' order by {score}, sample_id limit 60"
    assert ids == [row["sample_id"] for row in asked(runs["a"], lowest)]


def test_pages_of_sixty_follow_each_other_to_the_end(get, runs):
    seen, address, pages = [], "", 0
    while address is not None:
        page = get(f"/runs/{runs['numbers']}{address}")
        ids, _ = cells(page)
        seen += ids
        pages += 1
        link = re.search(r'<a rel="next" href="([^"]+)"', page)
        address = html.unescape(link[1]) if link else None
    assert seen == list(range(CLASSES))
    assert pages == -(-CLASSES // 60)


def test_a_thousand_classes_are_a_long_list_and_no_trouble(get, runs):
    page = get(f"/runs/{runs['numbers']}", label=998)
    assert cells(page)[0] == [998]
    assert page.count("<option") > CLASSES
    assert "Loss by epoch" in get(f"/runs/{runs['numbers']}/samples/val/998")
    assert "overall" in get("/compare", runs=[runs["numbers"], runs["thousand"]])


@pytest.mark.parametrize("name", ["numbers", "pictureless"])
def test_a_run_without_pictures_and_texts_is_shown_as_numbers(get, runs, name):
    """There never were any, or they were deleted."""
    page = get(f"/runs/{runs[name]}")
    ids, found = cells(page)
    assert ids[:5] == [0, 1, 2, 3, 4]
    assert "<img" not in page
    assert '<span class="words figure">#0</span>' in found[0]["inside"]
    assert "Nothing but numbers is kept of this sample" in get(f"/runs/{runs[name]}/samples/val/0")
    assert "5 rows" in get("/sql", sql="select sample_id, action from scores limit 5", runs=runs[name])


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("deleted", 404, "there is no run"),
        ("begun", 404, "has no per-sample dynamics"),
        ("lacking", 404, "lacks val/epoch-0000.parquet"),
    ],
)
def test_what_cannot_be_asked_is_told_over_http_too(server, runs, name, status, said):
    told = post(server, "sql", {"sql": "select * from dynamics", "runs": [runs[name]]})
    assert (told.status_code, "\n" in told.json()["error"]) == (status, False)
    assert said in told.json()["error"]
    curriculum = post(server, "curricula", {"run": runs[name]})
    assert 400 <= curriculum.status_code < 500


def test_a_run_that_still_trains_can_be_marked_and_asked(server, runs):
    mark = {"run": runs["training"], "marks": [{"sample_id": 4, "mark": "ambiguous"}]}
    assert post(server, "marks", mark).status_code == 200
    seen = post(server, "sql", {"sql": "select count(*) as n from scores", "runs": [runs["training"]]})
    assert seen.json()["rows"] == [{"n": 5}]


@pytest.mark.parametrize(
    ("filters", "condition"),
    [
        ({"outcome": "wrong"}, "not correct"),
        ({"outcome": "right", "label": 3}, "correct and label = 3"),
        ({"low": 50, "high": 75}, "hardness between 0.5 and 0.75"),
    ],
)
def test_the_wall_is_filtered(get, runs, filters, condition):
    page = get(f"/runs/{runs['a']}", split="train", **filters)
    placed = "select *, percent_rank() over (order by action) as hardness from scores where split = 'train'"
    fitting = f"select sample_id from ({placed}) where {condition} order by action desc, sample_id"
    expected = [row["sample_id"] for row in asked(runs["a"], fitting)]
    assert expected
    assert cells(page)[0] == expected[:60]
    assert f"{len(expected)} samples" in page


def test_the_wall_is_filtered_by_cluster(get, runs):
    page = get(f"/runs/{runs['a']}", cluster="difficult")
    sql = "select sample_id from clusters where cluster_name = 'difficult' and split = 'val'"
    members = {row["sample_id"] for row in asked(runs["a"], sql)}
    assert members
    assert set(cells(page)[0]) <= members
    assert f"{len(members)} samples" in page


def test_a_filter_that_nothing_fits_says_so(get, runs):
    assert "nothing fits this filter" in get(f"/runs/{runs['numbers']}", outcome="wrong")


def test_a_run_that_still_trains_shows_what_is_there(get, runs):
    page = get(f"/runs/{runs['training']}")
    assert "still training" in page
    assert len(cells(page)[0]) == 5
    assert "No epoch is finished yet" in get(f"/runs/{runs['begun']}")
    assert "No epoch is finished yet" in get(f"/runs/{runs['begun']}")


def test_a_picture_is_kept_for_good(server, get, runs):
    page = get(f"/runs/{runs['a']}")
    src = re.search(r'<img src="([^"]+)"', page)[1]
    answer = requests.get(server.uri + src, timeout=60)
    assert answer.content.startswith(b"\x89PNG")
    assert answer.headers["Content-Type"] == "image/png"
    assert "immutable" in answer.headers["Cache-Control"]
    other = re.sub(r"pictures/[^/]+/", "pictures/other/", src)
    assert requests.get(server.uri + other, timeout=60).status_code == 404


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs/{deleted}", "there is no run"),
        ("/runs/{lacking}/samples/val/1", "lacks val/epoch-0000.parquet"),
        ("/runs/nobody", "there is no run nobody"),
        ("/runs/{a}?split=dusk", "recorded no split dusk"),
        ("/runs/{a}/samples/val/99999999", "there is no sample 99999999"),
        ("/runs/{a}/samples/val/1%27or", "there is no sample 1'or"),
        ("/runs/{a}/samples/dusk/1", "there is no sample 1 in split dusk"),
        ("/compare?runs={a},{deleted}", "there is no run"),
        ("/runs/{deleted}/curriculum", "there is no run"),
    ],
)
def test_what_is_not_there_is_told_on_a_page(get, runs, path, said):
    page = get(path.format(**runs), status=404)
    assert said in alert(page)
    assert 'href="/actionflow/"' in page


# A sample.


def test_a_sample_shows_curve_scores_neighbours_and_other_runs(get, runs):
    ids, _ = cells(get(f"/runs/{runs['a']}"))
    page = get(f"/runs/{runs['a']}/samples/val/{ids[0]}")
    assert page.count('<circle class="dot') == 3
    assert "Samples below" in page
    assert len(cells(page)[0]) == 8
    assert f'href="/actionflow/runs/{runs["b"]}/samples/val/{ids[0]}">b</a>' in page
    assert f'href="/actionflow/runs/{runs["a"]}/samples/val/{ids[1]}">easier' in page


def test_the_share_below_counts_lower_scores(get, runs):
    page = get(f"/runs/{runs['numbers']}/samples/val/0")
    row = re.search(r"<tr><td>action</td>.*?</tr>", page, re.S)[0]
    assert "99.9 %" in row
    assert "Nothing but numbers" in page


def test_words_in_the_data_stay_words(get, runs):
    for path in ("/", f"/runs/{runs['hostile']}", f"/runs/{runs['hostile']}/samples/val/0"):
        page = get(path)
        assert ESCAPED in page
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    page = get("/sql", sql="select label_name, text from samples where digest = 'hostile'", runs=runs["hostile"])
    assert ESCAPED in page
    assert "<script>alert" not in page


# SQL.


def test_sql_is_asked_and_shown_with_pictures(get, runs):
    sql = "select run_id, split, sample_id, action from scores where split = 'val' order by action desc limit 3"
    page = get("/sql", sql=sql, runs=runs["a"])
    (first, *_), _ = cells(get(f"/runs/{runs['a']}"))
    assert f'href="/actionflow/runs/{runs["a"]}/samples/val/{first}"' in page
    assert page.count(f'<img src="/actionflow/runs/{runs["a"]}/pictures/') == 3
    assert 'actionflow sql "select' not in page  # quotes are escaped as everything is
    assert "actionflow sql &#34;select run_id" in page


def test_a_picture_in_an_answer_is_shown(get, runs):
    page = get("/sql", sql="select image from samples where sample_id = 1", runs=runs["a"])
    assert '<img src="data:image/png;base64,' in page


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select nonsense from runs", "nonsense"),
        ("select 1; select 2", "one question"),
        ("drop table x", "only questions"),
    ],
)
def test_a_mistake_in_sql_is_told_beside_it(get, sql, said):
    page = get("/sql", status=400, sql=sql)
    assert said in alert(page)
    assert sql in page


def test_sql_reads_no_file(get):
    assert "root:" not in get("/sql", status=400, sql="select * from read_text('/etc/passwd')")


def test_a_question_of_the_house_has_its_parameters_beside_it(get, runs):
    page = get("/sql", query="hardest")
    assert 'name="p.k" value="10"' in page
    sql = html.unescape(re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.S)[1])
    answered = get("/sql", sql=sql, runs=runs["a"], **{"p.k": 2, "p.split": "val", "p.per_class": 0})
    assert "2 rows" in answered
    assert "actionflow query hardest -p split=val -p k=2" in answered
    assert "has no value yet" in alert(get("/sql", status=400, sql="select $n", **{"p.n": ""}))


def test_the_whole_answer_is_downloaded(server, runs):
    asked = {"sql": "select sample_id from scores order by sample_id", "runs": runs["numbers"]}
    got = requests.get(f"{server.uri}/actionflow/sql/answer.csv", params=asked, timeout=60)
    assert got.text.split() == ['"sample_id"', *map(str, range(CLASSES))]
    got = requests.get(f"{server.uri}/actionflow/sql/answer.parquet", params=asked, timeout=60)
    assert pq.read_table(io.BytesIO(got.content)).num_rows == CLASSES


def test_a_quick_chart_is_drawn(get):
    sql = "select n, n * n as square from range(5) as t(n)"
    assert get("/sql", sql=sql, chart="bar", x="n", y="square").count('<rect class="bar"') == 5
    assert '<polyline class="line"' in get("/sql", sql=sql, chart="line", x="n", y="square")
    assert "needs a column of numbers" in get("/sql", sql="select 'a' as a, 'b' as b", chart="bar", x="a", y="b")


# Compare.


def test_two_runs_are_compared(get, runs):
    page = get("/compare", runs=[runs["a"], runs["b"]])
    samples = asked(runs["a"], "select count(*) as n from scores where split = 'val'")[0]["n"]
    assert page.count('class="dot point"') == samples
    assert "Hard for a, easy for b" in page
    assert "overall" in page


def test_a_box_shows_what_is_hard_for_one_and_easy_for_the_other(get, runs):
    page = get("/compare", runs=f"{runs['a']},{runs['b']}", a_low=0.5, b_high=0.5)
    gaps = {(row["sample_id"], row["hardness_a"], row["hardness_b"]) for row in disagreement(runs)}
    inside = {sample for sample, a, b in gaps if a >= 0.5 and b <= 0.5}
    assert inside
    assert set(cells(page)[0]) == inside


def disagreement(runs):
    return actionflow.query("disagreement", run_a=runs["a"], run_b=runs["b"], k=1000).to_pylist()


def test_three_runs_are_compared_pair_by_pair(get, runs):
    page = get("/compare", runs=[runs["numbers"], runs["training"], runs["a"]])
    assert page.count("?runs=") == 3


def test_what_does_not_compare_is_told(get, runs):
    refused = alert(get("/compare", status=400, runs=f"{runs['a']},{runs['hostile']}"))
    assert "different data sets" in refused
    assert "noise" in refused
    assert "needs two runs" in alert(get("/compare", status=400, runs=runs["a"]))


# Curricula and marks.


def post(server, path, content, **headers):
    return requests.post(f"{server.uri}/ajax-api/actionflow/{path}", json=content, headers=headers, timeout=60)


def test_a_curriculum_is_looked_at_and_written(server, get, runs):
    train_samples = asked(runs["a"], "select count(*) as n from scores where split = 'train'")[0]["n"]
    page = get(f"/runs/{runs['a']}/curriculum", fraction=0.25, stages=2)
    assert f"<b>{round(train_samples / 4)}</b> of {train_samples}" in page
    assert f"actionflow curriculum {runs['a']} --fraction 0.25 --stages 2" in page
    chosen = {"run": runs["a"], "fraction": 0.25, "stages": 2}
    assert post(server, "curricula", chosen, Origin="http://elsewhere.example").status_code == 403
    answer = post(server, "curricula", chosen)
    assert answer.status_code == 200, answer.text
    address = f"runs:/{runs['a']}/actionflow/curriculum/easy-first-action-fraction0.25-stages2.parquet"
    as_before = "mlflow run . -e digits -P epochs=3 -P limit=160"
    assert answer.json()["command"] == f"{as_before} -P curriculum={address} -P pacing=step"
    assert post(server, "curricula", chosen).json() == answer.json()
    rows = asked(runs["a"], "select count(*) as n from curricula")
    assert rows == [{"n": round(train_samples / 4)}]


def test_a_mark_is_seen_on_sample_and_wall_and_can_be_left_out(server, get, runs):
    sample = asked(runs["b"], "select sample_id from scores where split = 'train' order by action desc limit 1")
    number = sample[0]["sample_id"]
    mark = {"sample_id": number, "mark": "mislabelled", "right_label": 7, "note": HOSTILE}
    answer = post(server, "marks", {"run": runs["b"], "marks": [mark], "marked_by": "ann"})
    assert answer.status_code == 200, answer.text
    page = get(f"/runs/{runs['b']}/samples/train/{number}")
    assert re.search(r"mislabelled</em> → 7 <span[^>]*>by ann", page)
    assert ESCAPED in page
    _, found = cells(get(f"/runs/{runs['b']}", split="train"))
    assert "mislabelled" in found[0]["inside"]
    page = get(f"/runs/{runs['b']}/curriculum", without_marked=["mislabelled", "unusable"])
    assert "1 is left out for its mark" in page


def test_a_choice_that_cannot_be_meant_is_told(get, runs):
    assert "fraction must be" in alert(get(f"/runs/{runs['a']}/curriculum", fraction=7))
    assert "no split train" in alert(get(f"/runs/{runs['numbers']}/curriculum"))


# Drawing.


def test_what_a_sample_was_taken_for_stands_where_no_line_crosses_it():
    losses, low = [4.0, 2.0, 3.0, 0.0, 5.0], [False, True, False, False, False]  # the fourth has no room below
    rows = [{"epoch": n, "loss": loss, "correct": True, "taken_for": "5"} for n, loss in enumerate(losses)]
    assert [dot.below for dot in loss_curve(rows, "").dots] == low


def test_charts_take_what_is_not_a_number():
    rows = [{"epoch": n, "loss": loss, "correct": None, "taken_for": None} for n, loss in enumerate([1.0, None, 2.0])]
    assert len(loss_curve(rows, "").dots) == 2
    rows[0]["loss"] = float("nan")
    assert len(loss_curve(rows, "").dots) == 1
    assert loss_curve([{**rows[1]}], "").lines == []
    assert line_chart([(0.0, None)], "", "", "").lines == []
    assert line_chart([(1.0, 2.0)], "", "", "").dots
    assert bar_chart([], "", "", "").bars == []
    assert bar_chart([("a", -1.0), ("b", 0.0)], "", "", "").bars[0].height > 0
    assert scatter([(1, 0.0, 1.0)], "", "", "").dots[0].name == "1"


# The queue of an audit.


@pytest.fixture
def send(server, runs):
    """Send the form of the queue, as a browser without script does."""

    def sent(fields, origin=server.uri, **more):
        return requests.post(
            f"{server.uri}/ajax-api/actionflow/audit/{runs['flipped']}",
            data={"split": "train", "rank": 1, "marked_by": "Ann", **fields},
            headers={"Origin": origin} if origin else {},
            timeout=60,
            **more,
        )

    return sent


def suspect(page):
    """Where the queue is, and which sample it shows."""
    place = re.search(r"Suspect (\d+) of (\d+) in train, (\d+) marked", page)
    return [int(each) for each in place.groups()], int(re.search(r'name="sample_id" value="(\d+)"', page)[1])


def test_the_queue_begins_with_the_most_suspicious_and_goes_on_behind_what_is_marked(get, runs, send):
    page = get(f"/runs/{runs['flipped']}/audit")
    (rank, suspects, marked), first = suspect(page)
    assert (rank, suspects, marked) == (1, FLIPPED, 0)
    assert f"class {(first + 1) % 4} <span" in page
    assert f"text {first}<" in page
    answer = send({"sample_id": first, "mark": f"mislabelled {first % 4}"})
    assert answer.history[0].status_code == 303
    (rank, _, marked), second = suspect(answer.text)
    assert (rank, marked) == (2, 1)
    assert 'name="marked_by" maxlength="200" value="Ann"' in answer.text
    assert suspect(get(f"/runs/{runs['flipped']}/audit"))[1] == second
    assert "Marked" in get(f"/runs/{runs['flipped']}/audit", rank=1)
    (row,) = asked(runs["flipped"], "select mark, right_label, marked_by from marks where sample_id = $n", n=first)
    assert row == {"mark": "mislabelled", "right_label": first % 4, "marked_by": "Ann"}
    # The end of the queue says what is left of it.
    assert "To those that were skipped" in get(f"/runs/{runs['flipped']}/audit", after=FLIPPED)


def test_another_class_is_chosen_beside_its_button(send, runs):
    answer = send({"sample_id": 7, "mark": "mislabelled other", "right_label": "2"})
    assert answer.history[0].status_code == 303
    assert asked(runs["flipped"], "select right_label from marks where sample_id = 7") == [{"right_label": 2}]
    assert "choose the class that it is" in alert(send({"sample_id": 8, "mark": "mislabelled other"}).text)


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", ""])
def test_a_form_that_another_page_sends_is_not_taken(send, runs, origin):
    answer = send({"sample_id": 9, "mark": "fine"}, origin)
    assert answer.status_code == 403
    assert asked(runs["flipped"], "select * from marks where sample_id = 9") == []


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"sample_id": "9", "mark": "lovely"}, "a mark is mislabelled, ambiguous, unusable or fine, found 'lovely'"),
        ({"sample_id": "x", "mark": "fine"}, "sample_id is a whole number"),
        ({"mark": "fine"}, "a form of the queue names its sample"),
        ({"sample_id": "9999", "mark": "fine"}, "has no sample 9999"),
    ],
)
def test_a_form_that_means_nothing_is_told(send, fields, line):
    assert line in alert(send(fields).text)


def test_what_has_no_queue_says_why(get, runs):
    assert "The scores of 400 train samples draw no line" in get(f"/runs/{runs['clean']}/audit")
    assert "train it with -P record=both" in alert(get(f"/runs/{runs['numbers']}/audit", 400))
    assert "none of rank 99" in alert(get(f"/runs/{runs['flipped']}/audit", 400, rank=99))
