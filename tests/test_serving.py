"""A real server with ActionFlow inside: MLflow as it was, questions over HTTP, and marks."""

import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mlflow
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import requests
from conftest import PROJECT
from made_up_runs import three_samples, with_pictures
from servers import Server

import actionflow
from actionflow.errors import ActionFlowError, QueryError, StoreError

SERVE = ("-m", "actionflow.cli", "serve")
API = "/ajax-api/actionflow"
NAUGHTY = "<script>alert('name')</script>"


@pytest.fixture(scope="module")
def server(module_store):
    """`actionflow serve`, which is `mlflow server --app-name actionflow`; its runs lie on the server, as in a team."""
    served = Server(module_store.folder, SERVE, {"SECRET_OF_THE_SERVER": "canary-9d2f"})
    try:
        served.start()
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")
def runs(server):
    """Two small runs and one with pictures and features, recorded through the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", server.uri)
        patch.setenv("MLFLOW_EXPERIMENT_NAME", "served")
        mlflow.set_tracking_uri(server.uri)
        mlflow.set_experiment("served")
        found = {"first": three_samples("first"), NAUGHTY: three_samples(NAUGHTY, 1)}
        found["trained"] = with_pictures("trained", mlflow.MlflowClient(server.uri))
    return found


@pytest.fixture
def local(runs, server):
    """The same runs as a client without our server reads them: every file fetched."""
    with actionflow.connect(["first", "trained"], tracking_uri=server.uri) as session:
        yield session


def post(server, path, content, accept="application/json", **more):
    headers = {"Accept": accept, **more.pop("headers", {})}
    return requests.post(f"{server.uri}{API}/{path}", json=content, headers=headers, timeout=60, **more)


def get(server, path, accept="*/*", **more):
    return requests.get(f"{server.uri}{API}/{path}", headers={"Accept": accept}, timeout=60, **more)


def rows(response):
    assert response.status_code == 200, response.text
    return response.json()["rows"]


def test_mlflow_is_as_it_was(server, runs):
    page = requests.get(f"{server.uri}/", timeout=10)
    assert page.status_code == 200
    assert "<title>MLflow</title>" in page.text
    assert requests.get(f"{server.uri}/health", timeout=10).text == "OK"
    client = mlflow.MlflowClient(server.uri)
    assert client.get_run(runs["first"]).info.run_name == "first"
    assert "actionflow" in [each.path for each in client.list_artifacts(runs["first"])]


SQL = "select sample_id, action from scores order by action desc, sample_id"


def test_the_accept_header_says_the_format(server, runs):
    asked = {"sql": SQL, "runs": ["first"]}
    answers = {
        form: post(server, "sql", asked, f"application/vnd.apache.{form}") for form in ("arrow.stream", "parquet")
    }
    by_arrow = pa.ipc.open_stream(answers["arrow.stream"].content).read_all()
    by_parquet = pq.read_table(io.BytesIO(answers["parquet"].content))
    by_csv = pyarrow.csv.read_csv(io.BytesIO(post(server, "sql", asked, "text/csv").content))
    by_json = rows(post(server, "sql", asked))
    assert [row["sample_id"] for row in by_json] == [2, 1, 0]
    assert by_arrow.to_pylist() == by_parquet.to_pylist() == by_json
    assert by_csv["sample_id"].to_pylist() == [2, 1, 0]
    assert answers["parquet"].headers["content-type"] == "application/vnd.apache.parquet"


def test_a_format_that_is_not_there_is_told(server, runs):
    told = post(server, "sql", {"sql": "select 1"}, "image/png")
    assert (told.status_code, told.json()["kind"]) == (400, "QueryError")
    assert "Accept one of them" in told.json()["error"]


def test_a_question_of_the_house_is_asked_by_its_address(server, runs):
    found = rows(get(server, "query/hardest", params={"runs": "first", "k": 2}))
    assert [row["sample_id"] for row in found] == [2, 1]
    as_csv = get(server, "query/hardest", params={"runs": "first", "k": 2, "_format": "csv"})
    assert as_csv.text.splitlines()[0].startswith('"run_id","split","hardness_rank"')


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("query/hardst", 400, "there is no query 'hardst'. Did you mean hardest or"),
        ("query/..%2fsecret", 404, ""),
        ("query/hardest?runs=first&kk=1", 400, "query hardest has no parameter kk. Did you mean k?"),
        ("query/curriculum?runs=first", 400, "query curriculum needs run_id"),
        ("query/hardest?runs=nobody", 404, "no run is called nobody in this server"),
        ("marks?experiment=nothing", 404, "there is no experiment nothing"),
        ("nothing", 404, ""),
    ],
)
def test_a_mistake_is_one_line(server, runs, path, status, said):
    told = get(server, path)
    assert told.status_code == status
    if said:
        assert said in told.json()["error"]
        assert "\n" not in told.json()["error"]
    assert str(PROJECT) not in told.text


def test_the_questions_and_the_runs_are_listed(server, runs):
    known = {each["name"]: each for each in get(server, "queries").json()}
    assert known["hardest"]["summary"]
    assert {each["name"]: each["default"] for each in known["hardest"]["parameters"]}["k"] == 10
    assert {row["name"] for row in rows(get(server, "runs"))} == set(runs)


def test_the_api_describes_itself_without_asking_elsewhere(server, runs):
    described = get(server, "openapi.json").json()
    assert {f"{API}/sql", f"{API}/query/{{name}}", f"{API}/marks"} <= set(described["paths"])
    page = get(server, "docs")
    assert f"POST {API}/sql" in page.text
    assert "http" not in page.text.replace("http-equiv", "")


def test_remote_answers_equal_local_ones(server, runs, local):
    with actionflow.connect(["first", "trained"], server=server.uri) as remote:
        (one,) = local.sql("select min(sample_id) as n from features where split = 'val'")["n"].to_pylist()
        for name, given in {"hardest": {"k": 5}, "class_difficulty": {}, "neighbours": {"sample_id": one}}.items():
            assert remote.query(name, **given).equals(local.query(name, **given)), name
        for view, order in {
            "runs": "run_id",
            "dynamics": "run_id, split, epoch, sample_id",
            "scores": "run_id, split, sample_id",
            "features": "run_id, split, sample_id",
            "samples": "part, sample_id",
            "clusters": "sample_id",
            "curricula": "position",
            "outputs": "sample_id",
            "pixels": "sample_id",
            "marks": "sample_id",
        }.items():
            there, here = (each.sql(f"from {view} order by {order}") for each in (remote, local))
            columns = sorted(here.column_names)
            assert there.select(columns).equals(here.select(columns)), view


def test_an_address_alone_asks_all_runs(server, runs):
    names = actionflow.connect(server.uri).sql("select name from runs")["name"].to_pylist()
    assert set(names) == set(runs)


def test_remote_mistakes_are_those_of_python(server, runs):
    remote = actionflow.connect("first", server=server.uri)
    with pytest.raises(QueryError, match="Table with name nope does not exist"):
        remote.sql("select * from nope")
    with pytest.raises(QueryError, match="query hardest has no parameter kk"):
        remote.query("hardest", kk=1)
    with pytest.raises(StoreError, match="no run is called nobody"):
        actionflow.connect("nobody", server=server.uri).sql("select 1 from runs")
    with pytest.raises(StoreError, match="does not answer"):
        actionflow.connect("http://127.0.0.1:9").sql("select 1")


def test_a_plain_mlflow_server_is_told_apart(server):
    with pytest.raises(StoreError, match="is it a server of `actionflow serve`"):
        actionflow.connect(f"{server.uri}/elsewhere").sql("select 1")


def test_the_command_line_asks_the_server(server, runs, module_store):
    def typed(*words):
        return subprocess.run(
            [sys.executable, "-m", "actionflow.cli", *words, "--server", server.uri],
            capture_output=True,
            text=True,
            env=module_store.outside(MLFLOW_TRACKING_URI="http://127.0.0.1:9"),
            cwd=PROJECT,
        )

    by_sql = typed("sql", "select count(*) as n from dynamics", "--runs", "first")
    assert (by_sql.stdout, by_sql.stderr) == ('"n"\n6\n', "")
    by_name = typed("query", "hardest", "--run", "first", "-p", "k=1", "--format", "json")
    assert [row["sample_id"] for row in json.loads(by_name.stdout)] == [2]
    wrong = typed("sql", "select * from nope")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("Error: Catalog Error: Table with name nope does not exist!")


def test_nothing_of_the_machine_is_told(server, runs, module_store):
    for sql in ("select * from read_text('/etc/hostname')", "select getenv('SECRET_OF_THE_SERVER')"):
        told = post(server, "sql", {"sql": sql})
        assert told.status_code == 400
        assert "canary-9d2f" not in told.text
    seen = post(server, "sql", {"sql": "select * from duckdb_settings(), scores limit 5000", "runs": ["first"]}).text
    assert str(module_store.folder) not in seen


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 403),
        ({"Host": "elsewhere.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_another_site_cannot_ask_or_mark(server, runs, headers, status):
    assert post(server, "sql", {"sql": "select 1"}, headers=headers).status_code == status
    content = {"run": runs["first"], "marks": [{"sample_id": 0, "mark": "fine"}], "marked_by": "origin"}
    assert post(server, "marks", content, headers=headers).status_code == status


def test_only_posts_write(server, runs):
    for method in ("PUT", "DELETE", "PATCH"):
        assert requests.request(method, f"{server.uri}{API}/marks", timeout=10).status_code in (404, 405)


def test_a_request_that_is_too_long_is_not_read(server):
    told = post(server, "sql", {"sql": "select '" + "x" * 2**20 + "'"})
    assert told.status_code == 400
    assert "at most" in told.json()["error"]


def test_the_page_escapes_what_people_typed(server, runs):
    page = requests.get(f"{server.uri}/actionflow/", timeout=10)
    assert page.status_code == 200
    assert NAUGHTY not in page.text
    assert "&lt;script&gt;" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert requests.get(f"{server.uri}/actionflow/static/actionflow.css", timeout=10).status_code == 200


def test_many_ask_at_once(server, runs):
    def ask(number):
        return rows(post(server, "sql", {"sql": f"select count(*) + {number} as n from dynamics", "runs": ["first"]}))

    with ThreadPoolExecutor(10) as threads:
        assert [found[0]["n"] for found in threads.map(ask, range(30))] == [6 + number for number in range(30)]


def test_a_run_that_goes_on_is_seen_growing(server, runs):
    with mlflow.start_run(run_name="growing") as run, actionflow.Recorder() as recorder:
        seen = []
        for _ in range(2):
            recorder.add([0, 1], [[1.0, 0.0], [0.0, 1.0]], [0, 0])
            recorder.end_epoch()
            asked = {"sql": "select max(epochs_seen) as n from scores", "runs": [run.info.run_id]}
            seen.append(rows(post(server, "sql", asked))[0]["n"])
    assert seen == [1, 2]
    runs["growing"] = run.info.run_id


def marked(server, run, sample_id, mark, by, **more):
    content = {"run": run, "marks": [{"sample_id": sample_id, "mark": mark, **more}], "marked_by": by}
    return post(server, "marks", content)


def test_marks_are_kept_for_good(server, runs):
    """Two people at once, one who changes their mind, and a restart."""
    run = runs["trained"]
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda n: marked(server, run, n, "ambiguous", f"person {n % 2}"), range(16)))
    assert [answer.status_code for answer in told] == [200] * 16
    rows(marked(server, run, 0, "mislabelled", "person 0", right_label=3, note=NAUGHTY))
    server.stop()
    server.start()
    asked = {"sql": "select * from marks where starts_with(marked_by, 'person') order by sample_id", "runs": [run]}
    found = rows(post(server, "sql", asked))
    assert len(found) == 16
    assert (found[0]["mark"], found[0]["right_label"], found[0]["note"]) == ("mislabelled", 3, NAUGHTY)
    assert found[1]["mark"] == "ambiguous"
    assert {row["dataset_digest"] for row in found} == {"digest-1"}
    history = rows(get(server, "marks", params={"experiment": "served", "history": "true"}))
    assert len([row for row in history if row["marked_by"].startswith("person")]) == 17


def test_marks_are_exported_and_read_without_the_server_of_ours(server, runs, module_store, tmp_path):
    marked(server, runs["first"], 2, "unusable", "exporter")
    path = tmp_path / "marks.parquet"
    done = subprocess.run(
        [sys.executable, "-m", "actionflow.cli", "marks", "--experiment", "served", "--output", str(path)],
        capture_output=True,
        text=True,
        env=module_store.outside(MLFLOW_TRACKING_URI=server.uri),
        cwd=PROJECT,
    )
    assert done.returncode == 0, done.stderr
    kept = [row for row in pq.read_table(path).to_pylist() if row["marked_by"] == "exporter"]
    assert [(row["sample_id"], row["mark"]) for row in kept] == [(2, "unusable")]
    with actionflow.connect("first", tracking_uri=server.uri) as session:
        assert "exporter" in session.sql("select marked_by from marks")["marked_by"].to_pylist()


def test_a_curriculum_leaves_marked_samples_out(server, runs):
    with actionflow.connect("trained", tracking_uri=server.uri) as session:
        ids = session.sql("select sample_id from scores where split = 'train' order by action limit 2")
    easiest, second = ids["sample_id"].to_pylist()
    marked(server, runs["trained"], easiest, "unusable", "teacher")
    marked(server, runs["trained"], second, "fine", "teacher")
    address = actionflow.curriculum("trained", tracking_uri=server.uri, without_marked="unusable")
    assert address.endswith("/easy-first-action-without-unusable.parquet")
    path = mlflow.artifacts.download_artifacts(address, tracking_uri=server.uri)
    table = pq.read_table(path)
    assert table["sample_id"].to_pylist()[0] == second
    assert easiest not in table["sample_id"].to_pylist()
    facts = json.loads(table.schema.metadata[b"actionflow"])
    assert (facts["without_marked"], facts["left_out"]) == (["unusable"], 1)
    with pytest.raises(ActionFlowError, match=r"there is no mark unsuable\. Did you mean unusable\?"):
        actionflow.curriculum("trained", tracking_uri=server.uri, without_marked="unsuable")


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"mark": "wrong"}, "a mark is mislabelled, ambiguous, unusable or fine, found 'wrong'"),
        ({"mark": "fine", "right_label": 1}, "only a mislabelled sample has a right label"),
        ({"mark": "fine", "note": "x" * 3000}, "a note has at most 2000 characters"),
        ({"mark": "fine", "sample_id": -1}, "cannot be meant"),
        ({"mark": "fine", "sample_id": 3}, "run first has no sample 3, only 3 from 0 to 2 in val: `actionflow scores "),
        ({"mark": "mislabelled", "right_label": 2}, "run first has no class 2. Give a right_label of 0, 1."),
        ({"mark": "fine", "sample_id": "x"}, "marks.0.sample_id: Input should be a valid integer"),
        ({}, "marks.0.mark: Field required"),
    ],
)
def test_a_mark_that_cannot_be_meant_is_refused(server, runs, sample, said):
    told = post(server, "marks", {"run": runs["first"], "marks": [{"sample_id": 0, **sample}]})
    assert told.status_code == 400
    assert said in told.json()["error"]


def test_one_sample_that_is_not_there_keeps_all_marks_from_being_written(server, runs):
    marks = [{"sample_id": each, "mark": "fine"} for each in (0, *range(100, 130))]
    told = post(server, "marks", {"run": runs["first"], "marks": marks, "marked_by": "half"})
    assert told.status_code == 400
    assert "has no sample 100, 101, " in told.json()["error"]
    assert "119 and 10 more, only" in told.json()["error"]
    assert "half" not in get(server, "marks", params={"history": "true"}).text


def test_a_run_without_classes_has_no_right_label(server, runs):
    with mlflow.start_run(run_name="unlabelled") as run, actionflow.Recorder() as recorder:
        recorder.add_signals([0, 1], {"loss": [1.0, 2.0]})
        recorder.end_epoch()
    runs["unlabelled"] = run.info.run_id
    told = marked(server, "unlabelled", 0, "mislabelled", "ann", right_label=0)
    assert (told.status_code, told.json()["error"]) == (
        400,
        "run unlabelled has no classes, so its samples have no right label: leave right_label out.",
    )
    assert rows(marked(server, "unlabelled", 0, "mislabelled", "ann"))[0]["right_label"] is None
